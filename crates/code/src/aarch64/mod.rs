//! Instructions of AArch64 in the A64 instruction set: integers, memory with its atomic operations, floating-point numbers, and Advanced
//! SIMD.
//!
//! A description needs the registers and the kind of an instruction, not what the instruction computes, so the tables of encodings
//! suffice. An encoding of a known group whose function is not known counts as an ordinary operation of that group.
//!
//! Source: Arm Architecture Reference Manual for A-profile architecture (DDI 0487), chapter C4, A64 instruction set encoding.
//!
//! Simplified:
//!
//! - The stack pointer is no register, and a base that an access steps forward is there as before: both change by constants, and no
//!   instruction waits long for them.
//! - An access of 16 bytes is two operands of 8, because QEMU, from which such code comes, makes two accesses.
//! - Of the scalable vector extension only the accesses are described, without their vectors.
//! - The flags are one register, the status of floating-point numbers is none.

mod branch;
mod draft;
mod integer;
mod memory;
mod vector;

use crate::bits::bits;
use crate::block::{Block, Direction, Instruction, Records};
use crate::class::Class;
use crate::register::Register;

use self::draft::{Draft, Fields};

/// The number of general registers. The number 31 stands for zero or for the stack pointer in an instruction, which are in no
/// description.
pub const GENERAL: u8 = 31;
/// The number of vector registers, which hold floating-point numbers, too.
pub const VECTORS: u8 = 32;
/// The register of the condition flags, which comparisons write.
pub const FLAGS: Register = Register::new(GENERAL);

/// Returns a general register by its number: 30 for the link register.
///
/// # Panics
///
/// The number is [`GENERAL`] or larger.
pub const fn general(number: u8) -> Register {
    assert!(number < GENERAL);
    Register::new(number)
}

/// Returns a vector register by its number.
///
/// # Panics
///
/// The number is [`VECTORS`] or larger.
pub const fn vector(number: u8) -> Register {
    assert!(number < VECTORS);
    Register::new(GENERAL + 1 + number)
}

impl Block {
    /// Decodes the words of A64 instructions that begin at an address. Of more than 4 GiB, the first 4 GiB are the block.
    ///
    /// A word that is no instruction, and a part of a word, are an unknown instruction up to the end of the block.
    pub fn of_aarch64(addr: u64, code: &[u8]) -> Self {
        let bytes = u32::try_from(code.len()).unwrap_or(u32::MAX);
        let mut rest = &code[..bytes as usize];
        let (mut instructions, mut compares) = (Vec::new(), false);
        while !rest.is_empty() {
            let offset = bytes - rest.len() as u32;
            let word = rest.first_chunk().map(|word| u32::from_le_bytes(*word));
            let at = addr.wrapping_add(offset.into());
            let Some(draft) = word.and_then(|word| describe(word, at)) else {
                instructions.push(Instruction::unknown(offset, rest.len() as u32));
                break;
            };
            let fuses = compares && draft.is_on_flags;
            compares = draft.compares;
            instructions.push(draft.instruction(offset, fuses));
            rest = &rest[WORD as usize..];
        }
        Self { addr, bytes, instructions: instructions.into_boxed_slice() }
    }
}

/// The bytes of an instruction.
const WORD: u32 = 4;

/// Describes an instruction at an address; none if its group is not known.
fn describe(word: u32, addr: u64) -> Option<Draft> {
    match bits(word, 28, 25) {
        0b0010 => Some(scalable(word)),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => memory::describe(word),
        0b0101 | 0b1101 => integer::of_registers(word),
        0b0111 | 0b1111 => vector::describe(word),
        0b1000 | 0b1001 => Some(integer::of_constant(word)),
        0b1010 | 0b1011 => branch::describe(word, addr),
        _ => None,
    }
}

/// An instruction on vectors of a length that the processor chooses.
fn scalable(word: u32) -> Draft {
    let Fields { rn, .. } = Fields::of(word);
    match bits(word, 31, 29) {
        0b111 => Draft::new(Class::LoadStore).moving(Direction::Store, [rn], 0, Records::Varies),
        0b100.. => Draft::new(Class::LoadStore).moving(Direction::Load, [rn], 0, Records::Varies),
        _ => Draft::new(Class::VectorInteger),
    }
}
