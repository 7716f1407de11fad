/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the front-ends share that live in the program's own process, the call-out runtime and the QEMU plugin: a buffer
 * of records for each thread, threads, forks, the socket.
 */
#ifndef PAGEWALK_RUNTIME_H
#define PAGEWALK_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "channel.h"
#include "system.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define EXPORT __attribute__((visibility("default")))
/* Of the entry points of loads and stores, each linked program or library has a copy of its own, which it calls without
 * the detour that leads into another library; the one in the library is for code that was linked without. */
#ifdef PW_LINKED_IN
#define ENTRY_POINT HIDDEN
#else
#define ENTRY_POINT EXPORT
#endif
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* A thread's records. The buffer is as large as its alignment, so "the low bits of the cursor are zero" means full
 * (or not there yet), and the fast path needs no second variable. Programs that are linked already have this number in
 * them: a change of it must give pw_record_slowly another name, so that they end with an error and not beyond the buffer. */
#define BUFFER_BYTES (8ull * PW_RECORDS_PER_MESSAGE)

extern EXPORT __thread uint64_t *pw_cursor __attribute__((tls_model("initial-exec")));

/* Instructions that the thread has executed since it last sent; stays 0 where they are not counted. */
extern HIDDEN __thread uint64_t pw_instructions __attribute__((tls_model("initial-exec")));

/* The front-end's: "descriptor:inode:name:key" of the socket, the name and the key of the one to rejoin by, or NULL if records are built and dropped. Called once. */
HIDDEN const char *pw_channel_text(void);
/* Looks for the socket and says that a program begins; also happens by itself at the first record. */
HIDDEN void pw_initialise(void);

/* Makes room - sends a full buffer, or makes the first one - and adds the record. A call at the very end of an entry
 * point is a jump, so the fast path saves no registers. */
EXPORT void pw_record_slowly(uint64_t *cursor, uint64_t record);

/* Sends what the thread has, so that a side record or the end of the program stays in order. */
HIDDEN void pw_flush(void);
/* Adds what the kernel wrote to the thread's records. */
HIDDEN void pw_record_kernel_write(uint64_t start, uint64_t bytes);
/* Sends a side record. */
HIDDEN void pw_send(uint32_t kind, const uint64_t *payload, uint32_t words);
/* This thread runs no more code of the program: sends what it has, and that it ended. */
HIDDEN void pw_end_thread(void);
/* The process ends now, or its program does: sends everything that any thread has. */
HIDDEN void pw_end_process(void);
HIDDEN void pw_flush_all(void);

/* Describes a block of instructions before its first execution, and returns its number in this process. */
HIDDEN uint32_t pw_send_code(enum pw_isa isa, uint64_t address, const uint64_t *code, uint32_t bytes, uint32_t instructions);

/* Sends that `result` was mapped by a call with these arguments. */
HIDDEN void pw_send_map(uint64_t result, uint64_t bytes, uint64_t protection, uint64_t flags, int fd, uint64_t offset);

/* The process is about to execute a file, named as execveat names it: sends everything that any thread has, and the file. */
HIDDEN void pw_before_exec(long folder, const char *path);
/* It did not. */
HIDDEN void pw_after_exec(void);
/* The process has started another one, of this file, without a fork; `pid` is 0 if it is not known. */
HIDDEN void pw_after_spawn(long pid, const char *path);
/* The process is about to set a filter of system calls for itself, or did not. */
HIDDEN void pw_before_filter(void);
HIDDEN void pw_after_filter(void);

static inline __attribute__((always_inline)) void pw_record(const volatile void *address, uint64_t tag)
{
   uint64_t *cursor = pw_cursor;
   if (UNLIKELY(((uintptr_t)cursor & (BUFFER_BYTES - 1)) == 0)) {
      pw_record_slowly(cursor, (uint64_t)(uintptr_t)address | tag);
      return;
   }
   /* A program that waits for memory waits for as many accesses at a time as fit into the processor's window, and what
    * fills it is this function: storing the tag by itself takes two instructions and registers less than merging it. */
   *cursor = (uint64_t)(uintptr_t)address;
   ((volatile uint8_t *)cursor)[PW_RECORD_TAG_BYTE] = (uint8_t)(tag >> (8 * PW_RECORD_TAG_BYTE));
   pw_cursor = cursor + 1;
}

/* A block: one record for each 64-byte line it touches. A piece that is no power of two is rounded down, so that no
 * record reaches into a line, or a page, that the block does not. */
static inline void pw_record_range(const volatile void *address, size_t bytes, int is_write)
{
   uintptr_t at = (uintptr_t)address, end = at + bytes;
   while (at < end) {
      uintptr_t line_end = (at | (PW_RECORD_BYTES_MAX - 1)) + 1;
      uintptr_t next = line_end < end ? line_end : end;
      uint32_t piece = 1u << (31 - __builtin_clz((uint32_t)(next - at)));
      pw_record((const void *)at, pw_record_tag(piece, is_write));
      at = next;
   }
}

#endif
