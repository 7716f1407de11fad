/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The bare machine for programs: control registers, the console, the accelerator's registers. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

#define read_csr(name) ({ uint64_t value_; asm volatile("csrr %0, " #name : "=r"(value_)); value_; })
#define write_csr(name, value) asm volatile("csrw " #name ", %0" ::"r"((uint64_t)(value)))
#define set_csr(name, bits) asm volatile("csrs " #name ", %0" ::"r"((uint64_t)(bits)))
#define clear_csr(name, bits) asm volatile("csrc " #name ", %0" ::"r"((uint64_t)(bits)))

#define PAGE 4096ul

/* Appendix B of the thesis: eight registers of eight bytes. */
#define PFA_BASE 0x10017000ul
#define PFA_FREE 0
#define PFA_FREESTAT 8
#define PFA_EVICT 16
#define PFA_EVICTSTAT 24
#define PFA_NEWPGID 32
#define PFA_NEWVADDR 40
#define PFA_NEWSTAT 48
#define PFA_INITMEM 56
/* The same register in the authors' later programs: the blade's address in the network. */
#define PFA_DSTMAC 56

/* The network card's own address. The first byte of an address is the lowest. */
#define NIC_MACADDR 0x10016018ul

static inline uint64_t pfa_load(unsigned offset)
{
   return *(volatile uint64_t *)(PFA_BASE + offset);
}

static inline void pfa_store(unsigned offset, uint64_t value)
{
   *(volatile uint64_t *)(PFA_BASE + offset) = value;
}

extern volatile uint64_t tohost, fromhost;
void finish(uint64_t code) __attribute__((noreturn));

static inline void put_char(char c)
{
   while (tohost)
      ;
   tohost = 1ull << 56 | 1ull << 48 | (unsigned char)c;
   while (tohost)
      ;
}

static inline void put_text(const char *text)
{
   while (*text)
      put_char(*text++);
}

static inline void put_hex(uint64_t value)
{
   for (int shift = 60; shift >= 0; shift -= 4)
      put_char("0123456789abcdef"[value >> shift & 15]);
}

#endif
