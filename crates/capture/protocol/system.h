/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * System calls as the processor makes them, for the parts of front-ends that may call neither the C library nor the core of
 * Valgrind, and what is asked with them alone. For x86-64 hosts.
 */
#ifndef PAGEWALK_SYSTEM_H
#define PAGEWALK_SYSTEM_H

#include <stdint.h>

/* Of the system's interface; the headers of Valgrind and of the C library have different names for it. */
#define PW_CALL_CLOSE 3
#define PW_CALL_READLINK 89
#define PW_CALL_OPENAT 257
#define PW_CALL_PRCTL 157
#define PW_CALL_SECCOMP 317
#define PW_OPEN_NAME_ONLY 012000000 /* O_PATH and O_CLOEXEC */
#define PW_THIS_FOLDER (-100)       /* AT_FDCWD */
#define PW_SET_FILTER 22            /* PR_SET_SECCOMP */
#define PW_FILTER_MODES 2u          /* of seccomp(2): the strict one, and a filter; other operations only ask */

static inline long pw_syscall(long number, long a, long b, long c, long d, long e, long f)
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

/* Whether a call of this number sets a filter of system calls for the thread that makes it. */
static inline int pw_sets_filter(long number, uint64_t first)
{
   return (number == PW_CALL_PRCTL && first == PW_SET_FILTER) || (number == PW_CALL_SECCOMP && first < PW_FILTER_MODES);
}

/* The whole path of a file that is named as execveat names it, as the system has it, into `path` with zeros behind it; in
 * bytes, and 0 for a file that is not there or a name that cannot be read. */
static inline uint32_t pw_whole_path(long folder, const char *name, char *path, uint32_t room)
{
   /* The system reads the name, which may point anywhere. Where it is empty, the file is the folder's own. */
   long opened = pw_syscall(PW_CALL_OPENAT, folder, (long)name, PW_OPEN_NAME_ONLY, 0, 0, 0);
   long fd = opened >= 0 ? opened : folder;
   if (fd < 0)
      return 0;
   char link[] = "/proc/self/fd/__________", *place = link + sizeof "/proc/self/fd/" - 1;
   long unit = 1;
   while (fd / unit >= 10)
      unit *= 10;
   for (; unit > 0; unit /= 10)
      *place++ = (char)('0' + fd / unit % 10);
   *place = 0;
   long bytes = pw_syscall(PW_CALL_READLINK, (long)link, (long)path, room, 0, 0, 0);
   if (opened >= 0)
      pw_syscall(PW_CALL_CLOSE, opened, 0, 0, 0, 0, 0);
   bytes = bytes < 0 ? 0 : bytes;
   for (uint32_t i = (uint32_t)bytes; i < room; i++)
      path[i] = 0;
   return (uint32_t)bytes;
}

#endif
