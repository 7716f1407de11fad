//! Instructions of x86-64, in its 64-bit mode.
//!
//! The decoder and the tables of used registers are those of the `iced-x86` library. Segment, control, debug and tile registers are left
//! out, and of the flags those that no ordinary operation depends on (direction, interrupts). The carry flag is a register of its own,
//! since `inc` and `dec` keep it; the other arithmetic flags are one together. All registers of x87 and MMX are one, so that its
//! instructions are executed one after the other.
//!
//! Simplified: a write of `%xmm0` counts as one of the whole vector register, also in SSE, which keeps the upper half; a shift by `%cl`
//! always writes the flags; the loads and stores of `enter` are in two groups.

mod classes;
mod flow;
mod memory;
mod names;
mod registers;

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};

use crate::block::{Block, Instruction};
use crate::class::Class;
use crate::register::{Register, Registers};

/// The number of general registers, of which the first is `%rax`.
pub const GENERAL: u8 = 16;
/// The number of vector registers: `%xmm0`, `%ymm0` and `%zmm0` are the same one.
pub const VECTORS: u8 = 32;
/// The number of mask registers, of which the first is `%k0`.
pub const MASKS: u8 = 8;
/// The register that holds the carry flag.
pub const CARRY: Register = Register::new(GENERAL + VECTORS + MASKS);
/// The register that holds the other arithmetic flags: overflow, sign, zero, auxiliary carry, parity.
pub const FLAGS: Register = Register::new(GENERAL + VECTORS + MASKS + 1);
/// The register that stands for the whole state of x87 and MMX: an instruction that writes it reads it, too.
pub const X87: Register = Register::new(GENERAL + VECTORS + MASKS + 2);

/// Returns a general register by the number that encodes it: 0 for `%rax`, then `%rcx`, `%rdx`, `%rbx`, `%rsp`, `%rbp`, `%rsi`, `%rdi`
/// and `%r8` to `%r15`.
///
/// # Panics
///
/// The number is [`GENERAL`] or larger.
pub const fn general(number: u8) -> Register {
    assert!(number < GENERAL);
    Register::new(number)
}

/// Returns the vector register of a number.
///
/// # Panics
///
/// The number is [`VECTORS`] or larger.
pub const fn vector(number: u8) -> Register {
    assert!(number < VECTORS);
    Register::new(GENERAL + number)
}

/// Returns the mask register of a number.
///
/// # Panics
///
/// The number is [`MASKS`] or larger.
pub const fn mask(number: u8) -> Register {
    assert!(number < MASKS);
    Register::new(GENERAL + VECTORS + number)
}

impl Block {
    /// Decodes the bytes of x86-64 instructions that begin at an address. Of more than 4 GiB, the first 4 GiB are the block.
    pub fn of_x86_64(addr: u64, code: &[u8]) -> Self {
        let bytes = u32::try_from(code.len()).unwrap_or(u32::MAX);
        let mut decoder = Decoder::with_ip(64, &code[..bytes as usize], addr, DecoderOptions::NONE);
        let mut factory = InstructionInfoFactory::new();
        let mut before = None;
        let mut instructions = Vec::new();
        while decoder.can_decode() {
            let offset = decoder.position() as u32;
            let decoded = decoder.decode();
            if decoded.is_invalid() {
                instructions.push(Instruction::unknown(offset, bytes - offset));
                break;
            }
            let mut instruction = describe(&decoded, offset, &mut factory);
            instruction.fuses = before.is_some_and(|before| flow::fuses(&before, &decoded));
            instructions.push(instruction);
            before = Some(decoded);
        }
        Self { addr, bytes, instructions: instructions.into_boxed_slice() }
    }
}

fn describe(
    decoded: &iced_x86::Instruction,
    offset: u32,
    factory: &mut InstructionInfoFactory,
) -> Instruction {
    let flow = flow::of(decoded);
    let (mut reads, mut writes) = registers::registers(decoded, factory);
    let (class, is_independent) = classes::of(decoded, flow, writes);
    match class {
        // Of `vzeroupper`, the decoder says that it changes all vector registers.
        Class::Nop => (reads, writes) = (Registers::EMPTY, Registers::EMPTY),
        Class::X87 | Class::X87Divide => writes.insert(X87),
        _ if is_independent => reads = Registers::EMPTY,
        _ => {}
    }
    if writes.contains(X87) {
        reads.insert(X87);
    }
    let bytes = decoded.len() as u32;
    let operands = memory::operands(decoded, class, factory);
    Instruction { offset, bytes, class, flow, reads, writes, operands, fuses: false }
}
