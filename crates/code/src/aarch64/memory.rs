//! Loads and stores.

use super::draft::{Draft, Fields};
use crate::bits::bits;
use crate::block::{Direction, Records};
use crate::class::Class;

const ONE: Records = Records::Exactly(1);

/// Describes a load or a store; none if it is not known.
pub(super) fn describe(word: u32) -> Option<Draft> {
    let (group, second, is_vector) = (bits(word, 29, 28), bits(word, 24, 24), bits(word, 26, 26) != 0);
    match (group, second) {
        (0b00, 0) if is_vector => several(word),
        (0b00, _) if is_vector => element(word),
        (0b00, 0) => exclusive(word),
        (0b01, 0) => relative(word),
        (0b01, _) if !is_vector => ordered_or_tag(word),
        (0b10, _) => pair(word),
        (0b11, 0) if bits(word, 21, 21) != 0 => match bits(word, 11, 10) {
            0b10 => {
                let Fields { rn, rm, .. } = Fields::of(word);
                Some(one(word, [rn, rm])?.scaled(bits(word, 12, 12) != 0))
            }
            _ if is_vector => None,
            0b00 => atomic(word),
            // A load through an address that is authenticated.
            _ => Some(load(word, 8)),
        },
        (0b11, _) => one(word, [Fields::of(word).rn]),
        _ => None,
    }
}

/// Whether an access loads or stores, where bit 22 says so.
fn direction(word: u32) -> Direction {
    if bits(word, 22, 22) != 0 { Direction::Load } else { Direction::Store }
}

/// A load of so many bytes from a base into a general register.
fn load(word: u32, bytes: u16) -> Draft {
    let Fields { rd, rn, .. } = Fields::of(word);
    Draft::new(Class::LoadStore).moving(Direction::Load, [rn], bytes, ONE).writing([rd])
}

/// A store of so many bytes from a general register to a base.
fn store(word: u32, bytes: u16) -> Draft {
    let Fields { rd, rn, .. } = Fields::of(word);
    Draft::new(Class::LoadStore).moving(Direction::Store, [rn], bytes, ONE).reading([rd])
}

/// An access of one register.
fn one<const N: usize>(word: u32, address: [u32; N]) -> Option<Draft> {
    let Fields { rd, .. } = Fields::of(word);
    let (size, opcode, draft) = (bits(word, 31, 30), bits(word, 23, 22), Draft::new(Class::LoadStore));
    let bytes = 1 << size;
    Some(match (bits(word, 26, 26), opcode) {
        (0, 0b00) => draft.moving(Direction::Store, address, bytes, ONE).reading([rd]),
        // A prefetch makes no access.
        (0, 0b10) if size == 0b11 => Draft::new(Class::Nop),
        (0, _) => draft.moving(Direction::Load, address, bytes, ONE).writing([rd]),
        (_, 0b10 | 0b11) if size != 0 => return None,
        _ => {
            let bytes = if opcode >= 0b10 { 16 } else { bytes };
            draft.moving(direction(word), address, bytes, ONE).of_vectors(rd, 1)
        }
    })
}

/// A load from an address relative to the instruction.
fn relative(word: u32) -> Option<Draft> {
    let Fields { rd, .. } = Fields::of(word);
    let (opcode, draft) = (bits(word, 31, 30), Draft::new(Class::LoadStore));
    Some(match (bits(word, 26, 26), opcode) {
        (0, 0b11) => Draft::new(Class::Nop),
        (0, _) => {
            let bytes = if opcode == 0b01 { 8 } else { 4 };
            draft.moving(Direction::Load, [], bytes, ONE).writing([rd])
        }
        (_, 0b11) => return None,
        _ => draft.moving(Direction::Load, [], 4 << opcode, ONE).of_vectors(rd, 1),
    })
}

/// An access of two registers, each of which a capture reports.
fn pair(word: u32) -> Option<Draft> {
    let Fields { rd, rn, ra: second, .. } = Fields::of(word);
    let (opcode, direction) = (bits(word, 31, 30), direction(word));
    let both = |bytes: u16| {
        let draft = Draft::new(Class::LoadStore);
        draft.moving(direction, [rn], bytes, ONE).moving(direction, [rn], bytes, ONE)
    };
    Some(match (bits(word, 26, 26), opcode) {
        (_, 0b11) => return None,
        (0, _) => {
            let draft = both(if opcode == 0b10 { 8 } else { 4 });
            match direction {
                Direction::Load => draft.writing([rd, second]),
                _ => draft.reading([rd, second]),
            }
        }
        _ => both(4 << opcode).of_vectors(rd, 1).of_vectors(second, 1),
    })
}

/// An access of an exclusive pair of instructions, one that is ordered, and a comparison with an exchange.
fn exclusive(word: u32) -> Option<Draft> {
    let Fields { rd, rn, ra: second, rm: status } = Fields::of(word);
    let (size, is_load) = (bits(word, 31, 30), bits(word, 22, 22) != 0);
    let (bytes, draft) = (1 << size, Draft::new(Class::LoadStore));
    Some(match (bits(word, 23, 23), bits(word, 21, 21)) {
        (0, 0) if is_load => load(word, bytes),
        // A store that finds the reservation gone makes no access.
        (0, 0) => {
            draft.moving(Direction::Store, [rn], bytes, Records::Varies).reading([rd]).writing([status])
        }
        (0, _) if size >= 0b10 && is_load => {
            draft.moving(Direction::Load, [rn], 2 * bytes, Records::Varies).writing([rd, second])
        }
        (0, _) if size >= 0b10 => {
            let draft = draft.moving(Direction::Store, [rn], 2 * bytes, Records::Varies);
            draft.reading([rd, second]).writing([status])
        }
        // Of two registers, and of one.
        (0, _) => Draft::new(Class::Locked)
            .moving(Direction::Modify, [rn], 8 << (size & 1), Records::Varies)
            .reading([status, status + 1, rd, rd + 1])
            .writing([status, status + 1]),
        (_, 0) if is_load => load(word, bytes),
        (_, 0) => store(word, bytes),
        _ => Draft::new(Class::Locked)
            .moving(Direction::Modify, [rn], bytes, ONE)
            .reading([status, rd])
            .writing([status]),
    })
}

/// An access with an order and a distance, a copy of memory, or an access to tags of memory.
fn ordered_or_tag(word: u32) -> Option<Draft> {
    let Fields { rd, rn, .. } = Fields::of(word);
    let (size, opcode) = (bits(word, 31, 30), bits(word, 23, 22));
    Some(match (bits(word, 21, 21), bits(word, 11, 10)) {
        (0, 0b00) if opcode == 0b00 => store(word, 1 << size),
        (0, 0b00) => load(word, 1 << size),
        (0, 0b01) => {
            Draft::new(Class::String).moving(Direction::Store, [rd], 0, Records::Varies).reading([rn])
        }
        (1, _) if size == 0b11 => {
            Draft::new(Class::LoadStore).moving(Direction::Store, [rn], 0, Records::Varies).reading([rd])
        }
        _ => return None,
    })
}

/// An operation on memory that others see as one.
fn atomic(word: u32) -> Option<Draft> {
    let Fields { rd, rn, rm, .. } = Fields::of(word);
    let bytes = 1 << bits(word, 31, 30);
    Some(match bits(word, 15, 12) {
        0b0000..=0b1000 => {
            Draft::new(Class::Locked).moving(Direction::Modify, [rn], bytes, ONE).reading([rm]).writing([rd])
        }
        0b1100 => load(word, bytes),
        _ => return None,
    })
}

/// Vector registers that follow one another, whose elements may take turns in memory.
fn several(word: u32) -> Option<Draft> {
    let Fields { rd, rn, .. } = Fields::of(word);
    let count = match bits(word, 15, 12) {
        0b0000 | 0b0010 => 4,
        0b0100 | 0b0110 => 3,
        0b1000 | 0b1010 => 2,
        0b0111 => 1,
        _ => return None,
    };
    let bytes = count as u16 * (8 << bits(word, 30, 30));
    let draft = Draft::new(Class::LoadStore).moving(direction(word), [rn], bytes, Records::Varies);
    Some(draft.of_vectors(rd, count))
}

/// An element of each of some vector registers; a load may put it into all places of the register.
fn element(word: u32) -> Option<Draft> {
    let Fields { rd, rn, .. } = Fields::of(word);
    let opcode = bits(word, 15, 13);
    let count = ((opcode & 1) << 1 | bits(word, 21, 21)) + 1;
    let size = match opcode >> 1 {
        // Into all places.
        0b11 => bits(word, 11, 10),
        0b10 if bits(word, 10, 10) != 0 => 3,
        size => size,
    };
    let bytes = (count as u16) << size;
    let (direction, is_everywhere) = (direction(word), opcode >> 1 == 0b11);
    let draft = Draft::new(Class::LoadStore).moving(direction, [rn], bytes, Records::Varies);
    let draft = draft.of_vectors(rd, count);
    match (direction, is_everywhere) {
        (Direction::Load, true) => Some(draft),
        (_, true) => None,
        // The other elements stay.
        (_, false) => Some(draft.reading_vectors(rd, count)),
    }
}
