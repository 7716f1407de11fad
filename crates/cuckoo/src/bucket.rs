//! Buckets, and growing by one at a time.
//!
//! In a *bucket* several slots stand side by side, and an item may be in any of them. Two ways with buckets of four slots hold as
//! much as four ways with single slots (98 % of all slots: Cain, Sanders, Wormald, "The random graph threshold for
//! k-orientability", SODA 2007), and a look-up asks the host's memory for half as many lines: the eight tags of both buckets
//! are compared as one word, and then one item is looked at.
//!
//! A way that grows *by buckets* has a pointer at all times. The buckets below it have been split: what was in bucket
//! `o` of `n` is there or in `o + n`, in the same slot of the bucket, so it never meets anything. The table goes on
//! splitting only while it is too full. To shrink, it goes back: bucket `o + n` is merged into `o`. If both have too many items,
//! some go to their other ways first.
//!
//! ```text
//!  buckets  0 .. pointer | pointer .. n | n .. n + pointer
//!           split          whole          the other halves of those that have been split
//! ```

use std::hint::select_unpredictable;
use std::num::NonZeroU8;

use crate::chunks::{ChunkSource, Chunks, NoChunk};
use crate::policy::BUCKET_SLOTS;
use crate::processor::{equal_bytes, prefetch};
use crate::random::SplitMix64;
use crate::way::{Place, Way, way_hash};
use crate::{Cuckoo, Keyed, SlotRef, WayHashes, is_above};

/// The lowest bit of each tag of a bucket.
const FIRST_BITS: u32 = 0x0101_0101;

/// The number of buckets of a way that grows by buckets, and how many of them are split.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aim {
    /// The bits of a hash that are the index of a bucket, if that has not been split.
    whole: usize,
    /// The bits of a hash that are the index of a bucket, if that has been split.
    split: usize,
    /// Those below have been.
    pointer: usize,
    /// Whether the items of the way are too many for the caches next to a core.
    is_large: bool,
}

/// From so many bytes of items on, a way is large: two of them are more than the second-level caches of servers hold (2 MiB on
/// Sapphire Rapids, 1 MiB on Zen 4).
const LARGE_BYTES: u64 = 2 << 20;

/// The bucket of a key in a way.
#[derive(Clone, Copy)]
struct Home(usize);

impl Home {
    #[inline(always)]
    fn first_slot(self) -> usize {
        self.0 * BUCKET_SLOTS
    }
}

/// The tag of a key, which is the same in both ways: their indices do not reach it.
#[inline(always)]
fn tag(word: u64) -> NonZeroU8 {
    Place::new(word, 0, false).tag
}

/// What happened to the items of a bucket that was split.
struct Split {
    stayed: u32,
    moved: u32,
}

impl<T> Way<T> {
    /// The bucket of what hashes like that, in a way that grows by buckets of [`BUCKET_SLOTS`]. Whether a bucket has been split
    /// is as good as random, so that this has no branches.
    #[inline(always)]
    fn home(&self, number: usize, word: u64) -> Home {
        let hash = way_hash(word, number, 0) as usize;
        let (whole, split) = (hash & self.aim.whole, hash & self.aim.split);
        Home(select_unpredictable(whole < self.aim.pointer, split, whole))
    }

    /// Sets the way to `size` buckets' slots, of which those below the pointer have been split.
    pub(crate) fn set_split(&mut self, size: usize, pointer: usize) {
        (self.size, self.pointer) = (size, pointer);
        let buckets = size >> self.bucket_bits;
        let pointer = pointer >> self.bucket_bits;
        self.aim = Aim {
            whole: buckets.saturating_sub(1),
            split: (2 * buckets).saturating_sub(1),
            pointer,
            is_large: size as u64 * self.chunks.slot_bytes() > LARGE_BYTES,
        };
    }

    #[inline(always)]
    fn bucket_tags(&self, home: Home) -> [u8; BUCKET_SLOTS] {
        self.chunks.bucket_tags(home.0)
    }

    /// A bit for each item of a bucket: the lowest of its tag, which is set.
    #[inline(always)]
    fn items_of(&self, home: Home) -> u32 {
        u32::from_le_bytes(self.bucket_tags(home)) & FIRST_BITS
    }

    /// The slots of a bucket that have items.
    fn used_slots(&self, first: usize) -> impl DoubleEndedIterator<Item = usize> {
        (first..first + self.bucket_slots()).filter(|&slot| self.chunks.tag(slot) != 0)
    }

    /// Whether there is memory for another bucket.
    fn has_room(&self) -> bool {
        self.slots() + self.bucket_slots() <= self.chunks.slots()
    }

    /// Splits the next bucket.
    #[inline]
    fn split(&mut self, word: impl Fn(&T) -> u64, source: &mut impl ChunkSource) -> Result<Split, NoChunk> {
        let (low, high) = (self.pointer, self.pointer + self.size);
        if !self.has_room() {
            self.chunks.extend(high + self.bucket_slots(), source)?;
        }
        let mut split = Split { stayed: 0, moved: 0 };
        for slot in low..low + self.bucket_slots() {
            let Some(item) = self.chunks.used_item(slot) else { continue };
            let hash = way_hash(word(item), self.number, 0);
            if self.index(hash, 2 * self.size) == low {
                split.stayed += 1;
                continue;
            }
            let before = self.chunks.move_item(slot, slot + self.size);
            assert!(before.is_none(), "an item in the way of one more bit");
            split.moved += 1;
        }
        match low + self.bucket_slots() {
            all if all == self.size => self.set_split(2 * self.size, 0),
            pointer => self.set_split(self.size, pointer),
        }
        Ok(split)
    }

    /// The first slots of the last bucket and of the one that it was split from.
    fn last_split(&self) -> (usize, usize) {
        let (size, pointer) =
            if self.pointer == 0 { (self.size / 2, self.size / 2) } else { (self.size, self.pointer) };
        (pointer - self.bucket_slots(), pointer - self.bucket_slots() + size)
    }

    /// Merges the last bucket into the one that it was split from, which has room; answers the items that this moved.
    fn merge(&mut self, source: &mut impl ChunkSource) -> u32 {
        let (low, high) = self.last_split();
        let mut moved = 0;
        for slot in high..high + self.bucket_slots() {
            if self.chunks.tag(slot) == 0 {
                continue;
            }
            let free =
                (low..).find(|&slot| self.chunks.tag(slot) == 0).expect("free slots have been counted");
            debug_assert!(free < low + self.bucket_slots(), "free slots have been counted");
            self.chunks.move_item(slot, free);
            moved += 1;
        }
        self.set_split(high - low, low);
        self.chunks.trim(high, source);
        moved
    }
}

/// The place where a look-up has found an item: in the first way or the other, and in which slot of the bucket.
#[derive(Clone, Copy)]
struct Hit {
    is_first: bool,
    within: usize,
}

/// The item of a key among those whose tags are equal: a bit for each slot, the first way's below the other's.
#[inline(always)]
fn find_among<'a, T: Keyed>(
    mut likely: u8,
    key: u64,
    wanted: impl Fn(&T) -> bool,
    slot: impl Fn(Hit) -> &'a Option<T>,
) -> Option<(Hit, &'a T)> {
    while likely != 0 {
        let bit = likely.trailing_zeros() as usize;
        likely &= likely - 1;
        let hit = Hit { is_first: bit < BUCKET_SLOTS, within: bit % BUCKET_SLOTS };
        let item = slot(hit).as_ref();
        // One comparison for "there is an item" and "it has this key", where the compiler knows that no key is zero.
        if item.map_or(0, T::key) == key
            && let Some(item) = item
            && wanted(item)
        {
            return Some((hit, item));
        }
    }
    None
}

impl<T: Keyed, H: WayHashes> Cuckoo<T, H> {
    /// Looks up an item like [`find`](Self::find) and returns it too, in a table that is known to have
    /// [buckets](crate::Policy::bucket_slots): without a decision about that, and without the code for others.
    #[inline(always)]
    pub fn find_in_buckets(&self, key: u64, wanted: impl Fn(&T) -> bool) -> Option<(SlotRef, &T)> {
        debug_assert_eq!(self.policy.bucket_slots, BUCKET_SLOTS);
        let word = self.hashes.word(key);
        let ways: &[Way<T>; 2] = self.ways.first_chunk()?;
        let (at_one, at_other) = (ways[0].home(0, word), ways[1].home(1, word));
        let directories = [ways[0].chunks.directory(), ways[1].chunks.directory()];
        let likely = || {
            let [one, other] = [ways[0].bucket_tags(at_one), ways[1].bucket_tags(at_other)];
            equal_bytes(one, other, tag(word).get())
        };
        let (Hit { is_first, within }, item) = if ways[0].aim.is_large {
            // The items' lines come together with the tags' and not after them: one of two in vain. Present keys are found sooner,
            // absent ones later (the example `lookups` and the bench of `pagewalk-elastic`).
            let one = Chunks::bucket(directories[0], at_one.0);
            let other = Chunks::bucket(directories[1], at_other.0);
            prefetch(&one[1]);
            prefetch(&other[1]);
            find_among(likely(), key, wanted, |hit| {
                &select_unpredictable(hit.is_first, one, other)[hit.within]
            })
        } else {
            // The caches are near, so that what counts is the number of instructions.
            find_among(likely(), key, wanted, |Hit { is_first, within }| {
                let home = select_unpredictable(is_first, at_one, at_other);
                Chunks::item_of(directories[usize::from(!is_first)], home.0, within)
            })
        }?;
        let slot = select_unpredictable(is_first, at_one, at_other).first_slot() + within;
        let place = Place { next: false, slot, tag: tag(word) };
        Some((SlotRef { way: usize::from(!is_first), place }, item))
    }

    /// Returns the way that has more free slots in an item's bucket, if one has any.
    #[inline]
    pub(crate) fn emptier_bucket(&self, word: u64) -> Option<usize> {
        let [one, other] = self.ways.first_chunk()?;
        let in_one = one.items_of(one.home(0, word));
        let in_other = other.items_of(other.home(1, word));
        // The product's top byte is the sum of the bits.
        let items = |bits: u32| bits.wrapping_mul(FIRST_BITS) >> 24;
        (in_one & in_other != FIRST_BITS).then_some(usize::from(items(in_other) < items(in_one)))
    }

    /// The slot of a way that an item is to take: a free one of its bucket, or else any of it.
    #[inline(always)]
    pub(crate) fn slot_in_bucket(&self, way: usize, word: u64, random: &mut SplitMix64) -> Place {
        if self.policy.bucket_slots == 1 {
            return self.ways[way].place(way, word);
        }
        let home = self.ways[way].home(way, word);
        let slot = match !self.ways[way].items_of(home) & FIRST_BITS {
            0 => random.below(BUCKET_SLOTS as u64) as usize,
            free => free.trailing_zeros() as usize / 8,
        };
        let slot = home.first_slot() + slot;
        Place { next: false, slot, tag: tag(word) }
    }

    /// Splits buckets while the table is too full.
    #[inline]
    pub(crate) fn split_if_due(&mut self, source: &mut impl ChunkSource) -> Result<(), NoChunk> {
        for _ in 0..self.policy.steps {
            let slots = self.way_slots().sum();
            if !is_above(self.used, slots, u64::from(self.policy.upsize_above)) || self.used < self.stalled {
                break;
            }
            self.split(source).inspect_err(|_| {
                // Not at every insertion: looking for memory that is not there takes time.
                self.stalled = self.used + self.used / 64 + 1;
            })?;
        }
        Ok(())
    }

    /// Splits a bucket of the smallest way that has memory for it, or else of the smallest: ways take their chunks by turns.
    #[inline]
    pub(crate) fn split(&mut self, source: &mut impl ChunkSource) -> Result<(), NoChunk> {
        let order = |&way: &usize| (!self.ways[way].has_room(), self.ways[way].slots());
        let number = (0..self.ways.len()).min_by_key(order).expect("a table has ways");
        let (hashes, way) = (&self.hashes, &mut self.ways[number]);
        let begins = way.pointer == 0;
        let Split { stayed, moved } = way.split(|item| hashes.word(item.key()), source)?;
        self.stalled = 0;
        self.counts.upsizes[number] += u32::from(begins);
        self.counts.visited += self.policy.bucket_slots as u64;
        self.counts.stayed += u64::from(stayed);
        self.count_in_place(moved);
        Ok(())
    }

    fn count_in_place(&mut self, moved: u32) {
        self.counts.moved_in_place += u64::from(moved);
        self.counts.rehashed = self.counts.rehashed.and_none(u64::from(moved));
    }

    /// Merges buckets while the table is too empty; false if it is not, or cannot.
    #[inline]
    pub(crate) fn merge_if_due(&mut self, source: &mut impl ChunkSource) -> bool {
        for done in 0..self.policy.steps {
            let slots: usize = self.way_slots().sum();
            let is_due = (self.used as u64 * 1000) < slots as u64 * u64::from(self.policy.downsize_below);
            if !is_due || !self.merge(source) {
                return done > 0;
            }
        }
        true
    }

    /// Merges the last bucket of the largest way into the one that it was split from; false if they have too many items, or
    /// the way is as small as it may be.
    fn merge(&mut self, source: &mut impl ChunkSource) -> bool {
        let number =
            (0..self.ways.len()).max_by_key(|&way| self.ways[way].slots()).expect("a table has ways");
        if self.ways[number].slots() <= self.policy.first_slots {
            return false;
        }
        let (low, high) = self.ways[number].last_split();
        for _ in 0..self.policy.bucket_slots {
            let Some(slot) = self.crowded(number, low, high) else { break };
            if !self.move_away(number, slot) {
                return false;
            }
        }
        if self.crowded(number, low, high).is_some() {
            // Others came, when those that had to go took their places.
            return false;
        }
        self.counts.downsizes[number] += u32::from(self.ways[number].pointer == 0);
        let moved = self.ways[number].merge(source);
        self.counts.visited += self.policy.bucket_slots as u64;
        self.count_in_place(moved);
        true
    }

    /// The slot of an item, if two buckets have more items than one can have.
    fn crowded(&self, number: usize, low: usize, high: usize) -> Option<usize> {
        let way = &self.ways[number];
        way.used_slots(low).chain(way.used_slots(high)).nth(way.bucket_slots())
    }

    /// Moves an item to another way, if there is a place.
    fn move_away(&mut self, number: usize, slot: usize) -> bool {
        let tag = std::num::NonZeroU8::new(self.ways[number].chunks.tag(slot)).expect("an item's slot");
        let place = Place { next: false, slot, tag };
        let item = self.ways[number].take(place).expect("an item's tag");
        let mut random = self.other_random();
        let other = self.other_way(number, &mut random);
        let key = item.key();
        match self.settle(item, Some(other), random) {
            Ok(moves) => {
                self.counts.rehashed.add(moves);
                true
            }
            Err(item) => {
                self.hashes.placed(key, number);
                self.ways[number].put(place, item);
                false
            }
        }
    }
}
