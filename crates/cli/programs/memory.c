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

int main(int argc, char **argv)
{
   static const struct {
      const char *name;
      double (*run)(uint64_t bytes, uint64_t rounds);
   } kernels[] = { { "sparse", sparse }, { "transpose", transpose }, { "histogram", histogram },
                   { "radix", radix },   { "search", search },       { "lists", lists } };
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
