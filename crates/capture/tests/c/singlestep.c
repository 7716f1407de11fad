/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * singlestep PROGRAM ARGS...: runs it one instruction at a time and prints how many there were. Shares nothing with
 * Valgrind; an iteration of a repeated string instruction counts as one, as it does there. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* The two processes wait for each other at each instruction: on two processors a switch takes five times as long. */
static void stay_on_this_processor(void)
{
   cpu_set_t here;
   CPU_ZERO(&here);
   CPU_SET(sched_getcpu(), &here);
   sched_setaffinity(0, sizeof here, &here);
}

int main(int argc, char **argv)
{
   if (argc < 2)
      return 2;
   stay_on_this_processor();
   pid_t child = fork();
   if (child == 0) {
      ptrace(PTRACE_TRACEME, 0, NULL, NULL);
      execv(argv[1], argv + 1);
      _exit(127);
   }
   int status;
   unsigned long steps = 0;
   waitpid(child, &status, 0);
   while (WIFSTOPPED(status)) {
      if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0)
         return 1;
      steps++;
      waitpid(child, &status, 0);
   }
   fprintf(stderr, "steps %lu\n", steps);
   return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
