/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every call that changes the address space, at fixed addresses. After the n-th call (from 1) come n stores to a
 * page of its own, so that the order of calls and accesses can be checked. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BASE 0x800000000ull
#define MIB (1ull << 20)
#define TICKS (BASE - MIB)

static int calls;

static void tick(void)
{
   calls++;
   for (int i = 0; i < calls; i++)
      *(volatile uint64_t *)(TICKS + 8 * (i % 512)) = i;
}

static char *at(uint64_t mib)
{
   return (char *)(BASE + mib * MIB);
}

int main(int argc, char **argv)
{
   (void)argc;
   const int rw = PROT_READ | PROT_WRITE, fresh = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
   mmap((void *)TICKS, 4096, rw, fresh, -1, 0);
   tick();
   mmap(at(0), 4 * MIB, rw, fresh, -1, 0);
   tick();
   mmap(at(8), 5000, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
   tick();
   int fd = open(argv[0], O_RDONLY);
   mmap(at(16), 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
   tick();
   mmap(at(1), MIB, PROT_READ, fresh, -1, 0); /* into the middle of the first */
   tick();
   munmap(at(2), 8192);
   tick();
   mprotect(at(3), 4096, PROT_NONE);
   tick();
   mprotect(at(3), 4096, rw);
   tick();
   madvise(at(0), MIB, MADV_HUGEPAGE);
   tick();
   madvise(at(0), MIB, MADV_NOHUGEPAGE);
   tick();
   madvise(at(0), 4096, MADV_DONTNEED);
   tick();
   mremap(at(3), 4096, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, at(32));
   tick();
   mremap(at(32), 8192, 4096, 0);
   tick();
   madvise(at(0), 8192, MADV_FREE);
   tick();
   mlock(at(0), 4096);
   tick();
   munlock(at(0), 8192);
   tick();
   mmap(at(40), 8192, rw, fresh | MAP_POPULATE, -1, 0);
   tick();
   mmap(at(44), 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 4096);
   tick();
   munmap(at(0), 4 * MIB);
   tick();
   munmap((void *)(TICKS + 1), 4096); /* refused: not aligned */
   sbrk(64 * 1024);
   tick();
   sbrk(-4096);
   tick();
   return 0;
}
