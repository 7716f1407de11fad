//! When the values of registers are there.

use pagewalk_code::{Register, Registers};

/// Registers that are named one by one; more of them stand in a list of sets.
const FEW: usize = 4;
/// No register: one that is never written, for those that are read, and one that is never read, for those that are written.
const UNWRITTEN: u8 = 255;
const UNREAD: u8 = 254;
/// Instead of a first register: a set in the list, whose number follows.
const SET: u8 = 253;
/// The stack pointer as the front end knows it, which pushes and pops move: neither written nor read.
const STACK: u8 = 252;

/// Registers of an instruction, in a form in which a few are gone through without a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Names([u8; FEW]);

impl Names {
    /// Names no register.
    pub(super) const NONE: Self = Self([UNWRITTEN; FEW]);
    /// Names the stack pointer, for which no instruction waits.
    pub(super) const STACK: Self = Self([STACK, UNWRITTEN, UNWRITTEN, UNWRITTEN]);

    /// Returns whether registers are named one by one.
    pub(super) fn are_few(registers: Registers) -> bool {
        registers.len() <= FEW
    }

    /// Names registers that are read. Many of them go into the list.
    pub(super) fn read(registers: Registers, sets: &mut Vec<Registers>) -> Self {
        Self::new(registers, UNWRITTEN, sets)
    }

    /// Names registers that are written. Many of them go into the list.
    pub(super) fn written(registers: Registers, sets: &mut Vec<Registers>) -> Self {
        Self::new(registers, UNREAD, sets)
    }

    fn new(registers: Registers, none: u8, sets: &mut Vec<Registers>) -> Self {
        let mut names = [none; FEW];
        if !Self::are_few(registers) {
            let [low, high, ..] = (sets.len() as u32).to_le_bytes();
            sets.push(registers);
            return Self([SET, low, high, 0]);
        }
        for (name, register) in names.iter_mut().zip(registers.iter()) {
            *name = register.index() as u8;
        }
        Self(names)
    }

    /// Returns the set, if the registers are many.
    #[inline]
    fn set(self, sets: &[Registers]) -> Option<Registers> {
        let [first, low, high, _] = self.0;
        (first == SET)
            .then(|| sets.get(usize::from(u16::from_le_bytes([low, high]))).copied().unwrap_or_default())
    }
}

/// By register, when its value is there.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    times: [u64; 256],
}

impl Ready {
    pub(super) fn new() -> Self {
        const { assert!(Register::COUNT <= STACK as usize) };
        Self { times: [0; 256] }
    }

    /// Returns when the last of some registers is there; 0 for none.
    #[inline]
    pub(super) fn of(&self, names: Names, sets: &[Registers]) -> u64 {
        if let Some(registers) = names.set(sets) {
            return registers.iter().map(|register| self.times[register.index()]).max().unwrap_or(0);
        }
        self.of_few(names)
    }

    /// Returns the same of registers that are few.
    #[inline(always)]
    pub(super) fn of_few(&self, names: Names) -> u64 {
        let [first, second, third, fourth] = names.0;
        let of = |name: u8| self.times[usize::from(name)];
        let ready = of(first).max(of(second));
        // Most instructions read no more than two.
        if third == UNWRITTEN { ready } else { ready.max(of(third)).max(of(fourth)) }
    }

    /// Writes some registers.
    #[inline]
    pub(super) fn write(&mut self, names: Names, sets: &[Registers], time: u64) {
        if let Some(registers) = names.set(sets) {
            return registers.iter().for_each(|register| self.times[register.index()] = time);
        }
        self.write_few(names, time);
    }

    /// Writes registers that are few.
    #[inline(always)]
    pub(super) fn write_few(&mut self, names: Names, time: u64) {
        let [first, second, third, fourth] = names.0;
        let mut write = |name: u8| self.times[usize::from(name)] = time;
        write(first);
        write(second);
        if third != UNREAD {
            write(third);
            write(fourth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_there_when_it_was_written_last_however_many_are_named() {
        let set = |numbers: std::ops::Range<u8>| numbers.map(Register::new).collect();
        let (mut ready, mut sets) = (Ready::new(), Vec::new());
        for (numbers, time) in [(3..5, 7), (10..20, 9), (0..0, 100)] {
            let names = Names::written(set(numbers), &mut sets);
            ready.write(names, &sets, time);
        }
        let mut of = |numbers| ready.of(Names::read(set(numbers), &mut sets), &sets.clone());
        assert_eq!([of(0..3), of(0..4), of(0..20), of(4..8), of(63..64), of(0..0)], [0, 7, 9, 7, 0, 0]);
        assert_eq!((sets.len(), ready.of(Names::NONE, &[])), (2, 0));
    }
}
