/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The rest of the interface of gcc's and clang's thread sanitizers, which programs call by themselves: annotations, mutexes,
 * fibers, reports, system-call hooks. A program that is built for the sanitizer links with this library and runs. What
 * stands for an access is recorded; what is about races has no effect.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <malloc.h>
#include <stdatomic.h>
#include <sys/syscall.h>

/* Programs, and the sanitizers' headers, declare these functions themselves. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* ---- accesses, with the caller's address ---- */

#define WITH_CALLER(bytes)                                                                                             \
   EXPORT void __tsan_read##bytes##_pc(void *address, void *caller)                                                    \
   {                                                                                                                   \
      (void)caller;                                                                                                    \
      pw_record(address, pw_record_tag(bytes, 0));                                                                     \
   }                                                                                                                   \
   EXPORT void __tsan_write##bytes##_pc(void *address, void *caller)                                                   \
   {                                                                                                                   \
      (void)caller;                                                                                                    \
      pw_record(address, pw_record_tag(bytes, 1));                                                                     \
   }
WITH_CALLER(1)
WITH_CALLER(2)
WITH_CALLER(4)
WITH_CALLER(8)
WITH_CALLER(16)

EXPORT void __tsan_read_range_pc(void *address, size_t bytes, void *caller)
{
   (void)caller;
   pw_record_range(address, bytes, 0);
}

EXPORT void __tsan_write_range_pc(void *address, size_t bytes, void *caller)
{
   (void)caller;
   pw_record_range(address, bytes, 1);
}

/* Accesses that are performed as well. */
#define UNALIGNED(bits)                                                                                                \
   typedef uint##bits##_t unaligned##bits __attribute__((aligned(1), may_alias));                                      \
   EXPORT uint##bits##_t __sanitizer_unaligned_load##bits(const void *address)                                         \
   {                                                                                                                   \
      pw_record(address, pw_record_tag(bits / 8, 0));                                                                  \
      return *(const unaligned##bits *)address;                                                                        \
   }                                                                                                                   \
   EXPORT void __sanitizer_unaligned_store##bits(void *address, uint##bits##_t value)                                  \
   {                                                                                                                   \
      pw_record(address, pw_record_tag(bits / 8, 1));                                                                  \
      *(unaligned##bits *)address = value;                                                                             \
   }
UNALIGNED(16)
UNALIGNED(32)
UNALIGNED(64)

/* The sanitizer's own copies, of which it does not tell itself. */
EXPORT void *__sanitizer_internal_memcpy(void *to, const void *from, size_t bytes)
{
   char *t = to;
   for (const char *f = from; bytes > 0; bytes--)
      *t++ = *f++;
   return to;
}

EXPORT void *__sanitizer_internal_memmove(void *to, const void *from, size_t bytes)
{
   char *t = to;
   const char *f = from;
   if (t <= f)
      return __sanitizer_internal_memcpy(to, from, bytes);
   while (bytes-- > 0)
      t[bytes] = f[bytes];
   return to;
}

EXPORT void *__sanitizer_internal_memset(void *to, int value, size_t bytes)
{
   for (char *t = to; bytes > 0; bytes--)
      *t++ = (char)value;
   return to;
}

/* ---- fibers: names only; an access belongs to the thread that makes it ---- */

static __thread char thread_as_fiber __attribute__((tls_model("initial-exec")));
static __thread void *fiber __attribute__((tls_model("initial-exec")));

EXPORT void *__tsan_get_current_fiber(void)
{
   return fiber ? fiber : &thread_as_fiber;
}

EXPORT void *__tsan_create_fiber(unsigned flags)
{
   (void)flags;
   return malloc(1);
}

EXPORT void __tsan_destroy_fiber(void *which)
{
   free(which);
}

EXPORT void __tsan_switch_to_fiber(void *which, unsigned flags)
{
   (void)flags;
   fiber = which == &thread_as_fiber ? NULL : which;
}

/* ---- the sanitizer's test barrier: the number of threads, and how many have come ---- */

EXPORT void __tsan_testonly_barrier_init(_Atomic uint64_t *barrier, uint32_t threads)
{
   atomic_store(barrier, (uint64_t)threads << 32);
}

EXPORT void __tsan_testonly_barrier_wait(_Atomic uint64_t *barrier)
{
   uint64_t before = atomic_fetch_add(barrier, 1);
   uint32_t threads = (uint32_t)(before >> 32), round = (uint32_t)before / (threads ? threads : 1);
   while (threads && (uint32_t)atomic_load(barrier) / threads == round)
      pw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/* ---- questions that have an answer ---- */

EXPORT size_t __sanitizer_get_allocated_size(const void *block)
{
   return malloc_usable_size((void *)block);
}

EXPORT size_t __sanitizer_get_allocated_size_fast(const void *block)
{
   return malloc_usable_size((void *)block);
}

EXPORT size_t __sanitizer_get_estimated_allocated_size(size_t bytes)
{
   return bytes;
}

EXPORT int __sanitizer_get_ownership(const void *block)
{
   return block != NULL;
}

EXPORT int __sanitizer_acquire_crash_state(void)
{
   static atomic_int taken;
   return !atomic_exchange(&taken, 1);
}

EXPORT const char *__sanitizer_get_report_path(void)
{
   return "stderr";
}

EXPORT int __sanitizer_get_module_and_offset_for_pc(void *pc, char *path, size_t bytes, void **offset)
{
   (void)pc, (void)offset;
   if (bytes)
      *path = 0;
   return 0;
}

EXPORT void __sanitizer_symbolize_pc(void *pc, const char *format, char *out, size_t bytes)
{
   (void)pc, (void)format;
   if (bytes)
      *out = 0;
}

EXPORT void __sanitizer_symbolize_global(void *address, const char *format, char *out, size_t bytes)
{
   __sanitizer_symbolize_pc(address, format, out, bytes);
}

EXPORT void *__tsan_external_register_tag(const char *name)
{
   (void)name;
   return &thread_as_fiber;
}

/* A program may define these itself. */
EXPORT __attribute__((weak)) const char *__tsan_default_options(void)
{
   return "";
}

EXPORT __attribute__((weak)) const char *__tsan_default_suppressions(void)
{
   return "";
}

/* ---- of no interest: 0, whatever the arguments ---- */

#define NOTHING(name)                                                                                                  \
   EXPORT __attribute__((weak)) long name(void)                                                                        \
   {                                                                                                                   \
      return 0;                                                                                                        \
   }

NOTHING(AnnotateBenignRace) NOTHING(AnnotateBenignRaceSized) NOTHING(AnnotateCondVarSignal)
NOTHING(AnnotateCondVarSignalAll) NOTHING(AnnotateCondVarWait) NOTHING(AnnotateEnableRaceDetection)
NOTHING(AnnotateExpectRace) NOTHING(AnnotateFlushExpectedRaces) NOTHING(AnnotateFlushState)
NOTHING(AnnotateHappensAfter) NOTHING(AnnotateHappensBefore) NOTHING(AnnotateIgnoreReadsBegin)
NOTHING(AnnotateIgnoreReadsEnd) NOTHING(AnnotateIgnoreSyncBegin) NOTHING(AnnotateIgnoreSyncEnd)
NOTHING(AnnotateIgnoreWritesBegin) NOTHING(AnnotateIgnoreWritesEnd) NOTHING(AnnotateMemoryIsInitialized)
NOTHING(AnnotateMemoryIsUninitialized) NOTHING(AnnotateMutexIsNotPHB) NOTHING(AnnotateMutexIsUsedAsCondVar)
NOTHING(AnnotateNewMemory) NOTHING(AnnotateNoOp) NOTHING(AnnotatePCQCreate) NOTHING(AnnotatePCQDestroy)
NOTHING(AnnotatePCQGet) NOTHING(AnnotatePCQPut) NOTHING(AnnotatePublishMemoryRange) NOTHING(AnnotateRWLockAcquired)
NOTHING(AnnotateRWLockCreate) NOTHING(AnnotateRWLockCreateStatic) NOTHING(AnnotateRWLockDestroy)
NOTHING(AnnotateRWLockReleased) NOTHING(AnnotateThreadName) NOTHING(AnnotateTraceMemory)
NOTHING(AnnotateUnpublishMemoryRange) NOTHING(RunningOnValgrind) NOTHING(ThreadSanitizerQuery)
NOTHING(ValgrindSlowdown) NOTHING(WTFAnnotateBenignRaceSized) NOTHING(WTFAnnotateHappensAfter)
NOTHING(WTFAnnotateHappensBefore) NOTHING(__sanitizer_cov_8bit_counters_init) NOTHING(__sanitizer_cov_bool_flag_init)
NOTHING(__sanitizer_cov_dump) NOTHING(__sanitizer_cov_pcs_init) NOTHING(__sanitizer_cov_reset)
NOTHING(__sanitizer_cov_trace_cmp) NOTHING(__sanitizer_cov_trace_cmp1) NOTHING(__sanitizer_cov_trace_cmp2)
NOTHING(__sanitizer_cov_trace_cmp4) NOTHING(__sanitizer_cov_trace_cmp8) NOTHING(__sanitizer_cov_trace_const_cmp1)
NOTHING(__sanitizer_cov_trace_const_cmp2) NOTHING(__sanitizer_cov_trace_const_cmp4)
NOTHING(__sanitizer_cov_trace_const_cmp8) NOTHING(__sanitizer_cov_trace_div4) NOTHING(__sanitizer_cov_trace_div8)
NOTHING(__sanitizer_cov_trace_gep) NOTHING(__sanitizer_cov_trace_switch) NOTHING(__sanitizer_dump_coverage)
NOTHING(__sanitizer_dump_trace_pc_guard_coverage) NOTHING(__sanitizer_free_hook)
NOTHING(__sanitizer_get_allocated_begin) NOTHING(__sanitizer_get_current_allocated_bytes)
NOTHING(__sanitizer_get_free_bytes) NOTHING(__sanitizer_get_heap_size) NOTHING(__sanitizer_get_unmapped_bytes)
NOTHING(__sanitizer_ignore_free_hook) NOTHING(__sanitizer_install_malloc_and_free_hooks)
NOTHING(__sanitizer_malloc_hook) NOTHING(__sanitizer_on_print) NOTHING(__sanitizer_print_stack_trace)
NOTHING(__sanitizer_purge_allocator) NOTHING(__sanitizer_report_error_summary) NOTHING(__sanitizer_sandbox_on_notify)
NOTHING(__sanitizer_set_death_callback) NOTHING(__sanitizer_set_report_fd) NOTHING(__sanitizer_set_report_path)
NOTHING(__sanitizer_weak_hook_memcmp) NOTHING(__sanitizer_weak_hook_memmem) NOTHING(__sanitizer_weak_hook_strcasecmp)
NOTHING(__sanitizer_weak_hook_strcasestr) NOTHING(__sanitizer_weak_hook_strcmp)
NOTHING(__sanitizer_weak_hook_strncasecmp) NOTHING(__sanitizer_weak_hook_strncmp)
NOTHING(__sanitizer_weak_hook_strstr) NOTHING(__tsan_acquire) NOTHING(__tsan_check_no_mutexes_held)
NOTHING(__tsan_external_assign_tag) NOTHING(__tsan_external_read) NOTHING(__tsan_external_register_header)
NOTHING(__tsan_external_write) NOTHING(__tsan_flush_memory) NOTHING(__tsan_get_alloc_stack)
NOTHING(__tsan_get_current_report) NOTHING(__tsan_get_report_data) NOTHING(__tsan_get_report_loc)
NOTHING(__tsan_get_report_loc_object_type) NOTHING(__tsan_get_report_mop) NOTHING(__tsan_get_report_mutex)
NOTHING(__tsan_get_report_stack) NOTHING(__tsan_get_report_tag) NOTHING(__tsan_get_report_thread)
NOTHING(__tsan_get_report_unique_tid) NOTHING(__tsan_java_acquire) NOTHING(__tsan_java_alloc)
NOTHING(__tsan_java_finalize) NOTHING(__tsan_java_find) NOTHING(__tsan_java_fini) NOTHING(__tsan_java_free)
NOTHING(__tsan_java_init) NOTHING(__tsan_java_move) NOTHING(__tsan_java_mutex_lock)
NOTHING(__tsan_java_mutex_lock_rec) NOTHING(__tsan_java_mutex_read_lock) NOTHING(__tsan_java_mutex_read_unlock)
NOTHING(__tsan_java_mutex_unlock) NOTHING(__tsan_java_mutex_unlock_rec) NOTHING(__tsan_java_release)
NOTHING(__tsan_java_release_store) NOTHING(__tsan_locate_address) NOTHING(__tsan_mutex_create)
NOTHING(__tsan_mutex_destroy) NOTHING(__tsan_mutex_post_divert) NOTHING(__tsan_mutex_post_lock)
NOTHING(__tsan_mutex_post_signal) NOTHING(__tsan_mutex_post_unlock) NOTHING(__tsan_mutex_pre_divert)
NOTHING(__tsan_mutex_pre_lock) NOTHING(__tsan_mutex_pre_signal) NOTHING(__tsan_mutex_pre_unlock)
NOTHING(__tsan_on_report) NOTHING(__tsan_on_thread_idle) NOTHING(__tsan_release) NOTHING(__tsan_set_fiber_name)
NOTHING(__tsan_symbolize_external) NOTHING(__tsan_symbolize_external_ex)
NOTHING(__tsan_testonly_shadow_stack_current_size)

/* Before and after each system call. */
#define HOOKS(call) NOTHING(__sanitizer_syscall_pre_impl_##call) NOTHING(__sanitizer_syscall_post_impl_##call)

HOOKS(accept) HOOKS(accept4) HOOKS(access) HOOKS(acct) HOOKS(add_key) HOOKS(adjtimex) HOOKS(alarm) HOOKS(bdflush)
HOOKS(bind) HOOKS(brk) HOOKS(capget) HOOKS(capset) HOOKS(chdir) HOOKS(chmod) HOOKS(chown) HOOKS(chroot)
HOOKS(clock_adjtime) HOOKS(clock_getres) HOOKS(clock_gettime) HOOKS(clock_nanosleep) HOOKS(clock_settime) HOOKS(close)
HOOKS(connect) HOOKS(creat) HOOKS(delete_module) HOOKS(dup) HOOKS(dup2) HOOKS(dup3) HOOKS(epoll_create)
HOOKS(epoll_create1) HOOKS(epoll_ctl) HOOKS(epoll_pwait) HOOKS(epoll_pwait2) HOOKS(epoll_wait) HOOKS(eventfd)
HOOKS(eventfd2) HOOKS(exit) HOOKS(exit_group) HOOKS(faccessat) HOOKS(fchdir) HOOKS(fchmod) HOOKS(fchmodat)
HOOKS(fchmodat2) HOOKS(fchown) HOOKS(fchownat) HOOKS(fcntl) HOOKS(fcntl64) HOOKS(fdatasync) HOOKS(fgetxattr)
HOOKS(flistxattr) HOOKS(flock) HOOKS(fork) HOOKS(fremovexattr) HOOKS(fsetxattr) HOOKS(fstat) HOOKS(fstat64)
HOOKS(fstatat64) HOOKS(fstatfs) HOOKS(fstatfs64) HOOKS(fsync) HOOKS(ftruncate) HOOKS(futex) HOOKS(futimesat)
HOOKS(get_mempolicy) HOOKS(get_robust_list) HOOKS(getcpu) HOOKS(getcwd) HOOKS(getdents) HOOKS(getdents64)
HOOKS(getegid) HOOKS(geteuid) HOOKS(getgid) HOOKS(getgroups) HOOKS(gethostname) HOOKS(getitimer) HOOKS(getpeername)
HOOKS(getpgid) HOOKS(getpgrp) HOOKS(getpid) HOOKS(getppid) HOOKS(getpriority) HOOKS(getrandom) HOOKS(getresgid)
HOOKS(getresuid) HOOKS(getrlimit) HOOKS(getrusage) HOOKS(getsid) HOOKS(getsockname) HOOKS(getsockopt) HOOKS(gettid)
HOOKS(gettimeofday) HOOKS(getuid) HOOKS(getxattr) HOOKS(init_module) HOOKS(inotify_add_watch) HOOKS(inotify_init)
HOOKS(inotify_init1) HOOKS(inotify_rm_watch) HOOKS(io_cancel) HOOKS(io_destroy) HOOKS(io_getevents) HOOKS(io_setup)
HOOKS(io_submit) HOOKS(ioctl) HOOKS(ioperm) HOOKS(ioprio_get) HOOKS(ioprio_set) HOOKS(ipc) HOOKS(kexec_load)
HOOKS(keyctl) HOOKS(kill) HOOKS(lchown) HOOKS(lgetxattr) HOOKS(link) HOOKS(linkat) HOOKS(listen) HOOKS(listxattr)
HOOKS(llistxattr) HOOKS(llseek) HOOKS(lookup_dcookie) HOOKS(lremovexattr) HOOKS(lseek) HOOKS(lsetxattr) HOOKS(lstat)
HOOKS(lstat64) HOOKS(madvise) HOOKS(mbind) HOOKS(migrate_pages) HOOKS(mincore) HOOKS(mkdir) HOOKS(mkdirat)
HOOKS(mknod) HOOKS(mknodat) HOOKS(mlock) HOOKS(mlockall) HOOKS(mmap_pgoff) HOOKS(mount) HOOKS(move_pages)
HOOKS(mprotect) HOOKS(mq_getsetattr) HOOKS(mq_notify) HOOKS(mq_open) HOOKS(mq_timedreceive) HOOKS(mq_timedsend)
HOOKS(mq_unlink) HOOKS(mremap) HOOKS(msgctl) HOOKS(msgget) HOOKS(msgrcv) HOOKS(msgsnd) HOOKS(msync) HOOKS(munlock)
HOOKS(munlockall) HOOKS(munmap) HOOKS(name_to_handle_at) HOOKS(nanosleep) HOOKS(newfstat) HOOKS(newfstatat)
HOOKS(newlstat) HOOKS(newstat) HOOKS(newuname) HOOKS(ni_syscall) HOOKS(nice) HOOKS(old_getrlimit) HOOKS(old_mmap)
HOOKS(old_readdir) HOOKS(old_select) HOOKS(oldumount) HOOKS(olduname) HOOKS(open) HOOKS(open_by_handle_at)
HOOKS(openat) HOOKS(pause) HOOKS(pciconfig_iobase) HOOKS(pciconfig_read) HOOKS(pciconfig_write) HOOKS(perf_event_open)
HOOKS(personality) HOOKS(pipe) HOOKS(pipe2) HOOKS(pivot_root) HOOKS(poll) HOOKS(ppoll) HOOKS(pread64) HOOKS(preadv)
HOOKS(prlimit64) HOOKS(process_vm_readv) HOOKS(process_vm_writev) HOOKS(pselect6) HOOKS(ptrace) HOOKS(pwrite64)
HOOKS(pwritev) HOOKS(quotactl) HOOKS(read) HOOKS(readlink) HOOKS(readlinkat) HOOKS(readv) HOOKS(reboot) HOOKS(recv)
HOOKS(recvfrom) HOOKS(recvmmsg) HOOKS(recvmsg) HOOKS(remap_file_pages) HOOKS(removexattr) HOOKS(rename)
HOOKS(renameat) HOOKS(request_key) HOOKS(restart_syscall) HOOKS(rmdir) HOOKS(rt_sigaction) HOOKS(rt_sigpending)
HOOKS(rt_sigprocmask) HOOKS(rt_sigqueueinfo) HOOKS(rt_sigtimedwait) HOOKS(rt_tgsigqueueinfo)
HOOKS(sched_get_priority_max) HOOKS(sched_get_priority_min) HOOKS(sched_getaffinity) HOOKS(sched_getparam)
HOOKS(sched_getscheduler) HOOKS(sched_rr_get_interval) HOOKS(sched_setaffinity) HOOKS(sched_setparam)
HOOKS(sched_setscheduler) HOOKS(sched_yield) HOOKS(select) HOOKS(semctl) HOOKS(semget) HOOKS(semop) HOOKS(semtimedop)
HOOKS(send) HOOKS(sendfile) HOOKS(sendfile64) HOOKS(sendmmsg) HOOKS(sendmsg) HOOKS(sendto) HOOKS(set_mempolicy)
HOOKS(set_robust_list) HOOKS(set_tid_address) HOOKS(setdomainname) HOOKS(setfsgid) HOOKS(setfsuid) HOOKS(setgid)
HOOKS(setgroups) HOOKS(sethostname) HOOKS(setitimer) HOOKS(setns) HOOKS(setpgid) HOOKS(setpriority) HOOKS(setregid)
HOOKS(setresgid) HOOKS(setresuid) HOOKS(setreuid) HOOKS(setrlimit) HOOKS(setsid) HOOKS(setsockopt) HOOKS(settimeofday)
HOOKS(setuid) HOOKS(setxattr) HOOKS(sgetmask) HOOKS(shmat) HOOKS(shmctl) HOOKS(shmdt) HOOKS(shmget) HOOKS(shutdown)
HOOKS(sigaction) HOOKS(sigaltstack) HOOKS(signal) HOOKS(signalfd) HOOKS(signalfd4) HOOKS(sigpending)
HOOKS(sigprocmask) HOOKS(socket) HOOKS(socketcall) HOOKS(socketpair) HOOKS(splice) HOOKS(spu_create) HOOKS(spu_run)
HOOKS(ssetmask) HOOKS(stat) HOOKS(stat64) HOOKS(statfs) HOOKS(statfs64) HOOKS(stime) HOOKS(swapoff) HOOKS(swapon)
HOOKS(symlink) HOOKS(symlinkat) HOOKS(sync) HOOKS(syncfs) HOOKS(sysctl) HOOKS(sysfs) HOOKS(sysinfo) HOOKS(syslog)
HOOKS(tee) HOOKS(tgkill) HOOKS(time) HOOKS(timer_create) HOOKS(timer_delete) HOOKS(timer_getoverrun)
HOOKS(timer_gettime) HOOKS(timer_settime) HOOKS(timerfd_create) HOOKS(timerfd_gettime) HOOKS(timerfd_settime)
HOOKS(times) HOOKS(tkill) HOOKS(truncate) HOOKS(umask) HOOKS(umount) HOOKS(uname) HOOKS(unlink) HOOKS(unlinkat)
HOOKS(unshare) HOOKS(uselib) HOOKS(ustat) HOOKS(utime) HOOKS(utimensat) HOOKS(utimes) HOOKS(vfork) HOOKS(vhangup)
HOOKS(vmsplice) HOOKS(wait4) HOOKS(waitid) HOOKS(waitpid) HOOKS(write) HOOKS(writev)
