//! Looking for a fingerprint among all of a block's at once.
//!
//! On x86-64 a block's 64 tags are four vector comparisons (SSE2, which every such processor has), elsewhere eight
//! words at a time.

#[cfg(target_arch = "x86_64")]
use crate::store::equal_16;

/// Which of the tags equal `wanted`.
#[inline(always)]
pub(crate) fn equal<const N: usize>(tags: &[u8; N], wanted: u8) -> Slots {
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
    Slots(mask)
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
