//! Slots of dispatch.
//!
//! Most instructions take one. One that a core executes in several steps takes a slot for each.

use pagewalk_code::{Class, Direction, Instruction, Register, Registers, x86};

use crate::spec::settings::SlotsSpec;

/// Of x86-64; on machines of other instruction sets, what crosses, what writes to the stack pointer and what has two results takes one slot.
const STACK_POINTER: Register = x86::general(4);

fn is_general_register(register: Register) -> bool {
    register.index() < usize::from(x86::GENERAL)
}

fn stores(instruction: &Instruction) -> bool {
    instruction.operands.iter().any(|operand| operand.direction != Direction::Load)
}

/// Whether two general registers are written; what a push, a pop or a return does to the stack pointer is none of its results.
fn has_two_results(writes: Registers) -> bool {
    let is_result = |register: &Register| is_general_register(*register) && *register != STACK_POINTER;
    writes.iter().filter(is_result).count() > 1
}

/// Returns the slots that an instruction takes on a core behind another one of its block; none if it is executed together with that one.
pub(super) fn slots(instruction: &Instruction, before: Option<&Instruction>, own: &SlotsSpec) -> u8 {
    let Instruction { class, operands, fuses, writes, .. } = instruction;
    if *fuses {
        let Some(compared) = before.filter(|before| !before.operands.is_empty()) else { return 0 };
        // A comparison whose address has an index has taken as many already; one with a result that goes to memory (`sub $1, (%rdi)`) has not.
        let taken = if stores(compared) { 1 } else { slots(compared, None, own).into() };
        return own.compared_load.saturating_sub(taken) as u8;
    }
    let loads = operands.iter().any(|operand| operand.direction != Direction::Store);
    let stores = stores(instruction);
    let only_moves = *class == Class::LoadStore;
    let is_general = operands.iter().all(|operand| !operand.is_vector);
    let is_indexed = operands.iter().any(|operand| operand.is_complex || operand.address.len() > 1);
    let slots = match class {
        Class::String | Class::Locked | Class::System | Class::Fence | Class::Unknown => 1,
        _ if stores && (loads || !only_moves) => own.stored_result,
        _ if is_general && is_indexed && (stores || !only_moves) => own.indexed,
        Class::LeaComplex => own.three_part_address,
        _ if has_two_results(*writes) => own.two_results,
        // The front end, which adds up what pushes and pops add to it, gives it back.
        Class::Integer if writes.contains(STACK_POINTER) => own.stack_pointer,
        // Copies to general registers take one.
        Class::Cross if operands.is_empty() && !writes.iter().any(is_general_register) => own.cross,
        Class::CrossConvert if operands.is_empty() => own.cross,
        _ => 1,
    };
    slots as u8
}
