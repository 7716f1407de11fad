//! Looking for a fingerprint among all of a block's at once.
//!
//! On x86-64 a block's 64 tags are four vector comparisons of their bytes and four of their further bits (SSE2, which every
//! such processor has), elsewhere eight bytes at a time.

use std::num::NonZeroU8;

#[cfg(target_arch = "x86_64")]
use crate::store::lanes::Lanes;

/// A fingerprint of twelve bits: what all of a block's are compared by at once, and what is looked at where that byte is
/// equal.
///
/// DEVIATION: `IcebergHT` has the byte alone. One in five look-ups for absent keys then meets an equal one among 64, and
/// waits for an item that is not its own: with a table in memory, ten times as long as for the tags. With four bits more
/// it is one in 70.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    /// Zero stands for a free slot.
    pub(crate) byte: NonZeroU8,
    /// Less than 16.
    pub(crate) finer: u8,
}

/// The tags of a level.
#[repr(C)]
pub(crate) struct Tags<const N: usize, const HALF: usize> {
    /// The finer bits. The first half of the slots has the low halves of the bytes, the second half the high ones.
    finer: [u8; HALF],
    /// Zero stands for a free slot.
    bytes: [u8; N],
}

impl<const N: usize, const HALF: usize> Tags<N, HALF> {
    #[cfg(test)]
    pub(crate) const EMPTY: Self = Self { finer: [0; HALF], bytes: [0; N] };

    /// Whether there is such a slot and it has a tag.
    #[inline(always)]
    pub(crate) fn is_used(&self, slot: usize) -> bool {
        self.bytes.get(slot).is_some_and(|&byte| byte != 0)
    }

    /// Slots without.
    #[inline(always)]
    pub(crate) fn free(&self) -> Slots {
        equal(&self.bytes, 0)
    }

    /// Slots with this one.
    #[inline(always)]
    pub(crate) fn equal(&self, tag: Tag) -> Slots {
        #[cfg(target_arch = "x86_64")]
        if let (halves, []) = self.finer.as_chunks::<16>() {
            return self.equal_by_vectors(tag, halves);
        }
        equal(&self.bytes, tag.byte.get()).retain(|slot| self.finer(slot) == tag.finer)
    }

    /// `halves` are the finer bits. What both halves of a byte say is made a mask only where the bytes are equal, too: a
    /// look-up has many instructions, and a processor that waits for memory has room for so many.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn equal_by_vectors(&self, tag: Tag, halves: &[[u8; 16]]) -> Slots {
        let (bytes, _) = self.bytes.as_chunks::<16>();
        let byte = Lanes::all(tag.byte.get());
        let (low, high) = (Lanes::all(tag.finer), Lanes::all(tag.finer << 4));
        let (low_bits, high_bits) = (Lanes::all(0x0f), Lanes::all(0xf0));
        let mut mask = 0;
        for (at, half) in halves.iter().enumerate() {
            let (half, other) = (Lanes::load(half), at + halves.len());
            let low = half.and(low_bits).equal(low).and(Lanes::load(&bytes[at]).equal(byte));
            let high = half.and(high_bits).equal(high).and(Lanes::load(&bytes[other]).equal(byte));
            mask |= low.mask() << (16 * at) | high.mask() << (16 * other);
        }
        Slots(mask)
    }

    #[inline(always)]
    fn finer(&self, slot: usize) -> u8 {
        self.finer[slot % HALF] >> (slot / HALF * 4) & 15
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, slot: usize, tag: Tag) {
        self.bytes[slot] = tag.byte.get();
        let (both, shift) = (&mut self.finer[slot % HALF], slot / HALF * 4);
        *both = *both & !(15 << shift) | tag.finer << shift;
    }

    #[cfg(test)]
    pub(crate) fn address(&self) -> usize {
        self.bytes.as_ptr().addr()
    }

    /// Takes it away; false if there was none.
    #[inline(always)]
    pub(crate) fn clear(&mut self, slot: usize) -> bool {
        self.bytes.get_mut(slot).is_some_and(|byte| std::mem::take(byte) != 0)
    }
}

/// Which of the tags equal `wanted`.
#[inline(always)]
pub(crate) fn equal<const N: usize>(tags: &[u8; N], wanted: u8) -> Slots {
    const { assert!(N <= 64) };
    let mut mask = 0;
    #[cfg(target_arch = "x86_64")]
    let (at, rest) = {
        let (sixteens, rest) = tags.as_chunks::<16>();
        for (at, lanes) in sixteens.iter().enumerate() {
            mask |= Lanes::load(lanes).equal(Lanes::all(wanted)).mask() << (16 * at);
        }
        (16 * sixteens.len(), rest)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let (at, rest) = (0, tags.as_slice());
    let (eights, ones) = rest.as_chunks::<8>();
    for (number, lanes) in eights.iter().enumerate() {
        mask |= u64::from(equal_8(lanes, wanted)) << (at + 8 * number);
    }
    for (number, &tag) in ones.iter().enumerate() {
        mask |= u64::from(tag == wanted) << (at + 8 * eights.len() + number);
    }
    Slots(mask)
}

/// Whether any of `bytes` equals `wanted`.
#[inline(always)]
pub(crate) fn holds<const N: usize>(bytes: &[u8; N], wanted: u8) -> bool {
    const { assert!(16 <= N && N <= 32) };
    // Two vectors that overlap, rather than one and single bytes.
    let (first, last) = (bytes.first_chunk::<16>(), bytes.last_chunk::<16>());
    first.is_some_and(|first| equal(first, wanted).0 != 0)
        | last.is_some_and(|last| equal(last, wanted).0 != 0)
}

/// Eight tags in one word.
#[inline(always)]
fn equal_8(lanes: &[u8; 8], wanted: u8) -> u8 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const REST: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let differences = u64::from_le_bytes(*lanes) ^ (LOW * u64::from(wanted));
    // The top bit of each byte that is zero. No carry leaves a byte, so that every byte's answer is exact.
    let zeros = !((differences & REST).wrapping_add(REST) | differences | REST);
    // Gathers the top bits: each product bit 56 + n comes from byte n alone.
    ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// A set of slots, lowest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slots(u64);

impl Slots {
    /// Those that `wanted` is true of.
    #[inline(always)]
    fn retain(self, wanted: impl Fn(usize) -> bool) -> Self {
        Self(self.filter(|&slot| wanted(slot)).fold(0, |kept, slot| kept | 1 << slot))
    }

    #[inline(always)]
    pub(crate) fn lowest(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// The first of this set from slot `start` on, round and round.
    #[inline(always)]
    pub(crate) fn lowest_from(self, start: usize) -> Option<usize> {
        let (before, from) = (self.0 & !(u64::MAX << start), self.0 & (u64::MAX << start));
        Self(if from != 0 { from } else { before }).lowest()
    }

    /// Those of `N` slots that are not in this set.
    #[inline(always)]
    pub(crate) fn others<const N: usize>(self) -> Self {
        Self(!self.0 & (u64::MAX >> (64 - N)))
    }

    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lowest = self.lowest()?;
        self.0 &= self.0 - 1;
        Some(lowest)
    }
}
