//! Rows of up to sixteen ways whose order is one word.

use super::Inserted;
use crate::simd::equal_lanes;

/// LRU and FIFO sets of at most 16 ways, searched and updated without a branch per way.
///
/// Everything a look-up needs stands in one cache line of the host: sixteen 16-bit digests of the keys, compared
/// all at once, and the replacement order as a permutation of way numbers.
///
/// ```text
///  order:  63    60 59    56          7      4 3      0
///         +--------+--------+--//---+--------+--------+
///         |  ...   | victim |       | second | newest |     nibble `ways - 1` names the victim
///         +--------+--------+--//---+--------+--------+
/// ```
///
/// Nibbles from `ways` on hold the numbers of ways that do not exist and never move. The keys themselves stand
/// aside, by slot, and confirm a digest's match. Free ways stand at the victim's end.
#[derive(Clone, Debug)]
pub(super) struct RankedRows {
    rows: Vec<Row>,
    keys: Vec<u64>,
    ways: usize,
    /// Bits of a key that all keys of a set may share: left out of the digest.
    set_bits: u32,
    reorder_on_hit: bool,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Row {
    digests: [u16; RankedRows::MOST_WAYS as usize],
    order: u64,
}

const FREE: u64 = u64::MAX;
/// Way `n` at nibble `n`.
const IDENTITY: u64 = 0xfedc_ba98_7654_3210;
const EVERY_NIBBLE: u64 = 0x1111_1111_1111_1111;

impl RankedRows {
    pub(super) const MOST_WAYS: u32 = 16;

    pub(super) fn new(entries: u32, ways: u32, reorder_on_hit: bool) -> Self {
        let sets = entries / ways;
        Self {
            rows: vec![Row { digests: [0; Self::MOST_WAYS as usize], order: IDENTITY }; sets as usize],
            keys: vec![FREE; entries as usize],
            ways: ways as usize,
            set_bits: sets.trailing_zeros(),
            reorder_on_hit,
        }
    }

    /// Neighbouring keys of a set differ just above the set bits; folding in the rest keeps far ones apart.
    #[inline(always)]
    fn digest(&self, key: u64) -> u16 {
        let rest = key >> self.set_bits;
        (rest ^ rest >> 16 ^ rest >> 32) as u16
    }

    #[inline(always)]
    fn find(&self, set: usize, key: u64) -> Option<usize> {
        let digest = self.digest(key);
        // Ways that do not exist have digests, too; their keys would belong to the next set.
        let mut candidates = equal_lanes(&self.rows[set].digests, digest) & ((1 << self.ways) - 1);
        let keys = &self.keys[set * self.ways..][..self.ways];
        while candidates != 0 {
            let way = candidates.trailing_zeros() as usize;
            if keys[way] == key {
                return Some(way);
            }
            candidates &= candidates - 1;
        }
        None
    }

    #[inline(always)]
    pub(super) fn lookup(&mut self, set: usize, key: u64) -> Option<usize> {
        let way = self.find(set, key)?;
        if self.reorder_on_hit {
            let order = &mut self.rows[set].order;
            *order = to_front(*order, way);
        }
        Some(set * self.ways + way)
    }

    #[inline]
    pub(super) fn peek(&self, set: usize, key: u64) -> Option<usize> {
        Some(set * self.ways + self.find(set, key)?)
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, set: usize, key: u64) -> Inserted {
        let digest = self.digest(key);
        let row = &mut self.rows[set];
        let way = (row.order >> (4 * (self.ways - 1)) & 0xf) as usize;
        row.digests[way] = digest;
        row.order = to_front(row.order, way);
        let slot = set * self.ways + way;
        let before = std::mem::replace(&mut self.keys[slot], key);
        Inserted { slot, evicted: (before != FREE).then_some(before) }
    }

    pub(super) fn remove(&mut self, set: usize, key: u64) -> Option<usize> {
        let way = self.find(set, key)?;
        self.free_way(set, way);
        Some(set * self.ways + way)
    }

    pub(super) fn retain(&mut self, keep: &mut dyn FnMut(u64, usize) -> bool) {
        for slot in 0..self.keys.len() {
            let key = self.keys[slot];
            if key != FREE && !keep(key, slot) {
                self.free_way(slot / self.ways, slot % self.ways);
            }
        }
    }

    /// Frees a way and makes it the next victim.
    fn free_way(&mut self, set: usize, way: usize) {
        self.keys[set * self.ways + way] = FREE;
        let order = &mut self.rows[set].order;
        let place = place_of(*order, way);
        let last = 4 * (self.ways as u32 - 1);
        let below = *order & ((1 << place) - 1);
        // The nibbles behind it, up to the last way's, come one closer to the front.
        let kept = *order & !upto(last);
        let behind = (*order & upto(last) & !upto(place)) >> 4;
        *order = kept | (way as u64) << last | behind | below;
    }
}

/// The bits of the nibble at bit `place` and of all nibbles below it.
#[inline(always)]
fn upto(place: u32) -> u64 {
    (0x10u64 << place).wrapping_sub(1)
}

/// The bit at which the nibble that names `way` begins.
#[inline(always)]
fn place_of(order: u64, way: usize) -> u32 {
    // The lowest nibble that is zero after the xor: subtracting 1 from every nibble borrows into the top bit of
    // zero nibbles, and of some above the first, never below.
    let differences = order ^ (way as u64).wrapping_mul(EVERY_NIBBLE);
    let zeros = differences.wrapping_sub(EVERY_NIBBLE) & !differences & (EVERY_NIBBLE << 3);
    zeros.trailing_zeros() & !3
}

/// The order with `way` newest.
#[inline(always)]
fn to_front(order: u64, way: usize) -> u64 {
    let place = place_of(order, way);
    let before = order & ((1 << place) - 1);
    order & !upto(place) | before << 4 | way as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_front_is_a_move_in_a_permutation() {
        let nibbles = |order: u64| (0..16).map(|at| (order >> (4 * at) & 15) as usize).collect::<Vec<_>>();
        let mut order = IDENTITY;
        let mut expected: Vec<usize> = (0..16).collect();
        let mut state = 9u64;
        for _ in 0..1_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let way = (state >> 60) as usize;
            order = to_front(order, way);
            expected.retain(|&other| other != way);
            expected.insert(0, way);
            assert_eq!(nibbles(order), expected);
        }
    }

    #[test]
    fn equal_digests_are_told_apart_by_their_keys() {
        let mut rows = RankedRows::new(4, 4, true);
        // These two fold to the same digest.
        let (a, b) = (0x0001_0000_0000, 0x0001_0000);
        assert_eq!(rows.digest(a), rows.digest(b));
        let slot_a = rows.insert(0, a).slot;
        assert_eq!(rows.lookup(0, b), None);
        let slot_b = rows.insert(0, b).slot;
        assert_eq!((rows.lookup(0, a), rows.lookup(0, b)), (Some(slot_a), Some(slot_b)));
    }
}
