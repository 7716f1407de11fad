/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * bfs [LOG2_VERTICES=18] [DEGREE=16] [SEARCHES=8]: breadth-first searches over a random graph in compressed rows,
 * its construction included.
 */
#include <stdio.h>

#include "random.h"

static void *allocate(uint64_t count, size_t size)
{
   void *memory = malloc(count * size);
   if (!memory)
      abort();
   return memory;
}

int main(int argc, char **argv)
{
   uint64_t vertices = 1ull << argument(argc, argv, 1, 18);
   uint64_t edges = vertices * argument(argc, argv, 2, 16) / 2;
   uint64_t searches = argument(argc, argv, 3, 8);
   uint64_t state = 88172645463325252ull;

   uint32_t *from = allocate(edges, sizeof *from), *to = allocate(edges, sizeof *to);
   uint32_t *row = allocate(vertices + 2, sizeof *row), *column = allocate(2 * edges, sizeof *column);
   for (uint64_t v = 0; v < vertices + 2; v++)
      row[v] = 0;
   for (uint64_t e = 0; e < edges; e++) {
      uint64_t value = next_random(&state);
      from[e] = value >> 8 & (vertices - 1);
      to[e] = value >> 36 & (vertices - 1);
      row[from[e] + 2]++;
      row[to[e] + 2]++;
   }
   for (uint64_t v = 2; v < vertices + 2; v++)
      row[v] += row[v - 1];
   for (uint64_t e = 0; e < edges; e++) {
      column[row[from[e] + 1]++] = to[e];
      column[row[to[e] + 1]++] = from[e];
   }

   uint32_t *parent = allocate(vertices, sizeof *parent), *queue = allocate(vertices, sizeof *queue);
   uint64_t reached = 0;
   for (uint64_t s = 0; s < searches; s++) {
      for (uint64_t v = 0; v < vertices; v++)
         parent[v] = UINT32_MAX;
      uint64_t head = 0, tail = 0;
      uint32_t root = next_random(&state) >> 8 & (vertices - 1);
      parent[root] = root;
      queue[tail++] = root;
      while (head < tail) {
         uint32_t v = queue[head++];
         for (uint32_t i = row[v]; i < row[v + 1]; i++) {
            uint32_t w = column[i];
            if (parent[w] == UINT32_MAX) {
               parent[w] = v;
               queue[tail++] = w;
            }
         }
      }
      reached += tail;
   }
   printf("bfs %llu\n", (unsigned long long)reached);
   return 0;
}
