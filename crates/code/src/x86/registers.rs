//! The registers that an instruction reads and writes.

use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
    Register as Name, RflagsBits,
};

use super::{CARRY, FLAGS, X87, general, mask, vector};
use crate::register::{Register, Registers};

const STACK_POINTER: Register = general(4);
const IMPLIED_ADDRESS: Register = general(7);
const OTHER_FLAGS: u32 = RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::PF;

/// Returns the register that the name is a part of, or none for registers that are left out.
pub(super) fn register(name: Name) -> Option<Register> {
    let full = name.full_register();
    let number = full.number() as u8;
    match full {
        _ if full.is_gpr64() => Some(general(number)),
        _ if full.is_vector_register() => Some(vector(number)),
        _ if full.is_k() => Some(mask(number)),
        _ if full.is_st() || full.is_mm() => Some(X87),
        _ => None,
    }
}

/// Returns whether the instruction moves the stack pointer by a fixed number of bytes, and does nothing else with it.
pub(super) fn is_stack_step(instruction: &Instruction) -> bool {
    use Mnemonic::{Call, Pop, Popf, Popfd, Popfq, Push, Pushf, Pushfd, Pushfq, Ret};
    matches!(instruction.mnemonic(), Push | Pop | Pushf | Pushfd | Pushfq | Popf | Popfd | Popfq | Ret)
        || instruction.mnemonic() == Call && !instruction.is_call_far() && !instruction.is_call_far_indirect()
}

/// Returns the registers that the operation reads, without those that only form an address, and those that it writes.
pub(super) fn registers(
    instruction: &Instruction,
    factory: &mut InstructionInfoFactory,
) -> (Registers, Registers) {
    let (mut reads, mut writes) = (Registers::EMPTY, Registers::EMPTY);
    // The operation of `lea` is the address. Of all others, an operand without its base and its index leaves what is read besides.
    let mut bare = *instruction;
    if instruction.mnemonic() != Mnemonic::Lea {
        bare.set_memory_base(Name::None);
        bare.set_memory_index(Name::None);
    }
    let info = factory.info_options(&bare, InstructionInfoOptions::NO_MEMORY_USAGE);
    for used in info.used_registers() {
        let Some(register) = register(used.register()) else { continue };
        let (is_read, is_written) = directions(used.access());
        // A write of 8 or 16 bits keeps the rest of the register.
        let is_part = used.register().is_gpr8() || used.register().is_gpr16();
        if is_read || is_written && is_part {
            reads.insert(register);
        }
        if is_written {
            writes.insert(register);
        }
    }
    let access = info.op0_access();
    // The masked moves name no address: it is in `%rdi`.
    let is_implied = |kind| matches!(kind, OpKind::MemorySegRDI | OpKind::MemorySegEDI);
    if instruction.op_kinds().any(is_implied) && !instruction.is_string_instruction() {
        reads.remove(IMPLIED_ADDRESS);
    }
    if is_stack_step(instruction) {
        leave_out_step(instruction, access, &mut reads, &mut writes);
    }
    add_flags(instruction, &mut reads, &mut writes);
    (reads, writes)
}

/// Takes the stack pointer out, unless it is also what is pushed, popped or called.
fn leave_out_step(
    instruction: &Instruction,
    access: OpAccess,
    reads: &mut Registers,
    writes: &mut Registers,
) {
    let is_operand = instruction.op0_kind() == OpKind::Register
        && register(instruction.op0_register()) == Some(STACK_POINTER);
    let (is_read, is_written) = directions(access);
    if !(is_operand && is_read) {
        reads.remove(STACK_POINTER);
    }
    if !(is_operand && is_written) {
        writes.remove(STACK_POINTER);
    }
}

/// Whether an access needs the old value of a register, and whether it leaves a new one. What is written on a condition may keep the
/// old one.
fn directions(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write => (false, true),
        OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
    }
}

fn add_flags(instruction: &Instruction, reads: &mut Registers, writes: &mut Registers) {
    let read = instruction.rflags_read();
    if read & RflagsBits::CF != 0 {
        reads.insert(CARRY);
    }
    if read & OTHER_FLAGS != 0 {
        reads.insert(FLAGS);
    }
    let modified = instruction.rflags_modified();
    if modified & RflagsBits::CF != 0 {
        writes.insert(CARRY);
    }
    let all = modified & OTHER_FLAGS;
    // A flag whose value is undefined counts as written if no other is kept. Processors keep those of `bt`, which keeps the zero flag.
    let written = if all == OTHER_FLAGS { all } else { all & !instruction.rflags_undefined() };
    if written != 0 {
        writes.insert(FLAGS);
        if written != OTHER_FLAGS {
            reads.insert(FLAGS);
        }
    }
}
