//! Cuckoo hashing in ways that grow while they are used: the core of hashed page tables.
//!
//! An item has one slot in each way. It is put into one of them; if another is there, that one moves to its slot in
//! another way, and so on. A look-up makes as many probes as there are ways, all of which can go out at once, also while
//! ways change size (`way.rs`). What grows when, and where to, is the [`Policy`]'s; memory comes from a [`ChunkSource`], in
//! one piece for each way or in chunks. The items are anything that has a 64-bit key: lines of page-table entries, or
//! users' keys and values under their hash.
//!
//! **Nothing is ever lost.** If no place is found, every item that was moved on the way goes back, the table finishes or
//! begins to grow, and it is tried anew; a table that was shrinking keeps its size. If it cannot grow, the item is given
//! back, and the table is as it was.
//!
//! A large table waits for the host's memory. A program that knows what comes need not wait: insertions can be
//! [foreseen](Cuckoo::foresee), and [many look-ups](Cuckoo::find_all) made at a time.

mod ahead;
mod bucket;
mod chunks;
mod counts;
mod policy;
#[allow(unsafe_code)] // A hint to the processor and a comparison of bytes, and nothing else.
mod processor;
pub mod random;
#[cfg(test)]
mod tests;
mod way;

use std::num::NonZeroU64;

use arrayvec::ArrayVec;

pub use chunks::{ChunkSource, NoChunk};
pub use counts::{CuckooCounts, Moves};
pub use policy::{BUCKET_SLOTS, FirstWay, MAX_WAYS, Policy, PolicyError, Scope};

use crate::random::SplitMix64;
use ahead::Ahead;
#[doc(hidden)] // Of no use to other callers.
pub use processor::prefetch;
use way::{Place, Visit, Way};

/// An item that a table can hold, with its key.
pub trait Keyed: Sized {
    /// Slots of a chunk of a table with [buckets](Policy::bucket_slots), a power of two: such a table's look-ups know it when they
    /// are compiled, and its [`ChunkSource`] is not asked. The default is as many as are in 64 KiB with their tags.
    const CHUNK_SLOTS: usize = chunk_slots::<Self>();

    /// Stands for the item, and is all that is hashed. It stays the same while the item is in a table.
    fn key(&self) -> u64;
}

/// Bytes of a chunk of a table with buckets, at most: the pause that making one takes, against the table of chunks that look-ups
/// go through. With a quarter of that they are an eighth slower; with four times as much one insertion in 10,000 takes twice as
/// long.
const CHUNK_BYTES: usize = 64 << 10;

/// Returns as many slots, with their tags, as are in [`CHUNK_BYTES`]: a power of two, and two buckets at least.
const fn chunk_slots<T>() -> usize {
    let most = CHUNK_BYTES / (size_of::<Option<T>>() + 1);
    if most < 2 * BUCKET_SLOTS { 2 * BUCKET_SLOTS } else { 1 << most.ilog2() }
}

impl Keyed for u64 {
    // The tests want small tables of several chunks.
    const CHUNK_SLOTS: usize = if cfg!(test) { 2 * BUCKET_SLOTS } else { chunk_slots::<u64>() };

    #[inline(always)]
    fn key(&self) -> u64 {
        *self
    }
}

/// In half the memory: no room for "none".
impl Keyed for NonZeroU64 {
    #[inline(always)]
    fn key(&self) -> u64 {
        self.get()
    }
}

/// The source of the hash functions of a table's ways.
///
/// # Contract
///
/// The answer depends on the key alone, and all of its 64 bits are as good as random: three ways of up to 2^21 slots
/// take their indices from different ones.
pub trait WayHashes {
    /// Returns the word that all functions of a key are computed from.
    fn word(&self, key: u64) -> u64;

    /// Hears that an item comes into a slot of a way, from another way or from outside. The last word on an item counts:
    /// some of what is said is undone.
    #[inline]
    fn placed(&mut self, _key: u64, _way: usize) {}
}

/// The place of an item, until the table is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotRef {
    way: usize,
    place: Place,
}

impl SlotRef {
    /// Returns the number of the way that holds the slot.
    pub fn way(self) -> usize {
        self.way
    }
}

/// The outcome of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Inserted {
    /// Items that were moved.
    pub moves: u32,
    /// The table should have grown, and could not: it goes on, fuller than it should be.
    pub stalled: Option<NoChunk>,
}

/// An item that has no place in a table, which is as it was.
#[derive(Debug, thiserror::Error)]
#[error("no place in a hashed table: {reason}")]
pub struct Rejected<T> {
    /// The item that was not put in.
    pub item: T,
    /// The reason: in the text already, and therefore no source.
    pub reason: RejectReason,
}

/// The reason why a table has no place for an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RejectReason {
    /// The table could not grow.
    #[error(transparent)]
    NoChunk(#[from] NoChunk),
    /// The table grew several times, nearly empty: too many items have the same hashes in all ways.
    #[error("more items of equal hashes than there are ways")]
    EqualHashes,
}

/// A table grows for want of a place only if at least one slot of so many is used; otherwise more items are moved.
const EMPTIEST: usize = 64;

/// Items that are moved for one at most, however full the table is.
const MOST_PATIENCE: u32 = 1 << 16;

/// A cuckoo hash table.
#[derive(Debug)]
pub struct Cuckoo<T, H> {
    policy: Policy,
    hashes: H,
    ways: ArrayVec<Way<T>, MAX_WAYS>,
    /// The seed of the random numbers of insertions.
    seed: u64,
    /// The number of insertions so far, those included that found no place.
    insertions: u64,
    ahead: Ahead,
    /// The random numbers for what is no insertion.
    random: SplitMix64,
    counts: CuckooCounts,
    used: usize,
    /// After the table could not grow: how full it must be to try again.
    stalled: usize,
    /// Items that may be moved for one: as many as the policy says, or more when that has not been enough.
    patience: u32,
    /// The slots that an insertion has put items into, first to last, with the tags of those before.
    path: Vec<(usize, Place)>,
}

impl<T: Keyed, H: WayHashes> Cuckoo<T, H> {
    /// Creates an empty table. `seed` decides which way an item tries.
    ///
    /// # Errors
    ///
    /// There is not even memory for the smallest.
    ///
    /// # Panics
    ///
    /// If the policy is [impossible](Policy::check).
    pub fn new(policy: Policy, hashes: H, seed: u64, source: &mut impl ChunkSource) -> Result<Self, NoChunk> {
        policy.check().unwrap_or_else(|error| panic!("{error}"));
        let mut ways = ArrayVec::new();
        for number in 0..policy.ways {
            match Way::new(number, &policy, source) {
                Ok(way) => ways.push(way),
                Err(error) => {
                    ways.into_iter().for_each(|way| drop(way.release(source)));
                    return Err(error);
                }
            }
        }
        Ok(Self {
            policy,
            hashes,
            ways,
            seed,
            insertions: 0,
            ahead: Ahead::new(),
            random: SplitMix64::new(seed),
            counts: CuckooCounts::default(),
            used: 0,
            stalled: 0,
            patience: policy.tries,
            path: Vec::new(),
        })
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Returns whether the table holds no item.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the hash functions of the ways.
    pub fn hashes(&self) -> &H {
        &self.hashes
    }

    /// Returns the hash functions, which must stay the same.
    pub fn hashes_mut(&mut self) -> &mut H {
        &mut self.hashes
    }

    /// Returns the counts of what the table has done.
    pub fn counts(&self) -> &CuckooCounts {
        &self.counts
    }

    /// Returns the ways' sizes in slots; of a way that grows or shrinks, the size that it will have.
    pub fn way_slots(&self) -> impl ExactSizeIterator<Item = usize> {
        self.ways.iter().map(Way::slots)
    }

    /// Returns the number of items in each way.
    pub fn way_items(&self) -> impl ExactSizeIterator<Item = usize> {
        self.ways.iter().map(|way| way.used)
    }

    /// Returns the number of chunks that each way is made of, and their size in bytes; of a way that moves to another
    /// array, those of the old one.
    pub fn way_chunks(&self) -> impl ExactSizeIterator<Item = (usize, u64)> {
        self.ways.iter().map(Way::chunks)
    }

    /// Returns whether a way grows or shrinks.
    pub fn is_changing(&self) -> bool {
        self.ways.iter().any(Way::is_changing)
    }

    /// Returns all items, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slices().flatten().flatten()
    }

    /// Returns all slots, in pieces.
    pub fn slices(&self) -> impl Iterator<Item = &[Option<T>]> {
        self.ways.iter().flat_map(Way::slices)
    }

    /// Returns all slots, in pieces, to be changed. What is in a slot may be changed, but not its key, and nothing
    /// may be put in or taken out.
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [Option<T>]> {
        self.ways.iter_mut().flat_map(Way::slices_mut)
    }

    /// Gives the memory back, and the slots with their items, in pieces.
    pub fn release_chunks(self, source: &mut impl ChunkSource) -> Vec<Box<[Option<T>]>> {
        self.ways.into_iter().flat_map(|way| way.release_chunks(source)).collect()
    }

    /// Changes each item, and takes out those of which `keep` is false; then the table shrinks as far as it should. If `keep`
    /// or an item's drop panics, the items that have not been looked at stay.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool, source: &mut impl ChunkSource) {
        let used = &mut self.used;
        let mut taken = || *used -= 1;
        for way in &mut self.ways {
            way.retain(&mut keep, &mut taken);
        }
        if self.policy.scope == Scope::Bucket {
            while self.merge_if_due(source) {}
        } else {
            while self.settle_size(source) {}
        }
    }

    /// Keeps ways from shrinking below so many slots, a power of two, from now on.
    ///
    /// # Panics
    ///
    /// If that is [impossible](Policy::check).
    pub fn keep_at_least(&mut self, slots: usize) {
        self.policy.first_slots = slots;
        self.policy.check().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Gives the memory back, and the items.
    pub fn release(self, source: &mut impl ChunkSource) -> Vec<T> {
        self.ways.into_iter().flat_map(|way| way.release(source)).collect()
    }

    /// Returns the place of that item of a key that is the wanted one, if several have the same key. One probe in
    /// each way.
    #[inline]
    pub fn find(&self, key: u64, wanted: impl Fn(&T) -> bool) -> Option<SlotRef> {
        // All probes before the first decision: which way has the item is random, and the processor would be wrong on it
        // while the others' lines could already be on their way.
        let word = self.hashes.word(key);
        match self.ways.len() {
            2 if self.policy.bucket_slots > 1 => self.find_in_buckets(key, wanted).map(|(at, _)| at),
            // As published, and then the loops below have none.
            3 => self.find_in::<3>(key, word, wanted),
            2 => self.find_in::<2>(key, word, wanted),
            _ => self.find_in::<MAX_WAYS>(key, word, wanted),
        }
    }

    /// `N` ways, or fewer.
    #[inline(always)]
    fn find_in<const N: usize>(&self, key: u64, word: u64, wanted: impl Fn(&T) -> bool) -> Option<SlotRef> {
        let places = self.places::<N>(word);
        self.find_among(key, &places, self.likely(&places), wanted)
    }

    /// Returns the places where an item of these hashes may stand, by way.
    #[inline(always)]
    fn places<const N: usize>(&self, word: u64) -> [Place; N] {
        let mut places = [Place::NONE; N];
        for (number, place) in places.iter_mut().enumerate() {
            if N == MAX_WAYS && number >= self.ways.len() {
                break;
            }
            *place = self.ways[number].place(number, word);
        }
        places
    }

    /// Returns the ways in which an item of the same tag stands, a bit for each.
    #[inline(always)]
    fn likely<const N: usize>(&self, places: &[Place; N]) -> u32 {
        let mut likely = 0;
        for (number, &place) in places.iter().enumerate() {
            if N == MAX_WAYS && number >= self.ways.len() {
                break;
            }
            likely |= u32::from(self.ways[number].is_likely(place)) << number;
        }
        likely
    }

    #[inline(always)]
    fn find_among<const N: usize>(
        &self,
        key: u64,
        places: &[Place; N],
        mut likely: u32,
        wanted: impl Fn(&T) -> bool,
    ) -> Option<SlotRef> {
        while likely != 0 {
            let way = likely.trailing_zeros() as usize % N;
            likely &= likely - 1;
            let at = SlotRef { way, place: places[way] };
            if self.get(at).is_some_and(|item| item.key() == key && wanted(item)) {
                return Some(at);
            }
        }
        None
    }

    /// Looks up several keys like [`find`](Self::find): each step is taken for all of them before the next, so that
    /// the host's memory is asked for many at a time. One look-up after the other is more instructions than a
    /// processor has in flight, and each waits for itself.
    #[inline]
    pub fn find_all<const KEYS: usize>(&self, keys: &[u64; KEYS]) -> [Option<SlotRef>; KEYS] {
        match self.ways.len() {
            _ if self.policy.bucket_slots > 1 => keys.map(|key| self.find(key, |_| true)),
            3 => self.find_all_in::<3, KEYS>(keys),
            2 => self.find_all_in::<2, KEYS>(keys),
            _ => self.find_all_in::<MAX_WAYS, KEYS>(keys),
        }
    }

    #[inline(always)]
    fn find_all_in<const N: usize, const KEYS: usize>(&self, keys: &[u64; KEYS]) -> [Option<SlotRef>; KEYS] {
        let places = keys.map(|key| {
            let places = self.places::<N>(self.hashes.word(key));
            self.ways.iter().zip(&places).for_each(|(way, &place)| way.ask_for_tag(place));
            places
        });
        let likely: [u32; KEYS] = std::array::from_fn(|at| {
            let likely = self.likely(&places[at]);
            if likely != 0 {
                let way = likely.trailing_zeros() as usize % N;
                self.ways[way].ask_for_item(places[at][way]);
            }
            likely
        });
        std::array::from_fn(|at| self.find_among(keys[at], &places[at], likely[at], |_| true))
    }

    /// Returns the slots where a key's item may stand, one in each way; of buckets, the first ones.
    #[inline(always)]
    pub fn probes(&self, key: u64) -> impl Iterator<Item = SlotRef> {
        let word = self.hashes.word(key);
        self.ways.iter().enumerate().map(move |(way, ways)| SlotRef { way, place: ways.place(way, word) })
    }

    /// Returns the slot where a key's item may stand in one way.
    #[inline(always)]
    pub fn probe(&self, key: u64, way: usize) -> SlotRef {
        SlotRef { way, place: self.ways[way].place(way, self.hashes.word(key)) }
    }

    /// Returns the item in a slot.
    #[inline(always)]
    pub fn get(&self, at: SlotRef) -> Option<&T> {
        self.ways[at.way].item(at.place).as_ref()
    }

    /// Returns the item in a slot, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, at: SlotRef) -> Option<&mut T> {
        self.ways[at.way].item_mut(at.place).as_mut()
    }

    /// Returns the address of a slot, as the memory's source says.
    pub fn addr(&self, at: SlotRef) -> u64 {
        self.ways[at.way].addr(at.place)
    }

    /// Puts in an item that is not in the table, and lets the table grow a little.
    ///
    /// # Errors
    ///
    /// There is no place, and no memory to grow; nothing has been lost.
    pub fn insert(&mut self, item: T, source: &mut impl ChunkSource) -> Result<Inserted, Rejected<T>> {
        let random = self.next_random();
        let moves = match self.settle(item, None, random) {
            Ok(moves) => moves,
            Err(item) => self.insert_by_force(item, source)?,
        };
        Ok(self.inserted(moves, source))
    }

    /// Puts in an item that is not in the table if that takes no more moves than the policy's tries, and lets the table
    /// grow a little. An insertion takes bounded time, and a caller who gets the item back finds it another place.
    ///
    /// # Errors
    ///
    /// The item, for which there was no place; nothing has been lost.
    pub fn try_insert(&mut self, item: T, source: &mut impl ChunkSource) -> Result<Inserted, T> {
        let random = self.next_random();
        match self.settle(item, None, random) {
            Ok(moves) => Ok(self.inserted(moves, source)),
            Err(item) => {
                match self.policy.scope {
                    Scope::Bucket => drop(self.split_if_due(source)),
                    Scope::Table | Scope::Way { .. } => self.advance(source),
                }
                Err(item)
            }
        }
    }

    /// The random numbers of an insertion.
    #[inline(always)]
    fn random_of(&self, number: u64) -> SplitMix64 {
        SplitMix64::of_item(self.seed, number)
    }

    #[inline(always)]
    fn next_random(&mut self) -> SplitMix64 {
        let random = self.random_of(self.insertions);
        self.insertions += 1;
        random
    }

    /// The random numbers of another attempt, or of an item that a change of size has moved.
    #[inline(always)]
    fn other_random(&mut self) -> SplitMix64 {
        SplitMix64::new(self.random.next())
    }

    /// Does what follows when an item has found its place.
    #[inline(always)]
    fn inserted(&mut self, moves: u32, source: &mut impl ChunkSource) -> Inserted {
        self.used += 1;
        self.counts.inserted.add(moves);
        if self.policy.scope == Scope::Bucket {
            return Inserted { moves, stalled: self.split_if_due(source).err() };
        }
        self.turn_round_if_due(source);
        let stalled = self.grow_if_due(source).err();
        self.counts.inserted_while_changing += u64::from(self.is_changing());
        self.advance(source);
        Inserted { moves, stalled }
    }

    /// Takes an item out, and lets the table shrink a little.
    pub fn remove(&mut self, at: SlotRef, source: &mut impl ChunkSource) -> Option<T> {
        let item = self.ways[at.way].take(at.place)?;
        self.used -= 1;
        if self.policy.scope == Scope::Bucket {
            self.merge_if_due(source);
            return Some(item);
        }
        self.shrink_if_due(source);
        self.advance(source);
        Some(item)
    }

    /// Finishes what is under way; whether the table is about to shrink further.
    fn settle_size(&mut self, source: &mut impl ChunkSource) -> bool {
        self.finish_changes(source);
        if self.is_changing() {
            // It cannot be finished now.
            return false;
        }
        self.shrink_if_due(source);
        self.is_changing()
    }

    /// Finishes what is under way.
    pub fn finish_changes(&mut self, source: &mut impl ChunkSource) {
        while self.step(source) {}
    }

    /// Puts an item into a slot, and what it finds there into another, until one was free. Otherwise all is as before.
    /// `first` is the way to begin with.
    #[inline]
    fn settle(&mut self, mut item: T, first: Option<usize>, mut random: SplitMix64) -> Result<u32, T> {
        let mut way = first.unwrap_or_else(|| self.first_way(&mut random));
        let looks = self.policy.first_way == FirstWay::Free;
        self.path.clear();
        loop {
            let key = item.key();
            let word = self.hashes.word(key);
            if looks && (first.is_none() || !self.path.is_empty()) {
                way = self.free_way(word).unwrap_or(way);
            }
            let place = self.slot_in_bucket(way, word, &mut random);
            self.hashes.placed(key, way);
            let before = self.ways[way].tag(place);
            let Some(other) = self.ways[way].put(place, item) else { return Ok(self.path.len() as u32) };
            item = other;
            self.path.push((way, Place { tag: before.unwrap_or(place.tag), ..place }));
            if self.path.len() > self.patience as usize {
                return Err(self.undo(item));
            }
            way = self.other_way(way, &mut random);
        }
    }

    #[cold]
    fn undo(&mut self, last: T) -> T {
        let back = |item: T, (way, place): (usize, Place)| {
            self.hashes.placed(item.key(), way);
            self.ways[way].put(place, item).expect("what an insertion moved is where it was put")
        };
        self.path.drain(..).rev().fold(last, back)
    }

    /// Inserts an item for which no place was found.
    #[cold]
    fn insert_by_force(&mut self, mut item: T, source: &mut impl ChunkSource) -> Result<u32, Rejected<T>> {
        let result = loop {
            self.counts.forced += 1;
            if self.ways.iter().any(Way::is_shrinking) {
                self.turn_round(source);
            } else if self.is_changing() {
                self.finish_changes(source);
            } else if self.used * EMPTIEST >= self.way_slots().sum::<usize>()
                && let Err(error) = self.grow_by_force(source)
            {
                break Err(Rejected { item, reason: error.into() });
            }
            let random = self.other_random();
            match self.settle(item, None, random) {
                Ok(moves) => break Ok(moves),
                Err(again) => item = again,
            }
            if self.patience >= MOST_PATIENCE {
                break Err(Rejected { item, reason: RejectReason::EqualHashes });
            }
            self.patience *= 2;
        };
        self.patience = self.policy.tries;
        result
    }

    fn grow_by_force(&mut self, source: &mut impl ChunkSource) -> Result<(), NoChunk> {
        match self.policy.scope {
            Scope::Bucket => (0..=self.ways[0].slots() / 8).try_for_each(|_| self.split(source)),
            Scope::Table | Scope::Way { .. } => self.grow(self.smallest(), source),
        }
    }

    fn smallest(&self) -> usize {
        (0..self.ways.len()).min_by_key(|&way| self.ways[way].slots()).expect("a table has ways")
    }

    #[inline]
    fn first_way(&self, random: &mut SplitMix64) -> usize {
        match self.policy.first_way {
            FirstWay::Uniform | FirstWay::Free => random.below(self.ways.len() as u64) as usize,
            FirstWay::ByFreeSlots => self.first_way_by_free_slots(random),
        }
    }

    #[inline(always)]
    fn first_way_by_free_slots(&self, random: &mut SplitMix64) -> usize {
        match self.ways.first_chunk::<3>() {
            // As published, and then the loops below have none.
            Some(ways) if self.ways.len() == 3 => self.drawn_by_free_slots(ways, random),
            _ => self.drawn_by_free_slots(&self.ways, random),
        }
    }

    #[inline(always)]
    fn drawn_by_free_slots(&self, ways: &[Way<T>], random: &mut SplitMix64) -> usize {
        let least = ways.iter().map(Way::slots).min().expect("a table has ways");
        let up = u64::from(self.policy.upsize_above);
        // The sums of the weights up to each way.
        let mut sums = [0; MAX_WAYS];
        let mut sum = 0;
        for (up_to, way) in sums.iter_mut().zip(ways) {
            let (slots, used) = (way.slots(), way.used);
            let held_back = slots > least && is_above(used, slots, up);
            sum += if held_back { 0 } else { slots.saturating_sub(used) as u64 };
            *up_to = sum;
        }
        if sum == 0 {
            return random.below(ways.len() as u64) as usize;
        }
        let drawn = random.below(sum);
        // Counted, not searched: which way it is, no branch predictor knows.
        sums[..ways.len()].iter().map(|&up_to| usize::from(up_to <= drawn)).sum()
    }

    /// The emptiest of the ways that have a free slot for an item.
    #[inline]
    fn free_way(&self, word: u64) -> Option<usize> {
        if self.policy.bucket_slots > 1 {
            return self.emptier_bucket(word);
        }
        let emptier = |a: &Way<T>, b: &Way<T>| a.used * b.slots() < b.used * a.slots();
        let mut emptiest = None;
        for (number, way) in self.ways.iter().enumerate() {
            let is_free = way.tag(way.place(number, word)).is_none();
            if is_free && emptiest.is_none_or(|other: usize| emptier(way, &self.ways[other])) {
                emptiest = Some(number);
            }
        }
        emptiest
    }

    #[inline]
    fn other_way(&self, way: usize, random: &mut SplitMix64) -> usize {
        let drawn = random.below(self.ways.len() as u64 - 1) as usize;
        drawn + usize::from(drawn >= way)
    }

    /// A table that has begun to shrink may fill up again before it has: then it keeps its size.
    #[inline]
    fn turn_round_if_due(&mut self, source: &mut impl ChunkSource) {
        if !self.ways.iter().any(Way::is_shrinking) {
            return;
        }
        let up = u64::from(self.policy.upsize_above);
        let is_due = match self.policy.scope {
            Scope::Table | Scope::Bucket => is_above(self.used, self.way_slots().sum(), up),
            Scope::Way { .. } => {
                self.ways.iter().any(|way| way.is_shrinking() && is_above(way.used, way.slots(), up))
            }
        };
        if is_due {
            self.turn_round(source);
        }
    }

    /// All shrinks, at once.
    #[cold]
    fn turn_round(&mut self, source: &mut impl ChunkSource) {
        let mut homeless = Vec::new();
        for number in 0..self.ways.len() {
            if self.ways[number].is_shrinking() {
                let hashes = &self.hashes;
                let way = &mut self.ways[number];
                let items = way.turn_round(|item| hashes.word(item.key()), source);
                homeless.extend(items.into_iter().map(|item| (number, item)));
                self.counts.turned_round += 1;
            }
        }
        let patience = std::mem::replace(&mut self.patience, MOST_PATIENCE);
        for (way, item) in homeless {
            let random = self.other_random();
            let moves = self.settle(item, Some(way), random);
            self.counts
                .rehashed
                .add(moves.ok().expect("the larger arrays are emptier than the smaller were"));
        }
        self.patience = patience;
    }

    /// Begins to grow what is due.
    fn grow_if_due(&mut self, source: &mut impl ChunkSource) -> Result<(), NoChunk> {
        let up = u64::from(self.policy.upsize_above);
        let due = match self.policy.scope {
            Scope::Table => {
                let is_due = !self.is_changing() && is_above(self.used, self.way_slots().sum(), up);
                is_due.then_some(0)
            }
            Scope::Bucket => None,
            Scope::Way { at_once } => {
                if self.ways.iter().filter(|way| way.is_changing()).count() >= at_once {
                    return Ok(());
                }
                let least = self.way_slots().min().expect("a table has ways");
                // The fullest, if several are due.
                (0..self.ways.len())
                    .filter(|&way| {
                        let way = &self.ways[way];
                        !way.is_changing() && way.slots() == least && is_above(way.used, least, up)
                    })
                    .max_by_key(|&way| self.ways[way].used)
            }
        };
        match due {
            Some(way) if self.used >= self.stalled => self.grow(way, source).inspect_err(|_| {
                // Not at every insertion: looking for memory that is not there takes time.
                self.stalled = self.used + self.used / 64 + 1;
            }),
            _ => Ok(()),
        }
    }

    /// Begins to grow a way, or all.
    fn grow(&mut self, way: usize, source: &mut impl ChunkSource) -> Result<(), NoChunk> {
        self.change(way, |slots, growth| slots * growth, source)?;
        self.stalled = 0;
        Ok(())
    }

    fn shrink_if_due(&mut self, source: &mut impl ChunkSource) {
        let down = u64::from(self.policy.downsize_below);
        let is_below = |used: usize, slots: usize| (used as u64 * 1000) < slots as u64 * down;
        let least = self.policy.first_slots;
        let due = match self.policy.scope {
            Scope::Table => {
                let is_due = !self.is_changing()
                    && self.way_slots().all(|slots| slots >= least * self.policy.growth)
                    && is_below(self.used, self.way_slots().sum());
                is_due.then_some(0)
            }
            Scope::Bucket => None,
            Scope::Way { at_once } => {
                if self.ways.iter().filter(|way| way.is_changing()).count() >= at_once {
                    return;
                }
                let most = self.way_slots().max().expect("a table has ways");
                (0..self.ways.len())
                    .filter(|&way| {
                        let way = &self.ways[way];
                        !way.is_changing() && way.slots() == most && most > least && is_below(way.used, most)
                    })
                    .min_by_key(|&way| self.ways[way].used)
            }
        };
        if let Some(way) = due {
            // Without memory for a smaller array, the larger one stays.
            let _ = self.change(way, |slots, growth| slots / growth, source);
        }
    }

    /// Begins to change the size of a way, or of all.
    fn change(
        &mut self,
        way: usize,
        new: impl Fn(usize, usize) -> usize,
        source: &mut impl ChunkSource,
    ) -> Result<(), NoChunk> {
        let ways = if self.policy.scope == Scope::Table { 0..self.ways.len() } else { way..way + 1 };
        for number in ways.clone() {
            let way = &mut self.ways[number];
            if let Err(error) = way.begin(new(way.slots(), self.policy.growth), &self.policy, source) {
                self.ways[ways.start..number].iter_mut().for_each(|way| way.cancel(source));
                return Err(error);
            }
        }
        for number in ways {
            let grows = new(1 << 16, self.policy.growth) > 1 << 16;
            let changes = if grows { &mut self.counts.upsizes } else { &mut self.counts.downsizes };
            changes[number] += 1;
            self.counts.out_of_place += u32::from(!self.ways[number].is_in_place());
        }
        Ok(())
    }

    /// Advances the ways that change, as an insertion or a removal does.
    #[inline]
    fn advance(&mut self, source: &mut impl ChunkSource) {
        for _ in 0..self.policy.steps {
            if !self.step(source) {
                return;
            }
        }
    }

    /// Visits a slot of one of the ways that change; false if there is none, or nothing could be done.
    #[inline]
    fn step(&mut self, source: &mut impl ChunkSource) -> bool {
        let which = match self.ways.iter().filter(|way| way.is_changing()).count() {
            0 => return false,
            1 => 0,
            several => self.random.below(several as u64) as usize,
        };
        let mut changing = (0..self.ways.len()).filter(|&way| self.ways[way].is_changing());
        let number = changing.nth(which).expect("one of so many");
        let is_done = self.visit(number);
        if self.ways[number].is_done() {
            self.ways[number].finish(source);
        }
        is_done
    }

    fn visit(&mut self, number: usize) -> bool {
        let (hashes, way) = (&self.hashes, &mut self.ways[number]);
        way.foresee_visit(|item| hashes.word(item.key()));
        let item = match way.visit(|item| hashes.word(item.key())) {
            Visit::Stays(is_item) => {
                self.counts.visited += 1;
                self.counts.stayed += u64::from(is_item);
                return true;
            }
            Visit::Leaves(item) => item,
        };
        let (may_conflict, in_place) = (way.may_conflict(), way.is_in_place());
        let random = self.other_random();
        match self.settle(item, Some(number), random) {
            Ok(moves) => {
                assert!(may_conflict || moves == 0, "an item in the way of an upsize with one more bit");
                self.counts.visited += 1;
                self.counts.rehashed.add(moves);
                self.counts.moved_in_place += u64::from(in_place);
                true
            }
            Err(item) => {
                let word = self.hashes.word(item.key());
                self.ways[number].unvisit(item, word);
                false
            }
        }
    }
}

fn is_above(used: usize, slots: usize, thousandths: u64) -> bool {
    used as u64 * 1000 > slots as u64 * thousandths
}
