/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * btree [THOUSAND_INSERTS=1000] [THOUSAND_LOOKUPS=1500]: a B-tree with up to 31 keys a node, one malloc a node.
 */
#include <stdio.h>

#include "random.h"

enum { KEYS_MAX = 31, MIDDLE = KEYS_MAX / 2 };

struct node {
   int keys;
   int is_leaf;
   uint64_t key[KEYS_MAX];
   uint64_t value[KEYS_MAX];
   struct node *child[KEYS_MAX + 1];
};

static struct node *new_node(int is_leaf)
{
   struct node *node = malloc(sizeof *node);
   if (!node)
      abort();
   node->keys = 0;
   node->is_leaf = is_leaf;
   return node;
}

/* The first place whose key is not below `key`. */
static int place_of(const struct node *node, uint64_t key)
{
   int low = 0, high = node->keys;
   while (low < high) {
      int middle = (low + high) / 2;
      if (node->key[middle] < key)
         low = middle + 1;
      else
         high = middle;
   }
   return low;
}

/* Splits the full child at `place`; its middle key moves up into `parent`. */
static void split(struct node *parent, int place)
{
   struct node *left = parent->child[place], *right = new_node(left->is_leaf);
   right->keys = KEYS_MAX - MIDDLE - 1;
   for (int i = 0; i < right->keys; i++) {
      right->key[i] = left->key[MIDDLE + 1 + i];
      right->value[i] = left->value[MIDDLE + 1 + i];
   }
   if (!left->is_leaf)
      for (int i = 0; i <= right->keys; i++)
         right->child[i] = left->child[MIDDLE + 1 + i];
   left->keys = MIDDLE;
   for (int i = parent->keys; i > place; i--) {
      parent->key[i] = parent->key[i - 1];
      parent->value[i] = parent->value[i - 1];
      parent->child[i + 1] = parent->child[i];
   }
   parent->key[place] = left->key[MIDDLE];
   parent->value[place] = left->value[MIDDLE];
   parent->child[place + 1] = right;
   parent->keys++;
}

static struct node *insert(struct node *root, uint64_t key, uint64_t value)
{
   if (root->keys == KEYS_MAX) {
      struct node *above = new_node(0);
      above->child[0] = root;
      split(above, 0);
      root = above;
   }
   struct node *node = root;
   for (;;) {
      int place = place_of(node, key);
      if (place < node->keys && node->key[place] == key) {
         node->value[place] = value;
         return root;
      }
      if (node->is_leaf) {
         for (int i = node->keys; i > place; i--) {
            node->key[i] = node->key[i - 1];
            node->value[i] = node->value[i - 1];
         }
         node->key[place] = key;
         node->value[place] = value;
         node->keys++;
         return root;
      }
      if (node->child[place]->keys == KEYS_MAX) {
         split(node, place);
         continue;
      }
      node = node->child[place];
   }
}

static const uint64_t *find(const struct node *node, uint64_t key)
{
   for (;;) {
      int place = place_of(node, key);
      if (place < node->keys && node->key[place] == key)
         return &node->value[place];
      if (node->is_leaf)
         return NULL;
      node = node->child[place];
   }
}

int main(int argc, char **argv)
{
   uint64_t inserts = argument(argc, argv, 1, 1000) * 1000;
   uint64_t lookups = argument(argc, argv, 2, 1500) * 1000;
   uint64_t range = 2 * inserts + 1, state = 88172645463325252ull, found = 0, sum = 0;
   struct node *root = new_node(1);
   for (uint64_t i = 0; i < inserts; i++)
      root = insert(root, next_random(&state) % range, i);
   for (uint64_t i = 0; i < lookups; i++) {
      const uint64_t *value = find(root, next_random(&state) % range);
      if (value) {
         found++;
         sum += *value;
      }
   }
   printf("btree %llu %llu\n", (unsigned long long)found, (unsigned long long)sum);
   return 0;
}
