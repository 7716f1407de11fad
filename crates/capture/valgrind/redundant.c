/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Writes of the program's registers that change nothing.
 *
 * VEX brings registers up to date at every exit and memory access, and removes a write only if another follows
 * without one of these between. Two kinds are left that no code can see, most of all in loops, which VEX unrolls: of the
 * stores of a small loop a sixth to a third.
 */
#include "pagewalk.h"

#define WORD 8
#define MOST_WORDS 256

/* The registers from `offset` may hold anything from now on. */
static void forget(const IRExpr **held, UInt offset, UInt bytes)
{
   for (UInt word = offset / WORD; word < MOST_WORDS && word * WORD < offset + bytes; word++)
      held[word] = NULL;
}

/* Writes of what the register holds already: of the flags, which are kept as an operation and its operands, most. */
static void drop_repeated(IRSB *block)
{
   const IRExpr *held[MOST_WORDS] = { NULL };
   for (Int i = 0; i < block->stmts_used; i++) {
      const IRStmt *stmt = block->stmts[i];
      switch (stmt->tag) {
      case Ist_Put: {
         UInt offset = stmt->Ist.Put.offset;
         IRExpr *value = stmt->Ist.Put.data;
         UInt bytes = sizeofIRType(typeOfIRExpr(block->tyenv, value));
         Bool is_word = bytes == WORD && offset % WORD == 0 && offset / WORD < MOST_WORDS;
         if (is_word && held[offset / WORD] && eqIRAtom(held[offset / WORD], value)) {
            block->stmts[i] = IRStmt_NoOp();
            break;
         }
         forget(held, offset, bytes);
         if (is_word)
            held[offset / WORD] = value;
         break;
      }
      case Ist_PutI:
      case Ist_Dirty:
         forget(held, 0, MOST_WORDS * WORD);
         break;
      default:
         break;
      }
   }
}

/* Whether the instruction pointer must be right for an expression: it reads it, or a signal may come of it. */
static Bool is_observer(const IRExpr *value, const VexGuestLayout *layout)
{
   switch (value->tag) {
   case Iex_Load:
      return True;
   case Iex_Get:
      return value->Iex.Get.offset == layout->offset_IP;
   case Iex_Binop: /* a division by zero */
      return value->Iex.Binop.op >= Iop_DivU32 && value->Iex.Binop.op <= Iop_DivModU32to32;
   default:
      return False;
   }
}

/* Writes of the instruction pointer that the next one, or the end of the block, makes obsolete before any code reads it.
 * An exit that is taken writes it, too. */
static void drop_unseen(IRSB *block, const VexGuestLayout *layout)
{
   Bool is_seen = False;
   for (Int i = block->stmts_used - 1; i >= 0; i--) {
      const IRStmt *stmt = block->stmts[i];
      switch (stmt->tag) {
      case Ist_Put:
         if (stmt->Ist.Put.offset != layout->offset_IP)
            break;
         if (!is_seen)
            block->stmts[i] = IRStmt_NoOp();
         is_seen = False;
         break;
      case Ist_WrTmp:
         is_seen |= is_observer(stmt->Ist.WrTmp.data, layout);
         break;
      case Ist_NoOp:
      case Ist_IMark:
      case Ist_AbiHint:
      case Ist_PutI:
      case Ist_Exit:
         break;
      default:
         is_seen |= !pw_mark(stmt);
      }
   }
}

void pw_drop_redundant(IRSB *block, const VexGuestLayout *layout)
{
   drop_repeated(block);
   drop_unseen(block, layout);
}
