/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * instructions CODE DATA RESULTS: executes each instruction of a table once, with an operand in pages of its own.
 *
 *   CODE     slots of 32 bytes: one instruction, then a jump to RETURN
 *   DATA     a page for each instruction: its stack, its strings, its operand
 *   RESULTS  a byte for each instruction: 0, or the number of the signal that it raised
 *
 * Without the C library: an instruction may load any segment register, and nothing here uses one.
 */
#include <asm/signal.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

#define RETURN 0x30000000ul
#define SLOTS 0x30010000ul
#define SLOT 32ul
#define DATA 0x40000000ul
#define AREA 0x1000ul
#define MOST 16384

static unsigned char results[MOST];
static unsigned char signal_stack[65536] __attribute__((aligned(64)));
__attribute__((used)) static unsigned char raised;
__attribute__((used)) static unsigned long saved_stack, target;
/* Dwords 0, 1, 4 and 5 are on, as doublewords and as quadwords; indices 0x10 to 0xc0, likewise. */
__attribute__((used, aligned(32))) static const unsigned mask[8] = { -1, -1, 0, 0, -1, -1, 0, 0 };
__attribute__((used, aligned(32))) static const unsigned index[8] = { 0x10, 0, 0x40, 0, 0x80, 0, 0xc0, 0 };
__attribute__((used)) static const unsigned default_mxcsr = 0x1f80;

void execute(unsigned long area, unsigned long slot);
void come_back(void);
void handler(int number);
void start(void);
__attribute__((used)) void main_with(long *words);

__asm__(".text\n"
        ".globl start\nstart:\n"
        "  mov %rsp, %rdi\n"
        "  and $-64, %rsp\n"
        "  call main_with\n"
        ".globl execute\nexecute:\n"
        "  push %rbx\n  push %rbp\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, saved_stack(%rip)\n"
        "  mov %rsi, target(%rip)\n"
        "  lea 0x180(%rdi), %rsp\n"
        "  lea 0x200(%rdi), %rsi\n"
        "  lea 0x280(%rdi), %rbx\n"
        "  lea 0x300(%rdi), %rbp\n"
        "  add $0x400, %rdi\n"
        "  mov $0x4f, %eax\n  xor %edx, %edx\n  mov $3, %ecx\n"
        "  xor %r8d, %r8d\n  xor %r9d, %r9d\n  xor %r10d, %r10d\n  xor %r11d, %r11d\n"
        "  xor %r12d, %r12d\n  xor %r13d, %r13d\n  xor %r14d, %r14d\n  xor %r15d, %r15d\n"
        "  fninit\n  fld1\n  fld1\n"
        "  vzeroall\n  vmovdqa mask(%rip), %ymm1\n  vmovdqa index(%rip), %ymm2\n"
        "  jmp *target(%rip)\n"
        ".globl handler\nhandler:\n"
        "  mov %dil, raised(%rip)\n"
        ".globl come_back\ncome_back:\n"
        "  mov saved_stack(%rip), %rsp\n"
        "  push $0x202\n  popfq\n"
        "  fninit\n  ldmxcsr default_mxcsr(%rip)\n  vzeroall\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbp\n  pop %rbx\n"
        "  ret\n"
        "restore:\n"
        "  mov $15, %eax\n  syscall\n");
void restore(void);

static long call(long number, long a, long b, long c, long d, long e, long f)
{
   long result;
   register long r10 __asm__("r10") = d;
   register long r8 __asm__("r8") = e;
   register long r9 __asm__("r9") = f;
   __asm__ volatile("syscall"
                    : "=a"(result)
                    : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                    : "rcx", "r11", "memory");
   return result;
}

static void leave(int status)
{
   for (;;)
      call(__NR_exit_group, status, 0, 0, 0, 0, 0);
}

static void must(long result)
{
   if (result < 0 && result > -4096)
      leave((int)-result);
}

/* The whole file; its length. */
static unsigned long map(const char *path, unsigned long at, int protection)
{
   long fd = call(__NR_open, (long)path, O_RDONLY, 0, 0, 0, 0);
   must(fd);
   unsigned long bytes = (unsigned long)call(__NR_lseek, fd, 0, 2, 0, 0, 0);
   must(call(__NR_mmap, (long)at, (long)bytes, protection, MAP_PRIVATE | MAP_FIXED, fd, 0));
   call(__NR_close, fd, 0, 0, 0, 0, 0);
   return bytes;
}

void main_with(long *words)
{
   const char **args = (const char **)(words + 1);
   if (words[0] != 4)
      leave(100);
   unsigned long count = map(args[1], SLOTS, PROT_READ | PROT_EXEC) / SLOT;
   map(args[2], DATA, PROT_READ | PROT_WRITE);
   if (count > MOST)
      leave(101);
   must(call(__NR_mmap, RETURN, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1,
             0));
   unsigned char *stub = (unsigned char *)RETURN;
   stub[0] = 0x48, stub[1] = 0xb8; /* movabs $come_back, %rax */
   *(unsigned long __attribute__((aligned(1))) *)(stub + 2) = (unsigned long)come_back;
   stub[10] = 0xff, stub[11] = 0xe0; /* jmp *%rax */

   stack_t stack = { .ss_sp = signal_stack, .ss_size = sizeof signal_stack };
   must(call(__NR_sigaltstack, (long)&stack, 0, 0, 0, 0, 0));
   struct sigaction action = {
      .sa_handler = handler,
      .sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESTORER,
      .sa_restorer = restore,
   };
   static const int numbers[] = { SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGALRM };
   for (int i = 0; i < 6; i++)
      must(call(__NR_rt_sigaction, numbers[i], (long)&action, 0, 8, 0, 0));

   static const long patience[4] = { 0, 0, 0, 300000 }; /* no interval; in microseconds */
   for (unsigned long i = 0; i < count; i++) {
      raised = 0;
      must(call(__NR_setitimer, 0, (long)patience, 0, 0, 0, 0)); /* an emulator may loop on what it does not know */
      execute(DATA + AREA * i, SLOTS + SLOT * i);
      results[i] = raised;
   }
   long fd = call(__NR_open, (long)args[3], O_WRONLY | O_CREAT | O_TRUNC, 0600, 0, 0, 0);
   must(fd);
   must(call(__NR_write, fd, (long)results, (long)count, 0, 0, 0));
   leave(0);
}
