/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The parts of the pagewalk Valgrind tool, and what they share.
 *
 *   main.c        options, hooks of the core, threads, processes
 *   accesses.c    which accesses an instruction makes
 *   instrument.c  the VEX code that writes one record per access
 *   redundant.c   what can go from the VEX code before
 *   channel.c     the record buffer and the socket
 *   space.c       address-space events
 */
#ifndef PAGEWALK_TOOL_H
#define PAGEWALK_TOOL_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

#include "../protocol/channel.h"

/* A flush is due at this fill; one block may add up to PW_SLACK records before the next check. */
#define PW_BUFFER_RECORDS PW_RECORDS_PER_MESSAGE
#define PW_SLACK 4096

/* The record buffer. The tool is linked below 2 GiB, so that its address fits an instruction's displacement. */
extern ULong pw_buffer[PW_BUFFER_RECORDS + PW_SLACK];

/* Bytes of the buffer in use, and the instruction count, in one word, so that a block's exit updates both with one
 * store, and by a constant that fits an instruction:
 *
 *    63                                20 19               0
 *   +------------------------------------+------------------+
 *   | instructions since the last flush  | bytes in use     |
 *   +------------------------------------+------------------+
 *
 * Where executed blocks are recorded, they tell the instructions, and the word is the bytes in use alone.
 *
 * While the program runs, the word is at the start of the current thread's first shadow registers, which code reaches
 * without an address; otherwise it is here. (It cannot stay there: the end of a signal handler restores them.)
 */
#define PW_FILL_BITS 20
#define PW_FILL_MASK ((1ull << PW_FILL_BITS) - 1)
extern ULong pw_state;

/* The thread whose accesses are in the buffer, numbered from 1 in order of creation. */
extern UInt pw_thread;

/* channel.c */
Bool pw_channel_open(Int fd, ULong inode, Int *moved_to);
void pw_channel_discard(void);
Bool pw_channel_is_ready(void);
void pw_flush(void);
void pw_record_kernel_write(Addr start, SizeT bytes);
void pw_send(UInt kind, const ULong *payload, UInt words);
void pw_channel_after_fork(void);
UInt pw_send_code(Addr addr, UInt bytes, UInt instructions);
void pw_before_exec(Long folder, const HChar *path);

/* main.c */
extern Bool pw_wants_blocks; /* Whether executed blocks are recorded, too. */
void pw_start(void);
void pw_flush_running(void);

/* accesses.c */
typedef enum { PW_READ, PW_WRITE, PW_MODIFY /* a read, then a write of the same bytes: one record */ } pw_direction;

/* A mark is a store of an access's address to a place that is no address: the upper half says that it is a mark, the lower
 * one has bits 48 to 63 of the record, and whether the address may be 0, which stands for no access. */
#define PW_MARK 0x5057574b00000000ull
#define PW_MARK_BITS 0xffffffff00000000ull
#define PW_MARK_GUARDED 0x10000ull

static inline ULong pw_mark_of(UInt bytes, pw_direction direction)
{
   ULong tag = pw_record_tag(bytes, direction != PW_READ) | (direction == PW_MODIFY ? PW_RECORD_READ_BEFORE : 0);
   return PW_MARK | tag >> PW_RECORD_SIZE_SHIFT;
}

static inline ULong pw_mark_tag(ULong mark)
{
   return mark << PW_RECORD_SIZE_SHIFT;
}

/* The place that a mark stores to; 0 for all other statements. */
static inline ULong pw_mark(const IRStmt *stmt)
{
   if (stmt->tag != Ist_Store || stmt->Ist.Store.addr->tag != Iex_Const)
      return 0;
   ULong place = stmt->Ist.Store.addr->Iex.Const.con->Ico.U64;
   return (place & PW_MARK_BITS) == PW_MARK ? place : 0;
}

/* instrument.c */
IRSB *pw_instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                    const VexArchInfo *archinfo_host, IRType guest_word, IRType host_word);

/* redundant.c */
void pw_drop_redundant(IRSB *block, const VexGuestLayout *layout);

/* space.c */
void pw_space_initial(ThreadId tid);
void pw_space_stack_growth(void);
void pw_space_before_syscall(ThreadId tid, UInt number, const UWord *args);
void pw_space_explain(UInt number, const UWord *args, SysRes result);
void pw_space_after_syscall(ThreadId tid, UInt number, const UWord *args, UWord result);

#endif
