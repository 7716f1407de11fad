/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Code that is run in ways which a front-end must tell apart.
 *
 *   code calls N    N calls of a function through a pointer
 *   code rewrite N  a function that is written, run N times, written anew at the same address, and run N times
 *   code threads N  two threads, each N calls of a function of its own
 *   code fork N     N calls in the parent, then N in a child, which go through the same code
 *   code repeat N   `rep movsb` of N bytes
 *
 * A named function has an address that the program prints, and is as it stands here: it is written in assembler.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

uint64_t one(uint64_t *word), other(uint64_t *word);
void copy(char *to, const char *from, uint64_t bytes);

/* `one` has a load, a store and a return; `other` two loads more. */
__asm__(".text\n"
        "one: mov (%rdi), %rax\n add $1, %rax\n mov %rax, (%rdi)\n ret\n"
        "other: mov (%rdi), %rax\n add 8(%rdi), %rax\n add 16(%rdi), %rax\n mov %rax, (%rdi)\n ret\n"
        "copy: mov %rdx, %rcx\n rep movsb\n ret\n"
        ".globl one, other, copy\n");

static long calls;

static void call(uint64_t (*volatile function)(uint64_t *))
{
   uint64_t words[3] = { 0 };
   for (long i = 0; i < calls; i++)
      function(words);
}

static void *thread(void *function)
{
   call((uint64_t(*)(uint64_t *))function);
   return NULL;
}

static void rewrite(void)
{
   /* mov $1, %eax; ret */
   unsigned char code[] = { 0xb8, 1, 0, 0, 0, 0xc3 };
   unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   if (at == MAP_FAILED)
      exit(1);
   printf("%p\n", (void *)at);
   for (unsigned char value = 1; value <= 2; value++) {
      code[1] = value;
      memcpy(at, code, sizeof code);
      call((uint64_t(*)(uint64_t *))(uintptr_t)at);
   }
}

int main(int count, char **words)
{
   static char from[1 << 16], to[1 << 16];
   if (count != 3)
      return 2;
   const char *mode = words[1];
   calls = atol(words[2]);
   if (strcmp(mode, "rewrite") == 0) {
      rewrite();
      return 0;
   }
   printf("%p %p %p\n", (void *)one, (void *)other, (void *)copy);
   fflush(stdout);
   if (strcmp(mode, "calls") == 0)
      call(one);
   else if (strcmp(mode, "threads") == 0) {
      pthread_t threads[2];
      pthread_create(&threads[0], NULL, thread, (void *)one);
      pthread_create(&threads[1], NULL, thread, (void *)other);
      pthread_join(threads[0], NULL);
      pthread_join(threads[1], NULL);
   } else if (strcmp(mode, "fork") == 0) {
      call(one);
      pid_t child = fork();
      call(child == 0 ? other : one);
      if (child == 0)
         _exit(0);
      waitpid(child, NULL, 0);
   } else if (strcmp(mode, "repeat") == 0)
      copy(to, from, (uint64_t)calls);
   else
      return 2;
   return 0;
}
