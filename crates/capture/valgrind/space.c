/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Address-space events: what the program finds mapped when it starts, and every system call that changes it.
 *
 * Only the program's own mappings are reported; Valgrind's live in the same address space but are no business of
 * a memory system under study. Lengths go out as the program gave them; rounding to pages is the reader's work.
 */
#include "pagewalk.h"

#include "../protocol/system.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

#define CLIENT_SEGMENTS (SkFileC | SkAnonC | SkShmC)

/* Of the system's interface, unknown to Valgrind 3.19's headers. */
#define REMAP_DONTUNMAP 4
#define MAP_FIXED_NOREPLACE_BIT 0x100000
#define AT_EMPTY_PATH_BIT 0x1000
#define LIMIT_OF_FILES 7
#define CALL_RSEQ 334
#define CALL_CLONE3 435
/* What a program reserves rather than uses. */
#define RESERVATION (16ul << 30)

/* The lowest announced address of the main thread's stack and an address that stays inside it. */
static Addr stack_low, stack_inside;
/* The heap segment, once the program has asked for it. */
static Addr heap_start, heap_end;
/* What shmdt will detach: looked up before the call, because afterwards it is gone. */
static Addr detach_start;
static SizeT detach_bytes;

static UWord protection_bits(const NSegment *segment)
{
   return (segment->hasR ? VKI_PROT_READ : 0) | (segment->hasW ? VKI_PROT_WRITE : 0)
      | (segment->hasX ? VKI_PROT_EXEC : 0);
}

/* What is mapped at `start` now, if it is a file's, tells which file that is. */
static void send_map(Addr start, SizeT bytes, UWord protection, UWord flags)
{
   ULong payload[PW_MAP_WORDS] = { start, bytes, protection, flags, 0, 0, 0 };
   const NSegment *segment = VG_(am_find_nsegment)(start);
   if (!(flags & VKI_MAP_ANONYMOUS) && segment && segment->kind == SkFileC) {
      payload[4] = segment->dev;
      payload[5] = segment->ino;
      payload[6] = segment->offset + (start - segment->start);
   }
   pw_send(PW_MAP, payload, PW_MAP_WORDS);
}

static void send_segment(const NSegment *segment)
{
   UWord flags = segment->kind == SkShmC ? VKI_MAP_SHARED | VKI_MAP_ANONYMOUS
      : segment->kind == SkFileC         ? VKI_MAP_PRIVATE
                                         : VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS;
   send_map(segment->start, segment->end + 1 - segment->start, protection_bits(segment), flags);
}

/* Valgrind sets one page aside where the heap will begin. The program has no heap before its first brk. */
static Bool is_heap_placeholder(const NSegment *segment)
{
   if (segment->kind != SkAnonC || segment->end + 1 - segment->start != VKI_PAGE_SIZE)
      return False;
   const NSegment *above = VG_(am_find_nsegment)(segment->end + 1);
   return above && above->kind == SkResvn && above->smode == SmLower;
}

/* Everything that is mapped before the first instruction: the program, its loader, its stack. */
void pw_space_initial(ThreadId tid)
{
   /* A negative answer is the room it would take; the allocation itself may add a segment, so ask again. */
   Int room = 64, found;
   Addr *starts = VG_(malloc)("pagewalk.segments", room * sizeof *starts);
   while ((found = VG_(am_get_segment_starts)(CLIENT_SEGMENTS, starts, room)) < 0) {
      room = 16 - found;
      VG_(free)(starts);
      starts = VG_(malloc)("pagewalk.segments", room * sizeof *starts);
   }
   for (Int i = 0; i < found; i++) {
      const NSegment *segment = VG_(am_find_nsegment)(starts[i]);
      if (segment && (segment->kind & CLIENT_SEGMENTS) && !is_heap_placeholder(segment))
         send_segment(segment);
   }
   VG_(free)(starts);
   stack_inside = VG_(get_SP)(tid);
   const NSegment *stack = VG_(am_find_nsegment)(stack_inside);
   if (stack)
      stack_low = stack->start;
}

/* The main stack grows without a system call. It is looked at before records are sent, so a page of it is always
 * announced before its first access. */
void pw_space_stack_growth(void)
{
   const NSegment *stack = VG_(am_find_nsegment)(stack_inside);
   if (!stack_low || !stack || stack->kind != SkAnonC || stack->start >= stack_low)
      return;
   Addr old_low = stack_low;
   stack_low = stack->start;
   send_map(stack_low, old_low - stack_low, protection_bits(stack), VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS);
}

void pw_space_before_syscall(ThreadId tid, UInt number, const UWord *args)
{
   if (number != __NR_shmdt)
      return;
   const NSegment *segment = VG_(am_find_nsegment)(args[0]);
   detach_bytes = 0;
   if (segment && segment->kind == SkShmC && segment->start == args[0]) {
      detach_start = segment->start;
      detach_bytes = segment->end + 1 - segment->start;
   }
}

static void after_remap(const UWord *args, UWord result)
{
   ULong payload[5] = { args[0], args[1], result, args[2], args[3] };
   pw_send(PW_REMAP, payload, 5);
}

static void after_break(UWord result)
{
   if (heap_start == 0)
      heap_start = result; /* the first call asks where it is */
   else if (result == heap_end)
      return;
   heap_end = result;
   ULong payload[2] = { heap_start, heap_end };
   pw_send(PW_BREAK, payload, 2);
}

static void after_attach(UWord identifier, UWord result)
{
   const NSegment *segment = VG_(am_find_nsegment)(result);
   if (!segment || segment->kind != SkShmC)
      return;
   ULong payload[PW_MAP_WORDS] = { segment->start, segment->end + 1 - segment->start, protection_bits(segment),
                                   VKI_MAP_SHARED | VKI_MAP_ANONYMOUS, PW_DEVICE_SHM, identifier, 0 };
   pw_send(PW_MAP, payload, PW_MAP_WORDS);
}

static void send_lock(const UWord *args, ULong how)
{
   ULong payload[3] = { args[0], args[1], how };
   pw_send(PW_LOCK, payload, 3);
}

static void send_lock_all(ULong flags)
{
   pw_send(PW_LOCK_ALL, &flags, 1);
}

/* Says once what the program finds different here. */
#define SAY_ONCE(...)                                                                                                  \
   do {                                                                                                                \
      static Bool is_said = False;                                                                                     \
      if (!is_said)                                                                                                    \
         VG_(umsg)(__VA_ARGS__);                                                                                       \
      is_said = True;                                                                                                  \
   } while (0)

/* A call that Valgrind has no wrapper for. C libraries ask for two of them, and do without. */
static void explain_unknown(UInt number)
{
   static UChar is_said[1024];
   Bool is_usual = number == CALL_RSEQ || number == CALL_CLONE3;
   if (is_usual || number >= sizeof is_said || is_said[number])
      return;
   is_said[number] = 1;
   VG_(umsg)("system call %u failed: Valgrind does not know it; --frontend callout passes it on\n", number);
}

/* Calls that end otherwise than they would without Valgrind: the program may have no other way, and its user must know. */
void pw_space_explain(UInt number, const UWord *args, SysRes result)
{
   Bool is_error = sr_isError(result);
   if (pw_sets_filter(number, args[0]) && is_error && number == PW_CALL_SECCOMP)
      SAY_ONCE("seccomp failed: Valgrind does not know it; --frontend callout does\n");
   if (number == __NR_mremap && is_error && args[3] & REMAP_DONTUNMAP)
      SAY_ONCE("mremap with MREMAP_DONTUNMAP failed: Valgrind does not know it; --frontend callout and --frontend qemu do\n");
   if (number == __NR_mmap && is_error && args[1] >= RESERVATION)
      SAY_ONCE("mmap of %lu GiB failed: under Valgrind addresses end at 128 GiB; --frontend callout and --frontend qemu have "
               "all of them\n",
               args[1] >> 30);
   if (number == __NR_mmap && !is_error && args[3] & MAP_FIXED_NOREPLACE_BIT && sr_Res(result) != args[0])
      SAY_ONCE("mmap with MAP_FIXED_NOREPLACE gave another address instead of an error: Valgrind does not know the flag; "
               "--frontend callout does\n");
   if (number == __NR_execveat && is_error && sr_Err(result) == VKI_ENOENT && args[4] & AT_EMPTY_PATH_BIT)
      SAY_ONCE("execveat of a program that has no name in the file system failed: Valgrind opens programs by their names; "
               "--frontend qemu does not need any\n");
   if (is_error && sr_Err(result) == VKI_ENOSYS)
      explain_unknown(number);
   Bool lowers_files = number == __NR_setrlimit ? args[0] == LIMIT_OF_FILES
      : number == __NR_prlimit64                ? args[1] == LIMIT_OF_FILES && args[2] != 0
                                                : False;
   if (lowers_files && is_error && sr_Err(result) == VKI_EPERM)
      SAY_ONCE("the hard limit of open files could not be changed: Valgrind keeps the highest descriptors for itself; --frontend "
               "qemu and --frontend callout change it\n");
}

/* A call that succeeded. The caller has flushed. */
void pw_space_after_syscall(ThreadId tid, UInt number, const UWord *args, UWord result)
{
   ULong range[3] = { args[0], args[1], args[2] };
   switch (number) {
   case __NR_mmap:
      send_map(result, args[1], args[2], args[3]);
      break;
   case __NR_munmap:
      pw_send(PW_UNMAP, range, 2);
      break;
   case __NR_mprotect:
#ifdef __NR_pkey_mprotect
   case __NR_pkey_mprotect:
#endif
      pw_send(PW_PROTECT, range, 3);
      break;
   case __NR_madvise:
      pw_send(PW_ADVISE, range, 3);
      break;
   case __NR_mremap:
      after_remap(args, result);
      break;
   case __NR_brk:
      after_break(result);
      break;
   case __NR_shmat:
      after_attach(args[0], result);
      break;
   case __NR_shmdt:
      if (detach_bytes) {
         ULong detached[2] = { detach_start, detach_bytes };
         pw_send(PW_UNMAP, detached, 2);
      }
      break;
   case __NR_mlock:
      send_lock(args, PW_LOCKED);
      break;
#ifdef __NR_mlock2
   case __NR_mlock2:
      send_lock(args, args[2] & 1 /* MLOCK_ONFAULT */ ? PW_LOCKED_ON_FAULT : PW_LOCKED);
      break;
#endif
   case __NR_munlock:
      send_lock(args, PW_UNLOCKED);
      break;
   case __NR_mlockall:
      send_lock_all((UInt)args[0]);
      break;
   case __NR_munlockall:
      send_lock_all(0);
      break;
   default:
      break;
   }
}
