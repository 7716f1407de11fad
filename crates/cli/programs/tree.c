/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * tree NODES LOOKUPS: an unbalanced binary search tree of random keys, built and searched.
 */
#include <stdio.h>

#include "../../capture/programs/random.h"
#include "../../capture/programs/work.h"

struct node {
   struct node *below[2];
   uint64_t key;
};

int main(int argc, char **argv)
{
   uint64_t count = argument(argc, argv, 1, 100000), lookups = argument(argc, argv, 2, 500000);
   uint64_t state = 88172645463325252ull, found = 0;
   struct node *root = NULL;
   for (uint64_t i = 0; i < count; i++) {
      struct node *node = calloc(1, sizeof *node), **place = &root;
      if (!node)
         return 1;
      node->key = next_random(&state) % (4 * count);
      while (*place)
         place = &(*place)->below[node->key > (*place)->key];
      *place = node;
   }
   begin_work();
   for (uint64_t i = 0; i < lookups; i++) {
      uint64_t key = next_random(&state) % (4 * count);
      const struct node *node = root;
      while (node && node->key != key)
         node = node->below[key > node->key];
      found += node != NULL;
   }
   end_work();
   printf("%llu\n", (unsigned long long)found);
}
