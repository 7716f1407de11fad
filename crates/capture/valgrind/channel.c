/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The record buffer and the socket to the pagewalk command.
 */
#include "pagewalk.h"

#include "../protocol/system.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

ULong pw_buffer[PW_BUFFER_RECORDS + PW_SLACK] __attribute__((aligned(4096)));
ULong pw_state;
UInt pw_thread = 1;

static Int channel = -1;
static Bool discard = False;
static UInt own_pid;

static Bool is_channel(Int fd, ULong inode)
{
   struct vg_stat st;
   return VG_(fstat)(fd, &st) == 0 && st.ino == inode && (st.mode & VKI_S_IFMT) == VKI_S_IFSOCK;
}

static void buffer_reset(void)
{
   pw_state = 0;
}

/* Takes over the inherited socket and moves it above every descriptor that the program may use. It must survive
 * exec: the next program's tool finds it there. `moved_to` is its new number. */
Bool pw_channel_open(Int fd, ULong inode, Int *moved_to)
{
   if (!is_channel(fd, inode))
      return False;
   /* Valgrind raised the soft limit by the descriptors it reserves for itself; the program sees the limit
    * without them. Ask for the highest of them that is free. */
   struct vki_rlimit limit;
   if (VG_(getrlimit)(VKI_RLIMIT_NOFILE, &limit) != 0)
      return False;
   Long moved = -1;
   for (UWord reserved = 2; reserved <= 10 && moved < 0; reserved++)
      moved = pw_syscall(__NR_fcntl, fd, VKI_F_DUPFD, limit.rlim_cur - reserved, 0, 0, 0);
   if (moved < 0)
      return False;
   VG_(close)(fd);
   channel = moved;
   *moved_to = moved;
   own_pid = VG_(getpid)();
   buffer_reset();
   return True;
}

/* Benchmark mode: full records are built, then dropped. */
void pw_channel_discard(void)
{
   discard = True;
   buffer_reset();
}

Bool pw_channel_is_ready(void)
{
   return discard || channel >= 0;
}

/* In the child: the parent flushed before the fork, so the buffer holds nothing of ours. */
void pw_channel_after_fork(void)
{
   own_pid = VG_(getpid)();
   buffer_reset();
}

static void send_message(UInt kind, const void *payload, UInt payload_bytes, ULong instructions)
{
   struct pw_header header = {
      .magic = PW_MAGIC,
      .version = PW_VERSION,
      .kind = kind,
      .pid = own_pid,
      .thread = pw_thread,
      .payload_bytes = payload_bytes,
      .zero = 0,
      .instructions = instructions,
   };
   struct vki_iovec parts[2] = {
      { .iov_base = &header, .iov_len = sizeof header },
      { .iov_base = (void *)payload, .iov_len = payload_bytes },
   };
   struct vki_msghdr message;
   VG_(memset)(&message, 0, sizeof message);
   message.msg_iov = parts;
   message.msg_iovlen = payload_bytes ? 2 : 1;

   Long sent;
   do
      sent = pw_syscall(__NR_sendmsg, channel, (Addr)&message, 0x4000 /* MSG_NOSIGNAL */, 0, 0, 0);
   while (sent == -VKI_EINTR);
   /* Pagewalk listens no more: it has enough records or has ended. Nothing of the program is worth finishing. */
   if (sent < 0)
      pw_syscall(__NR_exit_group, 1, 0, 0, 0, 0, 0);
}

/* Sends what the buffer holds, with the instruction count, as the current thread's. */
void pw_flush(void)
{
   ULong instructions = pw_state >> PW_FILL_BITS;
   const ULong *end = pw_buffer + (pw_state & PW_FILL_MASK) / sizeof *pw_buffer;
   buffer_reset();
   if (discard || (end == pw_buffer && instructions == 0))
      return;
   tl_assert(end <= pw_buffer + PW_BUFFER_RECORDS + PW_SLACK);
   pw_space_stack_growth();
   const ULong *next = pw_buffer;
   do {
      UInt records = end - next < PW_RECORDS_PER_MESSAGE ? end - next : PW_RECORDS_PER_MESSAGE;
      send_message(PW_RECORDS, next, records * sizeof *next, instructions);
      instructions = 0;
      next += records;
   } while (next < end);
}

/* Adds what the kernel wrote. The program does not run. */
void pw_record_kernel_write(Addr start, SizeT bytes)
{
   if ((pw_state & PW_FILL_MASK) / sizeof *pw_buffer + 2 > PW_BUFFER_RECORDS)
      pw_flush();
   ULong *next = pw_buffer + (pw_state & PW_FILL_MASK) / sizeof *pw_buffer;
   next[0] = pw_kernel_write_record(start);
   next[1] = pw_kernel_write_record(start + bytes);
   pw_state += 2 * sizeof *pw_buffer;
}

/* Sends a side record. The caller has flushed, so that it stays in order with the accesses. */
void pw_send(UInt kind, const ULong *payload, UInt words)
{
   if (!discard)
      send_message(kind, payload, words * sizeof *payload, 0);
}

/* Describes a block of the program's instructions, and returns its number. The program is about to execute it for the first time. */
UInt pw_send_code(Addr addr, UInt bytes, UInt instructions)
{
   static ULong words[PW_CODE_WORDS + PW_CODE_BYTES_MAX / sizeof(ULong)];
   static UInt blocks = 0;
   tl_assert(bytes <= PW_CODE_BYTES_MAX && blocks < PW_BLOCKS_MAX);
   UInt code_words = (bytes + sizeof *words - 1) / sizeof *words;
   words[0] = blocks | (ULong)PW_X86_64 << 32;
   words[1] = addr;
   words[2] = bytes | (ULong)instructions << 32;
   words[PW_CODE_WORDS + code_words - 1] = 0;
   pw_start();
   VG_(memcpy)(words + PW_CODE_WORDS, (const void *)addr, bytes);
   pw_send(PW_CODE, words, PW_CODE_WORDS + code_words);
   return blocks++;
}

/* The process is about to execute a file, named as execveat names it. The caller has flushed. */
void pw_before_exec(Long folder, const HChar *path)
{
   static ULong words[PW_PATH_WORDS];
   UInt bytes = pw_whole_path(folder, path, (HChar *)words, sizeof words);
   if (bytes)
      pw_send(PW_EXEC, words, (bytes + 7) / 8);
}
