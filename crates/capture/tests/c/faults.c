/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * faults CASE PAGES: one way of using memory, and on standard output the minor faults of the process and its children. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long pages;

static char *map(int flags, int fd)
{
   char *at = mmap(NULL, (size_t)pages * 4096, PROT_READ | PROT_WRITE, flags, fd, 0);
   if (at == MAP_FAILED)
      exit(2);
   return at;
}

static void store(char *at)
{
   for (long page = 0; page < pages; page++)
      *(volatile char *)(at + page * 4096) = 1;
}

static void load(char *at)
{
   for (long page = 0; page < pages; page++)
      (void)*(volatile char *)(at + page * 4096);
}

static void in_child(void (*use)(char *), char *at)
{
   pid_t child = fork();
   if (child == 0) {
      use(at);
      _exit(0);
   }
   waitpid(child, NULL, 0);
}

static long faults(int whose)
{
   struct rusage usage;
   getrusage(whose, &usage);
   return usage.ru_minflt;
}

int main(int argc, char **argv)
{
   const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
   if (argc < 3)
      return 2;
   const char *name = argv[1];
   pages = atol(argv[2]);
   prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
   if (strcmp(name, "free") == 0) {
      char *at = map(anonymous, -1);
      store(at);
      madvise(at, (size_t)pages * 4096, MADV_FREE);
      store(at);
   } else if (strcmp(name, "populate") == 0) {
      store(map(anonymous | MAP_POPULATE, -1));
   } else if (strcmp(name, "untouched") == 0) {
      map(anonymous | MAP_POPULATE, -1);
   } else if (strcmp(name, "child-loads") == 0) {
      char *at = map(anonymous, -1);
      store(at);
      in_child(load, at);
   } else if (strcmp(name, "child-stores") == 0) {
      char *at = map(anonymous, -1);
      store(at);
      in_child(store, at);
      store(at);
   } else if (strcmp(name, "child-shares") == 0) {
      char *at = map(MAP_SHARED | MAP_ANONYMOUS, -1);
      store(at);
      in_child(store, at);
   } else if (strcmp(name, "private-file") == 0) {
      FILE *file = tmpfile();
      if (!file || ftruncate(fileno(file), pages * 4096))
         return 2;
      store(map(MAP_PRIVATE, fileno(file)));
   } else
      return 2;
   printf("%ld\n", faults(RUSAGE_SELF) + faults(RUSAGE_CHILDREN));
   return 0;
}
