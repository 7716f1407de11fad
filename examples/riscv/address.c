/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Says where the blade is, as the authors' programs do: the address after the network card's own. A page must leave for there and
 * come back. */
#include "kernel.h"

static uint64_t memory[2 * PAGE / 8] __attribute__((aligned(4096)));

int main(void)
{
   uint64_t own = *(volatile uint64_t *)NIC_MACADDR;
   pfa_store(PFA_DSTMAC, own + (1ul << 40));
   kernel_start();
   volatile uint64_t *page = (volatile uint64_t *)REGION;
   for (uint64_t at = 0; at < 512; at++)
      memory[at] = at * at;
   *region_entry(0) = ((uint64_t)memory >> 12) << 10 | PTE_DATA;
   evict(0, 7);
   give_frames(memory + 512, 1);
   for (uint64_t at = 0; at < 512; at++)
      if (page[at] != at * at)
         return 1;
   put_text("address: the page came back to ");
   put_hex(own);
   put_char('\n');
   return 0;
}
