//! Branches, calls of the system, and instructions of system registers.

use super::draft::{Draft, Fields};
use crate::bits::{bits, signed};
use crate::block::{Direction, Flow, Records};
use crate::class::Class;

/// The register that a call leaves its return address in.
const LINK: u32 = 30;
/// The flags.
const FLAGS: u32 = system_register([3, 3, 4, 2, 0]);
/// The zeroing of a block of memory: `dc zva`.
const ZERO: u32 = system_register([1, 3, 7, 4, 1]);

/// Returns the field of a system register, or of an instruction that is named like one: `op0`, `op1`, `CRn`, `CRm`, `op2`.
const fn system_register([op0, op1, n, m, op2]: [u32; 5]) -> u32 {
    op0 << 14 | op1 << 11 | n << 7 | m << 3 | op2
}

/// Describes an instruction at an address; none if it is not known.
pub(super) fn describe(word: u32, addr: u64) -> Option<Draft> {
    let Fields { rd, .. } = Fields::of(word);
    let to = |distance: u32, width: u32| addr.wrapping_add_signed(signed(distance, width) << 2);
    Some(match bits(word, 31, 29) {
        0b000 => Draft::new(Class::Branch).going(Flow::Jump { target: to(word, 26) }),
        0b100 => Draft::new(Class::Branch).writing([LINK]).going(Flow::Call { target: to(word, 26) }),
        // A comparison of a register with zero; a test of one of its bits.
        0b001 | 0b101 if bits(word, 25, 25) == 0 => Draft::branch(to(bits(word, 23, 5), 19)).reading([rd]),
        0b001 | 0b101 => Draft::branch(to(bits(word, 18, 5), 14)).reading([rd]),
        0b010 if bits(word, 25, 24) == 0 => Draft::branch(to(bits(word, 23, 5), 19)).on_flags(),
        0b110 => match bits(word, 25, 24) {
            0 => Draft::new(Class::System).going(Flow::Stop),
            1 => system(word),
            _ => to_register(word)?,
        },
        _ => return None,
    })
}

/// A branch to the address in a register, with authentication of the address or without.
fn to_register(word: u32) -> Option<Draft> {
    let Fields { rn, .. } = Fields::of(word);
    let branch = Draft::new(Class::Branch).reading([rn]);
    Some(match bits(word, 24, 21) {
        0b0000 | 0b1000 => branch.going(Flow::IndirectJump),
        0b0001 | 0b1001 => branch.writing([LINK]).going(Flow::IndirectCall),
        0b0010 if rn == 31 => branch.reading([LINK]).going(Flow::Return),
        0b0010 => branch.going(Flow::Return),
        0b0100 | 0b0101 => Draft::new(Class::System).going(Flow::Stop),
        _ => return None,
    })
}

/// An instruction of the system, of those that programs use.
fn system(word: u32) -> Draft {
    let Fields { rd, .. } = Fields::of(word);
    let register = bits(word, 20, 5);
    let is_flags = register == FLAGS;
    match (bits(word, 21, 21), bits(word, 20, 12)) {
        // Hints, of which the signing of a return address is one.
        (0, 0b0_0011_0010) => Draft::new(Class::Nop),
        (0, _) if register == ZERO => {
            Draft::new(Class::LoadStore).moving(Direction::Store, [rd], 0, Records::Varies)
        }
        (0, _) => Draft::new(Class::Fence).reading([rd]).writing_flags(is_flags),
        _ if is_flags => Draft::new(Class::Integer).reading_flags().writing([rd]),
        _ => Draft::new(Class::Integer).writing([rd]),
    }
}
