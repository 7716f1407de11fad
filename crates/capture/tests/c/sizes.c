/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Loads and stores of every size, each a different number of times, on pages at a fixed address. */
#define _GNU_SOURCE
#include <emmintrin.h>
#include <stdint.h>
#include <sys/mman.h>

#define BASE 0x800000000ull

#define LOADS(type, count)                                                                                             \
   for (int i = 0; i < (count); i++)                                                                                   \
      (void)*(volatile type *)(memory + 64 * (i % 512));
#define STORES(type, count, value)                                                                                     \
   for (int i = 0; i < (count); i++)                                                                                   \
      *(volatile type *)(memory + 64 * (i % 512)) = (value);

#ifndef CALLOUT
/* Instructions that no compiler call-out sees, or that only exist in assembly. */
__attribute__((target("avx"))) static void wide(char *memory)
{
   for (int i = 0; i < 701; i++)
      __asm__ volatile("vmovups (%0), %%ymm0" : : "r"(memory) : "xmm0", "memory");
   for (int i = 0; i < 702; i++)
      __asm__ volatile("vmovups %%ymm0, (%0)" : : "r"(memory) : "memory");
   /* Three of eight lanes are enabled: three loads, five records of no access. */
   static const int32_t mask[8] = { -1, 0, 0, -1, 0, 0, -1, 0 };
   for (int i = 0; i < 100; i++)
      __asm__ volatile("vmovups (%1), %%ymm1\n\tvmaskmovps (%0), %%ymm1, %%ymm0"
                       :
                       : "r"(memory + 65536), "r"(mask)
                       : "xmm0", "xmm1", "memory");
   for (int i = 0; i < 50; i++)
      __asm__ volatile("lock cmpxchg16b (%0)" : : "r"(memory + 65536) : "rax", "rbx", "rcx", "rdx", "memory");
   for (int i = 0; i < 10; i++)
      __asm__ volatile("fxsave (%0)" : : "r"(memory + 2 * 65536) : "memory");
   /* Loads whose value is overwritten. */
   for (int i = 0; i < 60; i++)
      __asm__ volatile("movl (%0), %%eax\n\tmovl 4(%0), %%eax\n\tmovq 8(%0), %%rax\n\txorl %%eax, %%eax"
                       :
                       : "r"(memory + 6 * 65536)
                       : "rax", "cc");
   /* Three instructions that read a place and write it, and one that reads one place and writes another. */
   char *from = memory + 5 * 65536 + 1024, *to = from + 1024;
   for (int i = 0; i < 150; i++)
      __asm__ volatile("addl $3, (%0)\n\tnotq 8(%0)\n\tshrw 16(%0)" : : "r"(memory + 5 * 65536) : "memory", "cc");
   for (int i = 0; i < 70; i++)
      __asm__ volatile("movsq" : "+S"(from), "+D"(to) : : "memory");
}
#endif

int main(void)
{
   char *memory =
      mmap((void *)BASE, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
   if (memory != (char *)BASE)
      return 1;
   LOADS(uint8_t, 101)
   STORES(uint8_t, 102, 1)
   LOADS(uint16_t, 201)
   STORES(uint16_t, 202, 1)
   LOADS(uint32_t, 401)
   STORES(uint32_t, 402, 1)
   LOADS(uint64_t, 8001)
   STORES(uint64_t, 20002, 1)
   LOADS(__m128i, 601)
   STORES(__m128i, 602, _mm_setzero_si128())
   for (int i = 0; i < 1000; i++)
      __atomic_fetch_add((uint64_t *)(memory + 3 * 65536), 1, __ATOMIC_RELAXED);
   for (int i = 0; i < 300; i++) {
      uint32_t expected = i & 1;
      __atomic_compare_exchange_n((uint32_t *)(memory + 4 * 65536), &expected, 0, 0, __ATOMIC_SEQ_CST,
                                  __ATOMIC_SEQ_CST);
   }
#ifndef CALLOUT
   wide(memory);
#endif
   return 0;
}
