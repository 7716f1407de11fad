//! Registers by number, and sets of them.

use std::fmt;

/// A register of the program, by a number below [`Register::COUNT`] that its instruction set gives it.
///
/// Parts of a register that an instruction can name alone (`%al` of `%rax`, `%xmm1` of `%zmm1`) have the number of the whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Register(u8);

impl Register {
    /// The number of registers that an instruction set can have: numbers are below it.
    pub const COUNT: usize = 64;

    /// Creates the register of a number.
    ///
    /// # Panics
    ///
    /// The number is [`Register::COUNT`] or larger.
    pub const fn new(number: u8) -> Self {
        assert!((number as usize) < Self::COUNT);
        Self(number)
    }

    /// Returns the number, for use as an index into an array of [`Register::COUNT`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of registers in one word: bit `n` stands for the register with the number `n`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Registers(u64);

impl Registers {
    /// The set that contains no register.
    pub const EMPTY: Self = Self(0);

    /// Returns whether the register is in the set.
    #[inline]
    pub const fn contains(self, register: Register) -> bool {
        self.0 >> register.0 & 1 != 0
    }

    /// Returns whether the set contains no register.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of registers in the set.
    #[inline]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the set of the registers that are in either set.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the set of the registers that are in both sets.
    #[inline]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the set of so many registers, from a number on.
    ///
    /// # Panics
    ///
    /// One of them has the number [`Register::COUNT`] or a larger one.
    pub const fn range(first: u8, count: u8) -> Self {
        assert!(first as usize + count as usize <= Register::COUNT);
        match count {
            0 => Self::EMPTY,
            _ => Self(u64::MAX >> (Register::COUNT - count as usize) << first),
        }
    }

    /// Adds a register to the set.
    #[inline]
    pub const fn insert(&mut self, register: Register) {
        self.0 |= 1 << register.0;
    }

    /// Takes a register out of the set.
    #[inline]
    pub const fn remove(&mut self, register: Register) {
        self.0 &= !(1 << register.0);
    }

    /// Iterates over the registers of the set in ascending order of their numbers.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Register> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let number = rest.trailing_zeros();
            // Of an empty set, the subtraction would overflow.
            rest &= rest.checked_sub(1)?;
            Some(Register(number as u8))
        })
    }
}

impl FromIterator<Register> for Registers {
    fn from_iter<I: IntoIterator<Item = Register>>(registers: I) -> Self {
        let mut set = Self::EMPTY;
        registers.into_iter().for_each(|register| set.insert(register));
        set
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Register::index)).finish()
    }
}
