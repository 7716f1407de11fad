/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "kernel.h"

#define MOST_FRAMES 4096

static uint64_t root[512] __attribute__((aligned(4096)));
static uint64_t middle[512] __attribute__((aligned(4096)));
static uint64_t leaves[512] __attribute__((aligned(4096)));
static uint64_t frames[MOST_FRAMES], free_frames;
static uint64_t slots;
uint64_t faults, arrivals;

void trap_entry(void);
void enter_supervisor(uint64_t satp);

void kernel_start(void)
{
   /* Memory and the accelerator's registers: pages of 1 GiB, where they are. */
   root[0] = 0ul << 10 | PTE_DATA;
   root[2] = (0x80000000ul >> 12) << 10 | PTE_DATA | PTE_X;
   root[REGION >> 30 & 511] = ((uint64_t)middle >> 12) << 10 | PTE_V;
   middle[0] = ((uint64_t)leaves >> 12) << 10 | PTE_V;
   slots = pfa_load(PFA_FREESTAT);
   write_csr(stvec, trap_entry);
   write_csr(medeleg, 1 << 12 | 1 << 13 | 1 << 15);
   enter_supervisor(8ul << 60 | (uint64_t)root >> 12);
}

volatile uint64_t *region_entry(uint64_t page)
{
   return &leaves[page];
}

static void flush(void)
{
   asm volatile("sfence.vma" ::: "memory");
}

void give_frames(void *first, uint64_t count)
{
   for (uint64_t frame = 0; frame < count; frame++)
      frames[free_frames++] = (uint64_t)first + frame * PAGE;
}

static void fill(void)
{
   while (free_frames > 0 && pfa_load(PFA_FREESTAT) > 0)
      pfa_store(PFA_FREE, frames[--free_frames]);
}

void drain(void)
{
   for (uint64_t left = pfa_load(PFA_NEWSTAT); left > 0; left--) {
      (void)pfa_load(PFA_NEWPGID);
      (void)pfa_load(PFA_NEWVADDR);
      arrivals++;
   }
}

void evict(uint64_t page, uint64_t id)
{
   uint64_t frame = leaves[page] >> 10;
   pfa_store(PFA_EVICT, id << 36 | frame);
   leaves[page] = REMOTE_PTE(id);
   flush();
   while (pfa_load(PFA_EVICTSTAT) != slots)
      ;
   frames[free_frames++] = frame * PAGE;
}

/* A fault of a remote page: its queues are to be looked after. Anything else ends the run. */
void handle_trap(void)
{
   uint64_t addr = read_csr(stval);
   uint64_t entry = addr >= REGION && addr < REGION + REGION_PAGES * PAGE ? leaves[(addr - REGION) / PAGE] : 0;
   if ((entry & 3) != 2)
      finish(80 + (read_csr(scause) & 15));
   faults++;
   drain();
   fill();
   if (pfa_load(PFA_FREESTAT) == slots)
      finish(79); /* no frames are left */
   flush();
}
