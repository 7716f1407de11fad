//! The items that stand in the table.

use std::num::NonZeroU64;

use pagewalk_cuckoo::{Keyed, WayHashes};

/// All that is known of a key's hash. What the hasher gives is mixed, so that weak bits do no harm; none is zero, so
/// that an empty slot needs no mark of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(NonZeroU64);

/// A bit that words have set. The tag in the table has it set as well, so that no more is lost by it.
const SET: NonZeroU64 = NonZeroU64::new(1 << 56).unwrap();

impl Word {
    #[inline(always)]
    pub(crate) fn new(hash: u64) -> Self {
        // Both halves of a product with the golden ratio's bits: each bit of the hash comes into bits above and below it, in
        // a fifth of the time of a generator's finaliser, which a look-up would notice.
        let product = u128::from(hash) * 0x9e37_79b9_7f4a_7c15;
        let word = product as u64 ^ (product >> 64) as u64;
        Self(SET | word)
    }

    #[inline(always)]
    pub(crate) fn get(self) -> u64 {
        self.0.get()
    }
}

/// A key, its value and its hash.
///
/// The hash is the one that is kept, not computed again: a move calls no code of the key's, which might panic half-way;
/// and for keys and values of 8 bytes it takes the room that marks empty slots would take.
#[derive(Debug)]
pub(crate) struct Item<K, V> {
    pub(crate) word: Word,
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<K, V> Keyed for Item<K, V> {
    #[inline(always)]
    fn key(&self) -> u64 {
        self.word.get()
    }
}

/// An item's hash is as good as random by itself.
#[derive(Debug)]
pub(crate) struct Words;

impl WayHashes for Words {
    #[inline(always)]
    fn word(&self, key: u64) -> u64 {
        key
    }
}
