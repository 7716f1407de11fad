/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * limits stack MIB | limits threads COUNT | limits huge | ...: uses so much stack, or so many threads at a time, or something that
 * not every front-end knows; ends with 0, or the number of the error. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* In a child, so that the program goes on whatever becomes of it. */
static int traced(void)
{
   return ptrace(PTRACE_TRACEME, 0, NULL, NULL) ? errno : 0;
}

static int in_new_namespace(void)
{
   return unshare(CLONE_NEWUSER) ? errno : 0;
}

/* A program of which there is only a descriptor. */
static int without_a_name(void)
{
   char bytes[4096];
   int from = open("/bin/true", O_RDONLY | O_CLOEXEC), to = memfd_create("program", 0);
   for (ssize_t got; (got = read(from, bytes, sizeof bytes)) > 0;)
      if (write(to, bytes, (size_t)got) != got)
         return errno;
   char *arguments[] = { "program", NULL };
   fexecve(to, arguments, environ);
   return errno;
}

static int in_child(int (*what)(void))
{
   pid_t child = fork();
   if (child == 0)
      _exit(what());
   int status;
   waitpid(child, &status, 0);
   return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int unusual(const char *what)
{
   const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
   char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, kind, -1, 0);
   void *got = NULL;
   for (int i = 0; i < 100000; i++) /* enough that all front-ends send something before it */
      page[i % 4096] = 1;
   if (!strcmp(what, "remap"))
      got = mremap(page, 4096, 4096, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */, NULL);
   else if (!strcmp(what, "reserve")) /* not more: QEMU 7 writes 24 bytes for each page of a mapping */
      got = mmap(NULL, 128ul << 30, PROT_NONE, kind | MAP_NORESERVE, -1, 0);
   else if (!strcmp(what, "huge"))
      got = mmap(NULL, 2ul << 20, PROT_READ | PROT_WRITE, kind | MAP_HUGETLB, -1, 0);
   else if (!strcmp(what, "noreplace")) {
      got = mmap(page, 4096, PROT_READ, kind | 0x100000 /* MAP_FIXED_NOREPLACE */, -1, 0);
      return got == MAP_FAILED ? 0 : 1;
   } else if (!strcmp(what, "ptrace"))
      return in_child(traced);
   else if (!strcmp(what, "unshare"))
      return in_child(in_new_namespace);
   else if (!strcmp(what, "nameless"))
      return in_child(without_a_name);
   else if (!strcmp(what, "files")) {
      struct rlimit limit = { 32, 32 };
      return setrlimit(RLIMIT_NOFILE, &limit) ? errno : 0;
   } else if (!strcmp(what, "ring"))
      return syscall(SYS_io_uring_setup, 0, NULL) < 0 ? errno : 0;
   else if (!strcmp(what, "userfault"))
      return syscall(SYS_userfaultfd, O_CLOEXEC) < 0 ? errno : 0;
   else if (!strcmp(what, "landlock"))
      return syscall(444 /* landlock_create_ruleset */, NULL, 0, 1 /* its version */) < 0 ? errno : 0;
   else if (!strcmp(what, "avx512"))
      __asm__ volatile("vpxord %%zmm0, %%zmm0, %%zmm0" ::: "xmm0");
   return got == MAP_FAILED ? errno : 0;
}

int main(int argc, char **argv)
{
   int amount = argc > 2 ? atoi(argv[2]) : 0;
   if (argc > 1 && !strcmp(argv[1], "stack"))
      return depth(amount * 16) == amount * 16 + 1 ? 0 : 1;
   if (argc == 2)
      return unusual(argv[1]);
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
