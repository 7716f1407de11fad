/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Buffers, threads, forks, the socket.
 *
 * Nothing here calls a function that could itself be instrumented or intercepted, except pthread_setspecific at a
 * thread's first record, when the thread already has its buffer.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

/* One per thread, in a list, so that the end of the process can send what all of them have. */
struct thread {
   uint64_t *base;          /* its buffer; NULL before the first record and after the end */
   void *mapping;           /* what the buffer lies in */
   uint64_t **cursor;       /* where its cursor is */
   uint64_t *instructions;  /* where it counts them */
   uint32_t number;
   int ends_left;           /* key destructors may run instrumented code: ours runs again, last */
   struct thread *next, *previous;
};

EXPORT __thread uint64_t *pw_cursor __attribute__((tls_model("initial-exec")));
HIDDEN __thread uint64_t pw_instructions __attribute__((tls_model("initial-exec")));
static __thread struct thread self __attribute__((tls_model("initial-exec")));
static __thread uint64_t fork_ticket __attribute__((tls_model("initial-exec")));

static struct thread list = { .next = &list, .previous = &list };
static atomic_flag list_lock = ATOMIC_FLAG_INIT;
static atomic_uint threads_created;
static atomic_ullong fork_tickets;

static int channel = -1; /* -1: records are built and dropped */
static uint64_t channel_inode;
/* How to get in again, and which descriptor to take for it: programs expect low ones to be free. */
static struct sockaddr_un rejoin_address = { .sun_family = AF_UNIX };
static char rejoin_key[64]; /* empty: there is no way */
static long rejoin_address_bytes, rejoin_key_bytes;
#define REJOINED_DESCRIPTOR 1000
static uint32_t own_pid, pid_before_fork;
static pthread_key_t key;
static atomic_int initialised;
static atomic_int ended, senders;

/* Where a thread writes that has already said its end. */
static uint64_t nowhere[PW_RECORDS_PER_MESSAGE] __attribute__((aligned(BUFFER_BYTES)));

static void lock_list(void)
{
   while (atomic_flag_test_and_set_explicit(&list_lock, memory_order_acquire))
      pw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static void unlock_list(void)
{
   atomic_flag_clear_explicit(&list_lock, memory_order_release);
}

/* ---- the socket ---- */

static uint64_t socket_inode(int fd)
{
   struct stat st;
   return pw_syscall(SYS_fstat, fd, (long)&st, 0, 0, 0, 0) == 0 && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

static int is_channel(int fd)
{
   return socket_inode(fd) == channel_inode;
}

/* The inherited socket is gone: programs close what they did not open, before an exec most of all. The command has another
 * one under a name, and lets in a process that knows the key. */
static void rejoin(void)
{
   channel = -1;
   if (!rejoin_key_bytes)
      return;
   long fd = pw_syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0, 0, 0, 0);
   if (fd < 0)
      return;
   long high = pw_syscall(SYS_fcntl, fd, F_DUPFD, REJOINED_DESCRIPTOR, 0, 0, 0);
   if (high >= 0) {
      pw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
      fd = high;
   }
   if (pw_syscall(SYS_connect, fd, (long)&rejoin_address, rejoin_address_bytes, 0, 0, 0) < 0
       || pw_syscall(SYS_sendto, fd, (long)rejoin_key, rejoin_key_bytes, MSG_NOSIGNAL, 0, 0) < 0) {
      pw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
      return;
   }
   channel_inode = socket_inode((int)fd);
   channel = (int)fd;
}

static void send_message(uint32_t kind, uint32_t thread, const void *payload, uint32_t payload_bytes,
                         uint64_t instructions)
{
   atomic_fetch_add(&senders, 1);
   if (channel >= 0 && !(atomic_load(&ended) && kind != PW_END)) {
      struct pw_header header = { PW_MAGIC, PW_VERSION, kind, own_pid, thread, payload_bytes, 0, instructions };
      struct iovec parts[2] = { { &header, sizeof header }, { (void *)payload, payload_bytes } };
      struct msghdr message = { .msg_iov = parts, .msg_iovlen = payload_bytes ? 2 : 1 };
      long sent;
      /* A program may close any descriptor and use its number again: never write into something of its own. */
      if (!is_channel(channel))
         rejoin();
      if (channel >= 0) {
         do
            sent = pw_syscall(SYS_sendmsg, channel, (long)&message, MSG_NOSIGNAL, 0, 0, 0);
         while (sent == -EINTR);
         /* Pagewalk listens no more: it has enough records or has ended. */
         if (sent < 0)
            pw_syscall(SYS_exit_group, 1, 0, 0, 0, 0, 0);
      }
   }
   atomic_fetch_sub(&senders, 1);
}

static void send_records(struct thread *thread, const uint64_t *end)
{
   uint32_t bytes = (uint32_t)((uintptr_t)end - (uintptr_t)thread->base);
   uint64_t instructions = *thread->instructions;
   *thread->instructions = 0;
   if (bytes || instructions)
      send_message(PW_RECORDS, thread->number, thread->base, bytes, instructions);
}

/* ---- threads ---- */

static void thread_end(void *unused);
static void before_fork(void);
static void after_fork_child(void);

/* ":name:key". By hand: copies by the C library are accesses of the program, which are recorded. */
static void find_rejoin(const char *text)
{
   if (*text++ != ':')
      return;
   /* An address that begins with a zero is a name and not a file. */
   char *to = rejoin_address.sun_path + 1, *end = rejoin_address.sun_path + sizeof rejoin_address.sun_path;
   while (*text && *text != ':' && to < end)
      *to++ = *text++;
   if (*text != ':')
      return;
   rejoin_address_bytes = to - (char *)&rejoin_address;
   for (text++; *text && rejoin_key_bytes < (long)sizeof rejoin_key; text++)
      rejoin_key[rejoin_key_bytes++] = *text;
}

static void find_channel(void)
{
   const char *text = pw_channel_text();
   char *rest;
   if (!text)
      return;
   long fd = strtol(text, &rest, 10);
   if (*rest != ':')
      return;
   channel_inode = strtoull(rest + 1, &rest, 10);
   find_rejoin(rest);
   if (is_channel((int)fd))
      channel = (int)fd;
   else
      rejoin();
}

HIDDEN void pw_initialise(void)
{
   if (atomic_exchange(&initialised, 1))
      return;
   own_pid = (uint32_t)pw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
   find_channel();
   pthread_key_create(&key, thread_end);
   pthread_atfork(before_fork, NULL, after_fork_child);
   send_message(PW_START, 1, NULL, 0, 0);
}

static uint64_t *new_buffer(void)
{
   /* Twice the size holds an aligned buffer somewhere; what lies beside it is never touched. */
   long memory = pw_syscall(SYS_mmap, 0, 2 * BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   if (memory < 0 && memory > -4096)
      return NULL;
   self.mapping = (void *)memory;
   return (uint64_t *)(((uintptr_t)memory + BUFFER_BYTES - 1) & ~(BUFFER_BYTES - 1));
}

static uint64_t *make_room(uint64_t *cursor);

static uint64_t *thread_begin(void)
{
   pw_initialise();
   uint64_t *buffer = new_buffer();
   if (!buffer)
      return nowhere;
   self.base = buffer;
   self.cursor = &pw_cursor;
   self.instructions = &pw_instructions;
   self.number = atomic_fetch_add(&threads_created, 1) + 1;
   self.ends_left = 3;
   pw_cursor = buffer;
   lock_list();
   self.next = list.next;
   self.previous = &list;
   list.next->previous = &self;
   list.next = &self;
   unlock_list();
   pthread_setspecific(key, &self);
   /* That may have been instrumented itself. */
   return pw_cursor == buffer + PW_RECORDS_PER_MESSAGE ? make_room(pw_cursor) : pw_cursor;
}

static uint64_t *make_room(uint64_t *cursor)
{
   if (cursor == NULL)
      return thread_begin();
   if (!self.base)
      return nowhere;
   send_records(&self, cursor);
   return self.base;
}

EXPORT void pw_record_slowly(uint64_t *cursor, uint64_t record)
{
   cursor = make_room(cursor);
   *cursor = record;
   pw_cursor = cursor + 1;
}

HIDDEN void pw_flush(void)
{
   if (self.base) {
      send_records(&self, pw_cursor);
      pw_cursor = self.base;
   }
}

HIDDEN void pw_record_kernel_write(uint64_t start, uint64_t bytes)
{
   if (pw_cursor == NULL)
      pw_cursor = thread_begin();
   if (!self.base)
      return;
   if (pw_cursor + 2 > self.base + PW_RECORDS_PER_MESSAGE)
      pw_flush();
   *pw_cursor++ = pw_kernel_write_record(start);
   *pw_cursor++ = pw_kernel_write_record(start + bytes);
}

HIDDEN void pw_send(uint32_t kind, const uint64_t *payload, uint32_t words)
{
   if (pw_cursor == NULL)
      pw_cursor = thread_begin();
   if (self.base)
      send_message(kind, self.number, payload, words * sizeof *payload, 0);
}

/* A block is described before any thread executes it. The lock makes the order of messages that of numbers. */
HIDDEN uint32_t pw_send_code(enum pw_isa isa, uint64_t address, const uint64_t *code, uint32_t bytes, uint32_t instructions)
{
   static uint32_t blocks;
   uint64_t words[PW_CODE_WORDS + PW_CODE_BYTES_MAX / sizeof *code];
   uint32_t code_words = (bytes + 7) / 8;
   words[1] = address;
   words[2] = bytes | (uint64_t)instructions << 32;
   for (uint32_t i = 0; i < code_words; i++)
      words[PW_CODE_WORDS + i] = code[i];
   /* What lies behind the last byte is the caller's. */
   if (bytes % 8)
      words[PW_CODE_WORDS + code_words - 1] &= (1ull << bytes % 8 * 8) - 1;
   lock_list();
   uint32_t number = blocks < PW_BLOCKS_MAX ? blocks++ : PW_BLOCKS_MAX;
   words[0] = number | (uint64_t)isa << 32;
   send_message(PW_CODE, 1, words, (PW_CODE_WORDS + code_words) * sizeof *words, 0);
   unlock_list();
   return number;
}

HIDDEN void pw_send_map(uint64_t result, uint64_t bytes, uint64_t protection, uint64_t flags, int fd, uint64_t offset)
{
   uint64_t payload[PW_MAP_WORDS] = { result, bytes, protection, (uint32_t)flags, 0, 0, offset };
   struct stat st;
   if (!(flags & MAP_ANONYMOUS) && pw_syscall(SYS_fstat, fd, (long)&st, 0, 0, 0, 0) == 0) {
      payload[4] = st.st_dev;
      payload[5] = st.st_ino;
   }
   pw_flush();
   pw_send(PW_MAP, payload, PW_MAP_WORDS);
}

HIDDEN void pw_end_thread(void)
{
   if (!self.base)
      return;
   pthread_setspecific(key, NULL);
   pw_flush();
   lock_list();
   self.previous->next = self.next;
   self.next->previous = self.previous;
   unlock_list();
   send_message(PW_THREAD_END, self.number, NULL, 0, 0);
   self.base = NULL;
   pw_cursor = nowhere;
   pw_syscall(SYS_munmap, (long)self.mapping, 2 * BUFFER_BYTES, 0, 0, 0, 0);
}

/* After the destructors of the program, which are observed. */
static void thread_end(void *unused)
{
   (void)unused;
   if (self.ends_left-- > 0 && pthread_setspecific(key, &self) == 0)
      return;
   pw_end_thread();
}

/* ---- processes ---- */

HIDDEN void pw_flush_all(void)
{
   lock_list();
   for (struct thread *thread = list.next; thread != &list; thread = thread->next) {
      send_records(thread, *thread->cursor);
      *thread->cursor = thread->base;
   }
   unlock_list();
}

HIDDEN void pw_before_exec(long folder, const char *path)
{
   uint64_t words[PW_PATH_WORDS];
   pw_flush_all();
   uint32_t bytes = pw_whole_path(folder, path, (char *)words, sizeof words);
   if (bytes)
      pw_send(PW_EXEC, words, (bytes + 7) / 8);
}

HIDDEN void pw_after_exec(void)
{
   pw_send(PW_EXEC, NULL, 0);
}

HIDDEN void pw_after_spawn(long pid, const char *path)
{
   uint64_t words[1 + PW_PATH_WORDS] = { (uint64_t)pid };
   uint32_t bytes = pw_whole_path(PW_THIS_FOLDER, path, (char *)(words + 1), sizeof words - sizeof *words);
   if (bytes)
      pw_send(PW_SPAWN, words, 1 + (bytes + 7) / 8);
}

static void send_filter(uint64_t is_set)
{
   pw_flush_all();
   pw_send(PW_FILTER, &is_set, 1);
}

HIDDEN void pw_before_filter(void)
{
   send_filter(1);
}

HIDDEN void pw_after_filter(void)
{
   send_filter(0);
}

HIDDEN void pw_end_process(void)
{
   if (!atomic_load(&initialised))
      return;
   pw_flush_all();
   if (atomic_exchange(&ended, 1))
      return;
   /* A message of another thread that is under way must not come after the end. */
   while (atomic_load(&senders) > 0)
      pw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
   send_message(PW_END, 1, NULL, 0, 0);
}

static void before_fork(void)
{
   pw_flush();
   fork_ticket = atomic_fetch_add(&fork_tickets, 1) + 1;
   pid_before_fork = own_pid;
   pw_send(PW_FORK, &fork_ticket, 1);
}

/* Only this thread lives on; the others' buffers stay behind unused. */
static void after_fork_child(void)
{
   uint64_t payload[2] = { pid_before_fork, fork_ticket };
   own_pid = (uint32_t)pw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
   atomic_store(&senders, 0);
   atomic_flag_clear(&list_lock);
   list.next = list.previous = &list;
   atomic_store(&threads_created, 1);
   if (self.base) {
      self.number = 1;
      self.next = self.previous = &list;
      list.next = list.previous = &self;
      pw_cursor = self.base;
   }
   send_message(PW_FORK_CHILD, 1, payload, sizeof payload, 0);
}
