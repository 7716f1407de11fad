/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which accesses an instruction makes.
 *
 * The processor's manual gives an instruction one access of its operand's width, a gather or a masked move one for each
 * element, a string instruction one for each element. VEX makes of an instruction what suits it: a load for each lane of a
 * vector, half of an operand whose other half has no effect, a bit's byte for its word. And its optimiser removes loads
 * whose value is not used. So accesses are read off VEX's code before the optimiser sees it, put together again, and marked
 * by a store to an address that no program can have. The optimiser keeps stores; pw_instrument makes a record of each.
 */
#include "pagewalk.h"

#include "libvex_guest_amd64.h"
#include "pub_tool_libcassert.h"

#include "../protocol/opcode.h"

/* The most accesses that VEX makes of one instruction: those of xrstor, and what a scalar loop of a gather needs. */
#define MOST_ACCESSES 256

typedef struct {
   Int at; /* its mark goes before this statement */
   pw_direction direction;
   IRExpr *addr;
   IRTemp root; /* the address less `offset`; IRTemp_INVALID: a constant address */
   ULong offset;
   UInt bytes;
   IRExpr *guard; /* NULL: always */
} Access;

/* One instruction of the program: its statements, and its accesses so far. */
typedef struct {
   const IRSB *block;
   const UChar *code;
   UInt code_bytes;
   Int first, end;
   Access accesses[MOST_ACCESSES];
   Int count;
} Instruction;

/* ---- what VEX's code does ---- */

static const IRExpr *definition(const Instruction *instruction, IRTemp temp)
{
   for (Int i = instruction->first; i < instruction->end; i++) {
      const IRStmt *stmt = instruction->block->stmts[i];
      if (stmt->tag == Ist_WrTmp && stmt->Ist.WrTmp.tmp == temp)
         return stmt->Ist.WrTmp.data;
   }
   return NULL;
}

static Bool is_constant(const IRExpr *value)
{
   return value->tag == Iex_Const && value->Iex.Const.con->tag == Ico_U64;
}

/* An address as a variable part, which may be missing, and a constant one; whether it is as simple as that. */
static Bool split_address(const Instruction *instruction, const IRExpr *addr, IRTemp *root, ULong *offset)
{
   *root = IRTemp_INVALID;
   *offset = 0;
   for (;;) {
      if (is_constant(addr)) {
         *offset += addr->Iex.Const.con->Ico.U64;
         *root = IRTemp_INVALID;
         return True;
      }
      if (addr->tag == Iex_RdTmp) {
         *root = addr->Iex.RdTmp.tmp;
         addr = definition(instruction, *root);
         if (!addr)
            return True;
         continue;
      }
      Bool is_sum = addr->tag == Iex_Binop && (addr->Iex.Binop.op == Iop_Add64 || addr->Iex.Binop.op == Iop_Sub64)
         && is_constant(addr->Iex.Binop.arg2)
         && (addr->Iex.Binop.arg1->tag == Iex_RdTmp || is_constant(addr->Iex.Binop.arg1));
      if (!is_sum)
         return *root != IRTemp_INVALID;
      ULong distance = addr->Iex.Binop.arg2->Iex.Const.con->Ico.U64;
      *offset += addr->Iex.Binop.op == Iop_Add64 ? distance : -distance;
      addr = addr->Iex.Binop.arg1;
   }
}

static Bool is_same(const IRExpr *guard, const IRExpr *other)
{
   return guard == other || (guard && other && isIRAtom(guard) && isIRAtom(other) && eqIRAtom(guard, other));
}

/* Joins an access to one that the same instruction made beside it, or in it. */
static Bool join(Instruction *instruction, const Access *access)
{
   for (Int i = 0; i < instruction->count; i++) {
      Access *before = &instruction->accesses[i];
      if (before->direction != access->direction || before->root != access->root || !is_same(before->guard, access->guard))
         continue;
      ULong end = before->offset + before->bytes, access_end = access->offset + access->bytes;
      if (access->offset > end || access_end < before->offset)
         continue;
      if (access->offset < before->offset) {
         before->offset = access->offset;
         before->addr = access->addr;
         before->at = access->at;
      }
      before->bytes = (access_end > end ? access_end : end) - before->offset;
      return True;
   }
   return False;
}

static void add(Instruction *instruction, Int at, pw_direction direction, IRExpr *addr, UInt bytes, IRExpr *guard)
{
   Access access = { .at = at, .direction = direction, .addr = addr, .bytes = bytes, .guard = guard };
   Bool is_always = guard && guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1;
   if (is_always)
      access.guard = NULL;
   Bool is_split = split_address(instruction, addr, &access.root, &access.offset);
   if (is_split && join(instruction, &access))
      return;
   tl_assert(instruction->count < MOST_ACCESSES);
   instruction->accesses[instruction->count++] = access;
}

/* The loads inside an expression. */
static void add_loads(Instruction *instruction, Int at, const IRExpr *value)
{
   switch (value->tag) {
   case Iex_Load:
      add_loads(instruction, at, value->Iex.Load.addr);
      add(instruction, at, PW_READ, value->Iex.Load.addr, sizeofIRType(value->Iex.Load.ty), NULL);
      break;
   case Iex_GetI:
      add_loads(instruction, at, value->Iex.GetI.ix);
      break;
   case Iex_Unop:
      add_loads(instruction, at, value->Iex.Unop.arg);
      break;
   case Iex_Binop:
      add_loads(instruction, at, value->Iex.Binop.arg1);
      add_loads(instruction, at, value->Iex.Binop.arg2);
      break;
   case Iex_Triop:
      add_loads(instruction, at, value->Iex.Triop.details->arg1);
      add_loads(instruction, at, value->Iex.Triop.details->arg2);
      add_loads(instruction, at, value->Iex.Triop.details->arg3);
      break;
   case Iex_Qop:
      add_loads(instruction, at, value->Iex.Qop.details->arg1);
      add_loads(instruction, at, value->Iex.Qop.details->arg2);
      add_loads(instruction, at, value->Iex.Qop.details->arg3);
      add_loads(instruction, at, value->Iex.Qop.details->arg4);
      break;
   case Iex_ITE:
      add_loads(instruction, at, value->Iex.ITE.cond);
      add_loads(instruction, at, value->Iex.ITE.iftrue);
      add_loads(instruction, at, value->Iex.ITE.iffalse);
      break;
   case Iex_CCall:
      for (IRExpr **arg = value->Iex.CCall.args; *arg; arg++)
         add_loads(instruction, at, *arg);
      break;
   default:
      break;
   }
}

static UInt load_guarded_bytes(const IRLoadG *load)
{
   IRType result = Ity_INVALID, loaded = Ity_INVALID;
   typeOfIRLoadGOp(load->cvt, &result, &loaded);
   return sizeofIRType(loaded);
}

static void add_statement(Instruction *instruction, Int at)
{
   const IRStmt *stmt = instruction->block->stmts[at];
   const IRTypeEnv *types = instruction->block->tyenv;
   switch (stmt->tag) {
   case Ist_WrTmp:
      add_loads(instruction, at, stmt->Ist.WrTmp.data);
      break;
   case Ist_Put:
      add_loads(instruction, at, stmt->Ist.Put.data);
      break;
   case Ist_PutI:
      add_loads(instruction, at, stmt->Ist.PutI.details->data);
      break;
   case Ist_Exit:
      add_loads(instruction, at, stmt->Ist.Exit.guard);
      break;
   case Ist_Store:
      add_loads(instruction, at, stmt->Ist.Store.data);
      add(instruction, at, PW_WRITE, stmt->Ist.Store.addr, sizeofIRType(typeOfIRExpr(types, stmt->Ist.Store.data)), NULL);
      break;
   case Ist_StoreG: {
      const IRStoreG *store = stmt->Ist.StoreG.details;
      add(instruction, at, PW_WRITE, store->addr, sizeofIRType(typeOfIRExpr(types, store->data)), store->guard);
      break;
   }
   case Ist_LoadG: {
      const IRLoadG *load = stmt->Ist.LoadG.details;
      add(instruction, at, PW_READ, load->addr, load_guarded_bytes(load), load->guard);
      break;
   }
   case Ist_CAS: {
      /* Reads and writes its whole operand, whatever the outcome: so does the processor. */
      const IRCAS *cas = stmt->Ist.CAS.details;
      UInt bytes = sizeofIRType(typeOfIRExpr(types, cas->dataLo)) * (cas->dataHi ? 2 : 1);
      add(instruction, at, PW_READ, cas->addr, bytes, NULL);
      add(instruction, at, PW_WRITE, cas->addr, bytes, NULL);
      break;
   }
   case Ist_Dirty: {
      const IRDirty *call = stmt->Ist.Dirty.details;
      if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
         add(instruction, at, PW_READ, call->mAddr, call->mSize, call->guard);
      if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
         add(instruction, at, PW_WRITE, call->mAddr, call->mSize, call->guard);
      break;
   }
   case Ist_LLSC:
      VG_(tool_panic)("pagewalk: load-linked on amd64");
   default:
      break;
   }
}

/* ---- where VEX's code is not what the manual says ---- */

/* bt, bts, btr, btc with a bit's number in a register: VEX takes the bit's byte, the processor the word that it is in.
 * VEX's address is the operand's plus the number shifted to bytes. */
static void widen_bit(Instruction *instruction, const struct pw_opcode *op)
{
   /* A register's bit, which VEX takes from a copy below the stack. */
   if (pw_is_register(op)) {
      instruction->count = 0;
      return;
   }
   UInt bytes = op->is_wide ? 8 : op->prefix == 0x66 ? 2 : 4;
   for (Int i = 0; i < instruction->count; i++) {
      Access *access = &instruction->accesses[i];
      const IRExpr *sum = access->addr->tag == Iex_RdTmp ? definition(instruction, access->addr->Iex.RdTmp.tmp) : NULL;
      if (!sum || sum->tag != Iex_Binop || sum->Iex.Binop.op != Iop_Add64)
         continue;
      IRExpr *mask = IRExpr_Const(IRConst_U64(-(ULong)bytes));
      IRExpr *word = IRExpr_Binop(Iop_And64, sum->Iex.Binop.arg2, mask);
      access->addr = IRExpr_Binop(Iop_Add64, sum->Iex.Binop.arg1, word);
      access->bytes = bytes;
   }
}

/* Replaces the instruction's accesses by some of `bytes` beside each other, from the first one's address. */
static void set_elements(Instruction *instruction, pw_direction direction, UInt count, UInt bytes)
{
   if (instruction->count == 0)
      return;
   Access first = instruction->accesses[0];
   first.direction = direction;
   first.bytes = bytes;
   first.guard = NULL;
   for (UInt i = 0; i < count; i++) {
      Access *access = &instruction->accesses[i];
      *access = first;
      access->offset = first.offset + i * bytes;
      access->addr = IRExpr_Binop(Iop_Add64, first.addr, IRExpr_Const(IRConst_U64(i * bytes)));
   }
   instruction->count = (Int)count;
}

/* maskmovq, maskmovdqu: VEX reads the whole operand and writes it back; the processor writes the bytes whose mask is on. */
static void mask_bytes(Instruction *instruction, const struct pw_opcode *op)
{
   Bool is_mmx = op->prefix == 0 && !op->is_vex;
   UInt number = (op->modrm & 7) + (op->is_high && !is_mmx ? 8 : 0);
   Int offset = is_mmx ? offsetof(VexGuestAMD64State, guest_FPREG) + 8 * number
                       : offsetof(VexGuestAMD64State, guest_YMM0) + sizeof(U256) * number;
   set_elements(instruction, PW_WRITE, is_mmx ? 8 : 16, 1);
   for (Int i = 0; i < instruction->count; i++) {
      IRExpr *sign = IRExpr_Binop(Iop_And8, IRExpr_Get(offset + i, Ity_I8), IRExpr_Const(IRConst_U8(0x80)));
      instruction->accesses[i].guard = IRExpr_Binop(Iop_CmpNE8, sign, IRExpr_Const(IRConst_U8(0)));
   }
}

/* A gather: where an element is off, VEX loads from the top of the stack instead. */
static void guard_elements(Instruction *instruction)
{
   for (Int i = 0; i < instruction->count; i++) {
      Access *access = &instruction->accesses[i];
      if (access->addr->tag != Iex_ITE)
         continue;
      access->guard = access->addr->Iex.ITE.cond;
      access->addr = access->addr->Iex.ITE.iftrue;
   }
}

/* xsave: of the word that says which parts are there, VEX updates a byte. */
static void widen_header(Instruction *instruction)
{
   for (Int i = 0; i < instruction->count; i++)
      if (instruction->accesses[i].bytes == 1)
         instruction->accesses[i].bytes = 8;
}

static void correct(Instruction *instruction)
{
   struct pw_opcode op = pw_decode(instruction->code, instruction->code_bytes);
   UInt width = pw_operand_bytes(&op);
   if (width > 0 && instruction->count > 0)
      set_elements(instruction, instruction->accesses[0].direction, 1, width);
   else if (op.map == 1 && (op.opcode & 0xe7) == 0xa3 && !op.is_vex)
      widen_bit(instruction, &op);
   else if (op.map == 1 && op.opcode == 0xf7 && pw_is_register(&op))
      mask_bytes(instruction, &op);
   else if (op.map == 2 && op.is_vex && op.opcode >= 0x90 && op.opcode <= 0x93)
      guard_elements(instruction);
   else if (op.map == 1 && op.opcode == 0xae && pw_middle(&op) == 4)
      widen_header(instruction);
   else if (op.map == 0 && op.opcode == 0xcf) /* iretq: address, code segment, flags, stack, stack segment */
      set_elements(instruction, PW_READ, 5, 8);
}

/* ---- marks ---- */

/* The store that stands for a record: of the address, to a place that says what the record says beside. Where the guard is
 * false, of 0. (A guarded store would do as well, but the optimiser does not take it beside an access to a register of the
 * x87 unit.) */
static void mark(IRSB *out, pw_direction direction, IRExpr *addr, UInt bytes, IRExpr *guard)
{
   ULong place = pw_mark_of(bytes, direction);
   if (guard) {
      place |= PW_MARK_GUARDED;
      addr = IRExpr_ITE(guard, addr, IRExpr_Const(IRConst_U64(0)));
   }
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, IRExpr_Const(IRConst_U64(place)), addr));
}

/* Pieces of at most 64 bytes. */
static void mark_access(IRSB *out, const Access *access)
{
   for (UInt done = 0; done < access->bytes; done += PW_RECORD_BYTES_MAX) {
      UInt piece = access->bytes - done < PW_RECORD_BYTES_MAX ? access->bytes - done : PW_RECORD_BYTES_MAX;
      IRExpr *addr = access->addr;
      if (done > 0)
         addr = IRExpr_Binop(Iop_Add64, addr, IRExpr_Const(IRConst_U64(done)));
      mark(out, access->direction, addr, piece, access->guard);
   }
}

/* A read, then a write of the same bytes, is one record: `add %rax, (%rbx)`, and every locked instruction. */
static void pair_up(Instruction *instruction)
{
   Int kept = 0;
   for (Int i = 0; i < instruction->count; i++) {
      Access *access = &instruction->accesses[i], *next = access + 1;
      Bool is_pair = i + 1 < instruction->count && access->direction == PW_READ && next->direction == PW_WRITE
         && !access->guard && !next->guard && access->bytes == next->bytes && access->bytes <= PW_RECORD_BYTES_MAX
         && access->root == next->root && access->offset == next->offset
         && (access->root != IRTemp_INVALID || is_constant(access->addr));
      if (is_pair) {
         access->direction = PW_MODIFY;
         i++;
      }
      instruction->accesses[kept++] = *access;
   }
   instruction->count = kept;
}

/* Copies the instruction, with its marks. */
static void copy(IRSB *out, Instruction *instruction)
{
   for (Int i = instruction->first; i < instruction->end; i++)
      add_statement(instruction, i);
   correct(instruction);
   pair_up(instruction);
   for (Int i = instruction->first; i < instruction->end; i++) {
      for (Int j = 0; j < instruction->count; j++)
         if (instruction->accesses[j].at == i)
            mark_access(out, &instruction->accesses[j]);
      addStmtToIRSB(out, instruction->block->stmts[i]);
   }
}

/* Stands in place of VEX's function of this name without `__wrap_` (see the Makefile), the optimiser's first step, which
 * everything that VEX makes of the program's code goes through. */
IRSB *__real_do_minimal_initial_iropt_BB(IRSB *block);
IRSB *__wrap_do_minimal_initial_iropt_BB(IRSB *block);
IRSB *__wrap_do_minimal_initial_iropt_BB(IRSB *in)
{
   IRSB *out = deepCopyIRSBExceptStmts(in);
   static Instruction instruction; /* too large for the stack; one translation at a time */
   Int i = 0;
   /* What precedes the first instruction mark is Valgrind's own and stays as it is. */
   while (i < in->stmts_used && in->stmts[i]->tag != Ist_IMark)
      addStmtToIRSB(out, in->stmts[i++]);
   while (i < in->stmts_used) {
      const IRStmt *begin = in->stmts[i];
      instruction.block = in;
      instruction.code = (const UChar *)(Addr)begin->Ist.IMark.addr;
      instruction.code_bytes = begin->Ist.IMark.len;
      instruction.count = 0;
      instruction.first = i++;
      while (i < in->stmts_used && in->stmts[i]->tag != Ist_IMark)
         i++;
      instruction.end = i;
      copy(out, &instruction);
   }
   return __real_do_minimal_initial_iropt_BB(out);
}
