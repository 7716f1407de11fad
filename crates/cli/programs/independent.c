/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * independent MIB LOADS: loads from random lines of so much memory, none of which needs another.
 */
#include <stdio.h>

#include "../../capture/programs/random.h"
#include "../../capture/programs/work.h"

int main(int argc, char **argv)
{
   uint64_t count = (argument(argc, argv, 1, 256) << 20) / sizeof(uint64_t);
   uint64_t loads = argument(argc, argv, 2, 1000000);
   uint64_t state = 88172645463325252ull, sum = 0;
   uint64_t *words = malloc(count * sizeof *words);
   if (!words)
      return 1;
   for (uint64_t i = 0; i < count; i++)
      words[i] = i;
   begin_work();
   for (uint64_t i = 0; i < loads; i++)
      sum += words[(next_random(&state) >> 20) % count];
   end_work();
   printf("%llu\n", (unsigned long long)sum);
}
