/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * From the first instruction to main: a stack, zeroes, a handler that ends the run, then main's result as the exit code. */
   .section .text.start, "ax"
   .globl _start
_start:
   /* What another start-up has left in a0 and a1 goes to main: the hart's number and the device tree. */
   la sp, __stack_end
   la t0, fatal
   csrw mtvec, t0
   la t0, __bss_start
   la t1, __bss_end
1: bgeu t0, t1, 2f
   sd zero, 0(t0)
   addi t0, t0, 8
   j 1b
2: call main
   /* exit(a0) */
   .globl finish
finish:
   slli a0, a0, 1
   ori a0, a0, 1
   la t0, tohost
   sd a0, 0(t0)
1: j 1b

   .align 2
fatal:
   csrr a0, mcause
   addi a0, a0, 64
   j finish

   .section .tohost, "aw", @progbits
   .align 6
   .globl tohost
   .type tohost, @object
   .size tohost, 8
tohost: .dword 0
   .align 6
   .globl fromhost
   .type fromhost, @object
   .size fromhost, 8
fromhost: .dword 0
