/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * micro WHAT THOUSANDS: so many thousand steps of one kind, each of which shows one parameter of a core, or of the kernel.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../capture/programs/random.h"
#include "../../capture/programs/work.h"

#ifndef __x86_64__
#error "the steps are written for x86-64"
#endif

/* So many steps as one block of instructions, which keeps the loop around them out of the time. */
#define TEN(step) step step step step step step step step step step
#define LOOP(count, steps, ...)                              \
   for (uint64_t left = (count) / 10; left; left--)          \
   __asm__ volatile(TEN(steps)__VA_ARGS__)

#define BITS 65536

static unsigned char bits[BITS];

/* In assembler, so that it is nothing but the return. */
void nothing(void);
__asm__(".text\n.p2align 6\nnothing:\n\tret");

/* A chain of dependent loads over so many bytes. */
static uint64_t chase(uint64_t bytes, uint64_t steps)
{
   static uint64_t lines[1 << 17] __attribute__((aligned(4096)));
   uint64_t count = bytes / 64, state = 88172645463325252ull;
   for (uint64_t i = 0; i < count; i++)
      lines[i * 8] = i * 8;
   for (uint64_t last = count - 1; last > 0; last--) {
      uint64_t other = next_random(&state) % last * 8, next = lines[last * 8];
      lines[last * 8] = lines[other];
      lines[other] = next;
   }
   uint64_t at = 0;
   begin_work();
   while (steps--)
      at = lines[at];
   return at;
}

/* 2,000 jumps, each to the next 16 bytes. */
__attribute__((noinline)) static void jumps(void)
{
   __asm__ volatile(".rept 2000\n\tjmp 1f\n\t.p2align 4\n1:\n\t.endr");
}

/* A jump to one of eight places, by chance. */
static uint64_t indirect(uint64_t steps)
{
   uint64_t sum = 0, at = 0;
   static const void *const places[8] = { &&a, &&b, &&c, &&d, &&e, &&f, &&g, &&h };
next:
   if (!steps--)
      return sum;
   at = (at + 1) % BITS;
   goto *places[bits[at] >> 5];
a: sum += 1; __asm__ volatile(""); goto next;
b: sum += 3; __asm__ volatile(""); goto next;
c: sum += 5; __asm__ volatile(""); goto next;
d: sum += 7; __asm__ volatile(""); goto next;
e: sum += 9; __asm__ volatile(""); goto next;
f: sum += 11; __asm__ volatile(""); goto next;
g: sum += 13; __asm__ volatile(""); goto next;
h: sum += 15; __asm__ volatile(""); goto next;
}

int main(int argc, char **argv)
{
   const char *what = argc > 1 ? argv[1] : "";
   uint64_t count = argument(argc, argv, 2, 10000) * 1000, state = 88172645463325252ull, x = 3, y = 5;
   static uint64_t words[64];
   double d = 1.0;
   for (int i = 0; i < BITS; i++)
      bits[i] = next_random(&state) >> 24;
   begin_work();
   if (!strcmp(what, "add"))
      LOOP(count, "add %1, %0\n\t", : "+r"(x) : "r"(y));
   else if (!strcmp(what, "multiply"))
      LOOP(count, "imul %1, %0\n\t", : "+r"(x) : "r"(y));
   else if (!strcmp(what, "addsd"))
      LOOP(count, "addsd %1, %0\n\t", : "+x"(d) : "x"(d));
   else if (!strcmp(what, "mulsd"))
      LOOP(count, "mulsd %1, %0\n\t", : "+x"(d) : "x"(d));
   else if (!strcmp(what, "adds"))
      LOOP(count, "lea 1(%1), %%rax\n\tlea 1(%1), %%rcx\n\tlea 1(%1), %%rdx\n\tlea 1(%1), %%r8\n\t", : "+r"(x) : "r"(y) : "rax", "rcx", "rdx", "r8");
   else if (!strcmp(what, "loads"))
      LOOP(count, "mov %1, %%rax\n\tmov %1, %%rcx\n\tmov %1, %%rdx\n\t", : "+r"(x) : "m"(words[0]) : "rax", "rcx", "rdx");
   else if (!strcmp(what, "forward"))
      /* Of one place, or of one register, a core knows the load's store before it has the address. */
      for (uint64_t i = 0; i < count; i++) {
         uint64_t *to = words + (i * 0x9e3779b97f4a7c15ull >> 40) % 64, *from = to;
         __asm__ volatile("" : "+r"(from));
         __asm__ volatile("mov %0, (%1)\n\tmov (%2), %0" : "+r"(x) : "r"(to), "r"(from) : "memory");
      }
   else if (!strcmp(what, "foreseen"))
      LOOP(count, "mov %0, (%1)\n\tmov (%1), %0\n\t", : "+r"(x) : "r"(words) : "memory");
   else if (!strcmp(what, "jump"))
      LOOP(count, "jmp 1f\n\t.p2align 5\n1:\n\t", : "+r"(x) : : );
   else if (!strcmp(what, "call"))
      LOOP(count, "call nothing\n\t", : "+r"(x) : : "memory");
   else if (!strcmp(what, "library"))
      /* Of the C library, whose code lies far away. */
      LOOP(count, "call *%1\n\t", : "+D"(x) : "b"(labs) : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory");
   else if (!strcmp(what, "jumps"))
      for (uint64_t left = count / 2000; left; left--)
         jumps();
   else if (!strcmp(what, "random"))
      /* New bits each time: some predictors learn 65,536. */
      for (uint64_t i = 0, word = 0; i < count; i++, word >>= 1) {
         if (i % 32 == 0)
            word = next_random(&state);
         if (word & 1)
            __asm__ volatile("add $1, %0" : "+r"(x));
         __asm__ volatile("");
      }
   else if (!strcmp(what, "indirect"))
      x = indirect(count);
   else if (!strcmp(what, "l1"))
      x = chase(16 << 10, count);
   else if (!strcmp(what, "l2"))
      x = chase(256 << 10, count);
   else if (!strcmp(what, "touch"))
      /* 4,096 pages at a time. */
      for (uint64_t left = count / 4096; left; left--) {
         char *pages = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         if (pages == MAP_FAILED)
            return 1;
         for (int page = 0; page < 4096; page++)
            pages[page << 12] = 1;
         munmap(pages, 16 << 20);
      }
   else if (!strcmp(what, "system"))
      while (count--)
         syscall(SYS_getppid);
   else
      return 2;
   end_work();
   printf("%llu %f\n", (unsigned long long)x, d);
}
