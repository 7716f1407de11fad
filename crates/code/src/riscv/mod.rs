//! Instructions of RV64GC: integers, multiplication, atomics, floating-point numbers of all sizes, compressed instructions, and what is
//! privileged.
//!
//! A description needs the registers and the kind of an instruction, not what the instruction computes, so a few tables of opcodes suffice.
//! An encoding whose opcode is known and whose function is not counts as an ordinary operation of that opcode: the extensions of bit
//! manipulation come out right in this way. Vector registers, the rounding mode and the flags of floating-point numbers are left out. `x0`
//! is no register: no instruction waits for a constant.
//!
//! Source: The RISC-V Instruction Set Manual, volume I (20191213), chapters 24 (tables of encodings), 16 (compressed instructions) and 2.5
//! (calls and returns by link register).
//!
//! Simplified: a copy of a register is [`Class::Integer`], because the cores that there are do not rename it away; instructions of control
//! and status registers are [`Class::Fence`].

mod compressed;
mod draft;
mod word;

use crate::block::{Block, Flow, Instruction};
use crate::class::Class;
use crate::register::Register;

use self::draft::Draft;

/// The number of general registers; the first, `x0`, is in no description.
pub const GENERAL: u8 = 32;
/// The number of floating-point registers, of which the first is `f0`.
pub const FLOATS: u8 = 32;

/// Returns a general register by its number: 1 for `ra`, 2 for `sp`, 10 for `a0`.
///
/// # Panics
///
/// The number is [`GENERAL`] or larger.
pub const fn general(number: u8) -> Register {
    assert!(number < GENERAL);
    Register::new(number)
}

/// Returns a floating-point register by its number.
///
/// # Panics
///
/// The number is [`FLOATS`] or larger.
pub const fn float(number: u8) -> Register {
    assert!(number < FLOATS);
    Register::new(GENERAL + number)
}

impl Block {
    /// Decodes the bytes of RV64 instructions that begin at an address. Of more than 4 GiB, the first 4 GiB are the block.
    ///
    /// An instruction of more than 4 bytes, an opcode that is not known, and a half of an instruction are an unknown instruction up to the
    /// end of the block.
    pub fn of_riscv64(addr: u64, code: &[u8]) -> Self {
        let bytes = u32::try_from(code.len()).unwrap_or(u32::MAX);
        let mut rest = &code[..bytes as usize];
        let (mut instructions, mut before) = (Vec::new(), None);
        while !rest.is_empty() {
            let offset = bytes - rest.len() as u32;
            let Some((draft, length)) = decode(rest, addr.wrapping_add(offset.into())) else {
                instructions.push(Instruction::unknown(offset, rest.len() as u32));
                break;
            };
            let draft = with_upper_part(draft, before.as_ref());
            instructions.push(draft.instruction(offset, length));
            before = Some(draft);
            rest = &rest[length as usize..];
        }
        Self { addr, bytes, instructions: instructions.into_boxed_slice() }
    }
}

/// Describes the first instruction of some bytes; with its length.
fn decode(code: &[u8], addr: u64) -> Option<(Draft, u32)> {
    let half = u16::from_le_bytes(*code.first_chunk()?);
    match half & 0x1f {
        low if low & 3 != 3 => Some((compressed::describe(half, addr)?, 2)),
        // The beginning of an instruction of 6 bytes or more.
        0x1f => None,
        _ => Some((word::describe(u32::from_le_bytes(*code.first_chunk()?), addr)?, 4)),
    }
}

/// Gives a jump through a register the target that `auipc`, the instruction before it, has put there: a call, or a tail call, of a
/// function that is further away than a jump reaches.
fn with_upper_part(mut draft: Draft, before: Option<&Draft>) -> Draft {
    let (Some((base, offset)), Some((upper, page))) =
        (draft.indirect, before.and_then(|before| before.pc_relative))
    else {
        return draft;
    };
    let target = page.wrapping_add_signed(offset) & !1;
    if base == upper {
        match draft.flow {
            Flow::IndirectCall => draft.flow = Flow::Call { target },
            Flow::IndirectJump => draft.flow = Flow::Jump { target },
            _ => {}
        }
    }
    draft
}

/// The class of a shift, or of any other operation of one cycle.
const fn shift_or(is_shift: bool) -> Class {
    if is_shift { Class::Shift } else { Class::Integer }
}
