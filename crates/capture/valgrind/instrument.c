/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What a block of the program becomes.
 *
 * Every data access turns into one plain store of its record at fill + 8k, k being the number of records of the
 * block so far; an instruction that reads a place and writes it makes one record for both. No helper is called per
 * access: one guarded call at the entry empties the buffer when it is due, and each exit of the block writes the fill
 * and the instruction count back. The record of an access follows the access, so a block that faults commits nothing.
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
   IRTemp fill;      /* bytes of the buffer in use at entry; IRTemp_INVALID in a block without accesses */
   UInt records;     /* so far */
   UInt instructions;
   ULong committed;  /* what commits have added to the word */
   Bool owes_read;   /* the next access is a write whose record stands for the load before it, too */
} Block;

typedef enum { READ, WRITE, MODIFY /* a read, then a write of the same bytes: one record */ } Direction;

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
   return assign(block, Ity_I64, IRExpr_Binop(Iop_And64, temp(assign_state(block)), constant(PW_FILL_MASK)));
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
   ULong due = (ULong)block->instructions << PW_FILL_BITS | block->records * sizeof *pw_buffer;
   if (due == block->committed)
      return;
   ULong delta = due - block->committed;
   block->committed = due;
   IRTemp next = assign(block, Ity_I64, IRExpr_Binop(Iop_Add64, temp(assign_state(block)), constant(delta)));
   addStmtToIRSB(block->out, IRStmt_Put(block->state_offset, temp(next)));
}

static ULong tag(UInt bytes, Direction direction)
{
   return pw_record_tag(bytes, direction != READ) | (direction == MODIFY ? PW_RECORD_READ_BEFORE : 0);
}

/* One record; with a guard, the record is 0 (no access) where the guard is false. */
static void record(Block *block, IRExpr *addr, UInt bytes, Direction direction, IRExpr *guard)
{
   tl_assert(block->fill != IRTemp_INVALID);
   tl_assert(bytes >= 1 && bytes <= PW_RECORD_BYTES_MAX);
   tl_assert(block->records < PW_SLACK);
   IRTemp word = assign(block, Ity_I64, IRExpr_Binop(Iop_Or64, addr, constant(tag(bytes, direction))));
   if (guard)
      word = assign(block, Ity_I64, IRExpr_ITE(guard, temp(word), constant(0)));
   IRExpr *slot = constant((Addr)(pw_buffer + block->records));
   IRTemp place = assign(block, Ity_I64, IRExpr_Binop(Iop_Add64, temp(block->fill), slot));
   addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, temp(place), temp(word)));
   block->records++;
}

/* An effect of a helper over a range: 64-byte pieces, then the rest. */
static void record_range(Block *block, IRExpr *addr, UInt bytes, Direction direction, IRExpr *guard)
{
   for (UInt done = 0; done < bytes; done += PW_RECORD_BYTES_MAX) {
      UInt piece = bytes - done < PW_RECORD_BYTES_MAX ? bytes - done : PW_RECORD_BYTES_MAX;
      IRExpr *at = addr;
      if (done > 0)
         at = temp(assign(block, Ity_I64, IRExpr_Binop(Iop_Add64, addr, constant(done))));
      record(block, at, piece, direction, guard);
   }
}

static IRExpr *guard_or_null(IRExpr *guard)
{
   Bool always = guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1;
   return always ? NULL : guard;
}

static UInt load_guarded_bytes(const IRLoadG *load)
{
   IRType result = Ity_INVALID, loaded = Ity_INVALID;
   typeOfIRLoadGOp(load->cvt, &result, &loaded);
   return sizeofIRType(loaded);
}

static void record_dirty(Block *block, const IRDirty *call)
{
   IRExpr *guard = guard_or_null(call->guard);
   if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
      record_range(block, call->mAddr, call->mSize, READ, guard);
   if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
      record_range(block, call->mAddr, call->mSize, WRITE, guard);
}

/* A compare-and-swap reads and writes its whole operand, whatever the outcome: so does the processor. */
static void record_cas(Block *block, const IRCAS *cas)
{
   UInt bytes = sizeofIRType(typeOfIRExpr(block->out->tyenv, cas->dataLo));
   record(block, cas->addr, cas->dataHi ? 2 * bytes : bytes, MODIFY, NULL);
}

static Bool is_access(const IRStmt *stmt)
{
   switch (stmt->tag) {
   case Ist_WrTmp:
      return stmt->Ist.WrTmp.data->tag == Iex_Load;
   case Ist_Dirty:
      return stmt->Ist.Dirty.details->mFx != Ifx_None;
   case Ist_Store:
   case Ist_StoreG:
   case Ist_LoadG:
   case Ist_CAS:
      return True;
   default:
      return False;
   }
}

/* Whether what the statement loads is written back by the next access of the same instruction: `add %rax, (%rbx)`, and
 * every locked instruction, of which VEX makes a load and a compare-and-swap. */
static Bool is_written_back(const IRSB *in, Int at)
{
   const IRExpr *load = in->stmts[at]->Ist.WrTmp.data;
   for (Int i = at + 1; i < in->stmts_used; i++) {
      const IRStmt *next = in->stmts[i];
      const IRExpr *addr, *data;
      if (next->tag == Ist_IMark || next->tag == Ist_Exit)
         return False;
      if (!is_access(next))
         continue;
      if (next->tag == Ist_Store) {
         addr = next->Ist.Store.addr;
         data = next->Ist.Store.data;
      } else if (next->tag == Ist_CAS && !next->Ist.CAS.details->dataHi) {
         addr = next->Ist.CAS.details->addr;
         data = next->Ist.CAS.details->dataLo;
      } else
         return False;
      return eqIRAtom(addr, load->Iex.Load.addr) && typeOfIRExpr(in->tyenv, data) == load->Iex.Load.ty;
   }
   return False;
}

/* The statement itself, then the records of its accesses. */
static void statement(Block *block, const IRSB *in, Int at)
{
   IRStmt *stmt = in->stmts[at];
   IRTypeEnv *types = block->out->tyenv;
   if (stmt->tag == Ist_Exit)
      commit(block);
   addStmtToIRSB(block->out, stmt);
   switch (stmt->tag) {
   case Ist_IMark:
      block->instructions++;
      break;
   case Ist_WrTmp:
      if (stmt->Ist.WrTmp.data->tag == Iex_Load) {
         const IRExpr *load = stmt->Ist.WrTmp.data;
         block->owes_read = is_written_back(in, at);
         if (!block->owes_read)
            record(block, load->Iex.Load.addr, sizeofIRType(load->Iex.Load.ty), READ, NULL);
      }
      break;
   case Ist_Store: {
      UInt bytes = sizeofIRType(typeOfIRExpr(types, stmt->Ist.Store.data));
      record(block, stmt->Ist.Store.addr, bytes, block->owes_read ? MODIFY : WRITE, NULL);
      block->owes_read = False;
      break;
   }
   case Ist_LoadG: {
      const IRLoadG *load = stmt->Ist.LoadG.details;
      record(block, load->addr, load_guarded_bytes(load), READ, guard_or_null(load->guard));
      break;
   }
   case Ist_StoreG: {
      const IRStoreG *store = stmt->Ist.StoreG.details;
      UInt bytes = sizeofIRType(typeOfIRExpr(types, store->data));
      record(block, store->addr, bytes, WRITE, guard_or_null(store->guard));
      break;
   }
   case Ist_CAS:
      record_cas(block, stmt->Ist.CAS.details);
      block->owes_read = False;
      break;
   case Ist_Dirty:
      record_dirty(block, stmt->Ist.Dirty.details);
      break;
   case Ist_LLSC:
      VG_(tool_panic)("pagewalk: load-linked on amd64");
   default:
      break;
   }
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
   Bool has_accesses = False;
   for (Int j = i; j < in->stmts_used; j++)
      has_accesses |= is_access(in->stmts[j]);
   if (has_accesses)
      entry(&block);
   for (; i < in->stmts_used; i++)
      if (in->stmts[i]->tag != Ist_NoOp)
         statement(&block, in, i);
   commit(&block);
   return block.out;
}
