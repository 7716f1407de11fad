/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * pagewalk, a Valgrind tool: sends every data access of a program, its instruction count and the changes of its
 * address space to the pagewalk command. Options, threads and processes.
 */
#include "pagewalk.h"

#include "../protocol/system.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

#define CHANNEL_OPTION "--channel="
#define CHANNEL_DIGITS 10

static Long option_channel = -1;
static Long option_channel_inode = -1;
static Bool option_discard = False;
Bool pw_wants_blocks = False;

/* Our number of each of Valgrind's threads; Valgrind uses its own numbers again after a thread's end. */
static UInt *thread_number;
/* Where the call of each thread receives a message; 0 for all other calls. */
static Addr *receives_at;
static UInt threads_created = 1;
static Bool started = False;
static ULong fork_tickets = 0;
static Bool fork_pending = False;
static UInt pid_before_fork;

static Bool process_option(const HChar *arg)
{
   if (VG_INT_CLO(arg, "--channel", option_channel)) {
   } else if (VG_INT_CLO(arg, "--channel-inode", option_channel_inode)) {
   } else if (VG_BOOL_CLO(arg, "--discard", option_discard)) {
   } else if (VG_BOOL_CLO(arg, "--blocks", pw_wants_blocks)) {
   } else
      return False;
   return True;
}

static void print_usage(void)
{
   VG_(printf)("    --channel=NNNNNNNNNN   socket to the pagewalk command, ten digits\n"
               "    --channel-inode=N      its inode number, as a check\n"
               "    --discard=yes|no       build all records, send none (for benchmarks) [no]\n"
               "    --blocks=yes|no        also record which blocks are executed [no]\n");
}

/* Stands in place of the core's function of this name without `__wrap_` (see the Makefile), which reads the line numbers
 * of everything that is mapped, decompresses them and sorts them: half of the time that it takes to start a program. They
 * are for messages that point into the program's source; this tool has none. Names of functions are read as ever. */
void __wrap_vgModuleLocal_read_debuginfo_dwarf3(void);
void __wrap_vgModuleLocal_read_debuginfo_dwarf3(void)
{
}

static void print_debug_usage(void)
{
   VG_(printf)("    (none)\n");
}

/* The tool that follows an exec gets our options again: they must name the socket's new number. */
static void rewrite_channel_option(Int fd)
{
   for (Word i = 0; i < VG_(sizeXA)(VG_(args_for_valgrind)); i++) {
      HChar *arg = *(HChar **)VG_(indexXA)(VG_(args_for_valgrind), i);
      HChar *digits = arg + VG_(strlen)(CHANNEL_OPTION);
      if (VG_(strncmp)(arg, CHANNEL_OPTION, VG_(strlen)(CHANNEL_OPTION)) != 0)
         continue;
      tl_assert(VG_(strlen)(digits) == CHANNEL_DIGITS);
      for (Int place = CHANNEL_DIGITS - 1; place >= 0; place--, fd /= 10)
         digits[place] = '0' + fd % 10;
   }
}

static void post_options(void)
{
   thread_number = VG_(calloc)("pagewalk.threads", VG_N_THREADS + 1, sizeof *thread_number);
   thread_number[1] = 1;
   receives_at = VG_(calloc)("pagewalk.receives", VG_N_THREADS + 1, sizeof *receives_at);
   if (option_discard) {
      pw_channel_discard();
      return;
   }
   Int moved_to = -1;
   if (!pw_channel_open(option_channel, option_channel_inode, &moved_to))
      VG_(fmsg_bad_option)("--channel", "no socket of the pagewalk command; the tool is started by it\n");
   rewrite_channel_option(moved_to);
}

/* ---- threads ---- */

/* Whether `pw_state` is where the thread's code has it. */
static Bool is_running = False;

/* `pw_state` goes to where the thread's code has it, and comes back. */
static void program_runs(ThreadId tid)
{
   is_running = True;
   VG_(set_shadow_regs_area)(tid, 1, 0, sizeof pw_state, (const UChar *)&pw_state);
}

static void program_stops(ThreadId tid)
{
   is_running = False;
   VG_(get_shadow_regs_area)(tid, (UChar *)&pw_state, 1, 0, sizeof pw_state);
}

/* Says that a program begins, once. Its first block is translated before it runs. */
void pw_start(void)
{
   if (started)
      return;
   started = True;
   pw_send(PW_START, NULL, 0);
   pw_space_initial(VG_(get_running_tid)());
}

/* What is recorded from now on is this thread's. */
static void make_current(ThreadId tid)
{
   if (thread_number[tid] != pw_thread) {
      pw_flush();
      pw_thread = thread_number[tid];
   }
}

static void start_client_code(ThreadId tid, ULong blocks)
{
   pw_start();
   make_current(tid);
   program_runs(tid);
}

static void stop_client_code(ThreadId tid, ULong blocks)
{
   program_stops(tid);
}

/* Called by the program's code. */
void pw_flush_running(void)
{
   ThreadId tid = VG_(get_running_tid)();
   program_stops(tid);
   pw_flush();
   program_runs(tid);
}

static void thread_create(ThreadId parent, ThreadId child)
{
   if (parent != VG_INVALID_THREADID)
      thread_number[child] = ++threads_created;
}

static void thread_exit(ThreadId tid)
{
   make_current(tid);
   pw_flush();
   pw_send(PW_THREAD_END, NULL, 0);
}

/* ---- processes ---- */

static void before_fork(ThreadId tid)
{
   ULong ticket = ++fork_tickets;
   pw_flush();
   pw_send(PW_FORK, &ticket, 1);
   fork_pending = True;
   pid_before_fork = VG_(getpid)();
}

static void after_fork_parent(ThreadId tid)
{
}

/* Only the forking thread lives on in the child; there it is the first. */
static void after_fork_child(ThreadId tid)
{
   ULong payload[2] = { pid_before_fork, fork_tickets };
   VG_(memset)(thread_number, 0, (VG_N_THREADS + 1) * sizeof *thread_number);
   thread_number[tid] = 1;
   threads_created = 1;
   pw_thread = 1;
   fork_tickets = 0;
   fork_pending = False;
   pw_channel_after_fork();
   pw_send(PW_FORK_CHILD, payload, 2);
}

/* ---- system calls ---- */

static Bool changes_address_space(UInt number)
{
   switch (number) {
   case __NR_mmap:
   case __NR_munmap:
   case __NR_mprotect:
#ifdef __NR_pkey_mprotect
   case __NR_pkey_mprotect:
#endif
   case __NR_madvise:
   case __NR_mremap:
   case __NR_brk:
   case __NR_shmat:
   case __NR_shmdt:
   case __NR_mlock:
   case __NR_munlock:
   case __NR_mlockall:
   case __NR_munlockall:
#ifdef __NR_mlock2
   case __NR_mlock2:
#endif
      return True;
   default:
      return False;
   }
}

static Bool replaces_program(UInt number)
{
   return number == __NR_execve || number == __NR_execveat;
}

static void send_filter(ULong is_set)
{
   pw_flush();
   pw_send(PW_FILTER, &is_set, 1);
}

/* Results of a system call, and the frame of a signal. Valgrind reports what it writes itself, too: a client request's, a new
 * thread's. */
static void kernel_wrote(CorePart part, ThreadId tid, Addr start, SizeT bytes)
{
   Bool is_kernel = part == Vg_CoreSysCall || part == Vg_CoreSignal;
   /* Of a message that is shorter than its buffer, Valgrind names the whole buffer. */
   if (!started || !is_kernel || bytes == 0 || start == receives_at[tid])
      return;
   /* The frame of a fault's signal is made while the program's code is left in the middle. */
   Bool was_running = is_running;
   if (was_running)
      program_stops(tid);
   make_current(tid);
   pw_record_kernel_write(start, bytes);
   if (was_running)
      program_runs(tid);
}

/* What must be sent now, because there may be no afterwards. */
static void before_syscall(ThreadId tid, UInt number, UWord *args, UInt count)
{
   if (replaces_program(number)) {
      Bool has_folder = number == __NR_execveat;
      pw_flush();
      pw_before_exec(has_folder ? (Int)args[0] : PW_THIS_FOLDER, (const HChar *)args[has_folder]);
   }
   if (pw_sets_filter(number, args[0]))
      send_filter(1);
   receives_at[tid] = number == __NR_recvfrom ? args[1] : 0;
   pw_space_before_syscall(tid, number, args);
}

static void after_syscall(ThreadId tid, UInt number, UWord *args, UInt count, SysRes result)
{
   if (fork_pending) {
      fork_pending = False;
      if (sr_isError(result))
         pw_send(PW_FORK_FAILED, &fork_tickets, 1);
   }
   if (replaces_program(number))
      pw_send(PW_EXEC, NULL, 0);
   if (receives_at[tid]) {
      receives_at[tid] = 0;
      if (!sr_isError(result))
         kernel_wrote(Vg_CoreSysCall, tid, args[1], sr_Res(result) < args[2] ? sr_Res(result) : args[2]);
   }
   if (pw_sets_filter(number, args[0]) && sr_isError(result))
      send_filter(0);
   pw_space_explain(number, args, result);
   if (!sr_isError(result) && changes_address_space(number)) {
      pw_flush();
      pw_space_after_syscall(tid, number, args, sr_Res(result));
   }
}

static void finish(Int exit_code)
{
   if (!pw_channel_is_ready())
      return;
   pw_flush();
   pw_send(PW_END, NULL, 0);
}

static void pre_options(void)
{
   VG_(details_name)("pagewalk");
   VG_(details_version)(NULL);
   VG_(details_description)("the memory accesses of a program");
   VG_(details_copyright_author)("Copyright (C) the Pagewalk authors. GPL-2.0-or-later.");
   VG_(details_bug_reports_to)("the Pagewalk project");
   VG_(details_avg_translation_sizeB)(400);
   VG_(basic_tool_funcs)(post_options, pw_instrument, finish);
   VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
   VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
   /* Beyond the end of a basic block, VEX turns `a && b` into one condition: it marks b's instructions, and leaves out
    * a's branch, whether b is reached or not. Such blocks would count too many instructions. */
   VG_(clo_vex_control).guest_chase = False;
   VG_(track_start_client_code)(start_client_code);
   VG_(track_stop_client_code)(stop_client_code);
   VG_(track_post_mem_write)(kernel_wrote);
   VG_(track_pre_thread_ll_create)(thread_create);
   VG_(track_pre_thread_ll_exit)(thread_exit);
   VG_(atfork)(before_fork, after_fork_parent, after_fork_child);
}

VG_DETERMINE_INTERFACE_VERSION(pre_options)
