//! The place of a word, and its encoding in a message.

use super::page::{PAGE_BYTES, Page};
use super::{Defect, u64_at};

/// The size of a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum WordSize {
    /// A word of one byte.
    One,
    /// A word of two bytes.
    Two,
    /// A word of four bytes.
    Four,
    /// A word of eight bytes.
    Eight,
}

impl WordSize {
    /// All of them, the shortest first.
    pub const ALL: [Self; 4] = [Self::One, Self::Two, Self::Four, Self::Eight];

    /// Returns the size in bytes.
    pub const fn bytes(self) -> usize {
        1 << self as u8
    }

    /// Returns the bits of a number that such a word holds.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }
}

/// A word of a page: little-endian, aligned or not, but within the page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Word {
    offset: u16,
    size: WordSize,
}

impl Word {
    /// Returns the word at this offset; `None` if it would cross the end of the page.
    pub const fn new(offset: u16, size: WordSize) -> Option<Self> {
        if offset as usize + size.bytes() <= PAGE_BYTES { Some(Self { offset, size }) } else { None }
    }

    /// Returns the offset in bytes where the word begins in the page.
    pub const fn offset(self) -> u16 {
        self.offset
    }

    /// Returns the size of the word.
    pub const fn size(self) -> WordSize {
        self.size
    }

    /// Returns the value of the word in this page, extended with zeroes.
    pub fn load(self, page: &Page) -> u64 {
        let mut bytes = [0; 8];
        bytes[..self.size.bytes()].copy_from_slice(&page[self.range()]);
        u64::from_le_bytes(bytes)
    }

    /// Writes as much of `value` as it holds.
    pub fn store(self, page: &mut Page, value: u64) {
        page[self.range()].copy_from_slice(&value.to_le_bytes()[..self.size.bytes()]);
    }

    /// Returns the range of the word's bytes in the page.
    pub fn range(self) -> std::ops::Range<usize> {
        let offset = usize::from(self.offset);
        offset..offset + self.size.bytes()
    }

    /// The first eight bytes of a small payload:
    ///
    /// ```text
    ///  63                16 15        4 3   2 1    0
    /// +--------------------+-----------+-----+------+
    /// |      reserved      |  offset   |  -  | size |      size: log2 of the bytes
    /// +--------------------+-----------+-----+------+
    /// ```
    pub(super) fn emit(self) -> [u8; 8] {
        (u64::from(self.offset) << 4 | self.size as u64).to_le_bytes()
    }

    pub(super) fn parse(bytes: &[u8; 8]) -> Result<Self, Defect> {
        let packed = u64_at(bytes);
        let offset = (packed >> 4 & 0xfff) as u16;
        let size = WordSize::ALL[(packed & 3) as usize];
        Self::new(offset, size).ok_or(Defect::Crossing { offset, bytes: size.bytes() })
    }
}
