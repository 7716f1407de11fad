/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program of another instruction set, without a C library: loads and stores at a fixed address, then the same file
 * again with an argument, which ends with 7. */
typedef unsigned long word;

#define BASE 0x800000000ul
#define MMAP 222
#define EXECVE 221
#define EXIT_GROUP 94

#if defined __riscv
#define CALL "ecall"
#define NUMBER "a7"
#define REGISTER(n) "a" #n
#define START "_start: mv a0, sp\n call begin"
#elif defined __aarch64__
#define CALL "svc 0"
#define NUMBER "x8"
#define REGISTER(n) "x" #n
#define START "_start: mov x0, sp\n bl begin"
#elif defined __loongarch64
#define CALL "syscall 0"
#define NUMBER "a7"
#define REGISTER(n) "a" #n
#define START "_start: move $a0, $sp\n bl begin"
#endif

__asm__(".globl _start\n" START);

static long call(long number, word a, word b, word c, word d, word e, word f)
{
   register long n __asm__(NUMBER) = number;
   register word r0 __asm__(REGISTER(0)) = a;
   register word r1 __asm__(REGISTER(1)) = b;
   register word r2 __asm__(REGISTER(2)) = c;
   register word r3 __asm__(REGISTER(3)) = d;
   register word r4 __asm__(REGISTER(4)) = e;
   register word r5 __asm__(REGISTER(5)) = f;
   __asm__ volatile(CALL : "+r"(r0) : "r"(n), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
   return (long)r0;
}

/* The stack as the system leaves it: how many arguments, then the arguments. */
void begin(const word *stack)
{
   volatile char *memory = (volatile char *)BASE;
   call(MMAP, BASE, 1 << 16, 3 /* read, write */, 0x32 /* private, fixed, anonymous */, (word)-1, 0);
   if (stack[0] == 2 && *(const char *)stack[2] == 'x') {
      for (int i = 0; i < 401; i++)
         *(volatile word *)(memory + 4096) = 1;
      call(EXIT_GROUP, 7, 0, 0, 0, 0, 0);
   }
   for (int i = 0; i < 101; i++)
      (void)memory[i];
   for (int i = 0; i < 202; i++)
      *(volatile unsigned short *)(memory + 2 * i) = 1;
   for (int i = 0; i < 303; i++)
      (void)*(volatile unsigned *)(memory + 4 * i);
   for (int i = 0; i < 404; i++)
      *(volatile word *)(memory + 8 * i) = 1;
   const char *arguments[] = { "foreign", "x", 0 };
   call(EXECVE, (word)"/proc/self/exe", (word)arguments, 0, 0, 0, 0);
   call(EXIT_GROUP, 1, 0, 0, 0, 0, 0);
}
