/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * filters WAY [PROCESS]: sets a filter of system calls, stores to memory, and ends with exit code 3, unless the filter is in the
 * way. WAY is what the filter does to sendmsg: kill-process, kill-thread, trap, errno, allow; or strict, the filter of four calls;
 * or raise, which sets no filter and raises the signal of a refusal; or die, which sets none and is killed. PROCESS is self or
 * child. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t words[512];

static void store(int times)
{
   for (int i = 0; i < times; i++)
      words[i % 512] = (uint64_t)i;
}

/* By seccomp(2), and by prctl where there is no such call. */
static int set(const char *way)
{
   uint32_t action = !strcmp(way, "kill-process") ? SECCOMP_RET_KILL_PROCESS
      : !strcmp(way, "kill-thread")               ? SECCOMP_RET_KILL_THREAD
      : !strcmp(way, "trap")                      ? SECCOMP_RET_TRAP
      : !strcmp(way, "errno")                     ? SECCOMP_RET_ERRNO | EPERM
                                                  : SECCOMP_RET_ALLOW;
   struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
   };
   struct sock_fprog program = { sizeof code / sizeof *code, code };
   if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
      return -1;
   if (!strcmp(way, "strict"))
      return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
   if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0)
      return 0;
   return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static int work(const char *way, int is_child)
{
   store(1000);
   if (is_child && !strcmp(way, "die"))
      raise(SIGSTOP); /* the parent kills it */
   if (!strcmp(way, "raise"))
      raise(SIGSYS);
   else if (!strcmp(way, "die"))
      kill(getpid(), SIGKILL);
   else if (set(way) != 0)
      return 9; /* there is no way to set a filter */
   store(100000);
   if (!strcmp(way, "strict"))
      syscall(SYS_exit, 3); /* the only way out that it allows */
   return 3;
}

int main(int argc, char **argv)
{
   if (argc < 2)
      return 2;
   if (argc < 3 || strcmp(argv[2], "child") != 0)
      return work(argv[1], 0);
   pid_t child = fork();
   if (child == 0)
      _exit(work(argv[1], 1));
   int status;
   waitpid(child, &status, WUNTRACED);
   if (WIFSTOPPED(status))
      kill(child, SIGKILL);
   wait(NULL);
   return 4;
}
