//! The class of an instruction: by its name, and by the form of its operands where one name has several.

use iced_x86::{Instruction, Mnemonic, OpKind};

use super::names::{Rule, rule};
use super::registers::register;
use super::{CARRY, X87, vector};
use crate::block::Flow;
use crate::class::Class;
use crate::register::Registers;

/// Returns the class, and whether the result does not depend on the registers that the instruction names.
pub(super) fn of(instruction: &Instruction, flow: Flow, writes: Registers) -> (Class, bool) {
    if instruction.is_string_instruction() {
        return (Class::String, false);
    }
    let is_exchange = instruction.mnemonic() == Mnemonic::Xchg && has_memory(instruction);
    if instruction.has_lock_prefix() || is_exchange {
        return (Class::Locked, false);
    }
    if flow == Flow::Stop || instruction.is_privileged() {
        return (Class::System, false);
    }
    match rule(instruction.mnemonic()) {
        Some(Rule::Is(class)) => (by_operands(instruction, class), class == Class::Zero),
        Some(Rule::Forms { memory, .. }) if has_memory(instruction) => {
            (by_operands(instruction, memory), false)
        }
        Some(Rule::Forms { register, .. }) => (by_operands(instruction, register), false),
        Some(Rule::Copies) => (copy(instruction), false),
        Some(Rule::Clears(_)) if has_equal_sources(instruction) => (Class::Zero, true),
        Some(Rule::Clears(class)) => (class, false),
        Some(Rule::Fills(class)) => (class, has_equal_sources(instruction)),
        None => (by_writes(writes), false),
    }
}

fn has_memory(instruction: &Instruction) -> bool {
    instruction.op_kinds().any(|kind| kind == OpKind::Memory)
}

/// The names of the instruction's operands that are registers.
fn names(instruction: &Instruction) -> impl Iterator<Item = iced_x86::Register> {
    let kinds = instruction.op_kinds().enumerate();
    kinds
        .filter(|&(_, kind)| kind == OpKind::Register)
        .map(|(operand, _)| instruction.op_register(operand as u32))
}

/// Of a name that has one class in most forms, the class in this one.
fn by_operands(instruction: &Instruction, class: Class) -> Class {
    match class {
        Class::Lea if is_complex(instruction) => Class::LeaComplex,
        Class::LoadStore if is_extended(instruction) => Class::Integer,
        Class::Convert if names(instruction).any(|name| name.is_gpr()) => Class::CrossConvert,
        Class::Divide64 if operand_bytes(instruction) < 8 => Class::Divide32,
        // The upper part of a vector goes to memory without a permutation.
        Class::Shuffle if instruction.op0_kind() == OpKind::Memory => Class::LoadStore,
        // A general register is copied to all elements.
        Class::Shuffle if names(instruction).any(|name| name.is_gpr()) => Class::Cross,
        Class::Cross if matches!(instruction.mnemonic(), Mnemonic::Movq | Mnemonic::Vmovq) => {
            let is_within = names(instruction).all(|name| name.is_vector_register())
                || names(instruction).all(|name| name.is_mm());
            if is_within { Class::VectorMove } else { class }
        }
        _ => class,
    }
}

/// Three parts, which cores add in a slower unit. Measured on Zen 3, where a scale takes no longer.
fn is_complex(instruction: &Instruction) -> bool {
    let has = |name| register(name).is_some();
    has(instruction.memory_base()) && has(instruction.memory_index()) && instruction.memory_displ_size() != 0
}

/// Whether a load extends the sign of what it loads.
fn is_extended(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Movsx | Mnemonic::Movsxd) && has_memory(instruction)
}

fn operand_bytes(instruction: &Instruction) -> usize {
    match instruction.op0_kind() {
        OpKind::Memory => instruction.memory_size().size(),
        _ => instruction.op0_register().size(),
    }
}

/// A copy of a whole register, without a mask, can be done by renaming.
fn copy(instruction: &Instruction) -> Class {
    let (to, from) = (instruction.op0_register(), instruction.op1_register());
    let is_whole = |name: iced_x86::Register| name.is_gpr32() || name.is_gpr64();
    if has_memory(instruction) && instruction.op0_kind() == OpKind::Register && to.is_gpr() && !is_whole(to) {
        // What is loaded joins the rest of the register.
        Class::Integer
    } else if has_memory(instruction) {
        Class::LoadStore
    } else if to.is_vector_register() {
        if instruction.has_op_mask() { Class::VectorMove } else { Class::Move }
    } else if is_whole(to) && is_whole(from) {
        Class::Move
    } else if to.is_gpr() && (from.is_gpr() || instruction.op1_kind() != OpKind::Register) {
        Class::Integer
    } else {
        Class::System
    }
}

/// Whether both sources are one register, of a size at which cores recognise the idiom.
fn has_equal_sources(instruction: &Instruction) -> bool {
    let (first, second) = if instruction.op_count() == 2 { (0, 1) } else { (1, 2) };
    if instruction.op_count() < 2 || instruction.has_op_mask() {
        return false;
    }
    let kinds = [0, first, second].map(|operand| instruction.op_kind(operand));
    let to = instruction.op0_register();
    kinds == [OpKind::Register; 3]
        && (to.is_vector_register() || to.is_gpr32() || to.is_gpr64())
        && instruction.op_register(first) == instruction.op_register(second)
}

/// The class of an instruction whose name says nothing: what it writes shows which unit executes it.
fn by_writes(writes: Registers) -> Class {
    let is_of_vectors = |register| register == X87 || (vector(0)..CARRY).contains(&register);
    if writes.is_empty() {
        Class::System
    } else if writes.iter().any(is_of_vectors) {
        Class::VectorInteger
    } else {
        Class::Integer
    }
}
