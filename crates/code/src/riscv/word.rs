//! Instructions of four bytes.
//!
//! ```text
//!  31    27 26 25 24   20 19   15 14    12 11    7 6      0
//! +--------+-----+-------+-------+--------+-------+--------+
//! |    function7 |  rs2  |  rs1  |  funct | rd    | opcode |   funct: also the size of a load or a store
//! +--------+-----+-------+-------+--------+-------+--------+
//! |  rs3   | fmt |                                          |   of four registers
//! +--------+-----+------------------------------------------+
//! ```

use super::draft::Draft;
use super::shift_or;
use crate::bits::{bits, signed};
use crate::block::{Direction, Flow, Records};
use crate::class::Class;

/// The fields of an instruction that name registers and functions.
struct Fields {
    rd: u32,
    rs1: u32,
    rs2: u32,
    funct3: u32,
    funct7: u32,
}

/// Describes an instruction at an address; none if the opcode is not known.
pub(super) fn describe(word: u32, addr: u64) -> Option<Draft> {
    let fields = Fields {
        rd: bits(word, 11, 7),
        rs1: bits(word, 19, 15),
        rs2: bits(word, 24, 20),
        funct3: bits(word, 14, 12),
        funct7: bits(word, 31, 25),
    };
    let Fields { rd, rs1, rs2, funct3, .. } = fields;
    let to = |distance: i64| addr.wrapping_add_signed(distance);
    Some(match bits(word, 6, 0) {
        // Loads of a size without a meaning trap.
        0x03 if funct3 < 7 => Draft::load(rs1, 1 << (funct3 & 3)).writing(rd),
        0x07 => load_float(&fields),
        0x0f => Draft::new(Class::Fence),
        0x13 => immediate(&fields),
        0x17 => {
            let mut draft = Draft::new(Class::Integer).writing(rd);
            draft.pc_relative = Some((rd as u8, to(i64::from((word & 0xffff_f000) as i32))));
            draft
        }
        0x1b => Draft::new(shift_or(matches!(funct3, 1 | 5))).reading([rs1]).writing(rd),
        0x23 if funct3 < 4 => Draft::store(rs1, 1 << funct3).reading([rs2]),
        0x27 => store_float(&fields),
        0x2f => atomic(&fields)?,
        0x33 | 0x3b => registers(&fields, bits(word, 3, 3) != 0),
        0x37 => Draft::new(Class::Integer).writing(rd),
        0x43 | 0x47 | 0x4b | 0x4f => Draft::new(Class::FloatMultiplyAdd)
            .reading_floats([rs1, rs2, bits(word, 31, 27)])
            .writing_float(rd),
        0x53 => float(&fields),
        // Vectors: their registers are left out.
        0x57 => Draft::new(Class::VectorInteger),
        0x63 if !matches!(funct3, 2 | 3) => Draft::branch(rs1, rs2, to(branch_distance(word))),
        0x67 if funct3 == 0 => Draft::jump_register(rd, rs1, signed(word >> 20, 12)),
        0x6f => Draft::jump(rd, to(jump_distance(word))),
        0x73 => system(&fields),
        _ => return None,
    })
}

fn branch_distance(word: u32) -> i64 {
    let distance =
        bits(word, 31, 31) << 12 | bits(word, 7, 7) << 11 | bits(word, 30, 25) << 5 | bits(word, 11, 8) << 1;
    signed(distance, 13)
}

fn jump_distance(word: u32) -> i64 {
    let distance = bits(word, 31, 31) << 20
        | bits(word, 19, 12) << 12
        | bits(word, 20, 20) << 11
        | bits(word, 30, 21) << 1;
    signed(distance, 21)
}

/// Bytes of a floating-point load or store; none if the instruction moves vectors.
fn float_bytes(funct3: u32) -> Option<u16> {
    matches!(funct3, 1..=4).then(|| 1 << funct3)
}

fn load_float(&Fields { rd, rs1, funct3, .. }: &Fields) -> Draft {
    match float_bytes(funct3) {
        Some(bytes) => Draft::load(rs1, bytes).writing_float(rd),
        None => Draft::new(Class::LoadStore).moving(Direction::Load, rs1, 0, Records::Varies),
    }
}

fn store_float(&Fields { rs1, rs2, funct3, .. }: &Fields) -> Draft {
    match float_bytes(funct3) {
        Some(bytes) => Draft::store(rs1, bytes).reading_floats([rs2]),
        None => Draft::new(Class::LoadStore).moving(Direction::Store, rs1, 0, Records::Varies),
    }
}

/// An operation on a register and a constant.
fn immediate(&Fields { rd, rs1, rs2, funct3, funct7 }: &Fields) -> Draft {
    let class = match (funct3, funct7) {
        // clz, ctz, cpop of the bit-manipulation extension.
        (1, 0b011_0000) if rs2 < 3 => Class::BitScan,
        (1 | 5, _) => Class::Shift,
        // The instruction that does nothing by convention.
        (0, _) if rd == 0 => Class::Nop,
        _ => Class::Integer,
    };
    if class == Class::Nop { Draft::new(class) } else { Draft::new(class).reading([rs1]).writing(rd) }
}

/// An operation on two registers, of 32 bits or of 64.
fn registers(&Fields { rd, rs1, rs2, funct3, funct7 }: &Fields, is_word: bool) -> Draft {
    let class = match (funct7, funct3) {
        (1, 0..4) => Class::Multiply,
        (1, _) if is_word => Class::Divide32,
        (1, _) => Class::Divide64,
        // Carry-less products share the multiplier.
        (0b000_0101, 1..4) => Class::Multiply,
        (0 | 0b010_0000 | 0b011_0000, 1 | 5) => Class::Shift,
        _ => Class::Integer,
    };
    Draft::new(class).reading([rs1, rs2]).writing(rd)
}

/// An operation on memory that others see as one; none if there is no such one.
fn atomic(&Fields { rd, rs1, rs2, funct3, funct7 }: &Fields) -> Option<Draft> {
    let bytes = match funct3 {
        0..=4 => 1 << funct3,
        _ => return None,
    };
    Some(match funct7 >> 2 {
        0b00010 => Draft::load(rs1, bytes).writing(rd),
        // A store that finds the reservation gone makes no access.
        0b00011 => Draft::new(Class::LoadStore)
            .moving(Direction::Store, rs1, bytes, Records::Varies)
            .reading([rs2])
            .writing(rd),
        _ => Draft::new(Class::Locked)
            .moving(Direction::Modify, rs1, bytes, Records::Exactly(1))
            .reading([rs2])
            .writing(rd),
    })
}

/// An operation on floating-point registers.
fn float(&Fields { rd, rs1, rs2, funct7, .. }: &Fields) -> Draft {
    let arithmetic = |class| Draft::new(class).reading_floats([rs1, rs2]).writing_float(rd);
    match funct7 >> 2 {
        0x00 | 0x01 => arithmetic(Class::FloatAdd),
        0x02 => arithmetic(Class::FloatMultiply),
        0x03 => arithmetic(Class::FloatDivide),
        0x04 if rs1 == rs2 => arithmetic(Class::VectorMove),
        0x04 => arithmetic(Class::VectorInteger),
        0x05 => arithmetic(Class::FloatCompare),
        0x0b => Draft::new(Class::FloatSquareRoot).reading_floats([rs1]).writing_float(rd),
        0x14 => Draft::new(Class::FloatCompare).reading_floats([rs1, rs2]).writing(rd),
        0x18 => Draft::new(Class::Convert).reading_floats([rs1]).writing(rd),
        0x1a => Draft::new(Class::Convert).reading([rs1]).writing_float(rd),
        0x1c => Draft::new(Class::Cross).reading_floats([rs1]).writing(rd),
        0x1e => Draft::new(Class::Cross).reading([rs1]).writing_float(rd),
        _ => Draft::new(Class::Convert).reading_floats([rs1]).writing_float(rd),
    }
}

/// A privileged instruction, or one of a control and status register.
fn system(&Fields { rd, rs1, rs2, funct3, funct7 }: &Fields) -> Draft {
    match (funct3, funct7, rs2) {
        // wfi, and the fences of translations.
        (0, 0b000_1000, 5) | (0, 0b000_1001.., _) if funct7 != 0b001_1000 => Draft::new(Class::Fence),
        // sret, mret.
        (0, 0b000_1000 | 0b001_1000, _) => Draft::new(Class::Fence).going(Flow::Stop),
        (0, ..) => Draft::new(Class::System).going(Flow::Stop),
        (1..4, ..) => Draft::new(Class::Fence).reading([rs1]).writing(rd),
        // The field holds a constant.
        _ => Draft::new(Class::Fence).writing(rd),
    }
}
