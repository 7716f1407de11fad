/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The parts of the pagewalk Valgrind tool, and what they share.
 *
 *   main.c        options, hooks of the core, threads, processes
 *   instrument.c  the VEX code that writes one record per access
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

/* The record buffer. The tool is linked below 4 GiB, so a cursor into it fits 32 bits. */
extern ULong pw_buffer[PW_BUFFER_RECORDS + PW_SLACK];

/* Cursor into the buffer and instruction count in one word, so that a block's exit updates both with one store:
 *
 *    63                 32 31                  0
 *   +---------------------+---------------------+
 *   | address of the next | instructions since  |
 *   | free record         | the last flush      |
 *   +---------------------+---------------------+
 */
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

/* instrument.c */
IRSB *pw_instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                    const VexArchInfo *archinfo_host, IRType guest_word, IRType host_word);

/* space.c */
void pw_space_initial(ThreadId tid);
void pw_space_stack_growth(void);
void pw_space_before_syscall(ThreadId tid, UInt number, const UWord *args);
void pw_space_after_syscall(ThreadId tid, UInt number, const UWord *args, UWord result);

#endif
