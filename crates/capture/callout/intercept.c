/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Functions of the C library that this library puts itself in front of. Calls inside the C library do not come by
 * here: what malloc maps, for one, stays unseen.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

static void *failed(long error)
{
   errno = (int)-error;
   return MAP_FAILED;
}

static int is_error(long result)
{
   return result < 0 && result > -4096;
}

static int send_if_done(long result, uint32_t kind, const uint64_t *payload, uint32_t words)
{
   if (is_error(result)) {
      errno = (int)-result;
      return -1;
   }
   pw_flush();
   pw_send(kind, payload, words);
   return 0;
}

/* ---- the address space ---- */

EXPORT void *mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset)
{
   long result = pw_syscall(SYS_mmap, (long)start, (long)bytes, protection, flags, fd, offset);
   if (is_error(result))
      return failed(result);
   pw_send_map((uint64_t)result, bytes, (uint64_t)protection, (uint64_t)flags, fd, (uint64_t)offset);
   return (void *)result;
}

EXPORT void *mmap64(void *start, size_t bytes, int protection, int flags, int fd, off64_t offset)
{
   return mmap(start, bytes, protection, flags, fd, offset);
}

EXPORT int munmap(void *start, size_t bytes)
{
   uint64_t payload[2] = { (uint64_t)start, bytes };
   return send_if_done(pw_syscall(SYS_munmap, (long)start, (long)bytes, 0, 0, 0, 0), PW_UNMAP, payload, 2);
}

EXPORT int mprotect(void *start, size_t bytes, int protection)
{
   uint64_t payload[3] = { (uint64_t)start, bytes, (uint64_t)protection };
   long result = pw_syscall(SYS_mprotect, (long)start, (long)bytes, protection, 0, 0, 0);
   return send_if_done(result, PW_PROTECT, payload, 3);
}

EXPORT int madvise(void *start, size_t bytes, int advice)
{
   uint64_t payload[3] = { (uint64_t)start, bytes, (uint64_t)advice };
   return send_if_done(pw_syscall(SYS_madvise, (long)start, (long)bytes, advice, 0, 0, 0), PW_ADVISE, payload, 3);
}

static int send_lock(long result, const void *start, size_t bytes, enum pw_lock how)
{
   uint64_t payload[3] = { (uint64_t)start, bytes, how };
   return send_if_done(result, PW_LOCK, payload, 3);
}

EXPORT int mlock(const void *start, size_t bytes)
{
   return send_lock(pw_syscall(SYS_mlock, (long)start, (long)bytes, 0, 0, 0, 0), start, bytes, PW_LOCKED);
}

EXPORT int mlock2(const void *start, size_t bytes, unsigned flags)
{
   enum pw_lock how = flags & MLOCK_ONFAULT ? PW_LOCKED_ON_FAULT : PW_LOCKED;
   return send_lock(pw_syscall(SYS_mlock2, (long)start, (long)bytes, flags, 0, 0, 0), start, bytes, how);
}

EXPORT int munlock(const void *start, size_t bytes)
{
   return send_lock(pw_syscall(SYS_munlock, (long)start, (long)bytes, 0, 0, 0, 0), start, bytes, PW_UNLOCKED);
}

EXPORT int mlockall(int flags)
{
   uint64_t payload = (uint32_t)flags;
   return send_if_done(pw_syscall(SYS_mlockall, flags, 0, 0, 0, 0, 0), PW_LOCK_ALL, &payload, 1);
}

EXPORT int munlockall(void)
{
   uint64_t payload = 0;
   return send_if_done(pw_syscall(SYS_munlockall, 0, 0, 0, 0, 0, 0), PW_LOCK_ALL, &payload, 1);
}

EXPORT void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
   va_list more;
   va_start(more, flags);
   void *wanted = flags & MREMAP_FIXED || flags & 4 /* MREMAP_DONTUNMAP */ ? va_arg(more, void *) : NULL;
   va_end(more);
   long result = pw_syscall(SYS_mremap, (long)old, (long)old_bytes, (long)bytes, flags, (long)wanted, 0);
   if (is_error(result))
      return failed(result);
   uint64_t payload[5] = { (uint64_t)old, old_bytes, (uint64_t)result, bytes, (uint64_t)flags };
   pw_flush();
   pw_send(PW_REMAP, payload, 5);
   return (void *)result;
}

/* ---- block copies: clang calls __tsan_memcpy and its kin, gcc the plain functions ---- */

typedef void *copy_function(void *, const void *, size_t);
typedef void *fill_function(void *, int, size_t);
static copy_function *real_memcpy, *real_memmove;
static fill_function *real_memset;

/* Before the dynamic linker is done there is nothing to look the real ones up with. */
static void *slow_copy(void *to, const void *from, size_t bytes)
{
   char *t = to;
   const char *f = from;
   if (t <= f)
      for (size_t i = 0; i < bytes; i++)
         t[i] = f[i];
   else
      for (size_t i = bytes; i > 0; i--)
         t[i - 1] = f[i - 1];
   return to;
}

static void *slow_fill(void *to, int value, size_t bytes)
{
   volatile char *t = to;
   for (size_t i = 0; i < bytes; i++)
      t[i] = (char)value;
   return to;
}

__attribute__((constructor(101))) static void look_up(void)
{
   real_memcpy = (copy_function *)dlsym(RTLD_NEXT, "memcpy");
   real_memmove = (copy_function *)dlsym(RTLD_NEXT, "memmove");
   real_memset = (fill_function *)dlsym(RTLD_NEXT, "memset");
}

static inline void *recorded_copy(copy_function *real, void *to, const void *from, size_t bytes)
{
   if (!real)
      return slow_copy(to, from, bytes);
   pw_record_range(from, bytes, 0);
   pw_record_range(to, bytes, 1);
   return real(to, from, bytes);
}

#define COPY(name, real)                                                                                               \
   EXPORT void *name(void *to, const void *from, size_t bytes);                                                        \
   EXPORT void *name(void *to, const void *from, size_t bytes)                                                         \
   {                                                                                                                   \
      return recorded_copy(real, to, from, bytes);                                                                     \
   }
#define FILL(name)                                                                                                     \
   EXPORT void *name(void *to, int value, size_t bytes);                                                               \
   EXPORT void *name(void *to, int value, size_t bytes)                                                                \
   {                                                                                                                   \
      if (!real_memset)                                                                                                \
         return slow_fill(to, value, bytes);                                                                           \
      pw_record_range(to, bytes, 1);                                                                                   \
      return real_memset(to, value, bytes);                                                                            \
   }

COPY(memcpy, real_memcpy)
COPY(memmove, real_memmove)
COPY(__tsan_memcpy, real_memcpy)
COPY(__tsan_memmove, real_memmove)
FILL(memset)
FILL(__tsan_memset)

/* ---- what the kernel writes into the program's memory ---- */

/* Of a message that is longer than the buffer, the result may be the whole length. */
#define INPUT(name, to, bytes, parameters, arguments)                                                                  \
   EXPORT ssize_t name parameters                                                                                      \
   {                                                                                                                   \
      static ssize_t(*real) parameters;                                                                                \
      if (!real)                                                                                                       \
         real = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);                                                        \
      ssize_t got = real arguments;                                                                                    \
      if (got > 0)                                                                                                     \
         pw_record_kernel_write((uintptr_t)(to), (size_t)got < (bytes) ? (size_t)got : (bytes));                       \
      return got;                                                                                                      \
   }

INPUT(read, to, bytes, (int fd, void *to, size_t bytes), (fd, to, bytes))
INPUT(pread, to, bytes, (int fd, void *to, size_t bytes, off_t offset), (fd, to, bytes, offset))
INPUT(pread64, to, bytes, (int fd, void *to, size_t bytes, off64_t offset), (fd, to, bytes, offset))
INPUT(recv, to, bytes, (int fd, void *to, size_t bytes, int flags), (fd, to, bytes, flags))
INPUT(recvfrom, to, bytes, (int fd, void *restrict to, size_t bytes, int flags, struct sockaddr *restrict from, socklen_t *restrict from_bytes),
      (fd, to, bytes, flags, from, from_bytes))
INPUT(getrandom, to, bytes, (void *to, size_t bytes, unsigned flags), (to, bytes, flags))

/* Of a large buffer, the C library has the kernel fill most; what it copies itself is as little seen here. */
EXPORT size_t fread(void *restrict to, size_t size, size_t count, FILE *restrict file)
{
   static size_t (*real)(void *, size_t, size_t, FILE *);
   if (!real)
      real = (size_t (*)(void *, size_t, size_t, FILE *))dlsym(RTLD_NEXT, "fread");
   size_t got = real(to, size, count, file);
   if (got * size > 0)
      pw_record_kernel_write((uintptr_t)to, got * size);
   return got;
}

/* ---- ways out of the program that run no destructors ---- */

EXPORT void _exit(int status)
{
   pw_end_process();
   for (;;)
      pw_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

EXPORT void _Exit(int status)
{
   _exit(status);
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
   pw_before_exec(AT_FDCWD, path);
   long result = pw_syscall(SYS_execve, (long)path, (long)argv, (long)envp, 0, 0, 0);
   pw_after_exec();
   errno = (int)-result;
   return -1;
}

EXPORT int execv(const char *path, char *const argv[])
{
   return execve(path, argv, environ);
}

/* What the C library will find along PATH: the first file that may be executed. */
static const char *search(const char *file, char found[PATH_MAX])
{
   const char *folder = getenv("PATH");
   size_t name = strlen(file);
   if (strchr(file, '/') || !folder)
      return file;
   for (;; folder++) {
      size_t bytes = strcspn(folder, ":");
      if (bytes + name + 2 <= PATH_MAX) {
         slow_copy(found, folder, bytes);
         found[bytes] = '/';
         slow_copy(found + bytes + !!bytes, file, name + 1);
         if (pw_syscall(SYS_access, (long)found, X_OK, 0, 0, 0, 0) == 0)
            return found;
      }
      folder += bytes;
      if (!*folder)
         return file;
   }
}

/* The search along PATH stays with the C library. */
EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
   static int (*real)(const char *, char *const *, char *const *);
   if (!real)
      real = (int (*)(const char *, char *const *, char *const *))dlsym(RTLD_NEXT, "execvpe");
   char found[PATH_MAX];
   pw_before_exec(AT_FDCWD, search(file, found));
   real(file, argv, envp);
   pw_after_exec();
   return -1;
}

EXPORT int execvp(const char *file, char *const argv[])
{
   return execvpe(file, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
   static int (*real)(int, char *const *, char *const *);
   if (!real)
      real = (int (*)(int, char *const *, char *const *))dlsym(RTLD_NEXT, "fexecve");
   pw_before_exec(fd, "");
   real(fd, argv, envp);
   pw_after_exec();
   return -1;
}

/* The forms that take their arguments one by one: counted, then put into an array. */
#define EXEC_LIST(name, last_declaration, call)                                                                        \
   EXPORT int name(const char *path, const char *first, ...)                                                           \
   {                                                                                                                   \
      va_list list;                                                                                                    \
      size_t count = 2; /* the first and the terminator */                                                             \
      va_start(list, first);                                                                                           \
      while (va_arg(list, char *))                                                                                     \
         count++;                                                                                                      \
      va_end(list);                                                                                                    \
      char *argv[count];                                                                                               \
      argv[0] = (char *)first;                                                                                         \
      va_start(list, first);                                                                                           \
      for (size_t i = 1; i < count; i++)                                                                               \
         argv[i] = va_arg(list, char *);                                                                               \
      last_declaration;                                                                                                \
      va_end(list);                                                                                                    \
      return call;                                                                                                     \
   }

EXEC_LIST(execl, (void)0, execv(path, argv))
EXEC_LIST(execlp, (void)0, execvp(path, argv))
EXEC_LIST(execle, char *const *envp = va_arg(list, char *const *), execve(path, argv, envp))

/* ---- processes that begin without a fork: what they execute may not have this library ---- */

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                           char *const *, char *const *);

static int spawn(spawn_function *real, pid_t *out, const char *path, const char *file,
                 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const argv[],
                 char *const envp[])
{
   pid_t pid;
   int error = real(&pid, file, actions, attributes, argv, envp);
   if (error)
      return error;
   pw_after_spawn(pid, path);
   if (out)
      *out = pid;
   return 0;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
   static spawn_function *real;
   if (!real)
      real = (spawn_function *)dlsym(RTLD_NEXT, "posix_spawn");
   return spawn(real, pid, path, path, actions, attributes, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
   static spawn_function *real;
   char found[PATH_MAX];
   if (!real)
      real = (spawn_function *)dlsym(RTLD_NEXT, "posix_spawnp");
   return spawn(real, pid, search(file, found), file, actions, attributes, argv, envp);
}

/* The C library's shell, whose number only the C library knows. */
EXPORT int system(const char *command)
{
   static int (*real)(const char *);
   if (!real)
      real = (int (*)(const char *))dlsym(RTLD_NEXT, "system");
   if (command)
      pw_after_spawn(0, "/bin/sh");
   return real(command);
}

EXPORT FILE *popen(const char *command, const char *mode)
{
   static FILE *(*real)(const char *, const char *);
   if (!real)
      real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "popen");
   pw_after_spawn(0, "/bin/sh");
   return real(command, mode);
}

/* ---- calls by their numbers, and what sets a filter of system calls: what is refused to the program, is to the runtime ---- */

static long any_call(long number, long a, long b, long c, long d, long e, long f)
{
   int is_filter = pw_sets_filter(number, (uint64_t)a);
   if (is_filter)
      pw_before_filter();
   if (number == SYS_exit_group)
      pw_end_process();
   long result = pw_syscall(number, a, b, c, d, e, f);
   if (!is_error(result))
      return result;
   if (is_filter)
      pw_after_filter();
   errno = (int)-result;
   return -1;
}

EXPORT int prctl(int option, ...)
{
   va_list more;
   va_start(more, option);
   long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long), d = va_arg(more, long);
   va_end(more);
   return (int)any_call(SYS_prctl, option, a, b, c, d, 0);
}

EXPORT long syscall(long number, ...)
{
   va_list more;
   va_start(more, number);
   long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long), d = va_arg(more, long);
   long e = va_arg(more, long), f = va_arg(more, long);
   va_end(more);
   return any_call(number, a, b, c, d, e, f);
}

/* ---- the beginning and the end ---- */

/* PAGEWALK_CHANNEL=descriptor:inode, set by the pagewalk command. */
HIDDEN const char *pw_channel_text(void)
{
   return getenv("PAGEWALK_CHANNEL");
}

__attribute__((constructor)) static void library_begin(void)
{
   pw_initialise();
}

__attribute__((destructor)) static void library_end(void)
{
   pw_end_process();
}
