/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The pagewalk plugin of QEMU's user-mode emulation: records every data access of a program for any instruction set
 * that QEMU translates, its instruction count and the changes of its address space.
 *
 * QEMU calls a function at each access; there is no way to have it store a record by itself. A guest thread is a host
 * thread, so each has its own buffer, and they run in parallel.
 */
#define _GNU_SOURCE
#include "plugin.h"

#include "../protocol/opcode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

__attribute__((visibility("default"))) int qemu_plugin_version = QEMU_PLUGIN_VERSION;
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                                               char **argv);

/* By their numbers in ELF files. LoongArch is the fourth that the command starts a QEMU for. */
#define MACHINE_X86_64 62
#define MACHINE_AARCH64 183
#define MACHINE_RISCV 243
#define MAP_HUGETLB_BIT 0x40000
#define MAP_FIXED_NOREPLACE_BIT 0x100000
static bool is_x86_64;

static char channel_text[192];

HIDDEN const char *pw_channel_text(void)
{
   return channel_text[0] ? channel_text : NULL;
}

/* ---- accesses ---- */

/* The information word of an access, as QEMU 7 and 8 build it: log2 of the size from bit 4, loads bit 16, stores bit
 * 17. Their accessors are calls for each access and know of no access that is both; `word_is_known` asks them. */
#define INFO_LOAD (1u << 16)
#define INFO_STORE (1u << 17)

static inline uint16_t tag_of(qemu_plugin_meminfo_t info)
{
   return (uint16_t)((info >> 4 & 7) | (info & INFO_STORE) >> 14);
}

static bool word_is_known(void)
{
   for (unsigned log2 = 0; log2 < 8; log2++)
      for (unsigned kind = 1; kind <= 3; kind++) {
         qemu_plugin_meminfo_t info = log2 << 4 | kind << 16;
         uint64_t tag = log2 | (qemu_plugin_mem_is_store(info) ? PW_RECORD_WRITE >> PW_RECORD_SIZE_SHIFT : 0);
         if (qemu_plugin_mem_size_shift(info) != log2 || tag_of(info) != tag)
            return false;
      }
   return true;
}

/* The half word above the address, which is part of a record: without the attribute compilers may take it for another
 * object. */
typedef uint16_t __attribute__((may_alias)) half_of_record;

static inline void store_record(uint64_t *cursor, uint64_t address, qemu_plugin_meminfo_t info)
{
   *cursor = address;
   ((volatile half_of_record *)cursor)[PW_RECORD_SIZE_SHIFT / 16] = tag_of(info);
}

/* The buffer is full, or not there yet, or the access is two: an atomic operation of a program with several threads is
 * one that loads and stores. */
static __attribute__((noinline)) void record_slowly(qemu_plugin_meminfo_t info, uint64_t address)
{
   bool both = info & INFO_LOAD && info & INFO_STORE;
   for (int i = 0; i <= both; i++) {
      uint64_t record;
      store_record(&record, address, i < both ? info & ~INFO_STORE : info);
      if (((uintptr_t)pw_cursor & (BUFFER_BYTES - 1)) == 0)
         pw_record_slowly(pw_cursor, record);
      else
         *pw_cursor++ = record;
   }
}

static void on_access(unsigned processor, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
   (void)processor, (void)data;
   uint64_t *cursor = pw_cursor;
   bool both = (info & (INFO_LOAD | INFO_STORE)) == (INFO_LOAD | INFO_STORE);
   if (UNLIKELY(((uintptr_t)cursor & (BUFFER_BYTES - 1)) == 0 || both)) {
      record_slowly(info, address);
      return;
   }
   store_record(cursor, address, info);
   pw_cursor = cursor + 1;
}

/* ---- accesses that QEMU makes in pieces ---- */

/* What the current instruction has accessed last: QEMU makes accesses of at most 8 bytes, in ascending order, one after
 * the other, of an operand that is wider. */
static __thread struct {
   uint64_t *record; /* NULL: nothing so far */
   uint64_t start;
   uint32_t bytes;
   bool is_store;
} operand;

static void on_instruction(unsigned processor, void *data)
{
   (void)processor, (void)data;
   operand.record = NULL;
}

static void add_operand(uint64_t address, uint32_t bytes, bool is_store)
{
   uint64_t record = address | pw_record_tag(bytes, is_store);
   if (((uintptr_t)pw_cursor & (BUFFER_BYTES - 1)) == 0)
      pw_record_slowly(pw_cursor, record);
   else
      *pw_cursor++ = record;
   operand.record = pw_cursor - 1;
   operand.start = address;
   operand.bytes = bytes;
   operand.is_store = is_store;
}

/* A piece beside the one before it, or in it, in the same direction, is part of the same operand. */
static void on_piece(unsigned processor, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
   (void)processor, (void)data;
   uint32_t bytes = 1u << (info >> 4 & 7);
   for (int is_store = !(info & INFO_LOAD); is_store <= !!(info & INFO_STORE); is_store++)
      if (operand.record == pw_cursor - 1 && operand.is_store == is_store
          && address - operand.start <= operand.bytes && address + bytes - operand.start <= PW_RECORD_BYTES_MAX) {
         if (address + bytes > operand.start + operand.bytes)
            operand.bytes = (uint32_t)(address + bytes - operand.start);
         *operand.record = operand.start | pw_record_tag(operand.bytes, is_store);
      } else
         add_operand(address, bytes, is_store);
}

/* The first access of an instruction to an operand whose width is the lower half of `data`, however QEMU goes on; how far
 * into the operand that access is, is the upper half. */
static void on_known(unsigned processor, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
   (void)processor;
   if (operand.record)
      return;
   uint32_t whole = (uint32_t)(uintptr_t)data;
   address -= (uintptr_t)data >> 32;
   for (uint32_t done = 0; done < whole; done += PW_RECORD_BYTES_MAX)
      add_operand(address + done, whole - done < PW_RECORD_BYTES_MAX ? whole - done : PW_RECORD_BYTES_MAX,
                  info & INFO_STORE);
}

/* Whether an x86-64 instruction with an operand in memory may be one that QEMU accesses in pieces. Elements of gathers and
 * masked stores are accesses of their own; a masked load is one, since QEMU loads all elements, on or off. */
static bool may_have_pieces(const struct pw_opcode *op)
{
   uint8_t code = op->opcode;
   if (pw_is_register(op))
      return false;
   switch (op->map) {
   case 0: /* x87, jumps to another segment, and neg, of which QEMU makes a loop if it is locked */
      return (code & 0xf8) == 0xd8 || (code == 0xff && (pw_middle(op) == 3 || pw_middle(op) == 5))
         || ((code & 0xfe) == 0xf6 && pw_middle(op) == 3);
   case 1: /* not what has general registers only */
      return (code & 0xf0) != 0x40 && (code & 0xf0) != 0x80 && (code & 0xf0) != 0x90;
   case 2:
      return !op->is_vex || !(code == 0x2e || code == 0x2f || code == 0x8e || (code >= 0x90 && code <= 0x93));
   default:
      return true;
   }
}

static void watch_x86_64(struct qemu_plugin_insn *instruction)
{
   struct pw_opcode op = pw_decode(qemu_plugin_insn_data(instruction), (uint32_t)qemu_plugin_insn_size(instruction));
   uintptr_t known = pw_operand_bytes(&op);
   if (op.map == 0 && op.opcode == 0xdf) /* fbld, fbstp begin at the other end */
      known |= known ? (pw_middle(&op) == 4 ? 8ull : 9ull) << 32 : 0;
   bool has_pieces = known || may_have_pieces(&op);
   if (has_pieces)
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_instruction, QEMU_PLUGIN_CB_NO_REGS, NULL);
   qemu_plugin_register_vcpu_mem_cb(instruction, known ? on_known : has_pieces ? on_piece : on_access,
                                    QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, (void *)known);
}

/* ---- blocks ---- */

static bool wants_blocks;
static enum pw_isa isa;

/* As many as QEMU translates at a time: a thread that leaves a block early, by a fault, has been counted to its end. */
static void on_block(unsigned processor, void *instructions)
{
   (void)processor;
   pw_instructions += (uintptr_t)instructions;
}

static void on_known_block(unsigned processor, void *number)
{
   uint64_t record = PW_RECORD_BLOCK((uintptr_t)number);
   (void)processor;
   /* The instruction that begins may join no access before the block. */
   operand.record = NULL;
   if (((uintptr_t)pw_cursor & (BUFFER_BYTES - 1)) == 0)
      pw_record_slowly(pw_cursor, record);
   else
      *pw_cursor++ = record;
}

/* Copies the instructions of a block; returns how many bytes they are, 0 if they are too many. */
static uint32_t copy_code(const struct qemu_plugin_tb *block, uint8_t *to)
{
   uint32_t bytes = 0;
   for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
      const struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
      uint32_t size = (uint32_t)qemu_plugin_insn_size(instruction);
      if (bytes + size > PW_CODE_BYTES_MAX)
         return 0;
      memcpy(to + bytes, qemu_plugin_insn_data(instruction), size);
      bytes += size;
   }
   return bytes;
}

static void watch_block(struct qemu_plugin_tb *block)
{
   uintptr_t count = qemu_plugin_tb_n_insns(block);
   uint64_t code[PW_CODE_BYTES_MAX / sizeof(uint64_t)];
   uint32_t bytes = wants_blocks ? copy_code(block, (uint8_t *)code) : 0;
   if (bytes == 0) {
      qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS, (void *)count);
      return;
   }
   uint64_t address = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0));
   uintptr_t number = pw_send_code(isa, address, code, bytes, (uint32_t)count);
   qemu_plugin_register_vcpu_tb_exec_cb(block, on_known_block, QEMU_PLUGIN_CB_NO_REGS, (void *)number);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
   (void)id;
   size_t count = qemu_plugin_tb_n_insns(block);
   pw_exec_learn(qemu_plugin_tb_get_insn(block, 0));
   watch_block(block);
   for (size_t i = 0; i < count; i++) {
      struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
      if (is_x86_64)
         watch_x86_64(instruction);
      else
         qemu_plugin_register_vcpu_mem_cb(instruction, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
   }
}

/* ---- system calls ---- */

/* The numbers that matter, x86-64's and those that all newer instruction sets share. */
struct numbers {
   int64_t mmap, munmap, mprotect, mremap, madvise, brk, execve, execveat, exit;
   int64_t mlock, munlock, mlockall, munlockall, mlock2, prctl, seccomp;
};
static const struct numbers x86_64 = { 9, 11, 10, 25, 28, 12, 59, 322, 60, 149, 150, 151, 152, 325, 157, 317 };
static const struct numbers generic = { 222, 215, 226, 216, 233, 214, 221, 281, 93, 228, 229, 230, 231, 284, 167, 277 };
static const struct numbers *numbers = &generic;

/* Calls that fail because of QEMU 7.2, for a reason that its user would not guess or with a name that says more than a number. */
#define UNKNOWN "QEMU does not know it"
#define NOT_ALONE "QEMU has a thread of its own, and the system gives new namespaces of users only to programs without"
#define BOTH "--frontend valgrind and --frontend callout pass it on"
#define CALLOUT "--frontend callout passes it on"
static const struct refused {
   const char *name, *why, *able;
   int64_t x86_64, generic;
   int error;
} refused[] = {
   { "ptrace", UNKNOWN, BOTH, 101, 117, ENOSYS },
   { "io_uring_setup", UNKNOWN, BOTH, 425, 425, ENOSYS },
   { "perf_event_open", UNKNOWN, BOTH, 298, 241, ENOSYS },
   { "bpf", UNKNOWN, BOTH, 321, 280, ENOSYS },
   { "userfaultfd", UNKNOWN, CALLOUT, 323, 282, ENOSYS },
   { "unshare", NOT_ALONE, BOTH, 272, 97, EINVAL },
};
#define REFUSED (sizeof refused / sizeof *refused)
#define MOST_CALLS 1024

static __thread uint64_t arguments[6];
/* The heap's beginning, once the program has asked for it, and its end. */
static _Atomic uint64_t heap_start, heap_end;

static void before_syscall(qemu_plugin_id_t id, unsigned processor, int64_t number, uint64_t a, uint64_t b, uint64_t c,
                           uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
   (void)id, (void)processor, (void)g, (void)h;
   uint64_t all[6] = { a, b, c, d, e, f };
   memcpy(arguments, all, sizeof all);
   if (number == numbers->execve)
      pw_exec(a, b, c);
   else if (number == numbers->execveat)
      pw_before_exec((int)a, pw_exec_host(b));
   else if (number == numbers->exit)
      /* Not later: QEMU wakes the thread that waits for this one before its host thread ends, and the process may end meanwhile. */
      pw_end_thread();
}

static void send(uint32_t kind, const uint64_t *payload, uint32_t words)
{
   pw_flush();
   pw_send(kind, payload, words);
}

static void send_lock(enum pw_lock how)
{
   uint64_t payload[3] = { arguments[0], arguments[1], how };
   send(PW_LOCK, payload, 3);
}

static void after_break(uint64_t result)
{
   uint64_t none = 0;
   if (!__atomic_compare_exchange_n(&heap_start, &none, result, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
       && result == heap_end)
      return;
   heap_end = result;
   uint64_t payload[2] = { heap_start, result };
   send(PW_BREAK, payload, 2);
}

/* Says once what the program finds different here. */
#define SAY_ONCE(text)                                                                                                 \
   do {                                                                                                                \
      static _Atomic bool is_said;                                                                                     \
      if (!__atomic_exchange_n(&is_said, true, __ATOMIC_RELAXED))                                                      \
         fprintf(stderr, "pagewalk: " text "\n");                                                                      \
   } while (0)

/* Calls that C libraries and V8 ask for to see whether there are such: QEMU does not know them, and no program is the worse for it. */
static bool is_usual(int64_t number)
{
   const int64_t usual[] = { is_x86_64 ? 273 : 99 /* set_robust_list */, is_x86_64 ? 334 : 293 /* rseq */,
                             is_x86_64 ? 330 : 289 /* pkey_alloc */, numbers->execveat, 435 /* clone3 */, 439 /* faccessat2 */ };
   for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
      if (number == usual[i])
         return true;
   return false;
}

static void explain_refused(int64_t number, int64_t result)
{
   static _Atomic bool is_said[MOST_CALLS];
   const struct refused *known = NULL;
   for (size_t i = 0; i < REFUSED; i++)
      if (number == (is_x86_64 ? refused[i].x86_64 : refused[i].generic) && result == -refused[i].error)
         known = &refused[i];
   if (!known && (result != -ENOSYS || is_usual(number)))
      return;
   if (number < 0 || number >= MOST_CALLS || __atomic_exchange_n(&is_said[number], true, __ATOMIC_RELAXED))
      return;
   if (known)
      fprintf(stderr, "pagewalk: %s failed: %s; %s\n", known->name, known->why, known->able);
   else
      fprintf(stderr, "pagewalk: system call %" PRId64 " failed: " UNKNOWN "; " CALLOUT "\n", number);
}

/* Calls that end otherwise than they would without QEMU: the program may have no other way, and its user must know. */
static void explain(int64_t number, const uint64_t *a, int64_t result)
{
   bool is_error = result < 0 && result > -4096;
   if (number == numbers->mmap && is_error && a[3] & MAP_HUGETLB_BIT)
      SAY_ONCE("mmap with MAP_HUGETLB failed: QEMU has no large pages; --frontend valgrind and --frontend callout have those "
               "of the system (/proc/sys/vm/nr_hugepages)");
   if (number == numbers->mmap && !is_error && a[3] & MAP_FIXED_NOREPLACE_BIT && (uint64_t)result != a[0])
      SAY_ONCE("mmap with MAP_FIXED_NOREPLACE gave another address instead of an error: QEMU does not know the flag; "
               "--frontend callout does");
   if (is_error && ((number == numbers->prctl && a[0] == PW_SET_FILTER) || (number == numbers->seccomp && a[0] < PW_FILTER_MODES)))
      SAY_ONCE("a filter of system calls (seccomp) could not be set: QEMU allows none; --frontend valgrind and --frontend "
               "callout do");
   if (is_error)
      explain_refused(number, result);
}

/* Calls whose result is how many bytes they wrote, and which argument says where to: the address of a buffer, whose length is the next
 * one; that of a list of parts, whose number is the next one; or that of a message header with such a list. A result may be larger than
 * that: the whole length of a message that did not fit. Smaller results are not reported: nearly all go to pages of the stack that are there. */
static const struct input {
   enum { BUFFER, LIST, HEADER } kind;
   int argument;
   int64_t x86_64, generic;
} inputs[] = {
   { BUFFER, 1, 0, 63 },    /* read */
   { BUFFER, 1, 17, 67 },   /* pread64 */
   { BUFFER, 1, 45, 207 },  /* recvfrom */
   { BUFFER, 1, 217, 61 },  /* getdents64 */
   { BUFFER, 0, 318, 278 }, /* getrandom */
   { LIST, 1, 19, 65 },     /* readv */
   { LIST, 1, 295, 69 },    /* preadv */
   { LIST, 1, 327, 286 },   /* preadv2 */
   { HEADER, 1, 47, 212 },  /* recvmsg */
};

/* At most `most` of the bytes; returns how many are left. */
static uint64_t wrote(uint64_t start, uint64_t bytes, uint64_t most)
{
   uint64_t written = bytes < most ? bytes : most;
   if (written > 0)
      pw_record_kernel_write(start, written);
   return bytes - written;
}

/* The parts of a list get the bytes one after another. */
static void wrote_list(uint64_t list, uint64_t parts, uint64_t bytes)
{
   uint64_t start, length;
   for (; parts > 0 && bytes > 0 && pw_exec_word(list, &start) && pw_exec_word(list + 8, &length); parts--, list += 16)
      bytes = wrote(start, bytes, length);
}

static void after_input(int64_t number, const uint64_t *a, uint64_t bytes)
{
   for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
      const struct input *input = &inputs[i];
      uint64_t at = a[input->argument], list, parts;
      if (number != (is_x86_64 ? input->x86_64 : input->generic))
         continue;
      if (input->kind == BUFFER)
         wrote(at, bytes, a[input->argument + 1]);
      else if (input->kind == LIST)
         wrote_list(at, a[input->argument + 1], bytes);
      else if (pw_exec_word(at + 16, &list) && pw_exec_word(at + 24, &parts))
         wrote_list(list, parts, bytes);
   }
}

static void after_syscall(qemu_plugin_id_t id, unsigned processor, int64_t number, int64_t result)
{
   (void)id, (void)processor;
   const uint64_t *a = arguments;
   if (number == numbers->execve || number == numbers->execveat)
      pw_after_exec();
   explain(number, a, result);
   if (result < 0 && result > -4096)
      return;
   if (number == numbers->mmap)
      pw_send_map((uint64_t)result, a[1], a[2], a[3], (int)a[4], a[5]);
   else if (number == numbers->munmap)
      send(PW_UNMAP, a, 2);
   else if (number == numbers->mprotect)
      send(PW_PROTECT, a, 3);
   else if (number == numbers->madvise)
      send(PW_ADVISE, a, 3);
   else if (number == numbers->mremap) {
      uint64_t payload[5] = { a[0], a[1], (uint64_t)result, a[2], a[3] };
      send(PW_REMAP, payload, 5);
   } else if (number == numbers->brk)
      after_break((uint64_t)result);
   else if (number == numbers->mlock)
      send_lock(PW_LOCKED);
   else if (number == numbers->mlock2)
      send_lock(a[2] & MLOCK_ONFAULT ? PW_LOCKED_ON_FAULT : PW_LOCKED);
   else if (number == numbers->munlock)
      send_lock(PW_UNLOCKED);
   else if (number == numbers->mlockall || number == numbers->munlockall) {
      uint64_t flags = number == numbers->mlockall ? (uint32_t)a[0] : 0;
      send(PW_LOCK_ALL, &flags, 1);
   } else if (result > 0)
      after_input(number, a, (uint64_t)result);
}

static void on_exit_of_process(qemu_plugin_id_t id, void *data)
{
   (void)id, (void)data;
   pw_end_process();
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
   unsigned machine = 0;
   for (int i = 0; i < argc; i++)
      if (strncmp(argv[i], "channel=", 8) == 0)
         snprintf(channel_text, sizeof channel_text, "%s", argv[i] + 8);
      else if (strncmp(argv[i], "machine=", 8) == 0)
         machine = (unsigned)atoi(argv[i] + 8);
      else if (strcmp(argv[i], "blocks=on") == 0)
         wants_blocks = true;
   if (info->system_emulation) {
      fprintf(stderr, "pagewalk: this plugin observes programs, not machines\n");
      return 1;
   }
   if (!word_is_known()) {
      fprintf(stderr, "pagewalk: this version of QEMU describes accesses in a way that the plugin does not know\n");
      return 1;
   }
   is_x86_64 = machine == MACHINE_X86_64;
   isa = is_x86_64 ? PW_X86_64 : machine == MACHINE_AARCH64 ? PW_AARCH64 : machine == MACHINE_RISCV ? PW_RISCV64 : PW_LOONGARCH64;
   if (is_x86_64)
      numbers = &x86_64;
   pw_exec_prepare(machine);
   pw_initialise();
   qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
   qemu_plugin_register_vcpu_syscall_cb(id, before_syscall);
   qemu_plugin_register_vcpu_syscall_ret_cb(id, after_syscall);
   qemu_plugin_register_atexit_cb(id, on_exit_of_process, NULL);
   return 0;
}
