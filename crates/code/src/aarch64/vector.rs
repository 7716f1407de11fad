//! Operations on vector registers: on one number of them, and on all.

use super::draft::{Draft, Fields};
use crate::bits::bits;
use crate::class::Class;

/// Describes an operation; none if it is not known.
pub(super) fn describe(word: u32) -> Option<Draft> {
    let is_of_numbers = bits(word, 30, 30) == 0 && bits(word, 28, 28) != 0;
    match (is_of_numbers, bits(word, 24, 24)) {
        (true, 0) => Some(number(word)),
        (true, _) => {
            let Fields { ra, .. } = Fields::of(word);
            Some(of_two(word, Class::FloatMultiplyAdd).reading_vectors(ra, 1))
        }
        (false, 0) if bits(word, 31, 29) == 0b110 => Some(of_hashes(word)),
        _ if bits(word, 31, 31) != 0 => None,
        (false, 0) => Some(vector(word)),
        (false, _) if bits(word, 10, 10) != 0 => Some(constant(word)),
        (false, _) => Some(indexed(word)),
    }
}

/// A step of the newer hashes, or an operation on the bits of three vectors.
fn of_hashes(word: u32) -> Draft {
    let Fields { ra, .. } = Fields::of(word);
    match (bits(word, 23, 22), bits(word, 15, 15)) {
        (0b00, 0) => of_two(word, Class::VectorInteger).reading_vectors(ra, 1),
        _ => accumulating(word, of_two(word, Class::Crypto), true),
    }
}

fn of_one(word: u32, class: Class) -> Draft {
    let Fields { rd, rn, .. } = Fields::of(word);
    Draft::new(class).reading_vectors(rn, 1).writing_vectors(rd, 1)
}

fn of_two(word: u32, class: Class) -> Draft {
    let Fields { rm, .. } = Fields::of(word);
    of_one(word, class).reading_vectors(rm, 1)
}

/// Lets an operation need what it writes, if it does.
fn accumulating(word: u32, draft: Draft, does: bool) -> Draft {
    let Fields { rd, .. } = Fields::of(word);
    if does { draft.reading_vectors(rd, 1) } else { draft }
}

/// From a vector to a general register.
fn to_general(word: u32, class: Class) -> Draft {
    let Fields { rd, rn, .. } = Fields::of(word);
    Draft::new(class).reading_vectors(rn, 1).writing([rd])
}

/// From a general register to a vector.
fn from_general(word: u32, class: Class) -> Draft {
    let Fields { rd, rn, .. } = Fields::of(word);
    Draft::new(class).reading([rn]).writing_vectors(rd, 1)
}

/// An operation on one floating-point number.
fn number(word: u32) -> Draft {
    let Fields { rd, rn, rm, .. } = Fields::of(word);
    let opcode = bits(word, 18, 16);
    if bits(word, 21, 21) == 0 || bits(word, 15, 10) == 0 {
        // Whole numbers, with a point in a fixed place or without one; copies of bits.
        return match opcode {
            0b010 | 0b011 => from_general(word, Class::CrossConvert),
            0b111 if bits(word, 21, 21) != 0 => {
                let is_half = bits(word, 20, 19) == 0b01;
                accumulating(word, from_general(word, Class::Cross), is_half)
            }
            0b110 if bits(word, 21, 21) != 0 && bits(word, 20, 19) != 0b11 => to_general(word, Class::Cross),
            _ => to_general(word, Class::CrossConvert),
        };
    }
    let compared = |class| Draft::new(class).reading_vectors(rn, 1).reading_vectors(rm, 1);
    match bits(word, 11, 10) {
        0b00 if bits(word, 12, 12) != 0 => Draft::new(Class::VectorInteger).writing_vectors(rd, 1),
        0b00 if bits(word, 13, 13) != 0 => {
            let is_with_zero = bits(word, 3, 3) != 0;
            let draft = Draft::new(Class::FloatCompare).reading_vectors(rn, 1).writing_flags(true);
            if is_with_zero { draft } else { draft.reading_vectors(rm, 1) }
        }
        0b00 => of_one(
            word,
            match bits(word, 20, 15) {
                0 => Class::VectorMove,
                1 | 2 => Class::VectorInteger,
                3 => Class::FloatSquareRoot,
                _ => Class::Convert,
            },
        ),
        0b01 => compared(Class::FloatCompare).reading_flags().writing_flags(true),
        0b10 => of_two(
            word,
            match bits(word, 15, 12) {
                0 | 8 => Class::FloatMultiply,
                1 => Class::FloatDivide,
                2 | 3 => Class::FloatAdd,
                _ => Class::FloatCompare,
            },
        ),
        _ => of_two(word, Class::VectorInteger).reading_flags(),
    }
}

/// An operation on vectors, or on one element of each.
fn vector(word: u32) -> Draft {
    let is_second = bits(word, 29, 29) != 0;
    match (bits(word, 21, 21), bits(word, 15, 15), bits(word, 11, 10)) {
        (1, _, 0b01 | 0b11) => same(word, is_second),
        (1, _, 0b00) => longer(word),
        // Operations on one vector.
        (1, _, _) => match bits(word, 20, 17) {
            0b0000 | 0b1100 => single(word, is_second),
            0b1000 => across(word),
            // Of a cipher's rounds, the mixing of columns needs nothing else.
            _ => accumulating(word, of_one(word, Class::Crypto), bits(word, 14, 13) != 0b11),
        },
        // Half-precision numbers: what single-precision ones have, three places above.
        (_, 0, 0b01 | 0b11) if bits(word, 22, 22) != 0 && bits(word, 14, 14) == 0 => {
            of_floats(word, 0b11000 | bits(word, 13, 11), is_second)
        }
        (_, 0, 0b01 | 0b11) => copy(word, is_second),
        // Products of parts, and complex numbers.
        (_, 1, 0b01) if bits(word, 14, 13) == 0b11 && is_second => of_two(word, Class::FloatAdd),
        (_, 1, 0b01 | 0b11) => {
            let is_complex = bits(word, 14, 14) != 0;
            let class = if is_complex { Class::FloatMultiplyAdd } else { Class::VectorMultiply };
            accumulating(word, of_two(word, class), true)
        }
        // Steps of the older hashes; tables; permutations.
        (_, _, 0b00) if bits(word, 30, 28) == 0b101 => accumulating(word, of_two(word, Class::Crypto), true),
        (_, _, 0b00) if !is_second => {
            let Fields { rd, rn, rm, .. } = Fields::of(word);
            let draft = Draft::new(Class::Shuffle).reading_vectors(rn, bits(word, 14, 13) + 1);
            let keeps = bits(word, 12, 12) != 0;
            accumulating(word, draft.reading_vectors(rm, 1).writing_vectors(rd, 1), keeps)
        }
        _ => of_two(word, Class::Shuffle),
    }
}

/// Copies of elements.
fn copy(word: u32, is_second: bool) -> Draft {
    if is_second {
        return accumulating(word, of_one(word, Class::Shuffle), true);
    }
    match bits(word, 14, 11) {
        0b0000 => of_one(word, Class::Shuffle),
        0b0001 => from_general(word, Class::Cross),
        0b0011 => accumulating(word, from_general(word, Class::Cross), true),
        _ => to_general(word, Class::Cross),
    }
}

/// An operation on three vectors of the same shape.
fn same(word: u32, is_second: bool) -> Draft {
    let Fields { rn, rm, .. } = Fields::of(word);
    let opcode = bits(word, 15, 11);
    match opcode {
        0b00011 => {
            let selects = is_second && bits(word, 23, 22) != 0;
            let copies = !is_second && bits(word, 23, 22) == 0b10 && rn == rm;
            let class = if copies { Class::VectorMove } else { Class::VectorInteger };
            accumulating(word, of_two(word, class), selects)
        }
        0b01000..=0b01011 => of_two(word, Class::Shuffle),
        0b01111 => accumulating(word, of_two(word, Class::VectorInteger), true),
        0b10010 => accumulating(word, of_two(word, Class::VectorMultiply), true),
        0b10011 | 0b10110 => of_two(word, Class::VectorMultiply),
        0b11000.. => of_floats(word, opcode, is_second),
        _ => of_two(word, Class::VectorInteger),
    }
}

/// The same on floating-point numbers.
fn of_floats(word: u32, opcode: u32, is_second: bool) -> Draft {
    match (opcode, is_second) {
        (0b11001, _) | (0b11101, false) => accumulating(word, of_two(word, Class::FloatMultiplyAdd), true),
        (0b11010, _) => of_two(word, Class::FloatAdd),
        (0b11011, _) => of_two(word, Class::FloatMultiply),
        (0b11111, true) => of_two(word, Class::FloatDivide),
        (0b11111, false) => of_two(word, Class::FloatMultiplyAdd),
        _ => of_two(word, Class::FloatCompare),
    }
}

/// An operation on three vectors, one of which has elements of twice the size.
fn longer(word: u32) -> Draft {
    let opcode = bits(word, 15, 12);
    let class = if opcode >= 0b1000 { Class::VectorMultiply } else { Class::VectorInteger };
    let is_upper_half = bits(word, 30, 30) != 0 && matches!(opcode, 0b0100 | 0b0110);
    accumulating(word, of_two(word, class), is_upper_half || matches!(opcode, 0b0101 | 0b1000..=0b1011))
}

/// An operation on one vector.
fn single(word: u32, is_second: bool) -> Draft {
    let (opcode, is_large) = (bits(word, 16, 12), bits(word, 23, 23) != 0);
    let narrows = matches!(opcode, 0b10010 | 0b10100 | 0b10110);
    let keeps = narrows && bits(word, 30, 30) != 0 && bits(word, 28, 28) == 0;
    let class = match (opcode, is_large) {
        (0b00000 | 0b00001 | 0b10010 | 0b10100, _) => Class::Shuffle,
        (0b01100 | 0b01101, true) => Class::FloatCompare,
        (0b01110, true) if !is_second => Class::FloatCompare,
        (0b11111, true) if is_second => Class::FloatSquareRoot,
        (0b11101, true) => Class::FloatMultiply,
        (0b10110 | 0b10111 | 0b11000.., _) => Class::Convert,
        // Sums of pairs onto what is there.
        (0b00110, _) => return accumulating(word, of_one(word, Class::VectorInteger), true),
        _ => Class::VectorInteger,
    };
    accumulating(word, of_one(word, class), keeps)
}

/// An operation on all elements of a vector, or on a pair of them.
fn across(word: u32) -> Draft {
    let is_of_pair = bits(word, 28, 28) != 0;
    let class = match bits(word, 16, 12) {
        0b01101 if is_of_pair => Class::FloatAdd,
        0b01100 | 0b01111 => Class::FloatCompare,
        _ if is_of_pair => Class::VectorInteger,
        // Several steps.
        _ => Class::VectorMultiply,
    };
    of_one(word, class)
}

/// A vector of a constant, or a shift of each element by one.
fn constant(word: u32) -> Draft {
    let Fields { rd, .. } = Fields::of(word);
    if bits(word, 22, 19) == 0 && bits(word, 28, 28) == 0 {
        let (mode, value) = (bits(word, 15, 12), bits(word, 18, 16) << 5 | bits(word, 9, 5));
        let keeps = mode < 0b1100 && mode & 1 != 0;
        let is_zero = value == 0 && !keeps && (mode == 0b1110 || mode < 0b1110 && bits(word, 29, 29) == 0);
        let class = if is_zero { Class::Zero } else { Class::VectorInteger };
        return accumulating(word, Draft::new(class).writing_vectors(rd, 1), keeps);
    }
    let (opcode, is_second) = (bits(word, 15, 11), bits(word, 29, 29) != 0);
    let is_upper_half =
        bits(word, 30, 30) != 0 && bits(word, 28, 28) == 0 && matches!(opcode, 0b10000..=0b10011);
    let keeps = match opcode {
        0b00010 | 0b00110 => true,
        0b01000 | 0b01010 => is_second,
        _ => is_upper_half,
    };
    let class = if matches!(opcode, 0b11100 | 0b11111) { Class::Convert } else { Class::Shuffle };
    accumulating(word, of_one(word, class), keeps)
}

/// A product with one element of a vector.
fn indexed(word: u32) -> Draft {
    let (opcode, is_second) = (bits(word, 15, 12), bits(word, 29, 29) != 0);
    // Elements of 16 bits have four bits for their register.
    let rm = if bits(word, 23, 23) == 0 { bits(word, 19, 16) } else { bits(word, 20, 16) };
    let (class, keeps) = match opcode {
        0b0001 | 0b0101 if !is_second => (Class::FloatMultiplyAdd, true),
        0b1001 => (Class::FloatMultiply, false),
        0b1000 | 0b1010..=0b1101 => (Class::VectorMultiply, false),
        _ => (Class::VectorMultiply, true),
    };
    accumulating(word, of_one(word, class).reading_vectors(rm, 1), keeps)
}
