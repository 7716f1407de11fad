/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The protocol between a capture front-end and the pagewalk command.
 *
 * One SOCK_SEQPACKET socket is inherited by every process of the observed program. A message is one packet, so
 * messages of several processes and threads never mix, and their order on the socket is the order of sending.
 *
 *   message = header (32 bytes), then `payload_bytes` of 64-bit words, all little-endian
 *
 * `src/protocol.rs` is the other end; the two files change together, with PW_VERSION.
 */
#ifndef PAGEWALK_CHANNEL_H
#define PAGEWALK_CHANNEL_H

#include <stdint.h>

#define PW_MAGIC 0x4b575750u /* "PWWK" in memory */
#define PW_VERSION 6u

struct pw_header {
   uint32_t magic;
   uint16_t version;
   uint16_t kind;          /* enum pw_kind */
   uint32_t pid;           /* the sending process */
   uint32_t thread;        /* the thread it speaks of, 1 for the first of its process */
   uint32_t payload_bytes; /* a multiple of 8 */
   uint32_t zero;
   uint64_t instructions;  /* executed since the process' last message that carried a count; 0 if not counted, or told by blocks */
};

enum pw_kind {
   PW_START = 1,       /* a program begins in this process. Payload: none */
   PW_RECORDS = 2,     /* accesses and executed blocks of one thread, in order, 8 bytes each */
   PW_THREAD_END = 3,  /* the thread ended. No payload */
   PW_FORK = 4,        /* the process is about to fork: { ticket } */
   PW_FORK_FAILED = 5, /* it did not work out: { ticket } */
   PW_FORK_CHILD = 6,  /* first message of the child: { pid of the parent, ticket } */
   PW_END = 7,         /* the process ended. No payload */
   PW_MAP = 8,         /* { start, bytes, PROT_ bits, MAP_ bits, device, inode, offset }; device and inode 0 if unknown */
   PW_UNMAP = 9,       /* { start, bytes } */
   PW_PROTECT = 10,    /* { start, bytes, PROT_ bits } */
   PW_ADVISE = 11,     /* { start, bytes, MADV_ number } */
   PW_REMAP = 12,      /* { old start, old bytes, new start, new bytes, MREMAP_ bits } */
   PW_BREAK = 13,      /* { start of the heap segment, its end } */
   PW_LOCK = 14,       /* { start, bytes, enum pw_lock } */
   PW_LOCK_ALL = 15,   /* { MCL_ bits }; 0 for munlockall */
   PW_EXEC = 16,       /* the process is about to execute the file of this path, zeros up to a whole word; none: it did not work out */
   PW_FILTER = 17,     /* { 1 } the process is about to set a filter of system calls for itself, { 0 } it did not work out */
   PW_SPAWN = 18,      /* the process has started another one without a fork: { its pid, 0 if unknown }, path as PW_EXEC's */
   PW_CODE = 19,       /* a block before its first execution: { number | enum pw_isa << 32, address, bytes | instructions << 32 },
                          the bytes of the instructions, zeros up to a whole word. A process numbers its blocks from 0 in order; a child goes on
                          with its parent's numbers, and a program that is executed begins again. */
};

enum pw_isa { PW_X86_64 = 0, PW_AARCH64 = 1, PW_RISCV64 = 2, PW_LOONGARCH64 = 3 };
#define PW_CODE_WORDS 3u
#define PW_CODE_BYTES_MAX 16384u
#define PW_BLOCKS_MAX 0x7fffffffu

enum pw_lock { PW_UNLOCKED = 0, PW_LOCKED = 1, PW_LOCKED_ON_FAULT = 2 };

/* The device of memory that shmat attaches, whose inode is its identifier. */
#define PW_DEVICE_SHM (~0ull)
#define PW_MAP_WORDS 7u
#define PW_PATH_WORDS 512u /* PATH_MAX */

/* A record, as in crates/trace/src/event.rs: address, log2(size) from bit 48, write flag in bit 51; 0 = none. With bit 52
 * beside the write flag it is two accesses: a read, then the write of the same bytes. */
#define PW_RECORD_SIZE_SHIFT 48
#define PW_RECORD_WRITE (1ull << 51)
#define PW_RECORD_READ_BEFORE (1ull << 52)
#define PW_RECORD_TAG_BYTE 6 /* has all of the tag, and nothing of the address */
/* The record of an executed block, by its number: a word that an instruction holds in 32 bits with their sign. */
#define PW_RECORD_BLOCK(number) (~(uint64_t)(uint32_t)(number))
/* What the kernel wrote in a system call, or for a signal, is two records beside each other in one message: of the address of the
 * first byte, and of that behind the last one. */
#define PW_RECORD_KERNEL_WRITE (1ull << 53)
#define PW_RECORDS_PER_MESSAGE 8192u
#define PW_RECORD_BYTES_MAX 64u

/* log2 of the size, rounded up to a power of two. */
static inline uint64_t pw_size_log2(uint32_t bytes)
{
   uint64_t log2 = 0;
   while ((1u << log2) < bytes && log2 < 6)
      log2++;
   return log2;
}

/* One of the two records of what the kernel wrote. */
static inline uint64_t pw_kernel_write_record(uint64_t address)
{
   return (address & ((1ull << PW_RECORD_SIZE_SHIFT) - 1)) | PW_RECORD_KERNEL_WRITE;
}

/* Everything of a record but the address. */
static inline uint64_t pw_record_tag(uint32_t bytes, int is_write)
{
   return pw_size_log2(bytes) << PW_RECORD_SIZE_SHIFT | (is_write ? PW_RECORD_WRITE : 0);
}

#endif
