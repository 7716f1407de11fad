//! Rows of up to sixteen ways whose order is one word.

use super::Inserted;
use crate::simd::{equal_16, prefetch};

/// LRU and FIFO sets of at most 16 ways, searched and updated without a branch per way.
///
/// A row's replacement order is a permutation of way numbers:
///
/// ```text
///  order:  63    60 59    56          7      4 3      0
///         +--------+--------+--//---+--------+--------+
///         |  ...   | victim |       | second | newest |     nibble `ways - 1` names the victim
///         +--------+--------+--//---+--------+--------+
/// ```
///
/// Nibbles from `ways` on hold the numbers of ways that do not exist and never move; these ways are free forever.
/// Free ways stand at the victim's end.
#[derive(Clone, Debug)]
pub(super) struct RankedRows<R> {
    rows: Vec<R>,
    ways: usize,
    /// The bit of the order's nibble that names the victim.
    last: u32,
    reorder_on_hit: bool,
    shape: Shape,
    /// None if each key that comes is the newest.
    dueling: Option<Dueling>,
}

/// The shape of the array, as far as a row must know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// log2 of the largest power of two that divides the number of sets: so many low bits are the same in all keys of a set, if
    /// its number is the remainder of a division.
    pub(super) set_bits: u32,
}

/// One set: its keys, in any form, and their order.
pub(super) trait Row: Copy {
    /// The row in which all ways are free.
    const EMPTY: Self;

    /// Returns the order of the keys.
    fn order(&mut self) -> &mut u64;

    /// The way of `key`.
    fn find(&self, shape: Shape, key: u64) -> Option<usize>;

    /// Puts `key` into a way of set `set`; returns the key that was there.
    fn put(&mut self, shape: Shape, set: usize, way: usize, key: u64) -> Option<u64>;
}

/// Most ways of a row.
pub(super) const MOST_WAYS: u32 = 16;

/// Any keys, in three cache lines of the host. What a look-up that misses needs stands in the first: sixteen 16-bit
/// digests of the keys, compared all at once, and the order. The keys follow; one of them confirms a digest's match.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct KeyRow {
    digests: [u16; MOST_WAYS as usize],
    order: u64,
    keys: [u64; MOST_WAYS as usize],
}

const FREE: u64 = u64::MAX;

/// Neighbouring keys of a set differ just above the set bits; folding in the rest keeps far ones apart.
#[inline(always)]
pub(super) fn digest(set_bits: u32, key: u64) -> u16 {
    let rest = key >> set_bits;
    (rest ^ rest >> 16 ^ rest >> 32) as u16
}

impl Row for KeyRow {
    const EMPTY: Self = Self { digests: [0; 16], order: IDENTITY, keys: [FREE; 16] };

    #[inline(always)]
    fn order(&mut self) -> &mut u64 {
        &mut self.order
    }

    #[inline(always)]
    fn find(&self, shape: Shape, key: u64) -> Option<usize> {
        let mut candidates = equal_16(&self.digests, digest(shape.set_bits, key));
        while candidates != 0 {
            // Always below 16: the remainder spares a bounds check.
            let way = candidates.trailing_zeros() as usize % 16;
            if self.keys[way] == key {
                return Some(way);
            }
            candidates &= candidates - 1;
        }
        None
    }

    #[inline(always)]
    fn put(&mut self, shape: Shape, _: usize, way: usize, key: u64) -> Option<u64> {
        self.digests[way] = digest(shape.set_bits, key);
        let before = std::mem::replace(&mut self.keys[way], key);
        (before != FREE).then_some(before)
    }
}

/// The choice between two ways to take in a key that was not found: as the newest of its set, as LRU does; or as the next victim, but for one of
/// several, so that a part stays of a cycle which is longer than the array. A few sets always do the one or the other, and all other sets
/// do what misses less there.
///
/// Qureshi et al., "Adaptive Insertion Policies for High Performance Caching", ISCA 2007: bimodal insertion, and DIP.
#[derive(Clone, Debug)]
pub(super) struct Dueling {
    /// Grows with the misses of sets that keep what comes, and shrinks with those of the others.
    selector: u16,
    /// Keys that were given up.
    turns: u32,
}

/// One set of so many always keeps what comes, and one gives it up.
const LEADERS: usize = 64;
/// The middle of the selector's range, above which keys are given up.
const MIDDLE: u16 = 512;
/// One key of so many is kept nevertheless.
const KEPT: u32 = 32;

impl Default for Dueling {
    fn default() -> Self {
        Self { selector: MIDDLE, turns: 0 }
    }
}

impl Dueling {
    /// Returns whether a key that comes to a set, where it was missed, is the next victim.
    #[inline(never)]
    fn gives_up(&mut self, set: usize) -> bool {
        let gives_up = match set % LEADERS {
            0 => {
                self.selector = (self.selector + 1).min(2 * MIDDLE - 1);
                false
            }
            1 => {
                self.selector = self.selector.saturating_sub(1);
                true
            }
            _ => self.selector > MIDDLE,
        };
        self.turns = self.turns.wrapping_add(u32::from(gives_up));
        gives_up && !self.turns.is_multiple_of(KEPT)
    }
}

/// Way `n` at nibble `n`.
pub(super) const IDENTITY: u64 = 0xfedc_ba98_7654_3210;
const EVERY_NIBBLE: u64 = 0x1111_1111_1111_1111;

impl<R: Row> RankedRows<R> {
    pub(super) fn new(entries: u32, ways: u32, reorder_on_hit: bool) -> Self {
        let sets = entries / ways;
        Self {
            rows: vec![R::EMPTY; sets as usize],
            ways: ways as usize,
            last: 4 * (ways - 1),
            reorder_on_hit,
            shape: Shape { set_bits: sets.trailing_zeros() },
            dueling: None,
        }
    }

    /// Lets sets find out whether keys that come are better kept or given up first.
    pub(super) fn with_dueling(self) -> Self {
        Self { dueling: Some(Dueling::default()), ..self }
    }

    /// The row and way of `key`; finding it counts as a use.
    #[inline(always)]
    pub(super) fn hit(&mut self, set: usize, key: u64) -> Option<(&mut R, usize)> {
        let row = &mut self.rows[set];
        let way = row.find(self.shape, key)?;
        if self.reorder_on_hit {
            let order = row.order();
            *order = to_front(*order, place_of(*order, way), way);
        }
        Some((row, way))
    }

    /// Brings a set nearer, which is searched soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, set: usize) {
        if let Some(row) = self.rows.get(set) {
            prefetch(row);
        }
    }

    /// Returns a row, the way that was used last, and the shape of the array.
    #[inline(always)]
    pub(super) fn newest(&mut self, set: usize) -> (&mut R, usize, Shape) {
        let row = &mut self.rows[set];
        let way = (*row.order() & 0xf) as usize;
        (row, way, self.shape)
    }

    /// Returns whether a key is in its set, which does not count as a use.
    #[inline]
    pub(super) fn holds(&self, set: usize, key: u64) -> bool {
        self.rows[set].find(self.shape, key).is_some()
    }

    /// Puts a key that is not resident into the victim's way. Returns the row, the way, and the key that left.
    #[inline(always)]
    pub(super) fn replace(&mut self, set: usize, key: u64) -> (&mut R, usize, Option<u64>) {
        let stays_oldest = self.dueling.as_mut().is_some_and(|dueling| dueling.gives_up(set));
        let row = &mut self.rows[set];
        let order = row.order();
        let (place, way) = (self.last, (*order >> self.last & 0xf) as usize);
        let newest = to_front(*order, place, way);
        let before = row.put(self.shape, set, way, key);
        // Behind free ways there is no victim yet.
        if !stays_oldest || before.is_none() {
            *row.order() = newest;
        }
        (row, way, before)
    }
}

impl RankedRows<KeyRow> {
    #[inline(always)]
    pub(super) fn lookup(&mut self, set: usize, key: u64) -> Option<usize> {
        let (_, way) = self.hit(set, key)?;
        Some(set * self.ways + way)
    }

    #[inline]
    pub(super) fn peek(&self, set: usize, key: u64) -> Option<usize> {
        Some(set * self.ways + self.rows[set].find(self.shape, key)?)
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, set: usize, key: u64) -> Inserted {
        let (_, way, evicted) = self.replace(set, key);
        Inserted { slot: set * self.ways + way, evicted }
    }

    pub(super) fn remove(&mut self, set: usize, key: u64) -> Option<usize> {
        let way = self.rows[set].find(self.shape, key)?;
        self.free_way(set, way);
        Some(set * self.ways + way)
    }

    pub(super) fn retain(&mut self, keep: &mut dyn FnMut(u64, usize) -> bool) {
        for set in 0..self.rows.len() {
            for way in 0..self.ways {
                let key = self.rows[set].keys[way];
                if key != FREE && !keep(key, set * self.ways + way) {
                    self.free_way(set, way);
                }
            }
        }
    }

    /// Frees a way and makes it the next victim.
    fn free_way(&mut self, set: usize, way: usize) {
        let KeyRow { order, keys, .. } = &mut self.rows[set];
        keys[way] = FREE;
        let place = place_of(*order, way);
        let below = *order & ((1 << place) - 1);
        // The nibbles behind it, up to the last way's, come one closer to the front.
        let kept = *order & !upto(self.last);
        let behind = (*order & upto(self.last) & !upto(place)) >> 4;
        *order = kept | (way as u64) << self.last | behind | below;
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

/// The order with `way`, whose nibble begins at bit `place`, newest.
#[inline(always)]
fn to_front(order: u64, place: u32, way: usize) -> u64 {
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
            order = to_front(order, place_of(order, way), way);
            expected.retain(|&other| other != way);
            expected.insert(0, way);
            assert_eq!(nibbles(order), expected);
        }
    }

    #[test]
    fn equal_digests_are_told_apart_by_their_keys() {
        let mut rows = RankedRows::<KeyRow>::new(4, 4, true);
        // These two fold to the same digest.
        let (a, b) = (0x0001_0000_0000, 0x0001_0000);
        assert_eq!(digest(rows.shape.set_bits, a), digest(rows.shape.set_bits, b));
        let slot_a = rows.insert(0, a).slot;
        assert_eq!(rows.lookup(0, b), None);
        let slot_b = rows.insert(0, b).slot;
        assert_eq!((rows.lookup(0, a), rows.lookup(0, b)), (Some(slot_a), Some(slot_b)));
    }
}
