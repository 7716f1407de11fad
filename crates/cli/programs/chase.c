/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * chase MIB STEPS: a chain of dependent loads, one in each line of so much memory, in random order.
 */
#include <stdio.h>

#include "../../capture/programs/random.h"
#include "../../capture/programs/work.h"

struct line {
   uint64_t next;
   uint64_t rest[7];
};

int main(int argc, char **argv)
{
   uint64_t count = (argument(argc, argv, 1, 256) << 20) / sizeof(struct line);
   uint64_t steps = argument(argc, argv, 2, 1000000);
   uint64_t state = 88172645463325252ull, at = 0;
   struct line *lines = aligned_alloc(4096, count * sizeof *lines);
   if (!lines)
      return 1;
   for (uint64_t i = 0; i < count; i++)
      lines[i].next = i;
   for (uint64_t last = count - 1; last > 0; last--) {
      uint64_t other = next_random(&state) % last, next = lines[last].next;
      lines[last].next = lines[other].next;
      lines[other].next = next;
   }
   begin_work();
   for (uint64_t i = 0; i < steps; i++)
      at = lines[at].next;
   end_work();
   printf("%llu\n", (unsigned long long)at);
}
