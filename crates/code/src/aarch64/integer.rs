//! Operations on general registers.

use super::draft::{Draft, Fields};
use crate::bits::bits;
use crate::class::Class;

/// An operation with a constant.
pub(super) fn of_constant(word: u32) -> Draft {
    let Fields { rd, rn, rm, .. } = Fields::of(word);
    let (of_one, opcode) = (|class| Draft::new(class).reading([rn]).writing([rd]), bits(word, 30, 29));
    match bits(word, 25, 23) {
        // An address relative to the instruction.
        0b000 | 0b001 => Draft::new(Class::Integer).writing([rd]),
        0b010 | 0b011 => of_one(Class::Integer).comparing(bits(word, 29, 29) != 0),
        0b100 => of_one(Class::Integer).comparing(opcode == 0b11),
        // A constant of 16 bits, which may leave the others as they are.
        0b101 if opcode == 0b11 => Draft::new(Class::Integer).reading([rd]).writing([rd]),
        0b101 if opcode == 0b10 && bits(word, 20, 5) == 0 => Draft::new(Class::Zero).writing([rd]),
        0b101 => Draft::new(Class::Integer).writing([rd]),
        0b110 => {
            let class = if bits(word, 21, 16) == 0 { Class::Integer } else { Class::Shift };
            let is_insertion = opcode == 0b01;
            if is_insertion { of_one(class).reading([rd]) } else { of_one(class) }
        }
        _ => of_one(Class::Shift).reading([rm]),
    }
}

/// An operation on registers; none if it is not known.
pub(super) fn of_registers(word: u32) -> Option<Draft> {
    let Fields { rd, rn, ra, rm } = Fields::of(word);
    let of_two = |class| Draft::new(class).reading([rn, rm]).writing([rd]);
    let sets_flags = bits(word, 29, 29) != 0;
    Some(match (bits(word, 28, 28), bits(word, 24, 24)) {
        // Logical operations; one with zero copies the other register.
        (0, 0) if bits(word, 30, 29) == 0b01 && rn == 31 && bits(word, 21, 21) | bits(word, 15, 10) == 0 => {
            let class = if rm == 31 { Class::Zero } else { Class::Move };
            Draft::new(class).reading([rm]).writing([rd])
        }
        (0, 0) => of_two(Class::Integer).comparing(bits(word, 30, 29) == 0b11),
        (0, _) => of_two(Class::Integer).comparing(sets_flags),
        // Three registers: all multiply.
        (_, 1) => of_two(Class::Multiply).reading([ra]),
        _ => match bits(word, 24, 21) {
            // With the carry; rotations into the flags.
            0b0000 if bits(word, 15, 10) == 0 => {
                of_two(Class::Integer).reading_flags().writing_flags(sets_flags)
            }
            0b0000 => Draft::new(Class::Integer).reading([rn]).reading_flags().writing_flags(true),
            // A comparison under a condition, with a register or with a constant.
            0b0010 => {
                let other = if bits(word, 11, 11) == 0 { rm } else { 31 };
                Draft::new(Class::Integer).reading([rn, other]).reading_flags().writing_flags(true)
            }
            0b0100 => of_two(Class::Condition).reading_flags(),
            0b0110 if bits(word, 30, 30) != 0 => {
                let counts = matches!((bits(word, 20, 16), bits(word, 15, 10)), (0, 4 | 5));
                let class = if counts { Class::BitScan } else { Class::Integer };
                Draft::new(class).reading([rn]).writing([rd])
            }
            0b0110 => of_two(class_of_two(word)).writing_flags(sets_flags),
            _ => return None,
        },
    })
}

/// The class of an operation on two registers that is neither logical nor an addition.
fn class_of_two(word: u32) -> Class {
    match bits(word, 15, 10) {
        0b000010 | 0b000011 if bits(word, 31, 31) != 0 => Class::Divide64,
        0b000010 | 0b000011 => Class::Divide32,
        0b001000..=0b001011 => Class::Shift,
        0b010000..=0b010111 => Class::Multiply,
        _ => Class::Integer,
    }
}
