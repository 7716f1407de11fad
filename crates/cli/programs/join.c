/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * join ROWS PROBES: a hash join. Rows go into chains of a hash table; probes follow the chains.
 */
#include <stdio.h>

#include "../../capture/programs/random.h"
#include "../../capture/programs/work.h"

struct row {
   struct row *next;
   uint64_t key, value;
};

int main(int argc, char **argv)
{
   uint64_t count = argument(argc, argv, 1, 1000000), probes = argument(argc, argv, 2, 1000000);
   uint64_t state = 88172645463325252ull, sum = 0, buckets = 1;
   while (buckets < count)
      buckets *= 2;
   struct row *rows = malloc(count * sizeof *rows), **table = calloc(buckets, sizeof *table);
   if (!rows || !table)
      return 1;
   for (uint64_t i = 0; i < count; i++) {
      struct row **bucket = &table[i * 0x9e3779b97f4a7c15ull % buckets];
      rows[i] = (struct row){*bucket, i, i * i};
      *bucket = &rows[i];
   }
   begin_work();
   for (uint64_t i = 0; i < probes; i++) {
      uint64_t key = next_random(&state) % (2 * count);
      const struct row *row = table[key * 0x9e3779b97f4a7c15ull % buckets];
      while (row && row->key != key)
         row = row->next;
      sum += row ? row->value : 0;
   }
   end_work();
   printf("%llu\n", (unsigned long long)sum);
}
