/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * gups [TABLE_MIB=256] [MILLION_UPDATES=20]: random xor updates of 8-byte words over a table that is first written
 * from end to end. TABLE_MIB must be a power of two.
 */
#include <stdio.h>

#include "random.h"

int main(int argc, char **argv)
{
   uint64_t words = argument(argc, argv, 1, 256) << 17;
   uint64_t updates = argument(argc, argv, 2, 20) * 1000000;
   uint64_t *table = malloc(words * sizeof *table);
   if (!table || (words & (words - 1)))
      return 1;
   for (uint64_t i = 0; i < words; i++)
      table[i] = i;
   uint64_t state = 88172645463325252ull;
   for (uint64_t i = 0; i < updates; i++) {
      uint64_t value = next_random(&state);
      table[value >> 20 & (words - 1)] ^= value;
   }
   printf("gups %llu\n", (unsigned long long)(table[0] ^ table[words / 3]));
   free(table);
   return 0;
}
