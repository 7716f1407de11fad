//! The map: what it is made of, its constructors, its size.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use pagewalk_cuckoo::{BUCKET_SLOTS, Cuckoo, FirstWay, NoChunk, Policy, Scope};

use crate::item::{Item, Words};
use crate::iterate::{Drain, IntoIter, Iter, IterMut};
use crate::memory::Memory;

/// The hasher that a map takes if it is told nothing else: fast, seeded anew for each map.
pub type DefaultHasher = foldhash::fast::RandomState;

/// A hash map that grows and shrinks without pauses. See the [crate's documentation](crate).
pub struct ElasticMap<K, V, S = DefaultHasher> {
    pub(crate) hasher: S,
    /// The table, from the first insertion on.
    pub(crate) table: Option<Cuckoo<Item<K, V>, Words>>,
    /// Items that have no place in the table: with too many of one hash, or very unlucky.
    pub(crate) rest: VecDeque<Item<K, V>>,
    pub(crate) memory: Memory,
}

/// The policy of the table. Two ways with buckets of four slots can be filled to 98 % (Cain, Sanders, Wormald, SODA
/// 2007); the fuller, the more items move.
///
/// An insertion needs 1.25 slots more at this load, so that it seldom splits a bucket; a removal takes 2.5 slots away, but may have
/// to leave that to a later one.
pub(crate) const POLICY: Policy = Policy {
    ways: 2,
    bucket_slots: BUCKET_SLOTS,
    first_slots: 0,
    slot_bytes: 0,
    upsize_above: 800,
    downsize_below: 400,
    growth: 2,
    steps: 1,
    scope: Scope::Bucket,
    in_place: true,
    rekey: false,
    first_way: FirstWay::Free,
    tries: 500,
};

/// Slots of a way at first: a small map is small.
const FIRST_SLOTS: usize = 2 * BUCKET_SLOTS;

/// Items of one hash in the table. As many as two buckets have slots would fit, but would stand in the way of others.
pub(crate) const EQUAL_HASHES: usize = BUCKET_SLOTS / 2;

impl<K, V> ElasticMap<K, V> {
    /// Creates an empty map without memory.
    pub fn new() -> Self {
        Self::with_hasher(DefaultHasher::default())
    }

    /// Creates an empty map with room for so many items.
    ///
    /// # Panics
    ///
    /// As [`reserve`](Self::reserve).
    pub fn with_capacity(items: usize) -> Self {
        Self::with_capacity_and_hasher(items, DefaultHasher::default())
    }
}

/// The reason why there is no room for so many items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TryReserveError {
    /// No table has so many slots.
    TooMany {
        /// The items that there was to be room for.
        items: usize,
    },
    /// The allocator has no such memory.
    NoMemory {
        /// The items that there was to be room for.
        items: usize,
    },
}

impl std::fmt::Display for TryReserveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany { items } => {
                write!(
                    f,
                    "an elastic map for {items} items; a table has at most {MOST_SLOTS} slots in each of two ways"
                )
            }
            Self::NoMemory { items } => write!(f, "no memory for an elastic map of {items} items"),
        }
    }
}

impl std::error::Error for TryReserveError {}

/// Slots of a way that can be reserved.
const MOST_SLOTS: usize = 1 << 31;

/// Slots of each way with which the table holds so many items before it grows.
fn slots_for(items: usize) -> Result<usize, TryReserveError> {
    let all = (items as u128 * 1000).div_ceil(u128::from(POLICY.upsize_above));
    let of_way =
        all.div_ceil(POLICY.ways as u128).next_multiple_of(BUCKET_SLOTS as u128).max(FIRST_SLOTS as u128);
    if of_way <= MOST_SLOTS as u128 { Ok(of_way as usize) } else { Err(TryReserveError::TooMany { items }) }
}

impl<K, V, S: BuildHasher> ElasticMap<K, V, S> {
    /// Creates an empty map with room for so many items, with this hasher.
    ///
    /// # Panics
    ///
    /// As [`reserve`](Self::reserve).
    pub fn with_capacity_and_hasher(items: usize, hasher: S) -> Self {
        let mut map = Self::with_hasher(hasher);
        map.reserve(items);
        map
    }

    /// Makes room for so many more items, which is kept until [`shrink_to_fit`](Self::shrink_to_fit) or
    /// [`clear`](Self::clear). If there is not so much room, all items are moved: this is a pause. Without it the map grows by
    /// itself, without one.
    ///
    /// # Panics
    ///
    /// If no table has so many slots, or there is no such memory.
    pub fn reserve(&mut self, additional: usize) {
        self.try_reserve(additional).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Reserves memory like [`reserve`](Self::reserve), but returns an error instead of a panic.
    ///
    /// # Errors
    ///
    /// [`TryReserveError`], with the map as it was.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), TryReserveError> {
        let items = self.len().saturating_add(additional);
        let slots = slots_for(items)?;
        if items > self.capacity() {
            self.rebuild(slots).map_err(|_| TryReserveError::NoMemory { items })?;
        } else if let Some(table) = &mut self.table
            && table.way_slots().all(|of_way| of_way >= slots)
        {
            table.keep_at_least(slots);
        }
        Ok(())
    }

    /// Gives back the memory that the items do not need: all items are moved, if a smaller table has room for them.
    pub fn shrink_to_fit(&mut self) {
        self.rest.shrink_to_fit();
        if self.is_empty() {
            return self.clear();
        }
        let slots = slots_for(self.len()).unwrap_or(MOST_SLOTS);
        if self.memory.way_bytes(slots).saturating_mul(POLICY.ways as u64) < self.memory.bytes {
            // Without memory for a smaller table, the larger one stays.
            let _ = self.rebuild(slots);
            self.rest.shrink_to_fit();
        }
        self.keep_no_room();
    }

    /// The map may shrink below the room that was reserved.
    pub(crate) fn keep_no_room(&mut self) {
        if let Some(table) = &mut self.table {
            table.keep_at_least(FIRST_SLOTS);
        }
    }

    /// The table; a small one if there was none.
    #[inline(always)]
    pub(crate) fn table_or_new(&mut self) -> &mut Cuckoo<Item<K, V>, Words> {
        if self.table.is_none() {
            self.rebuild(FIRST_SLOTS).expect("memory for a first small table");
        }
        self.table.as_mut().expect("made above")
    }

    /// Moves all items to a new table of so many slots in each way. None of the keys' code runs.
    #[cold]
    pub(crate) fn rebuild(&mut self, slots: usize) -> Result<(), NoChunk> {
        let mut memory = Memory::of::<Item<K, V>>();
        // Chunk by chunk a system that promises more memory than it has would never refuse.
        let bytes = memory.way_bytes(slots).saturating_mul(POLICY.ways as u64);
        let whole = usize::try_from(bytes).map(|bytes| Vec::<u8>::new().try_reserve_exact(bytes));
        if !matches!(whole, Ok(Ok(()))) {
            return Err(NoChunk { bytes });
        }
        let policy = Policy { first_slots: slots, slot_bytes: memory.slot_bytes, ..POLICY };
        let table = Cuckoo::new(policy, Words, self.hasher.hash_one(0u64), &mut memory)?;
        let old = self.take_all();
        (self.table, self.memory) = (Some(table), memory);
        old.into_items().for_each(|item| self.place_counted(item));
        Ok(())
    }
}

impl<K, V, S> ElasticMap<K, V, S> {
    /// Returns an empty map without memory, with this hasher.
    pub const fn with_hasher(hasher: S) -> Self {
        Self { hasher, table: None, rest: VecDeque::new(), memory: Memory::of::<Item<K, V>>() }
    }

    /// Returns the hasher of the map.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Items in the map.
    pub fn len(&self) -> usize {
        self.table.as_ref().map_or(0, Cuckoo::len) + self.rest.len()
    }

    /// Returns whether the map holds no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots of the table; of a part that grows or shrinks, those that it will have.
    pub fn slots(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.way_slots().sum())
    }

    /// Returns the bytes of memory for items that the map has now, without what keys and values own elsewhere. What
    /// the table knows about its chunks is less than a hundredth of that.
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes as usize + self.rest.capacity() * size_of::<Item<K, V>>()
    }

    /// Items that the map holds before it grows.
    pub fn capacity(&self) -> usize {
        (self.slots() as u128 * u128::from(POLICY.upsize_above) / 1000) as usize
    }

    /// Returns all items, in no order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter::new(self.table.as_ref(), &self.rest, self.len())
    }

    /// Returns all items, in no order; the values can be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        let left = self.len();
        IterMut::new(self.table.as_mut(), &mut self.rest, left)
    }

    /// Returns all keys, in no order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns all values, in no order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns all values, in no order, to be changed.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Returns all keys, in no order; the values are dropped.
    pub fn into_keys(self) -> impl ExactSizeIterator<Item = K> {
        self.into_iter().map(|(key, _)| key)
    }

    /// Returns all values, in no order; the keys are dropped.
    pub fn into_values(self) -> impl ExactSizeIterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }

    /// Takes all items out, and gives the memory back. Items that are not taken from the iterator are dropped with it.
    pub fn drain(&mut self) -> Drain<'_, K, V> {
        Drain::new(self.take_all())
    }

    /// Changes each item, and takes out those of which `keep` is false. It takes as long as the map has items. If `keep` or
    /// the drop of an item panics, the items that have not been looked at stay.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.rest.retain_mut(|item| keep(&item.key, &mut item.value));
        if let Some(table) = &mut self.table {
            table.retain(|item| keep(&item.key, &mut item.value), &mut self.memory);
        }
    }

    /// Drops all items, and gives all memory back. It takes as long as the map has items. If the drop of an item panics, the map
    /// is empty, and the others are dropped nevertheless.
    pub fn clear(&mut self) {
        drop(self.take_all());
    }

    /// Leaves an empty map without memory.
    pub(crate) fn take_all(&mut self) -> IntoIter<K, V> {
        let left = self.len();
        let rest = std::mem::take(&mut self.rest);
        let chunks = self.table.take().map(|table| table.release_chunks(&mut self.memory));
        IntoIter::new(chunks.unwrap_or_default(), rest, left)
    }
}
