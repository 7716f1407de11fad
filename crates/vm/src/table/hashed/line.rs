//! A line of a hashed page table: eight entries and the tag that says of which pages.

use std::num::NonZeroU64;

use crate::table::cuckoo::Keyed;

/// Entries of a line.
pub const LINE_ENTRIES: usize = 8;

/// log2 of [`LINE_ENTRIES`].
pub(super) const LINE_SHIFT: u32 = 3;

/// The bits of an entry that neither the hardware nor the system uses, and what is in them.
const SPARE_SHIFT: u32 = 52;
const SPARE: u64 = 0x1f << SPARE_SHIFT;

/// Eight x86-64 entries for eight consecutive pages, with their tag in the bits that entries leave free: 64 bytes, so
/// that one memory access fetches tag and entry.
///
/// ```text
///  entry 0..=6:  bits 52 to 56 are five bits of the line's number, low ones first: 35 bits, of which 33 are needed
///  entry 7:      bits 52 to 56 are the number of entries in use, 1 to 8
/// ```
///
/// A line without entries is none: its place in the table is empty. (Layout: the public Linux port of elastic cuckoo
/// page tables.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(64))]
pub struct Line {
    first: [u64; LINE_ENTRIES - 1],
    /// The last entry, which is not zero, because it holds the count.
    last: NonZeroU64,
}

impl Line {
    /// Returns the line of this number, with one entry.
    ///
    /// # Panics
    ///
    /// If the entry is empty or uses the bits of the tag, or the number has more than 35 bits.
    pub fn new(number: u64, index: usize, entry: u64) -> Self {
        assert!(number < 1 << 35, "line {number:#x} of a hashed page table");
        assert!(entry != 0 && entry & SPARE == 0, "entry {entry:#x}");
        let mut first = std::array::from_fn(|at| (number >> (5 * at) & 0x1f) << SPARE_SHIFT);
        let mut last = 1 << SPARE_SHIFT;
        *first.get_mut(index).unwrap_or(&mut last) |= entry;
        Self { first, last: NonZeroU64::new(last).expect("it holds the count") }
    }

    /// Returns the number of the line: the page's, divided by the entries of a line.
    #[inline]
    pub fn number(&self) -> u64 {
        let tag = |number, (at, word): (usize, &u64)| number | (word & SPARE) >> SPARE_SHIFT << (5 * at);
        self.first.iter().enumerate().fold(0, tag)
    }

    /// Returns the number of entries in use, 1 to 8.
    #[inline]
    pub fn used(&self) -> u32 {
        ((self.last.get() & SPARE) >> SPARE_SHIFT) as u32
    }

    /// Returns an entry without the tag; 0 if the entry is empty.
    #[inline]
    pub fn entry(&self, index: usize) -> u64 {
        self.first.get(index).copied().unwrap_or(self.last.get()) & !SPARE
    }

    /// Returns the entries in use with their places in the line.
    pub fn entries(&self) -> impl Iterator<Item = (usize, u64)> {
        (0..LINE_ENTRIES).map(|index| (index, self.entry(index))).filter(|&(_, entry)| entry != 0)
    }

    /// Sets an entry, or empties it with 0. False if none is left: then the line is to go, and has not changed.
    ///
    /// # Panics
    ///
    /// If the entry uses the bits of the tag.
    pub fn set(&mut self, index: usize, entry: u64) -> bool {
        assert!(index < LINE_ENTRIES && entry & SPARE == 0, "entry {index}: {entry:#x}");
        let before = self.entry(index);
        let used = self.used() + u32::from(entry != 0) - u32::from(before != 0);
        if used == 0 {
            return false;
        }
        let mut last = if index == LINE_ENTRIES - 1 { entry } else { self.entry(LINE_ENTRIES - 1) };
        last |= u64::from(used) << SPARE_SHIFT;
        self.last = NonZeroU64::new(last).expect("it holds the count");
        if let Some(word) = self.first.get_mut(index) {
            *word = *word & SPARE | entry;
        }
        true
    }
}

impl Keyed for Line {
    #[inline]
    fn key(&self) -> u64 {
        self.number()
    }
}
