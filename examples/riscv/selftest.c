/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The accelerator as its specification has it: registers, a fetch, permissions, full and empty queues. The exit code is the
 * number of the first check that failed. */
#include "kernel.h"

#define CHECK(number, condition) do { if (!(condition)) return number; } while (0)

static char memory[8 * PAGE] __attribute__((aligned(4096)));

int main(void)
{
   uint64_t depth = pfa_load(PFA_FREESTAT);
   CHECK(1, depth > 0 && pfa_load(PFA_EVICTSTAT) > 0 && pfa_load(PFA_NEWSTAT) == 0);
   kernel_start();
   volatile uint64_t *page = (volatile uint64_t *)REGION;
   for (int at = 0; at < 512; at++)
      ((uint64_t *)memory)[at] = 3 * at;
   *region_entry(0) = ((uint64_t)memory >> 12) << 10 | PTE_DATA;
   CHECK(2, page[5] == 15);
   evict(0, 42);
   CHECK(3, *region_entry(0) == REMOTE_PTE(42));
   give_frames(memory + PAGE, 1);
   CHECK(4, page[7] == 21 && faults == 1);
   CHECK(5, pfa_load(PFA_NEWSTAT) == 1 && pfa_load(PFA_NEWPGID) == 42 && pfa_load(PFA_NEWVADDR) == REGION);
   CHECK(6, *region_entry(0) == (((uint64_t)memory + PAGE) >> 12 << 10 | PTE_DATA));
   page[9] = 1234;
   evict(0, 42);
   CHECK(7, page[9] == 1234 && page[8] == 24);
   put_text("selftest: passed\n");
   return 0;
}
