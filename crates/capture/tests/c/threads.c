/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Four threads; thread t stores 100,000 + t times into its own page, at a fixed address, and adds 1,000 times to a word
 * of all. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#define BASE 0x800000000ull

static void *work(void *argument)
{
   uint64_t t = (uint64_t)argument;
   volatile uint64_t *page = (volatile uint64_t *)(BASE + t * 4096);
   for (uint64_t i = 0; i < 100000 + t; i++)
      page[i % 512] = i;
   for (int i = 0; i < 1000; i++)
      __atomic_fetch_add((uint64_t *)(BASE + 4 * 4096), 1, __ATOMIC_RELAXED);
   return NULL;
}

int main(void)
{
   mmap((void *)BASE, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
   pthread_t threads[4];
   for (uint64_t t = 0; t < 4; t++)
      pthread_create(&threads[t], NULL, work, (void *)t);
   for (int t = 0; t < 4; t++)
      pthread_join(threads[t], NULL);
   return 0;
}
