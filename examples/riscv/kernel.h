/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The smallest kernel that pages: supervisor mode, three levels of tables, memory where it is, and a region of remote
 * pages whose faults refill the accelerator's queues. */
#ifndef KERNEL_H
#define KERNEL_H

#include "machine.h"

/* Bits of an entry; the same ten bits are a remote entry's protection. */
#define PTE_V 0x01ul
#define PTE_R 0x02ul
#define PTE_W 0x04ul
#define PTE_X 0x08ul
#define PTE_A 0x40ul
#define PTE_D 0x80ul
#define PTE_DATA (PTE_V | PTE_R | PTE_W | PTE_A | PTE_D)

#define REMOTE_PTE(id) ((uint64_t)(id) << 12 | PTE_DATA << 2 | 2)

/* Where the region of remote pages begins, and how many it has at most. */
#define REGION 0x2000000000ul
#define REGION_PAGES 512ul

/* Enters supervisor mode with translation on. */
void kernel_start(void);
/* The entry of a page of the region. */
volatile uint64_t *region_entry(uint64_t page);
/* Gives the kernel frames for pages to come. */
void give_frames(void *first, uint64_t frames);
/* Lets a page of the region leave to remote memory; its frame is the kernel's again when that is done. */
void evict(uint64_t page, uint64_t id);
/* Takes note of the pages that came. */
void drain(void);

/* Page faults taken, and pages that came. */
extern uint64_t faults, arrivals;

#endif
