/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * sleepers MARK: a process, its child, a grandchild whose parent has ended, and one that has no descriptors and no variables; says
 * when all of them sleep, for two minutes. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleeps, once it has said so. */
static void sleep_long(int said)
{
   alarm(120);
   if (write(said, "", 1) != 1)
      _exit(1);
   for (;;)
      pause();
}

int main(int argc, char **argv)
{
   int said[2];
   char byte;
   if (argc < 2)
      return 2;
   if (argc > 2) /* executed without descriptors and variables, but for one */
      sleep_long(0);
   if (pipe(said) != 0)
      return 1;
   if (fork() == 0)
      sleep_long(said[1]);
   if (fork() == 0) {
      if (fork() == 0)
         sleep_long(said[1]);
      _exit(0);
   }
   if (fork() == 0) {
      char *arguments[] = { argv[0], argv[1], "alone", NULL }, *nothing[] = { NULL };
      dup2(said[1], 0);
      syscall(SYS_close_range, 1u, ~0u, 0u);
      execve(argv[0], arguments, nothing);
      _exit(1);
   }
   for (int sleepers = 0; sleepers < 3; sleepers++)
      if (read(said[0], &byte, 1) != 1)
         return 1;
   if (write(1, "all sleep\n", 10) != 10)
      return 1;
   alarm(120);
   for (;;)
      pause();
}
