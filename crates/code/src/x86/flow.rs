//! Where control goes behind an instruction, and which jumps fuse with the instruction before them.

use iced_x86::{ConditionCode, FlowControl, Instruction, Mnemonic, OpKind};

use crate::block::Flow;

/// Returns where control goes behind the instruction.
pub(super) fn of(instruction: &Instruction) -> Flow {
    let target = instruction.near_branch_target();
    match instruction.flow_control() {
        FlowControl::Next if instruction.mnemonic() == Mnemonic::Hlt => Flow::Stop,
        FlowControl::Next if is_repeated(instruction) => Flow::Repeat,
        // The target of `xbegin` is that of an aborted transaction.
        FlowControl::Next | FlowControl::XbeginXabortXend => Flow::Next,
        FlowControl::ConditionalBranch => Flow::Conditional { target },
        FlowControl::UnconditionalBranch if !instruction.is_jmp_far() => Flow::Jump { target },
        FlowControl::IndirectBranch if instruction.is_jmp_near_indirect() => Flow::IndirectJump,
        FlowControl::Call if instruction.is_call_near() => Flow::Call { target },
        FlowControl::IndirectCall if instruction.is_call_near_indirect() => Flow::IndirectCall,
        FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => Flow::Return,
        // System calls, interrupts, exceptions, jumps to another code segment.
        _ => Flow::Stop,
    }
}

fn is_repeated(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// Returns whether a core executes the instruction and the conditional jump behind it as one.
///
/// Source: "Intel 64 and IA-32 Architectures Optimization Reference Manual", section 3.4.2.2, for the cores since Sandy Bridge. AMD's
/// cores since family 19h fuse nearly the same pairs ("Software Optimization Guide for the AMD Family 19h Processors"), and `or` and
/// `xor` besides, which are left out here.
pub(super) fn fuses(before: &Instruction, jump: &Instruction) -> bool {
    use ConditionCode::{a, ae, b, be, e, g, ge, l, le, ne};
    if !jump.is_jcc_short_or_near() || !has_fusible_operands(before) {
        return false;
    }
    let condition = jump.condition_code();
    let is_of_difference = matches!(condition, e | ne | l | ge | le | g);
    match before.mnemonic() {
        Mnemonic::Test | Mnemonic::And => true,
        Mnemonic::Cmp | Mnemonic::Add | Mnemonic::Sub => {
            is_of_difference || matches!(condition, b | ae | be | a)
        }
        // Both leave the carry flag.
        Mnemonic::Inc | Mnemonic::Dec => is_of_difference,
        _ => false,
    }
}

/// A result in memory, an address relative to the instruction, and an immediate beside a word in memory prevent the fusion.
fn has_fusible_operands(before: &Instruction) -> bool {
    if !before.op_kinds().any(|kind| kind == OpKind::Memory) {
        return true;
    }
    let has_result = !matches!(before.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    let has_immediate = !matches!(before.op1_kind(), OpKind::Register | OpKind::Memory);
    !(before.is_ip_rel_memory_operand() || has_immediate || has_result && before.op0_kind() == OpKind::Memory)
}
