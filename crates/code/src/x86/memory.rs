//! The operands of an instruction in memory.

use arrayvec::ArrayVec;
use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, MemorySize, Mnemonic, OpAccess, OpKind,
    Register as Name, UsedMemory,
};

use super::registers::{is_stack_step, register};
use crate::block::{Direction, OPERANDS, Operand, Records};
use crate::class::Class;
use crate::register::Registers;

/// The most bytes that one record of a capture stands for.
const RECORD_BYTES: usize = 64;

/// Returns the operands in memory, loads before stores.
pub(super) fn operands(
    instruction: &Instruction,
    class: Class,
    factory: &mut InstructionInfoFactory,
) -> ArrayVec<Operand, OPERANDS> {
    // Hints, prefetches and flushes name memory, and move no data.
    if matches!(class, Class::Nop | Class::Lea | Class::LeaComplex | Class::Fence) {
        return ArrayVec::new();
    }
    let info = factory.info_options(instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
    let mut all: Vec<Operand> = info
        .used_memory()
        .iter()
        .enumerate()
        .filter_map(|(place, memory)| operand(instruction, memory, place))
        .collect();
    all.sort_by_key(|operand| operand.direction);
    let mut operands: ArrayVec<Operand, OPERANDS> = ArrayVec::new();
    for operand in all {
        let is_full = operands.is_full();
        match operands.last_mut() {
            Some(last) if is_next_step(last, &operand) => unite(last, &operand),
            Some(last) if is_full => {
                unite(last, &operand);
                last.records = Records::Varies;
            }
            _ => operands.push(operand),
        }
    }
    operands
}

fn direction(access: OpAccess) -> Option<Direction> {
    match access {
        OpAccess::None | OpAccess::NoMemAccess => None,
        OpAccess::Read | OpAccess::CondRead => Some(Direction::Load),
        OpAccess::Write | OpAccess::CondWrite => Some(Direction::Store),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(Direction::Modify),
    }
}

/// The description of a used memory location, by its place among those of the instruction.
fn operand(instruction: &Instruction, memory: &UsedMemory, place: usize) -> Option<Operand> {
    // Of a repetition, the size of all is not known, but that of one element is.
    let size =
        if instruction.is_string_instruction() { instruction.memory_size() } else { memory.memory_size() };
    // The operand that the instruction names comes before that of the push or pop.
    let named = instruction.op_kinds().filter(|&kind| kind == OpKind::Memory).count();
    let address = if place >= named && is_stack_step(instruction) {
        Registers::EMPTY
    } else {
        [memory.base(), memory.index(), bit_offset(instruction)].into_iter().filter_map(register).collect()
    };
    Some(Operand {
        address,
        direction: direction(memory.access())?,
        records: records(instruction, size),
        bytes: size.size() as u16,
        on_stack: memory.base().full_register() == Name::RSP,
        is_complex: is_complex(instruction, memory),
        is_vector: (0..instruction.op_count()).any(|operand| {
            instruction.op_kind(operand) == OpKind::Register
                && instruction.op_register(operand).is_vector_register()
        }),
    })
}

fn is_complex(instruction: &Instruction, memory: &UsedMemory) -> bool {
    let [base, index] = [memory.base(), memory.index()].map(|name| register(name).is_some());
    index && (memory.scale() > 1 || base && instruction.memory_displ_size() != 0)
}

/// The register with the number of a bit, which is not limited to the named word.
fn bit_offset(instruction: &Instruction) -> Name {
    use Mnemonic::{Bt, Btc, Btr, Bts};
    match instruction.mnemonic() {
        Bt | Btc | Btr | Bts if instruction.op1_kind() == OpKind::Register => instruction.op1_register(),
        _ => Name::None,
    }
}

fn records(instruction: &Instruction, size: MemorySize) -> Records {
    use Mnemonic::{Maskmovdqu, Maskmovq, Vmaskmovdqu, Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq};
    let is_masked = instruction.has_op_mask()
        || matches!(
            instruction.mnemonic(),
            Maskmovdqu | Maskmovq | Vmaskmovdqu | Vmaskmovpd | Vmaskmovps | Vpmaskmovd | Vpmaskmovq
        );
    let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if is_masked || instruction.is_vsib() || is_repeated && instruction.is_string_instruction() {
        return Records::Varies;
    }
    match size.size().div_ceil(RECORD_BYTES) {
        // The size of the state that `xsave` stores is not known.
        0 => Records::Varies,
        count => Records::Exactly(count as u8),
    }
}

/// Returns whether the operand is a further step of an instruction that pushes or pops several times: `iretq`, `enter`.
fn is_next_step(last: &Operand, further: &Operand) -> bool {
    let is_counted = |operand: &Operand| matches!(operand.records, Records::Exactly(_));
    is_counted(last)
        && is_counted(further)
        && last.address == further.address
        && last.direction == further.direction
}

/// Makes one operand of two.
fn unite(last: &mut Operand, further: &Operand) {
    last.address = last.address.union(further.address);
    last.bytes = last.bytes.saturating_add(further.bytes);
    last.on_stack &= further.on_stack;
    last.is_complex |= further.is_complex;
    last.is_vector |= further.is_vector;
    last.records = match (last.records, further.records) {
        (Records::Exactly(some), Records::Exactly(more)) => Records::Exactly(some.saturating_add(more)),
        _ => Records::Varies,
    };
    if last.direction != further.direction {
        last.direction = Direction::Modify;
    }
}
