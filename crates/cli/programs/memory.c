/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * memory WHAT MIB ROUNDS: kernels of programs that wait for memory, over so much of it. Without rounds they make their data and end.
 */
#include <stdio.h>
#include <string.h>

#include "../../capture/programs/random.h"
#include "../../capture/programs/work.h"

static uint64_t state = 88172645463325252ull;

/* The product of a sparse matrix, of 16 entries a row in random columns, and a vector. */
static double sparse(uint64_t bytes, uint64_t rounds)
{
   uint64_t rows = bytes / (16 * 12 + 16);
   uint32_t *columns = malloc(rows * 16 * sizeof *columns);
   double *values = malloc(rows * 16 * sizeof *values), *x = malloc(rows * 8), *y = malloc(rows * 8), sum = 0;
   for (uint64_t i = 0; i < rows * 16; i++) {
      columns[i] = next_random(&state) % rows;
      values[i] = i;
   }
   for (uint64_t i = 0; i < rows; i++)
      x[i] = y[i] = i;
   begin_work();
   while (rounds--)
      for (uint64_t row = 0; row < rows; row++) {
         double dot = 0;
         for (uint64_t i = row * 16; i < row * 16 + 16; i++)
            dot += values[i] * x[columns[i]];
         y[row] = dot;
         sum += dot;
      }
   return sum;
}

/* The transposition of a square matrix, element by element. */
static double transpose(uint64_t bytes, uint64_t rounds)
{
   uint64_t n = 16;
   while (n * n * 64 <= bytes)
      n *= 2;
   n += 16;
   double *from = malloc(n * n * sizeof *from), *to = malloc(n * n * sizeof *to);
   for (uint64_t i = 0; i < n * n; i++) {
      from[i] = i;
      to[i] = 0;
   }
   begin_work();
   while (rounds--)
      for (uint64_t row = 0; row < n; row++)
         for (uint64_t column = 0; column < n; column++)
            to[column * n + row] = from[row * n + column];
   return to[n + 1];
}

/* Counts of random values. */
static double histogram(uint64_t bytes, uint64_t rounds)
{
   uint64_t bins = bytes / 4;
   uint32_t *counts = malloc(bins * sizeof *counts);
   for (uint64_t i = 0; i < bins; i++)
      counts[i] = 1;
   begin_work();
   for (uint64_t i = 0; i < rounds * 1000000; i++)
      counts[(next_random(&state) >> 16) % bins]++;
   return counts[7];
}

/* A pass of a radix sort: numbers go to 256 places. */
static double radix(uint64_t bytes, uint64_t rounds)
{
   uint64_t count = bytes / 16, *from = malloc(count * 8), *to = malloc(count * 8);
   for (uint64_t i = 0; i < count; i++) {
      from[i] = next_random(&state);
      to[i] = i;
   }
   begin_work();
   for (uint64_t round = 0; round < rounds; round++) {
      uint64_t place[256] = { 0 }, begin = 0;
      for (uint64_t i = 0; i < count; i++)
         place[from[i] >> 8 * round & 255]++;
      for (int digit = 0; digit < 256; digit++) {
         uint64_t number = place[digit];
         place[digit] = begin;
         begin += number;
      }
      for (uint64_t i = 0; i < count; i++)
         to[place[from[i] >> 8 * round & 255]++] = from[i];
      uint64_t *other = from;
      from = to;
      to = other;
   }
   return from[count / 2];
}

/* Binary searches in a sorted array. */
static double search(uint64_t bytes, uint64_t rounds)
{
   uint64_t count = bytes / 8, *sorted = malloc(count * 8), found = 0;
   for (uint64_t i = 0; i < count; i++)
      sorted[i] = 2 * i;
   begin_work();
   for (uint64_t i = 0; i < rounds * 100000; i++) {
      uint64_t key = (next_random(&state) >> 8) % (2 * count), low = 0, high = count;
      while (low < high) {
         uint64_t middle = (low + high) / 2;
         if (sorted[middle] < key)
            low = middle + 1;
         else
            high = middle;
      }
      found += low;
   }
   return found;
}

/* Lists of nodes that lie in random order, gone through one after the other. */
static double lists(uint64_t bytes, uint64_t rounds)
{
   struct node {
      struct node *next;
      uint64_t value[3];
   };
   enum { LISTS = 64 };
   uint64_t count = bytes / sizeof(struct node), sum = 0;
   struct node *nodes = malloc(count * sizeof *nodes), *heads[LISTS] = { NULL };
   for (uint64_t i = 0; i < count; i++)
      nodes[i].value[0] = i;
   /* A step that has no divisor in common with a power of two visits every node once. */
   uint64_t mask = 1;
   while (mask * 2 <= count)
      mask *= 2;
   for (uint64_t i = 0; i < mask; i++) {
      struct node *node = &nodes[i * 0x9e3779b97f4a7c15ull & (mask - 1)];
      node->next = heads[i % LISTS];
      heads[i % LISTS] = node;
   }
   begin_work();
   while (rounds--)
      for (int list = 0; list < LISTS; list += 8)
         for (const struct node *node = heads[list]; node; node = node->next)
            sum += node->value[0];
   return sum;
}

/* Joins random pairs of elements into sets, and finds which set has each (Tarjan's forests, with paths halved). */
static double sets(uint64_t bytes, uint64_t rounds)
{
   uint64_t count = bytes / 4, joined = 0;
   uint32_t *above = malloc(count * sizeof *above);
   for (uint64_t i = 0; i < count; i++)
      above[i] = i;
   begin_work();
   for (uint64_t i = 0; i < rounds * 100000; i++) {
      uint32_t two[2];
      for (int j = 0; j < 2; j++) {
         uint32_t at = (next_random(&state) >> 8) % count;
         while (above[at] != at)
            at = above[at] = above[above[at]];
         two[j] = at;
      }
      joined += two[0] != two[1];
      above[two[0]] = two[1];
   }
   return joined;
}

/* A Bloom filter with four bits for each number. */
static double bloom(uint64_t bytes, uint64_t rounds)
{
   uint64_t words = bytes / 8, *bits = malloc(words * 8), found = 0;
   for (uint64_t i = 0; i < words; i++)
      bits[i] = i * 0x9e3779b97f4a7c15ull;
   begin_work();
   for (uint64_t i = 0; i < rounds * 100000; i++) {
      uint64_t one = next_random(&state), two = one * 0x9e3779b97f4a7c15ull | 1;
      int has = 1;
      for (int k = 0; k < 4 && has; k++, one += two)
         has = bits[(one >> 16) % words] >> (one & 63) & 1;
      if (!has)
         bits[(one >> 16) % words] |= 1ull << (one & 63);
      found += has;
   }
   return found;
}

/* Takes the elements of an array in the order of a random permutation. */
static double gather(uint64_t bytes, uint64_t rounds)
{
   uint64_t count = bytes / 16;
   uint32_t *order = malloc(count * sizeof *order);
   double *from = malloc(count * sizeof *from), *to = malloc(count * 4), sum = 0;
   for (uint64_t i = 0; i < count; i++) {
      from[i] = order[i] = i;
      to[i / 2] = 0;
   }
   for (uint64_t last = count - 1; last > 0; last--) {
      uint64_t other = (next_random(&state) >> 8) % (last + 1);
      uint32_t order_of_other = order[other];
      order[other] = order[last];
      order[last] = order_of_other;
   }
   begin_work();
   while (rounds--)
      for (uint64_t i = 0; i + 1 < count; i += 2)
         sum += to[i / 2] = from[order[i]] + from[order[i + 1]];
   return sum;
}

/* A priority queue in an array: takes the least, and puts back something later. */
static double queue(uint64_t bytes, uint64_t rounds)
{
   uint64_t count = bytes / 8, *heap = malloc((count + 1) * 8);
   for (uint64_t i = 1; i <= count; i++)
      heap[i] = i << 20;
   begin_work();
   for (uint64_t i = 0; i < rounds * 10000; i++) {
      uint64_t value = heap[1] + (next_random(&state) >> 20), at = 1;
      for (uint64_t next; (next = 2 * at) <= count; at = next) {
         next += next < count && heap[next + 1] < heap[next];
         if (heap[next] >= value)
            break;
         heap[at] = heap[next];
      }
      heap[at] = value;
   }
   return heap[1];
}

/* The mean of each cell of a grid and its four neighbours. */
static double stencil(uint64_t bytes, uint64_t rounds)
{
   uint64_t n = 2000, rows = bytes / 16 / n;
   double *from = malloc(rows * n * sizeof *from), *to = malloc(rows * n * sizeof *to);
   for (uint64_t i = 0; i < rows * n; i++)
      from[i] = to[i] = i % 17;
   begin_work();
   while (rounds--) {
      for (uint64_t i = n; i < (rows - 1) * n; i++)
         to[i] = 0.2 * (from[i] + from[i - 1] + from[i + 1] + from[i - n] + from[i + n]);
      double *other = from;
      from = to;
      to = other;
   }
   return from[rows / 2 * n + n / 2];
}

/* Sums of the columns of a matrix that lies in memory row by row: each column by itself. */
static double columns(uint64_t bytes, uint64_t rounds)
{
   uint64_t n = 1000, rows = bytes / 8 / n;
   double *matrix = malloc(rows * n * sizeof *matrix), largest = 0;
   for (uint64_t i = 0; i < rows * n; i++)
      matrix[i] = i % 31;
   begin_work();
   for (uint64_t column = 0; column < rounds * 50; column++) {
      double sum = 0;
      for (uint64_t row = 0; row < rows; row++)
         sum += matrix[row * n + column * 7 % n];
      largest = sum > largest ? sum : largest;
   }
   return largest;
}

/* Looks numbers up in a hash table in which each has two buckets of four places. */
static double cuckoo(uint64_t bytes, uint64_t rounds)
{
   uint64_t buckets = bytes / 32, *table = malloc(buckets * 32), found = 0;
   for (uint64_t i = 0; i < buckets * 4; i++)
      table[i] = i * 0x9e3779b97f4a7c15ull >> 30;
   begin_work();
   for (uint64_t i = 0; i < rounds * 100000; i++) {
      uint64_t key = next_random(&state) >> 30, has = 0;
      const uint64_t *one = &table[key * 0x9e3779b97f4a7c15ull % buckets * 4];
      const uint64_t *two = &table[key * 0xc2b2ae3d27d4eb4full % buckets * 4];
      for (int k = 0; k < 4; k++)
         has |= (one[k] == key) | (two[k] == key);
      found += has;
   }
   return found;
}

/* Walks down a tree of 16 children a node, by the digits of random numbers. */
static double trie(uint64_t bytes, uint64_t rounds)
{
   uint64_t nodes = bytes / 64, sum = 0;
   uint32_t (*child)[16] = malloc(nodes * 64);
   for (uint64_t i = 0; i < nodes; i++)
      for (uint64_t k = 0; k < 16; k++)
         child[i][k] = 16 * i + k + 1 < nodes ? 16 * i + k + 1 : 0;
   begin_work();
   for (uint64_t i = 0; i < rounds * 100000; i++) {
      uint64_t key = next_random(&state);
      uint32_t at = 0, next;
      for (; (next = child[at][key & 15]); at = next)
         key >>= 4;
      sum += at;
   }
   return sum;
}

int main(int argc, char **argv)
{
   static const struct {
      const char *name;
      double (*run)(uint64_t bytes, uint64_t rounds);
   } kernels[] = { { "sparse", sparse },   { "transpose", transpose }, { "histogram", histogram }, { "radix", radix },
                   { "search", search },   { "lists", lists },         { "sets", sets },           { "bloom", bloom },
                   { "gather", gather },   { "queue", queue },         { "stencil", stencil },     { "columns", columns },
                   { "cuckoo", cuckoo },   { "trie", trie } };
   uint64_t bytes = argument(argc, argv, 2, 128) << 20, rounds = argument(argc, argv, 3, 1);
   for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++)
      if (argc > 1 && !strcmp(argv[1], kernels[i].name)) {
         double result = kernels[i].run(bytes, rounds);
         end_work();
         printf("%f\n", result);
         return 0;
      }
   return 2;
}
