//! The places of a key: from its hash to its tag and its blocks.
//!
//! ```text
//!  hash, 64 bits     | row: 32 bits | ... | tag, finer: 8 bits | home: 6 bits | spill byte: 8 bits | tag: 8 bits |
//!  mixed once more   | row of the first choice: 32 | row of the second choice: 32 |
//! ```
//!
//! A row becomes a block by its *high* bits among the blocks of the first part, and by as many of its *low* bits as
//! the table has doubled. So one doubling sends the items of a block to two blocks: the old one, and the one that is
//! as many blocks further as there were.

use std::num::NonZeroU8;

use crate::store::FIRST_SLOTS;
use crate::tags::Tag;

/// Bijective and mixing all bits into all: the finaliser of Austin Appleby's MurmurHash3 (2011, public domain).
#[inline]
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

/// Half of that, which makes up for hashers whose bits are not equally good: keys with patterns that are not hashed
/// fill the blocks hardly worse than random numbers do. The high bits are the better ones.
#[inline(always)]
fn mix_hash(hashed: u64) -> u64 {
    let bits = hashed.wrapping_mul(0xff51_afd7_ed55_8ccd);
    (bits ^ bits >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

/// A mixed hash of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(u64);

impl Hash {
    /// Makes a hash of what a hasher has made of the key.
    #[inline]
    pub(crate) fn new(hashed: u64) -> Self {
        Self(mix_hash(hashed))
    }

    /// Returns the fingerprint of the key.
    #[inline(always)]
    pub(crate) fn tag(self) -> Tag {
        Tag { raw: self.0 as u8, finer: (self.0 >> 22) as u8 }
    }

    /// The first-level slot in whose cache line the key's item is likeliest to be.
    ///
    /// DEVIATION: `IcebergHT` takes any free slot. Here it is the first one from the beginning of that line, so that most
    /// look-ups can fetch the item's line before they know the tags.
    #[inline(always)]
    pub(crate) fn home(self) -> usize {
        (self.0 >> 16) as usize % FIRST_SLOTS
    }

    /// The byte for the [spill filter](crate::filter).
    #[inline(always)]
    pub(crate) fn spill(self) -> NonZeroU8 {
        not_zero((self.0 >> 8) as u8)
    }
}

/// A byte of a hash, one instead of zero.
#[inline(always)]
fn not_zero(byte: u8) -> NonZeroU8 {
    NonZeroU8::new(byte).unwrap_or(NonZeroU8::MIN)
}

/// A block: its number in the first part, and the number that the doublings give it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At {
    pub(crate) base: u32,
    pub(crate) extra: u32,
}

impl At {
    /// The block that this one shared its items with before the last of `doublings`: the old and the new one.
    pub(crate) fn pair(self, doublings: u32) -> (Self, Self) {
        let bit = 1 << (doublings - 1);
        (Self { extra: self.extra & !bit, ..self }, Self { extra: self.extra | bit, ..self })
    }
}

/// Most blocks of a table. With more, 32 bits would no longer spread items evenly enough.
pub(crate) const MAX_BLOCKS: usize = 1 << 26;

/// The words with so many low ones. Not shifts, which the compiler would compute before it is known whether the table
/// has grown.
const LOWEST: [u32; MAX_BLOCKS.ilog2() as usize + 1] = {
    let mut lowest = [0; _];
    let mut bits = 0;
    while bits < lowest.len() {
        lowest[bits] = (1 << bits) - 1;
        bits += 1;
    }
    lowest
};

/// The number of blocks in the first part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) base: u32,
}

impl Shape {
    /// All blocks after so many doublings.
    #[inline]
    pub(crate) fn blocks(self, doublings: u32) -> usize {
        (self.base as usize) << doublings
    }

    #[inline]
    fn at(self, row: u32, doublings: u32) -> At {
        let base = (u64::from(row) * u64::from(self.base)) >> 32;
        At { base: base as u32, extra: if doublings == 0 { 0 } else { row & LOWEST[doublings as usize] } }
    }

    /// The block where the key's first level is.
    #[inline]
    pub(crate) fn first(self, hash: Hash, doublings: u32) -> At {
        self.at((hash.0 >> 32) as u32, doublings)
    }

    /// The two blocks where the key's second level is; they may be one.
    #[inline]
    pub(crate) fn second(self, hash: Hash, doublings: u32) -> [At; 2] {
        // The golden ratio's bits, so that no hash is mixed into itself.
        let rows = mix(hash.0 ^ 0x9e37_79b9_7f4a_7c15);
        [self.at((rows >> 32) as u32, doublings), self.at(rows as u32, doublings)]
    }

    /// The doubling that has added a block of another part than the first, and which block of its part that is.
    #[inline]
    pub(crate) fn in_added(self, at: At) -> (usize, usize) {
        let doubling = at.extra.ilog2();
        (doubling as usize, self.number(at) - self.blocks(doubling))
    }

    /// The block's number in the whole table.
    #[inline]
    pub(crate) fn number(self, at: At) -> usize {
        self.base as usize * at.extra as usize + at.base as usize
    }

    /// The block of that number.
    pub(crate) fn block(self, number: usize) -> At {
        At { base: (number % self.base as usize) as u32, extra: (number / self.base as usize) as u32 }
    }
}
