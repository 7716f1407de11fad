//! Slots of dispatch.
//!
//! Most instructions take one. What a core has to do in several steps takes more: one for each step that it cannot hold in one entry.

use pagewalk_code::{Class, Direction, Instruction, Register, x86};

use crate::spec::settings::SlotsSpec;

/// Of x86-64; on machines of other instruction sets, what crosses and what writes to the stack pointer takes one slot.
const STACK_POINTER: Register = x86::general(4);

fn is_general_register(register: Register) -> bool {
    register.index() < usize::from(x86::GENERAL)
}

/// Returns the slots that an instruction takes on a core behind another one of its block; none if it is executed together with that one.
pub(super) fn slots(instruction: &Instruction, before: Option<&Instruction>, own: &SlotsSpec) -> u8 {
    let Instruction { class, operands, fuses, writes, .. } = instruction;
    if *fuses {
        // The comparison has taken the first one. One whose address has an index has taken as many already.
        let compared = before.filter(|before| !before.operands.is_empty());
        let taken = compared.map_or(1, |before| slots(before, None, own).into());
        return compared.map_or(0, |_| own.compared_load.saturating_sub(taken)) as u8;
    }
    let has = |not: Direction| operands.iter().any(|operand| operand.direction != not);
    let (loads, stores) = (has(Direction::Store), has(Direction::Load));
    let only_moves = *class == Class::LoadStore;
    let is_general = operands.iter().all(|operand| !operand.is_vector);
    let is_indexed = operands.iter().any(|operand| operand.is_complex || operand.address.len() > 1);
    let slots = match class {
        Class::String | Class::Locked | Class::System | Class::Fence | Class::Unknown => 1,
        _ if stores && (loads || !only_moves) => own.stored_result,
        _ if is_general && is_indexed && (stores || !only_moves) => own.indexed,
        Class::LeaComplex => own.three_part_address,
        // The front end, which adds up what pushes and pops add to it, gives it back.
        Class::Integer if writes.contains(STACK_POINTER) => own.stack_pointer,
        // Copies to general registers take one.
        Class::Cross if operands.is_empty() && !writes.iter().any(is_general_register) => own.cross,
        Class::CrossConvert if operands.is_empty() => own.cross,
        _ => 1,
    };
    slots as u8
}
