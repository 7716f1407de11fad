/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The opcode of an x86-64 instruction, as far as the front-ends that see instructions need it: to know the width of an
 * operand that their engine accesses in pieces, or in part.
 */
#ifndef PAGEWALK_OPCODE_H
#define PAGEWALK_OPCODE_H

#include <stdint.h>

struct pw_opcode {
   uint8_t map;    /* 0, or 1 for 0F, 2 for 0F 38, 3 for 0F 3A */
   uint8_t prefix; /* 0x66, 0xf2, 0xf3 or 0, before the opcode or encoded in VEX */
   uint8_t opcode;
   uint8_t modrm;
   uint8_t is_wide; /* REX.W */
   uint8_t is_high; /* REX.B: the operand's register is one of the upper eight */
   uint8_t is_vex;
   uint8_t is_256;
};

static inline struct pw_opcode pw_decode(const uint8_t *code, uint32_t bytes)
{
   static const uint8_t implied[4] = { 0, 0x66, 0xf3, 0xf2 };
   struct pw_opcode op = { 0 };
   uint32_t i = 0;
   for (; i < bytes; i++) {
      uint8_t byte = code[i];
      if (byte == 0x66 || byte == 0xf2 || byte == 0xf3)
         op.prefix = byte;
      else if ((byte & 0xf0) == 0x40) {
         op.is_wide = byte >> 3 & 1;
         op.is_high = byte & 1;
      } else if (byte != 0xf0 && (byte & 0xfe) != 0x64 && byte != 0x67 && (byte & 0xe7) != 0x26)
         break;
   }
   if (i + 4 <= bytes && (code[i] == 0xc4 || code[i] == 0xc5)) {
      uint32_t is_long = code[i] == 0xc4;
      uint8_t last = code[i + 1 + is_long];
      op.is_vex = 1;
      op.map = is_long ? code[i + 1] & 0x1f : 1;
      op.is_high = is_long && !(code[i + 1] & 0x20);
      op.is_wide = is_long && last >> 7;
      op.prefix = implied[last & 3];
      op.is_256 = last >> 2 & 1;
      i += 2 + is_long;
   } else if (i + 2 <= bytes && code[i] == 0x0f) {
      op.map = code[i + 1] == 0x38 ? 2 : code[i + 1] == 0x3a ? 3 : 1;
      i += op.map == 1 ? 1 : 2;
   }
   op.opcode = i < bytes ? code[i] : 0;
   op.modrm = i + 1 < bytes ? code[i + 1] : 0;
   return op;
}

/* Whether ModRM names a register and no memory. */
static inline int pw_is_register(const struct pw_opcode *op)
{
   return op->modrm >= 0xc0;
}

/* The register, or the further opcode, in the middle of ModRM. */
static inline uint8_t pw_middle(const struct pw_opcode *op)
{
   return op->modrm >> 3 & 7;
}

/* The width of an operand that is not seen from how an engine accesses it: Valgrind or QEMU accesses a part of it, or more
 * than it, or the fields that it knows. 0 for all other operands. */
static inline uint32_t pw_operand_bytes(const struct pw_opcode *op)
{
   uint8_t code = op->opcode, middle = pw_middle(op);
   if (pw_is_register(op))
      return 0;
   if (op->map == 0) {
      if (code == 0xd9 && (middle == 4 || middle == 6)) /* fldenv, fnstenv */
         return op->prefix == 0x66 ? 14 : 28;
      if (code == 0xdd && (middle == 4 || middle == 6)) /* frstor, fnsave */
         return op->prefix == 0x66 ? 94 : 108;
      if (code == 0xdf && (middle == 4 || middle == 6)) /* fbld, fbstp */
         return 10;
      return code == 0x63 && op->prefix == 0x66 && !op->is_wide ? 2 : 0; /* movsxd to 16 bits */
   }
   if (op->map == 1) {
      if (code == 0xae && middle <= 1 && !op->is_vex) /* fxsave, fxrstor */
         return 512;
      if ((code == 0x01 && middle <= 1) || (code >= 0xb2 && code <= 0xb5 && code != 0xb3 && op->is_wide))
         return 10; /* sgdt, sidt; lss, lfs, lgs */
      if (code == 0x12 && op->prefix == 0xf2 && op->is_256) /* vmovddup */
         return 32;
      if (code == 0xe6 && op->prefix == 0xf3) /* cvtdq2pd */
         return op->is_256 ? 16 : 8;
      if (code >= 0x60 && code <= 0x62 && op->prefix == 0 && !op->is_vex) /* punpckl* of MMX */
         return 4;
      int is_shift = (code >= 0xd1 && code <= 0xd3) || code == 0xe1 || code == 0xe2 || (code >= 0xf1 && code <= 0xf3);
      return is_shift && op->prefix == 0x66 ? 16 : 0;
   }
   if (op->map == 2 && op->is_vex && (code & 1) && (code & 15) >= 9 && code >= 0x99 && code <= 0xbf) /* scalar FMA */
      return op->is_wide ? 8 : 4;
   return 0;
}

#endif
