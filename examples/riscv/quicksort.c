/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Sorts numbers in remote memory, with a quarter of it local: the oldest page leaves when frames run short. */
#include "kernel.h"

#define PAGES 128ul
#define FRAMES 64ul
#define LOCAL 32ul
#define NUMBERS (PAGES * PAGE / 8)

static char memory[FRAMES * PAGE] __attribute__((aligned(4096)));
static uint64_t *const numbers = (uint64_t *)REGION;
/* Pages by when they came; a page that is local is not remote any more. */
static uint64_t hand, evictions;

static void make_room(void)
{
   uint64_t local = 0;
   for (uint64_t page = 0; page < PAGES; page++)
      local += *region_entry(page) & 1;
   while (local > LOCAL) {
      while (!(*region_entry(hand) & 1))
         hand = (hand + 1) % PAGES;
      evict(hand, hand + 1);
      evictions++;
      local--;
      hand = (hand + 1) % PAGES;
   }
}

static void sort(uint64_t *first, uint64_t *last)
{
   while (last - first > 16) {
      make_room();
      uint64_t pivot = first[(last - first) / 2], *low = first, *high = last - 1;
      while (low <= high) {
         while (*low < pivot)
            low++;
         while (*high > pivot)
            high--;
         if (low <= high) {
            uint64_t other = *low;
            *low++ = *high;
            *high-- = other;
         }
         if (((uint64_t)low & 4095) == 0 || ((uint64_t)high & 4095) == 4088)
            make_room();
      }
      if (high + 1 - first < last - low) {
         sort(first, high + 1);
         first = low;
      } else {
         sort(low, last);
         last = high + 1;
      }
   }
   for (uint64_t *next = first + 1; next < last; next++) {
      uint64_t number = *next, *place = next;
      for (; place > first && place[-1] > number; place--)
         *place = place[-1];
      *place = number;
   }
}

int main(void)
{
   kernel_start();
   give_frames(memory, FRAMES);
   uint64_t sum = 0, state = 1;
   for (uint64_t page = 0; page < PAGES; page++)
      *region_entry(page) = REMOTE_PTE(page + 1);
   for (uint64_t at = 0; at < NUMBERS; at++) {
      if (at % 512 == 0)
         make_room();
      state = state * 6364136223846793005ul + 1442695040888963407ul;
      numbers[at] = state >> 16;
      sum += state >> 16;
   }
   sort(numbers, numbers + NUMBERS);
   for (uint64_t at = 0; at < NUMBERS; at++) {
      if (at % 512 == 0)
         make_room();
      if (at > 0 && numbers[at - 1] > numbers[at])
         return 1;
      sum -= numbers[at];
   }
   put_text("quicksort: sorted, evictions ");
   put_hex(evictions);
   put_text(", faults ");
   put_hex(faults);
   put_char('\n');
   return sum != 0;
}
