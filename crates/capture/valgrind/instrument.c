/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What a block of the program becomes.
 *
 * Every mark of an access (accesses.c) turns into one plain store of its record at fill + 8k, k being the number of
 * records of the block so far; so does, where blocks are wanted, the block's first instruction. No helper is called per access: one guarded call at the entry empties the buffer when it is
 * due, and each exit of the block writes the fill and the instruction count back: a block that faults commits nothing.
 *
 * Stores are what this code must be sparing with: a processor has room for some 50 to 100 that wait for memory, and a
 * program that misses caches has as many misses under way as there are records and registers between them.
 */
#include "pagewalk.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_machine.h"

typedef struct {
   IRSB *out;
   Int state_offset; /* of pw_state's word in the registers */
   IRTemp fill;      /* bytes of the buffer in use at entry; IRTemp_INVALID in a block without records */
   Addr start;       /* of its first instruction */
   ULong executed;   /* the record of its execution; 0 if blocks are not wanted */
   UInt records;     /* so far */
   UInt instructions;
   ULong committed;  /* what commits have added to the word */
} Block;

static IRExpr *constant(ULong value)
{
   return IRExpr_Const(IRConst_U64(value));
}

static IRTemp assign(Block *block, IRType type, IRExpr *value)
{
   IRTemp temp = newIRTemp(block->out->tyenv, type);
   addStmtToIRSB(block->out, IRStmt_WrTmp(temp, value));
   return temp;
}

static IRExpr *temp(IRTemp t)
{
   return IRExpr_RdTmp(t);
}

static IRTemp assign_state(Block *block)
{
   return assign(block, Ity_I64, IRExpr_Get(block->state_offset, Ity_I64));
}

static IRTemp assign_fill(Block *block)
{
   IRTemp state = assign_state(block);
   if (block->executed)
      return state;
   return assign(block, Ity_I64, IRExpr_Binop(Iop_And64, temp(state), constant(PW_FILL_MASK)));
}

/* if (fill >= limit) pw_flush_running(); */
static void entry(Block *block)
{
   IRExpr *limit = constant(PW_BUFFER_RECORDS * sizeof *pw_buffer);
   IRTemp room = assign(block, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, temp(assign_fill(block)), limit));
   IRTemp full = assign(block, Ity_I1, IRExpr_Unop(Iop_Not1, temp(room)));
   void *flush = VG_(fnptr_to_fnentry)(&pw_flush_running);
   IRDirty *call = unsafeIRDirty_0_N(0, "pw_flush_running", flush, mkIRExprVec_0());
   call->guard = temp(full);
   call->nFxState = 1;
   call->fxState[0].fx = Ifx_Modify;
   call->fxState[0].offset = block->state_offset;
   call->fxState[0].size = sizeof pw_state;
   call->fxState[0].nRepeats = 0;
   call->fxState[0].repeatLen = 0;
   addStmtToIRSB(block->out, IRStmt_Dirty(call));
   block->fill = assign_fill(block);
}

/* Brings the word up to date; needed before every statement that may leave the block. */
static void commit(Block *block)
{
   ULong due = block->records * sizeof *pw_buffer;
   if (!block->executed)
      due |= (ULong)block->instructions << PW_FILL_BITS;
   if (due == block->committed)
      return;
   /* Where the word is the fill, its value is at hand. */
   IRTemp before = block->executed ? block->fill : assign_state(block);
   ULong delta = block->executed ? due : due - block->committed;
   block->committed = due;
   IRTemp next = assign(block, Ity_I64, IRExpr_Binop(Iop_Add64, temp(before), constant(delta)));
   addStmtToIRSB(block->out, IRStmt_Put(block->state_offset, temp(next)));
}

static void store_record(Block *block, IRExpr *word)
{
   tl_assert(block->fill != IRTemp_INVALID);
   tl_assert(block->records < PW_SLACK);
   IRExpr *slot = constant((Addr)(pw_buffer + block->records));
   IRTemp place = assign(block, Ity_I64, IRExpr_Binop(Iop_Add64, temp(block->fill), slot));
   addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, temp(place), word));
   block->records++;
}

/* One record; of a guarded access it is 0 (no access) where the address is. */
static void record(Block *block, ULong mark, IRExpr *addr)
{
   IRTemp word = assign(block, Ity_I64, IRExpr_Binop(Iop_Or64, addr, constant(pw_mark_tag(mark))));
   if (mark & PW_MARK_GUARDED) {
      IRTemp happens = assign(block, Ity_I1, IRExpr_Binop(Iop_CmpNE64, addr, constant(0)));
      word = assign(block, Ity_I64, IRExpr_ITE(temp(happens), temp(word), constant(0)));
   }
   store_record(block, temp(word));
}

static void statement(Block *block, IRStmt *stmt)
{
   ULong mark = pw_mark(stmt);
   if (mark) {
      record(block, mark, stmt->Ist.Store.data);
      return;
   }
   if (stmt->tag == Ist_Exit)
      commit(block);
   addStmtToIRSB(block->out, stmt);
   if (stmt->tag != Ist_IMark)
      return;
   block->instructions++;
   /* The optimiser copies a short loop behind itself: each copy is an execution. */
   if (block->executed && stmt->Ist.IMark.addr == block->start)
      store_record(block, constant(block->executed));
}

/* The instructions from the block's first one on, up to its first copy. */
static UInt instructions(const IRSB *block)
{
   UInt count = 0;
   Addr start = 0;
   for (Int i = 0; i < block->stmts_used; i++) {
      if (block->stmts[i]->tag != Ist_IMark)
         continue;
      if (count == 0)
         start = block->stmts[i]->Ist.IMark.addr;
      else if (block->stmts[i]->Ist.IMark.addr == start)
         break;
      count++;
   }
   return count;
}

IRSB *pw_instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                    const VexArchInfo *archinfo_host, IRType guest_word, IRType host_word)
{
   tl_assert(guest_word == Ity_I64 && host_word == Ity_I64);
   Block block = {
      .out = deepCopyIRSBExceptStmts(in),
      .state_offset = layout->total_sizeB, /* the first shadow registers follow the registers */
      .fill = IRTemp_INVALID,
   };
   pw_drop_redundant(in, layout);
   Int i = 0;
   /* What precedes the first instruction mark is Valgrind's own and stays as it is. */
   while (i < in->stmts_used && in->stmts[i]->tag != Ist_IMark)
      addStmtToIRSB(block.out, in->stmts[i++]);
   if (pw_wants_blocks && i < in->stmts_used) {
      block.start = in->stmts[i]->Ist.IMark.addr;
      block.executed = PW_RECORD_BLOCK(pw_send_code(extents->base[0], extents->len[0], instructions(in)));
   }
   Bool has_records = block.executed != 0;
   for (Int j = i; j < in->stmts_used; j++)
      has_records |= pw_mark(in->stmts[j]) != 0;
   if (has_records)
      entry(&block);
   for (; i < in->stmts_used; i++)
      if (in->stmts[i]->tag != Ist_NoOp)
         statement(&block, in->stmts[i]);
   commit(&block);
   return block.out;
}
