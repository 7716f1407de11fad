/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Each form of a load and of a store of A64, once, on a stack that has room; then the end. */
   .globl _start
_start:
   sub sp, sp, #512
   mov x1, sp
   mov x2, #8
   movi v0.2d, #0
   movi v1.2d, #0
   str x0, [x1]
   str w0, [x1, #8]
   strh w0, [x1, x2, lsl #1]
   strb w0, [x1, w2, uxtw]
   stur x0, [x1, #1]
   str x0, [x1], #16
   str x0, [x1, #-16]!
   stp x0, x3, [x1]
   stp w0, w3, [x1, #8]
   stp x0, x3, [x1, #-16]!
   stp x0, x3, [x1], #16
   str b0, [x1]
   str h0, [x1]
   str s0, [x1]
   str d0, [x1]
   str q0, [x1, #16]
   stp s0, s1, [x1]
   stp d0, d1, [x1]
   stp q0, q1, [x1]
   stlr x0, [x1]
   b 1f
1: ldr x0, [x1]
   ldr w0, [x1, #8]
   ldrh w0, [x1, x2, lsl #1]
   ldrsb x0, [x1, w2, sxtw]
   ldrsw x0, [x1, #4]
   ldur x0, [x1, #1]
   ldr x0, [x1], #16
   ldr x0, [x1, #-16]!
   ldp x0, x3, [x1]
   ldp w0, w3, [x1, #8]
   ldpsw x0, x3, [x1, #8]
   ldnp x0, x3, [x1]
   ldr b0, [x1]
   ldr h0, [x1]
   ldr s0, [x1]
   ldr d0, [x1]
   ldr q0, [x1, #16]
   ldp s0, s1, [x1]
   ldp d0, d1, [x1]
   ldp q0, q1, [x1]
   ldr x0, 2f
   ldrsw x0, 2f
   ldr d0, 2f
   ldr q0, 2f
   ldar x0, [x1]
   prfm pldl1keep, [x1]
   b 1f
1: .arch armv8.3-a
   ldxr x0, [x1]
   ldaxr w0, [x1]
   ldapr x0, [x1]
   b 1f
1: ldadd x0, x3, [x1]
   swpal w0, w3, [x1]
   ldumaxb w0, w3, [x1]
   stadd x0, [x1]
   cas x0, x3, [x1]
   b 1f
1: mov x0, #7
   mov x8, #94
   svc #0
   .balign 16
2: .quad 1, 2
