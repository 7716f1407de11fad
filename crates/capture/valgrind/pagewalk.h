/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The parts of the pagewalk Valgrind tool, and what they share.
 *
 *   main.c        options, hooks of the core, threads, processes
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
void pw_send(UInt kind, const ULong *payload, UInt words);
void pw_channel_after_fork(void);

/* main.c */
void pw_flush_running(void);

/* instrument.c */
IRSB *pw_instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                    const VexArchInfo *archinfo_host, IRType guest_word, IRType host_word);

/* redundant.c */
void pw_drop_redundant(IRSB *block, const VexGuestLayout *layout);

/* space.c */
void pw_space_initial(ThreadId tid);
void pw_space_stack_growth(void);
void pw_space_before_syscall(ThreadId tid, UInt number, const UWord *args);
void pw_space_after_syscall(ThreadId tid, UInt number, const UWord *args, UWord result);

#endif
