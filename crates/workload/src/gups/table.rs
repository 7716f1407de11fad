//! The table of words, held whole or as its changes only.

use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// A table whose word `i` is `i` before the first update.
///
/// # Contract
///
/// `load`, `store` and `store_first` emit one access each; the others emit none.
pub(crate) trait Table {
    /// Reads a word so that the host has it in its caches. No effect otherwise.
    fn bring_in(&self, index: usize);

    fn load(&self, index: usize, out: &mut Emitter<'_>) -> Result<u64, Stop>;

    fn store(&mut self, index: usize, word: u64, out: &mut Emitter<'_>) -> Result<(), Stop>;

    /// Stores a word's first value, its index.
    fn store_first(&mut self, index: usize, out: &mut Emitter<'_>) -> Result<(), Stop>;

    /// Applies an update without events: for verification only.
    fn apply(&mut self, index: usize, update: u64);

    /// A word that is not its own index, with what it is.
    fn first_changed(&self) -> Option<(usize, u64)>;
}

/// Every word on the host.
pub(crate) type Whole = Traced<u64, 8>;

impl Table for Whole {
    #[inline(always)]
    fn bring_in(&self, index: usize) {
        std::hint::black_box(self.untraced()[index]);
    }

    #[inline(always)]
    fn load(&self, index: usize, out: &mut Emitter<'_>) -> Result<u64, Stop> {
        self.load(index, out)
    }

    #[inline(always)]
    fn store(&mut self, index: usize, word: u64, out: &mut Emitter<'_>) -> Result<(), Stop> {
        self.store(index, word, out)
    }

    #[inline(always)]
    fn store_first(&mut self, index: usize, out: &mut Emitter<'_>) -> Result<(), Stop> {
        self.store(index, index as u64, out)
    }

    #[inline(always)]
    fn apply(&mut self, index: usize, update: u64) {
        self.untraced_mut()[index] ^= update;
    }

    fn first_changed(&self) -> Option<(usize, u64)> {
        self.untraced().iter().copied().enumerate().find(|&(i, word)| word != i as u64)
    }
}

/// Only the words that were ever stored to, in a hash table with linear probing, sized once: there are at most as
/// many of them as there are updates of words.
pub(crate) struct Changes {
    /// No data, only the addresses.
    place: Traced<(), 8>,
    slots: Vec<Slot>,
}

/// A word that was stored to; all zero if the slot is free.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The word's index, plus one.
    tag: u64,
    /// What all its updates together have toggled: the word itself is this and its index, exclusive-or.
    toggled: u64,
}

impl Changes {
    /// `malloc` of `words` words of which at most `most` will change.
    pub(crate) fn new(
        words: usize,
        most: u64,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Self, Stop> {
        let place = Traced::new(words, (), space, out)?;
        Ok(Self { place, slots: vec![Slot::default(); Self::slots(most)] })
    }

    /// The bytes on the host for at most `most` changed words.
    pub(crate) fn host_bytes(most: u64) -> u64 {
        (Self::slots(most) * size_of::<Slot>()) as u64
    }

    /// At most three quarters are ever full.
    fn slots(most: u64) -> usize {
        (most + most / 3 + 2).next_power_of_two() as usize
    }

    /// The slot of a word, or the free one where it would go. Fibonacci hashing: the product's upper bits.
    #[inline(always)]
    fn slot(&self, index: usize) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let tag = index as u64 + 1;
        let mask = self.slots.len() - 1;
        let mut at = (tag.wrapping_mul(GOLDEN) >> 32) as usize & mask;
        while self.slots[at].tag != tag && self.slots[at].tag != 0 {
            at = (at + 1) & mask;
        }
        at
    }
}

impl Table for Changes {
    #[inline(always)]
    fn bring_in(&self, index: usize) {
        std::hint::black_box(self.slots[self.slot(index)].toggled);
    }

    #[inline(always)]
    fn load(&self, index: usize, out: &mut Emitter<'_>) -> Result<u64, Stop> {
        self.place.touch(index, out)?;
        Ok(index as u64 ^ self.slots[self.slot(index)].toggled)
    }

    #[inline(always)]
    fn store(&mut self, index: usize, word: u64, out: &mut Emitter<'_>) -> Result<(), Stop> {
        self.place.store(index, (), out)?;
        let at = self.slot(index);
        self.slots[at] = Slot { tag: index as u64 + 1, toggled: index as u64 ^ word };
        Ok(())
    }

    #[inline(always)]
    fn store_first(&mut self, index: usize, out: &mut Emitter<'_>) -> Result<(), Stop> {
        self.place.store(index, (), out)
    }

    fn apply(&mut self, index: usize, update: u64) {
        let at = self.slot(index);
        let toggled = self.slots[at].toggled ^ update;
        self.slots[at] = Slot { tag: index as u64 + 1, toggled };
    }

    fn first_changed(&self) -> Option<(usize, u64)> {
        let slot = self.slots.iter().find(|slot| slot.toggled != 0)?;
        let index = slot.tag.wrapping_sub(1);
        Some((index as usize, index ^ slot.toggled))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn changes_are_the_whole_table_to_its_user() {
        const WORDS: usize = 1 << 12;
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let mut whole = Whole::new(WORDS, 0, &mut space, &mut out).unwrap();
        (0..WORDS).for_each(|i| whole.untraced_mut()[i] = i as u64);
        let mut changes = Changes::new(WORDS, 1 << 10, &mut space, &mut out).unwrap();
        assert_eq!(changes.first_changed(), None);
        let mut random = SplitMix64::of_item(5, 0);
        for _ in 0..1 << 10 {
            let (index, word) = (random.below(WORDS as u64) as usize, random.next());
            whole.store(index, word, &mut out).unwrap();
            Table::store(&mut changes, index, word, &mut out).unwrap();
        }
        for index in 0..WORDS {
            assert_eq!(
                Table::load(&changes, index, &mut out).unwrap(),
                whole.load(index, &mut out).unwrap(),
                "{index}"
            );
        }
        assert!(changes.first_changed().is_some());
    }
}
