/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Pages leave and come in random order, through few frames; every page must come back as it left. */
#include "kernel.h"

#define PAGES 200
#define FRAMES 80
#define RESIDENT 40

static char memory[FRAMES * PAGE] __attribute__((aligned(4096)));
static uint64_t sums[PAGES];
static unsigned char resident[PAGES];

static uint64_t random(void)
{
   static uint64_t state = 88172645463325252ul;
   state ^= state << 13;
   state ^= state >> 7;
   return state ^= state << 17;
}

static volatile uint64_t *word(uint64_t page, uint64_t at)
{
   return (volatile uint64_t *)(REGION + page * PAGE) + at % 512;
}

int main(void)
{
   kernel_start();
   give_frames(memory, FRAMES);
   for (uint64_t page = 0; page < PAGES; page++)
      *region_entry(page) = REMOTE_PTE(page + 1);
   uint64_t residents = 0;
   for (uint64_t round = 0; round < 20000; round++) {
      uint64_t page = random() % PAGES, at = random(), value = random();
      if (!resident[page] && residents == RESIDENT) {
         uint64_t victim = random() % PAGES;
         while (!resident[victim])
            victim = (victim + 1) % PAGES;
         evict(victim, victim + 1);
         resident[victim] = 0;
         residents--;
      }
      /* The words of a page that was never written are 0, so that a page's sum is known. */
      sums[page] += value - *word(page, at);
      *word(page, at) = value;
      residents += !resident[page];
      resident[page] = 1;
   }
   for (uint64_t page = 0; page < PAGES; page++) {
      uint64_t sum = 0;
      if (!resident[page]) {
         for (uint64_t victim = 0; residents == RESIDENT; victim++)
            if (resident[victim]) {
               evict(victim, victim + 1);
               resident[victim] = 0;
               residents--;
            }
         resident[page] = 1;
         residents++;
      }
      for (uint64_t at = 0; at < 512; at++)
         sum += *word(page, at);
      if (sum != sums[page])
         return 1;
   }
   drain();
   put_text("stress: every page came back, ");
   put_hex(arrivals);
   put_text(" times\n");
   return arrivals == 0;
}
