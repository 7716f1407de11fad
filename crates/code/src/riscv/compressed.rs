//! Instructions of two bytes, each of which stands for one of four.

use super::draft::Draft;
use crate::bits::{bits, signed};
use crate::block::Flow;
use crate::class::Class;

/// The number of the stack pointer.
const STACK: u32 = 2;
/// The number of the register that calls leave their return address in.
const LINK: u32 = 1;

/// Describes an instruction at an address; none if the encoding is reserved.
pub(super) fn describe(half: u16, addr: u64) -> Option<Draft> {
    let word = u32::from(half);
    match word & 3 {
        0 => of_memory(word),
        1 => of_constants(word, addr),
        _ => of_registers(word),
    }
}

/// Three-bit register numbers name `x8` to `x15`: the upper one, and the lower one.
fn short(word: u32) -> (u32, u32) {
    (8 + bits(word, 9, 7), 8 + bits(word, 4, 2))
}

/// Loads and stores at a distance from any register.
fn of_memory(word: u32) -> Option<Draft> {
    let (base, other) = short(word);
    Some(match bits(word, 15, 13) {
        // c.addi4spn; all bits zero are no instruction.
        0 if bits(word, 12, 5) != 0 => Draft::new(Class::Integer).reading([STACK]).writing(other),
        1 => Draft::load(base, 8).writing_float(other),
        2 => Draft::load(base, 4).writing(other),
        3 => Draft::load(base, 8).writing(other),
        5 => Draft::store(base, 8).reading_floats([other]),
        6 => Draft::store(base, 4).reading([other]),
        7 => Draft::store(base, 8).reading([other]),
        _ => return None,
    })
}

/// Operations with a constant, jumps and branches.
fn of_constants(word: u32, addr: u64) -> Option<Draft> {
    let rd = bits(word, 11, 7);
    let (high, low) = short(word);
    let to = |distance: i64| addr.wrapping_add_signed(distance);
    Some(match bits(word, 15, 13) {
        0 if rd == 0 => Draft::new(Class::Nop),
        // c.addi; c.addiw; c.addi16sp.
        0 | 1 => Draft::new(Class::Integer).reading([rd]).writing(rd),
        3 if rd == STACK => Draft::new(Class::Integer).reading([rd]).writing(rd),
        // c.li; c.lui.
        2 | 3 => Draft::new(Class::Integer).writing(rd),
        4 => match (bits(word, 11, 10), bits(word, 12, 12), bits(word, 6, 5)) {
            (0 | 1, ..) => Draft::new(Class::Shift).reading([high]).writing(high),
            (2, ..) => Draft::new(Class::Integer).reading([high]).writing(high),
            (_, 1, 2) => Draft::new(Class::Multiply).reading([high, low]).writing(high),
            (_, 1, 3) => Draft::new(Class::Integer).reading([high]).writing(high),
            _ => Draft::new(Class::Integer).reading([high, low]).writing(high),
        },
        5 => Draft::jump(0, to(jump_distance(word))),
        _ => Draft::branch(high, 0, to(branch_distance(word))),
    })
}

/// Operations on two registers, and loads and stores at a distance from the stack pointer.
fn of_registers(word: u32) -> Option<Draft> {
    let (rd, rs2) = (bits(word, 11, 7), bits(word, 6, 2));
    Some(match bits(word, 15, 13) {
        0 => Draft::new(Class::Shift).reading([rd]).writing(rd),
        1 => Draft::load(STACK, 8).writing_float(rd),
        2 => Draft::load(STACK, 4).writing(rd),
        3 => Draft::load(STACK, 8).writing(rd),
        4 => match (bits(word, 12, 12), rd, rs2) {
            (0, 0, 0) => return None,
            (0, _, 0) => Draft::jump_register(0, rd, 0),
            (0, ..) => Draft::new(Class::Integer).reading([rs2]).writing(rd),
            (_, 0, 0) => Draft::new(Class::System).going(Flow::Stop),
            (_, _, 0) => Draft::jump_register(LINK, rd, 0),
            _ => Draft::new(Class::Integer).reading([rd, rs2]).writing(rd),
        },
        5 => Draft::store(STACK, 8).reading_floats([rs2]),
        6 => Draft::store(STACK, 4).reading([rs2]),
        _ => Draft::store(STACK, 8).reading([rs2]),
    })
}

fn jump_distance(word: u32) -> i64 {
    let distance = bits(word, 12, 12) << 11
        | bits(word, 8, 8) << 10
        | bits(word, 10, 9) << 8
        | bits(word, 6, 6) << 7
        | bits(word, 7, 7) << 6
        | bits(word, 2, 2) << 5
        | bits(word, 11, 11) << 4
        | bits(word, 5, 3) << 1;
    signed(distance, 12)
}

fn branch_distance(word: u32) -> i64 {
    let distance = bits(word, 12, 12) << 8
        | bits(word, 6, 5) << 6
        | bits(word, 2, 2) << 5
        | bits(word, 11, 10) << 3
        | bits(word, 4, 3) << 1;
    signed(distance, 9)
}
