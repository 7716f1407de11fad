/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls that let the kernel write into the program's memory, each into pages of its own that nothing has touched, at fixed
 * addresses; then a signal, whose handler finds its frame on a stack of its own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define BASE 0x800000000ull
#define MIB (1ull << 20)

static char *at(unsigned mib)
{
   return (char *)(BASE + mib * MIB);
}

static volatile int handled;

static void handle(int number)
{
   handled = number;
}

int main(void)
{
   int zero = open("/dev/zero", O_RDONLY), ends[2];
   mmap(at(0), 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
   if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
      return 1;
   ssize_t sum = read(zero, at(0) + 100, 10000);
   sum += pread(zero, at(1) + 4000, 200, 0);
   sum += write(ends[0], "twelve bytes", 12);
   sum += recv(ends[1], at(2), 4096, 0);
   /* Of a longer message, the result is the whole length, and the buffer is full. */
   int packets[2];
   if (socketpair(AF_UNIX, SOCK_DGRAM, 0, packets) != 0)
      return 1;
   sum += write(packets[0], "twelve bytes", 12) + recv(packets[1], at(7) - 5, 5, MSG_TRUNC);
   struct iovec part = { at(7) + MIB / 2, 7 };
   struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
   sum += write(packets[0], "twelve bytes", 12) + recvmsg(packets[1], &header, MSG_TRUNC);
   sum += getrandom(at(3) + 8, 64, 0);
   /* Nothing is written. */
   sum += read(-1, at(4), 100) + 1;
   struct iovec parts[2] = { { at(5), 10 }, { at(6), 5000 } };
   sum += readv(zero, parts, 2);
   handled = 1;
   stack_t stack = { .ss_sp = at(8), .ss_size = MIB };
   struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };
   sigaltstack(&stack, NULL);
   sigaction(SIGUSR1, &action, NULL);
   raise(SIGUSR1);
   printf("input %ld\n", (long)sum);
   return sum == 10000 + 200 + 12 + 12 + 4 * 12 + 64 + 5010 && handled == SIGUSR1 ? 0 : 2;
}
