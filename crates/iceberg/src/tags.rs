//! Looking for a fingerprint among all of a block's at once.
//!
//! On x86-64 a block's 64 tags are four vector comparisons of their bytes and four of their further bits (SSE2, which every
//! such processor has), elsewhere eight bytes at a time.

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
    /// The raw tag: one and zero are the same tag, as zero stands for a free slot; see [`byte`](Self::byte).
    pub(crate) raw: u8,
    /// More bits of the hash: of a slot in the first half of the block the low four bits count, of one in the second
    /// half the high ones: then the vectors of both are one.
    pub(crate) finer: u8,
}

impl Tag {
    /// Returns the byte that stands in a table.
    #[inline(always)]
    fn byte(self) -> u8 {
        self.raw.max(1)
    }
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

    /// Returns the slots without items.
    #[inline(always)]
    pub(crate) fn free(&self) -> Slots {
        equal(&self.bytes, 0)
    }

    /// A slot without, the first one from `start` on, round and round, if possible in the same sixteen.
    #[inline(always)]
    pub(crate) fn free_from(&self, start: usize) -> Option<usize> {
        let (sixteens, _) = self.bytes.as_chunks::<16>();
        if let Some(sixteen) = sixteens.get(start / 16)
            && let Some(slot) = equal(sixteen, 0).lowest_from::<16>(start % 16)
        {
            return Some(start / 16 * 16 + slot);
        }
        self.free().lowest_from::<64>(start)
    }

    /// Whether there is a slot with this one.
    #[inline(always)]
    pub(crate) fn holds(&self, tag: Tag) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let (halves, []) = self.finer.as_chunks::<16>() {
            let mut any = Lanes::all(0);
            self.compare(tag, halves, |_, equal| any = any.or(equal));
            return any.mask() != 0;
        }
        self.equal(tag).lowest().is_some()
    }

    /// Slots with this one.
    #[inline(always)]
    pub(crate) fn equal(&self, tag: Tag) -> Slots {
        #[cfg(target_arch = "x86_64")]
        if let (halves, []) = self.finer.as_chunks::<16>() {
            let mut mask = 0;
            self.compare(tag, halves, |first, equal| mask |= equal.mask() << first);
            return Slots(mask);
        }
        equal(&self.bytes, tag.byte())
            .retain(|slot| (self.finer[slot % HALF] ^ tag.finer) & Self::bits(slot) == 0)
    }

    /// Calls `each` with which of sixteen slots have that tag, and the first of the sixteen. `halves` are the finer bits.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn compare(&self, tag: Tag, halves: &[[u8; 16]], mut each: impl FnMut(usize, Lanes)) {
        let (bytes, _) = self.bytes.as_chunks::<16>();
        // The larger of the vectors, not of the numbers: that leaves the processor's other registers to other look-ups.
        let (byte, none) = (Lanes::all(tag.raw).max(Lanes::all(1)), Lanes::all(0));
        let finer = Lanes::all(tag.finer);
        for (at, half) in halves.iter().enumerate() {
            let other = at + halves.len();
            let differs = Lanes::load(half).xor(finer);
            let low = differs.and(Lanes::all(0x0f)).or(Lanes::load(&bytes[at]).xor(byte));
            let high = differs.and(Lanes::all(0xf0)).or(Lanes::load(&bytes[other]).xor(byte));
            each(16 * at, low.equal(none));
            each(16 * other, high.equal(none));
        }
    }

    /// Returns the bits of its byte that belong to the slot.
    #[inline(always)]
    fn bits(slot: usize) -> u8 {
        if slot < HALF { 0x0f } else { 0xf0 }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, slot: usize, tag: Tag) {
        self.bytes[slot] = tag.byte();
        let both = &mut self.finer[slot % HALF];
        *both ^= (*both ^ tag.finer) & Self::bits(slot);
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

/// Returns the slots whose tags equal `wanted`.
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
        match tags.last_chunk::<16>() {
            // One more vector that overlaps, rather than single bytes.
            Some(last) if !rest.is_empty() => {
                mask |= Lanes::load(last).equal(Lanes::all(wanted)).mask() << (N - 16);
                (N, [].as_slice())
            }
            _ => (16 * sixteens.len(), rest),
        }
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
    /// Returns the slots of this set that `wanted` is true of.
    #[inline(always)]
    fn retain(self, wanted: impl Fn(usize) -> bool) -> Self {
        Self(self.filter(|&slot| wanted(slot)).fold(0, |kept, slot| kept | 1 << slot))
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(crate) fn lowest(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// The first of this set, which has no slot beyond `N`, from slot `start` on, round and round.
    #[inline(always)]
    pub(crate) fn lowest_from<const N: usize>(self, start: usize) -> Option<usize> {
        let twice = if N < 64 { self.0 | self.0 << (N % 64) } else { 0 };
        let turned = if N < 64 { twice >> start } else { self.0.rotate_right(start as u32) };
        Self(turned).lowest().map(|slot| (slot + start) % N)
    }

    /// Returns those of `N` slots that are not in this set.
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
