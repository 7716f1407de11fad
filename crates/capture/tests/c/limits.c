/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * limits stack MIB | limits threads COUNT | limits calls: uses so much stack, or so many threads at a time, or calls that
 * not every front-end knows. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static pthread_barrier_t all;

static void *wait_for_all(void *unused)
{
   pthread_barrier_wait(&all);
   return unused;
}

static int depth(int level)
{
   volatile char block[1 << 16];
   block[level % sizeof block] = 1;
   return level == 0 ? block[0] : depth(level - 1) + block[level % sizeof block];
}

int main(int argc, char **argv)
{
   int amount = argc > 2 ? atoi(argv[2]) : 0;
   if (argc > 1 && !strcmp(argv[1], "stack"))
      return depth(amount * 16) == amount * 16 + 1 ? 0 : 1;
   if (argc > 1 && !strcmp(argv[1], "calls")) {
      /* What Valgrind does not know. */
      char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      *page = 1;
      mremap(page, 4096, 4096, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */, NULL);
      mmap(NULL, 1ul << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      mmap(page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | 0x100000 /* MAP_FIXED_NOREPLACE */, -1, 0);
      return 0;
   }
   pthread_t threads[4096];
   pthread_attr_t small;
   pthread_attr_init(&small);
   pthread_attr_setstacksize(&small, 1 << 16);
   pthread_barrier_init(&all, NULL, (unsigned)amount + 1);
   for (int i = 0; i < amount; i++)
      if (pthread_create(&threads[i], &small, wait_for_all, NULL) != 0)
         return 2;
   pthread_barrier_wait(&all);
   for (int i = 0; i < amount; i++)
      pthread_join(threads[i], NULL);
   return 0;
}
