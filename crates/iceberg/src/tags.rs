//! Looking for a fingerprint among all of a block's at once.
//!
//! A fingerprint is a *tag* of eight bits, zero for a free slot, and in the first level three bits more. The tags are
//! an array of bytes: on x86-64 a block's 64 are four vector comparisons (SSE2, which every such processor has),
//! elsewhere eight words at a time. The other bits lie in *planes*, bit `n` of a plane for slot `n`: each halves what
//! remains, with two operations on one word.
//!
//! DEVIATION: `IcebergHT` has the eight bits alone. Then a fifth of all look-ups for keys that are not in the table,
//! and an eighth of those for keys that are, meet another key's item with the same tag first: a line of memory for
//! nothing, and a branch that the processor has guessed wrong, behind which nothing of the next look-up can begin.
//! With eleven bits it is one in 35, and one in 70.

use crate::place::{EXTRA_BITS, Print};
#[cfg(target_arch = "x86_64")]
use crate::store::equal_16;

/// The fingerprints of a yard.
///
/// # Contract
///
/// `free` names exactly those of the `SLOTS` slots that were never set, or cleared last; all other functions keep
/// to those slots.
pub(crate) trait Prints {
    const SLOTS: usize;

    /// Slots that are used and have this fingerprint.
    fn equal(&self, print: Print) -> Slots;
    /// Slots that are not used.
    fn free(&self) -> Slots;
    fn is_used(&self, slot: usize) -> bool;
    /// Takes a free slot into use.
    fn set(&mut self, slot: usize, print: Print);
    /// Gives a slot back, and tells whether it was used.
    fn clear(&mut self, slot: usize) -> bool;
}

/// Tags alone.
impl<const N: usize> Prints for [u8; N] {
    const SLOTS: usize = N;

    #[inline(always)]
    fn equal(&self, print: Print) -> Slots {
        Slots(equal(self, print.tag.get()))
    }

    #[inline(always)]
    fn free(&self) -> Slots {
        Slots(equal(self, 0))
    }

    #[inline(always)]
    fn is_used(&self, slot: usize) -> bool {
        self.get(slot).is_some_and(|&tag| tag != 0)
    }

    #[inline(always)]
    fn set(&mut self, slot: usize, print: Print) {
        self[slot] = print.tag.get();
    }

    #[inline(always)]
    fn clear(&mut self, slot: usize) -> bool {
        self.get_mut(slot).is_some_and(|tag| std::mem::take(tag) != 0)
    }
}

/// Tags, and bits of the fingerprints that are not in the tags.
#[repr(C)]
pub(crate) struct PrintsAndPlanes<const N: usize> {
    planes: [u64; EXTRA_BITS],
    tags: [u8; N],
}

impl<const N: usize> PrintsAndPlanes<N> {
    pub(crate) const EMPTY: Self = Self { planes: [0; EXTRA_BITS], tags: [0; N] };
}

impl<const N: usize> Prints for PrintsAndPlanes<N> {
    const SLOTS: usize = N;

    #[inline(always)]
    fn equal(&self, print: Print) -> Slots {
        let mut mask = equal(&self.tags, print.tag.get());
        for (plane, bits) in self.planes.iter().zip(print.everywhere()) {
            mask &= !(plane ^ bits);
        }
        Slots(mask)
    }

    #[inline(always)]
    fn free(&self) -> Slots {
        self.tags.free()
    }

    #[inline(always)]
    fn is_used(&self, slot: usize) -> bool {
        self.tags.is_used(slot)
    }

    #[inline(always)]
    fn set(&mut self, slot: usize, print: Print) {
        self.tags.set(slot, print);
        let slot = 1 << slot;
        for (plane, bits) in self.planes.iter_mut().zip(print.everywhere()) {
            *plane = *plane & !slot | bits & slot;
        }
    }

    #[inline(always)]
    fn clear(&mut self, slot: usize) -> bool {
        self.tags.clear(slot)
    }
}

/// Bit `n` tells whether `tags[n]` equals `wanted`.
#[inline(always)]
pub(crate) fn equal<const N: usize>(tags: &[u8; N], wanted: u8) -> u64 {
    const { assert!(N <= 64) };
    let mut mask = 0;
    #[cfg(target_arch = "x86_64")]
    let (at, rest) = {
        let (sixteens, rest) = tags.as_chunks::<16>();
        for (at, lanes) in sixteens.iter().enumerate() {
            mask |= u64::from(equal_16(lanes, wanted)) << (16 * at);
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
    mask
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
    #[inline(always)]
    pub(crate) fn lowest(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// The first of this set's 64 slots from slot `start` on, round and round.
    #[inline(always)]
    pub(crate) fn lowest_from(self, start: usize) -> Option<usize> {
        let rotated = Self(self.0.rotate_right(start as u32));
        rotated.lowest().map(|slot| (slot + start) % 64)
    }

    /// Those of the first `slots` slots that are not in this set.
    #[inline(always)]
    pub(crate) fn others(self, slots: usize) -> Self {
        Self(!self.0 & (u64::MAX >> (64 - slots)))
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
