/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * twins gups|quicksort|xsbench|btree|bfs SIZE COUNT: the algorithms of built-in workloads as a compiler translates them, with the same
 * data structures. The time of COUNT operations is that of twice as many less that of COUNT.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t bytes)
{
   void *memory = malloc(bytes);
   if (!memory)
      abort();
   return memory;
}

static uint64_t mix(uint64_t x)
{
   x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
   x = (x ^ x >> 27) * 0x94d049bb133111ebull;
   return x ^ x >> 31;
}

static uint64_t draw(uint64_t *state)
{
   return mix(*state += 0x9e3779b97f4a7c15ull);
}

static double unit(uint64_t *state)
{
   return (double)(draw(state) >> 11) * 0x1p-53;
}

/* HPC Challenge RandomAccess: 128 streams, SIZE words, COUNT updates. */
static uint64_t gups(uint64_t words, uint64_t updates)
{
   uint64_t *table = allocate(words * sizeof *table), streams[128], random = 1;
   for (uint64_t i = 0; i < words; i++)
      table[i] = i;
   for (int j = 0; j < 128; j++)
      streams[j] = draw(&random);
   for (uint64_t i = 0; i < updates / 128; i++)
      for (int j = 0; j < 128; j++) {
         streams[j] = streams[j] << 1 ^ ((int64_t)streams[j] < 0 ? 7 : 0);
         table[streams[j] & (words - 1)] ^= streams[j];
      }
   return table[words / 3];
}

/* Quicksort of SIZE integers with a median of three, and insertion sort of short ranges; COUNT times. */
static void insertion_sort(int32_t *low, int32_t *high)
{
   for (int32_t *next = low + 1; next <= high; next++) {
      int32_t element = *next, *place = next;
      while (place > low && place[-1] > element) {
         *place = place[-1];
         place--;
      }
      *place = element;
   }
}

static void exchange(int32_t *a, int32_t *b)
{
   int32_t other = *a;
   *a = *b;
   *b = other;
}

static void quicksort(int32_t *low, int32_t *high, long threshold)
{
   struct {
      int32_t *low, *high;
   } waiting[64];
   int depth = 0;
   for (;;) {
      while (high - low + 1 > threshold) {
         int32_t *middle = low + (high - low) / 2;
         if (*middle < *low)
            exchange(middle, low);
         if (*high < *middle)
            exchange(high, middle);
         if (*middle < *low)
            exchange(middle, low);
         int32_t pivot = *middle, *up = low, *down = high;
         for (;;) {
            do
               up++;
            while (*up < pivot);
            do
               down--;
            while (*down > pivot);
            if (up >= down)
               break;
            exchange(up, down);
         }
         if (down - low < high - down - 1) {
            waiting[depth].low = down + 1;
            waiting[depth++].high = high;
            high = down;
         } else {
            waiting[depth].low = low;
            waiting[depth++].high = down;
            low = down + 1;
         }
      }
      insertion_sort(low, high);
      if (!depth)
         return;
      low = waiting[--depth].low;
      high = waiting[depth].high;
   }
}

static uint64_t sort(uint64_t integers, uint64_t count)
{
   int32_t *array = allocate(integers * sizeof *array);
   uint64_t random = 0;
   for (uint64_t round = 0; round < count; round++) {
      for (uint64_t i = 0; i < integers; i++)
         array[i] = (int32_t)(draw(&random) >> 32);
      quicksort(array, array + integers - 1, 16);
   }
   return (uint64_t)array[integers / 3];
}

/* XSBench: COUNT look-ups among 355 nuclides of SIZE points. */
enum { NUCLIDES = 355, MATERIALS = 12 };

struct point {
   double energy, section[5];
};

struct grid_point {
   double energy;
   int32_t *row;
};

static int by_energy(const void *a, const void *b)
{
   double x = *(const double *)a, y = *(const double *)b;
   return (x > y) - (x < y);
}

static uint64_t xsbench(long points, uint64_t lookups)
{
   /* Numbers of nuclides of the large Hoogenboom-Martin problem, and shares of look-ups. */
   static const int nuclides_of[MATERIALS] = { 321, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9 };
   static const double share[MATERIALS] = { 0.140, 0.052, 0.275, 0.134, 0.154, 0.064, 0.066, 0.055, 0.008, 0.015, 0.025, 0.013 };
   uint64_t random = 3;
   struct point *data = allocate(NUCLIDES * points * sizeof *data), **nuclides = allocate(NUCLIDES * sizeof *nuclides);
   struct grid_point *grid = allocate(NUCLIDES * points * sizeof *grid);
   int32_t *rows = allocate((size_t)NUCLIDES * points * NUCLIDES * sizeof *rows);
   for (int n = 0; n < NUCLIDES; n++) {
      nuclides[n] = data + n * points;
      for (long p = 0; p < points; p++) {
         nuclides[n][p].energy = unit(&random);
         for (int k = 0; k < 5; k++)
            nuclides[n][p].section[k] = unit(&random);
      }
      qsort(nuclides[n], points, sizeof **nuclides, by_energy);
      for (long p = 0; p < points; p++)
         grid[n * points + p].energy = nuclides[n][p].energy;
   }
   qsort(grid, NUCLIDES * points, sizeof *grid, by_energy);
   int32_t cursor[NUCLIDES] = { 0 };
   for (long u = 0; u < NUCLIDES * points; u++) {
      grid[u].row = rows + u * NUCLIDES;
      for (int n = 0; n < NUCLIDES; n++) {
         while (cursor[n] + 1 < points && grid[u].energy >= nuclides[n][cursor[n] + 1].energy)
            cursor[n]++;
         grid[u].row[n] = cursor[n];
      }
   }
   int *numbers[MATERIALS];
   double *concentrations[MATERIALS];
   for (int m = 0; m < MATERIALS; m++) {
      numbers[m] = allocate(nuclides_of[m] * sizeof(int));
      concentrations[m] = allocate(nuclides_of[m] * sizeof(double));
      for (int i = 0; i < nuclides_of[m]; i++) {
         numbers[m][i] = nuclides_of[m] == 321 ? i : (int)(draw(&random) % NUCLIDES);
         concentrations[m][i] = unit(&random);
      }
   }
   double hash = 0;
   for (uint64_t l = 0; l < lookups; l++) {
      double energy = unit(&random), roll = unit(&random), sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0, sum4 = 0;
      int material = 0;
      while (material < MATERIALS - 1 && roll > share[material])
         roll -= share[material++];
      long low = 0, length = NUCLIDES * points - 1;
      while (length > 1) {
         long half = length / 2;
         if (grid[low + half].energy <= energy) {
            low += half;
            length -= half;
         } else
            length = half;
      }
      for (int i = 0; i < nuclides_of[material]; i++) {
         int n = numbers[material][i];
         double concentration = concentrations[material][i];
         long at = grid[low].row[n];
         const struct point *below = &nuclides[n][at == points - 1 ? at - 1 : at], *above = below + 1;
         double f = (above->energy - energy) / (above->energy - below->energy);
#define ADD(k) sum##k += concentration * (above->section[k] - f * (above->section[k] - below->section[k]))
         ADD(0), ADD(1), ADD(2), ADD(3), ADD(4);
      }
      hash += sum0 + sum1 + sum2 + sum3 + sum4;
   }
   return (uint64_t)(hash * 1e6);
}

/* A B+ tree of order 16 with SIZE keys, inserted from both ends; COUNT look-ups of two keys. */
enum { ORDER = 16, KEYS = ORDER - 1 };

struct node {
   void **pointers;
   int *keys;
   struct node *parent;
   char is_leaf;
   size_t count;
   struct node *next;
};

struct element {
   uint64_t key, value;
};

static struct node *new_node(int is_leaf)
{
   struct node *node = allocate(sizeof *node);
   node->keys = allocate(KEYS * sizeof *node->keys);
   node->pointers = calloc(ORDER, sizeof *node->pointers);
   node->is_leaf = is_leaf;
   node->count = 0;
   node->parent = NULL;
   return node;
}

static struct node *find_leaf(struct node *node, int key)
{
   while (!node->is_leaf) {
      size_t i = 0;
      while (i < node->count && key >= node->keys[i])
         i++;
      node = node->pointers[i];
   }
   return node;
}

static struct element *find(struct node *root, int key)
{
   struct node *leaf = find_leaf(root, key);
   for (size_t i = 0; i < leaf->count; i++)
      if (leaf->keys[i] == key)
         return **(struct element ***)&leaf->pointers[i];
   return NULL;
}

static struct node *insert_into_parent(struct node *root, struct node *left, int key, struct node *right)
{
   struct node *parent = left->parent;
   if (!parent) {
      root = new_node(0);
      root->keys[0] = key;
      root->pointers[0] = left;
      root->pointers[1] = right;
      root->count = 1;
      left->parent = right->parent = root;
      return root;
   }
   size_t at = 0;
   while (parent->pointers[at] != left)
      at++;
   int keys[KEYS + 1];
   void *pointers[ORDER + 1];
   memcpy(keys, parent->keys, parent->count * sizeof *keys);
   memcpy(pointers, parent->pointers, (parent->count + 1) * sizeof *pointers);
   memmove(keys + at + 1, keys + at, (parent->count - at) * sizeof *keys);
   memmove(pointers + at + 2, pointers + at + 1, (parent->count - at) * sizeof *pointers);
   keys[at] = key;
   pointers[at + 1] = right;
   right->parent = parent;
   size_t count = parent->count + 1;
   if (count <= KEYS) {
      memcpy(parent->keys, keys, count * sizeof *keys);
      memcpy(parent->pointers, pointers, (count + 1) * sizeof *pointers);
      parent->count = count;
      return root;
   }
   struct node *other = new_node(0);
   parent->count = ORDER / 2 - 1;
   other->count = count - ORDER / 2;
   memcpy(parent->keys, keys, parent->count * sizeof *keys);
   memcpy(parent->pointers, pointers, (parent->count + 1) * sizeof *pointers);
   memcpy(other->keys, keys + ORDER / 2, other->count * sizeof *keys);
   memcpy(other->pointers, pointers + ORDER / 2, (other->count + 1) * sizeof *pointers);
   other->parent = parent->parent;
   for (size_t i = 0; i <= other->count; i++)
      ((struct node *)other->pointers[i])->parent = other;
   return insert_into_parent(root, parent, keys[ORDER / 2 - 1], other);
}

static struct node *insert(struct node *root, int key)
{
   struct element *element = allocate(sizeof *element), **record;
   element->key = key;
   element->value = mix(key);
   record = allocate(sizeof *record);
   *record = element;
   struct node *leaf = find_leaf(root, key);
   size_t at = 0;
   while (at < leaf->count && leaf->keys[at] < key)
      at++;
   int keys[KEYS + 1];
   void *pointers[KEYS + 1];
   memcpy(keys, leaf->keys, leaf->count * sizeof *keys);
   memcpy(pointers, leaf->pointers, leaf->count * sizeof *pointers);
   memmove(keys + at + 1, keys + at, (leaf->count - at) * sizeof *keys);
   memmove(pointers + at + 1, pointers + at, (leaf->count - at) * sizeof *pointers);
   keys[at] = key;
   pointers[at] = record;
   size_t count = leaf->count + 1, left = count <= KEYS ? count : (KEYS + 1) / 2;
   memcpy(leaf->keys, keys, left * sizeof *keys);
   memcpy(leaf->pointers, pointers, left * sizeof *pointers);
   leaf->count = left;
   if (left == count)
      return root;
   struct node *right = new_node(1);
   right->count = count - left;
   memcpy(right->keys, keys + left, right->count * sizeof *keys);
   memcpy(right->pointers, pointers + left, right->count * sizeof *pointers);
   return insert_into_parent(root, leaf, right->keys[0], right);
}

static uint64_t btree(long keys, uint64_t lookups)
{
   struct node *root = new_node(1);
   for (long i = 0; i < keys; i += 2) {
      root = insert(root, i);
      root = insert(root, keys - i - 1);
   }
   srand48(0xcafebabe);
   uint64_t sum = 0;
   for (uint64_t l = 0; l < lookups; l++) {
      long random = lrand48();
      sum += find(root, random % keys)->value;
      sum += find(root, (random + 1) * 4 % keys)->value;
   }
   return sum;
}

/* Breadth-first searches over 2^SIZE vertices with 32 edges each, as many to some vertices as an R-MAT generator makes; COUNT roots. */
static uint64_t rename_vertex(uint64_t v, int scale)
{
   uint64_t mask = (1ull << scale) - 1;
   v = v * 0x9e3779b97f4a7c15ull & mask;
   return (v ^ v >> (scale + 1) / 2) * 0xbf58476d1ce4e5b9ull & mask;
}

static uint64_t bfs(int scale, uint64_t searches)
{
   uint64_t vertices = 1ull << scale, edges = vertices << 4, random = 5, reached = 0;
   uint64_t(*edge)[2] = allocate(edges * sizeof *edge), (*row)[2] = calloc(vertices, sizeof *row), sum = 0;
   for (uint64_t e = 0; e < edges; e++) {
      edge[e][0] = edge[e][1] = 0;
      for (int level = 0; level < scale; level++) {
         double drawn = unit(&random);
         edge[e][0] = edge[e][0] << 1 | (drawn >= 0.76);
         edge[e][1] = edge[e][1] << 1 | ((drawn >= 0.57 && drawn < 0.76) || drawn >= 0.95);
      }
      for (int end = 0; end < 2; end++) {
         edge[e][end] = rename_vertex(edge[e][end], scale);
         row[edge[e][end]][1]++;
      }
   }
   for (uint64_t v = 0; v < vertices; v++) {
      uint64_t degree = row[v][1];
      row[v][0] = row[v][1] = sum;
      sum += degree;
   }
   uint64_t *neighbours = allocate(sum * sizeof *neighbours);
   for (uint64_t e = 0; e < edges; e++)
      for (int end = 0; end < 2; end++)
         neighbours[row[edge[e][end]][1]++] = edge[e][!end];
   int64_t *parent = allocate(vertices * sizeof *parent), *queue = allocate(vertices * sizeof *queue);
   for (uint64_t s = 0; s < searches; s++) {
      for (uint64_t v = 0; v < vertices; v++)
         parent[v] = -1;
      int64_t root = edge[draw(&random) % edges][0], *head = queue, *tail = queue;
      parent[root] = root;
      *tail++ = root;
      while (head < tail) {
         int64_t v = *head++;
         for (uint64_t i = row[v][0]; i < row[v][1]; i++) {
            int64_t n = (int64_t)neighbours[i];
            if (parent[n] == -1) {
               parent[n] = v;
               *tail++ = n;
            }
         }
      }
      reached += (uint64_t)(tail - queue);
   }
   return reached;
}

int main(int argc, char **argv)
{
   if (argc != 4)
      return 2;
   long size = atol(argv[2]);
   uint64_t count = strtoull(argv[3], NULL, 0), result = 0;
   if (!strcmp(argv[1], "gups"))
      result = gups(size, count);
   else if (!strcmp(argv[1], "quicksort"))
      result = sort(size, count);
   else if (!strcmp(argv[1], "xsbench"))
      result = xsbench(size, count);
   else if (!strcmp(argv[1], "btree"))
      result = btree(size, count);
   else if (!strcmp(argv[1], "bfs"))
      result = bfs((int)size, count);
   else
      return 2;
   printf("%s %llu\n", argv[1], (unsigned long long)result);
   return 0;
}
