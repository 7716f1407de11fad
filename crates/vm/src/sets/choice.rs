//! The choice of a set by a number: that of a page, of a run of pages or of a line.

use super::{ArrayShape, ShapeError};

/// The rule by which numbers are divided among sets.
///
/// # Contract
///
/// A number's set is below [`SetChoice::sets`], and numbers that differ modulo [`SetChoice::classes`] have different sets.
pub trait SetChoice: Clone + std::fmt::Debug + Send + 'static {
    /// Returns the set of `number`.
    fn set(&self, number: u64) -> usize;

    /// Returns the number of sets.
    fn sets(&self) -> u64;

    /// Returns a power of two: numbers with different remainders of a division by it have different sets.
    fn classes(&self) -> u64;
}

/// The low bits of the number, for a power of two of sets: the fast choice, which nearly every array has.
#[derive(Clone, Copy, Debug)]
pub struct LowBits {
    mask: u64,
}

impl LowBits {
    /// Creates the choice among so many sets.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Sets`] if `entries / ways` is not a power of two.
    pub(super) fn new(entries: u32, ways: u32) -> Result<Self, ShapeError> {
        match whole_sets(entries, ways)? {
            sets if sets.is_power_of_two() => Ok(Self { mask: sets - 1 }),
            _ => Err(ShapeError::Sets { entries, ways, allowed: "a power of two" }),
        }
    }
}

impl SetChoice for LowBits {
    #[inline(always)]
    fn set(&self, number: u64) -> usize {
        (number & self.mask) as usize
    }

    fn sets(&self) -> u64 {
        self.mask + 1
    }

    fn classes(&self) -> u64 {
        self.sets()
    }
}

/// The choices that take more than a mask.
#[derive(Clone, Copy, Debug)]
pub enum ComputedChoice {
    /// The remainder of a division, for any number of sets.
    Modulo {
        /// The number of sets.
        sets: u64,
    },
    /// The exclusive or of the number's lowest `bits` bits and of as many above them.
    ///
    /// B. Gras et al., "Translation Leak-aside Buffer", USENIX Security 2018: the second-level TLBs of Skylake (7 bits)
    /// and of Broadwell (8 bits).
    XorFold {
        /// The base-2 logarithm of the number of sets.
        bits: u32,
    },
}

impl SetChoice for ComputedChoice {
    #[inline]
    fn set(&self, number: u64) -> usize {
        match *self {
            Self::Modulo { sets } => (number % sets) as usize,
            Self::XorFold { bits } => ((number ^ number >> bits) & ((1 << bits) - 1)) as usize,
        }
    }

    fn sets(&self) -> u64 {
        match *self {
            Self::Modulo { sets } => sets,
            Self::XorFold { bits } => 1 << bits,
        }
    }

    fn classes(&self) -> u64 {
        match *self {
            Self::Modulo { sets } => 1 << sets.trailing_zeros(),
            // Any two low parts meet in a set under some upper parts.
            Self::XorFold { .. } => 1,
        }
    }
}

/// The kind of choice that an array of a shape asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Indexing {
    /// The number modulo the number of sets.
    #[default]
    Modulo,
    /// The low bits exclusive-or as many bits above them, for a power of two of sets, two at least.
    XorFold,
}

/// A choice of either speed.
pub(super) enum AnyChoice {
    LowBits(LowBits),
    Computed(ComputedChoice),
}

impl AnyChoice {
    /// Returns the fastest choice that does what the shape says.
    pub(super) fn of(shape: &ArrayShape) -> Result<Self, ShapeError> {
        let &ArrayShape { entries, ways, indexing, .. } = shape;
        let sets = whole_sets(entries, ways)?;
        match indexing {
            Indexing::Modulo if sets.is_power_of_two() => Ok(Self::LowBits(LowBits { mask: sets - 1 })),
            Indexing::Modulo => Ok(Self::Computed(ComputedChoice::Modulo { sets })),
            Indexing::XorFold if sets.is_power_of_two() && sets > 1 => {
                Ok(Self::Computed(ComputedChoice::XorFold { bits: sets.trailing_zeros() }))
            }
            Indexing::XorFold => {
                Err(ShapeError::Sets { entries, ways, allowed: "a power of two above 1 for a hash" })
            }
        }
    }
}

fn whole_sets(entries: u32, ways: u32) -> Result<u64, ShapeError> {
    if ways == 0 || entries == 0 || !entries.is_multiple_of(ways) {
        return Err(ShapeError::Sets { entries, ways, allowed: "a whole number, at least 1" });
    }
    Ok(u64::from(entries / ways))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::Replacement;

    fn choice(entries: u32, indexing: Indexing) -> AnyChoice {
        let shape = ArrayShape { entries, ways: 1, replacement: Replacement::Lru, indexing };
        AnyChoice::of(&shape).expect("a possible shape")
    }

    /// Seven and seven bits, as in Skylake.
    #[test]
    fn a_fold_of_seven_bits_divides_a_stride_of_128_pages_among_all_sets() {
        let AnyChoice::Computed(choice) = choice(128, Indexing::XorFold) else { panic!("not a mask") };
        assert_eq!(choice.set(0b101_0000001_0000011), 0b10);
        let mut seen = [false; 128];
        (0..128).for_each(|step| seen[choice.set(step * 128)] = true);
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn numbers_of_different_classes_have_different_sets() {
        for (entries, indexing, classes) in [
            (24, Indexing::Modulo, 8),
            (7, Indexing::Modulo, 1),
            (114_688, Indexing::Modulo, 1 << 14),
            (16, Indexing::XorFold, 1),
        ] {
            let AnyChoice::Computed(choice) = choice(entries, indexing) else { panic!("not a mask") };
            assert_eq!((choice.sets(), choice.classes()), (entries.into(), classes));
            let mut class_of = vec![None; entries as usize];
            for number in 0..300_000 {
                let class = *class_of[choice.set(number)].get_or_insert(number % classes);
                assert_eq!(class, number % classes, "{choice:?}, number {number}");
            }
        }
        assert!(matches!(choice(32, Indexing::Modulo), AnyChoice::LowBits(choice) if choice.classes() == 32));
    }
}
