/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * processes MODE [PROGRAM]: ways in which processes begin and end. Stores go to pages at a fixed address. */
#define _GNU_SOURCE
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define BASE 0x800000000ull

static void map(void)
{
   mmap((void *)BASE, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void store(int page, int times)
{
   volatile uint64_t *at = (volatile uint64_t *)(BASE + page * 4096ull);
   for (int i = 0; i < times; i++)
      at[i % 512] = i;
}

static void open_page(int signal_number)
{
   (void)signal_number;
   mprotect((void *)(BASE + 5 * 4096), 4096, PROT_READ | PROT_WRITE);
}

/* Stores so many words. (The store is not the loop's first instruction: Valgrind takes a fault of the first, in the
 * copies that it makes of a loop, for one of the last.) */
void walk(uint64_t *at, uint64_t words);
extern const char walk_store[];
__asm__(".text\n"
        "walk:\n"
        "   movq %rsi, %rax\n"
        "walk_store:\n"
        "   movq %rax, (%rdi)\n"
        "   addq $8, %rdi\n"
        "   subq $1, %rsi\n"
        "   jne walk\n"
        "   ret\n");

static int faults_of_walk;

/* Opens the page, if the fault is where it should be. */
static void look_where(int signal_number, siginfo_t *info, void *context)
{
   (void)signal_number;
   if (((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] != (greg_t)walk_store)
      _exit(9);
   mprotect((void *)((uintptr_t)info->si_addr & ~4095ull), 4096, PROT_READ | PROT_WRITE);
   faults_of_walk++;
}

static volatile uint64_t stores_forever;

int main(int argc, char **argv)
{
   const char *mode = argc > 1 ? argv[1] : "";
   map();
   if (!strcmp(mode, "fork")) {
      store(0, 100);
      for (int child = 1; child <= 3; child++)
         if (fork() == 0) {
            store(child, 200 + child);
            exit(7);
         }
      while (wait(NULL) > 0)
         ;
      store(0, 50);
      return 3;
   }
   if (!strcmp(mode, "fork-exit")) { /* a child that leaves by _exit, a grandchild */
      if (fork() == 0) {
         store(1, 300);
         if (fork() == 0) {
            store(2, 301);
            _exit(0);
         }
         wait(NULL);
         _exit(0);
      }
      wait(NULL);
      return 0;
   }
   if (!strcmp(mode, "exec")) {
      store(0, 400);
      execl(argv[0], argv[0], "after-exec", (char *)NULL);
      return 99;
   }
   if (!strcmp(mode, "after-exec")) {
      store(1, 401);
      return 5;
   }
   if (!strcmp(mode, "close-all")) {
      for (int fd = 3; fd < 1024; fd++)
         close(fd);
      store(0, 100000);
      execl(argv[0], argv[0], "after-exec", (char *)NULL);
   }
   if (!strcmp(mode, "close-range")) { /* as Python's subprocess does it */
      store(0, 150);
      for (int child = 1; child <= 3; child++) {
         pid_t pid = fork();
         if (pid == 0) {
            store(child, 100 + child);
            syscall(SYS_close_range, 3u, ~0u, 0u);
            store(child, 200);
            execl(argv[0], argv[0], "after-exec", (char *)NULL);
         }
         int status;
         if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 5)
            return 8;
      }
      return 7;
   }
   if (!strcmp(mode, "lose-child")) {
      store(0, 150);
      pid_t pid = fork();
      if (pid == 0) {
         syscall(SYS_close_range, 3u, ~0u, 0u);
         char *arguments[] = { argv[0], "after-exec", NULL }, *nothing[] = { NULL };
         execve(argv[0], arguments, nothing);
      }
      int status;
      return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 5 ? 7 : 8;
   }
   if (!strcmp(mode, "start") || !strcmp(mode, "become")) { /* another program, in a child or here */
      store(0, 150);
      if (!strcmp(mode, "become") || fork() == 0) {
         execl(argv[2], argv[2], (char *)NULL);
         _exit(126);
      }
      wait(NULL);
      return 5;
   }
   if (!strcmp(mode, "spawn")) { /* a program by posix_spawn, twice, and a shell */
      char *arguments[] = { argv[2], "after-exec", NULL };
      store(0, 150);
      for (int i = 0; i < 2; i++) {
         pid_t pid;
         if (posix_spawn(&pid, argv[2], NULL, NULL, arguments, environ) != 0 || waitpid(pid, NULL, 0) != pid)
            return 8;
      }
      return system("exit 7") == 7 << 8 ? 7 : 8;
   }
   if (!strcmp(mode, "signal")) {
      store(0, 100000);
      *(volatile int *)8 = 1;
   }
   if (!strcmp(mode, "kill")) {
      store(0, 100000);
      kill(getpid(), SIGKILL);
   }
   if (!strcmp(mode, "recover")) { /* a handled fault: the program goes on */
      signal(SIGSEGV, open_page);
      mprotect((void *)(BASE + 5 * 4096), 4096, PROT_NONE);
      store(5, 1000);
      return 0;
   }
   if (!strcmp(mode, "where")) { /* a handler that looks where the fault is */
      struct sigaction action = { .sa_sigaction = look_where, .sa_flags = SA_SIGINFO };
      sigaction(SIGSEGV, &action, NULL);
      mprotect((void *)(BASE + 2 * 4096), 4096, PROT_NONE);
      mprotect((void *)(BASE + 3 * 4096), 4096, PROT_NONE);
      walk((uint64_t *)(BASE + 8), 2000);
      return faults_of_walk;
   }
   if (!strcmp(mode, "forever") || !strcmp(mode, "stubborn") || !strcmp(mode, "family")) {
      if (!strcmp(mode, "stubborn"))
         signal(SIGTERM, SIG_IGN);
      if (!strcmp(mode, "family") && fork() == 0) {
         for (;;)
            pause();
      }
      for (;;)
         stores_forever++;
   }
   if (!strcmp(mode, "echo")) { /* standard input to standard output, the arguments to standard error */
      char buffer[4096];
      ssize_t got;
      for (int i = 2; i < argc; i++)
         fprintf(stderr, "%s\n", argv[i]);
      while ((got = read(0, buffer, sizeof buffer)) > 0)
         if (write(1, buffer, got) != got)
            return 1;
      return 42;
   }
   return 0;
}
