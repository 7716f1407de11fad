/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * gups [TABLE_MIB=256] [MILLION_UPDATES=20] [THREADS=1]: random xor updates of 8-byte words over a table that is first
 * written from end to end; each thread has its own part of the table and of the updates. TABLE_MIB and THREADS must be
 * powers of two.
 */
#include <pthread.h>
#include <stdio.h>

#include "random.h"
#include "work.h"

#define MOST_THREADS 64

struct part {
   pthread_t thread;
   uint64_t *table;
   uint64_t words, updates, state;
};

static void *update(void *argument)
{
   struct part *part = argument;
   uint64_t *table = part->table;
   uint64_t words = part->words, state = part->state;
   for (uint64_t i = part->updates; i; i--) {
      uint64_t value = next_random(&state);
      table[value >> 20 & (words - 1)] ^= value;
   }
   return NULL;
}

int main(int argc, char **argv)
{
   uint64_t words = argument(argc, argv, 1, 256) << 17;
   uint64_t updates = argument(argc, argv, 2, 20) * 1000000;
   uint64_t threads = argument(argc, argv, 3, 1);
   uint64_t *table = malloc(words * sizeof *table);
   if (!table || (words & (words - 1)) || !threads || (threads & (threads - 1)) || threads > MOST_THREADS)
      return 1;
   for (uint64_t i = 0; i < words; i++)
      table[i] = i;
   struct part parts[MOST_THREADS];
   begin_work();
   for (uint64_t t = 0; t < threads; t++) {
      uint64_t share = words / threads;
      parts[t] = (struct part){ .table = table + t * share, .words = share, .updates = updates / threads };
      parts[t].state = 88172645463325252ull + t;
      if (t && pthread_create(&parts[t].thread, NULL, update, &parts[t]))
         return 1;
   }
   update(&parts[0]);
   for (uint64_t t = 1; t < threads; t++)
      pthread_join(parts[t].thread, NULL);
   end_work();
   printf("gups %llu\n", (unsigned long long)(table[0] ^ table[words / 3]));
   free(table);
   return 0;
}
