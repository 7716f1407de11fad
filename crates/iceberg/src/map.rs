//! The map: what it is made of, its constructors, its size.

use std::hash::{BuildHasher, Hash as KeyHash};
use std::sync::OnceLock;

use crate::chain::Chain;
use crate::count::Count;
use crate::error::TryReserveError;
use crate::grow::Growth;
use crate::place::{At, Hash, MAX_BLOCKS, Shape};
use crate::store::{BLOCK_SLOTS, FirstYard, Part, SecondYard};
use crate::sync::{AtomicUsize, Ordering};

/// The hasher that a map takes if it is told nothing else: fast, seeded anew for each map.
pub type DefaultHasher = foldhash::fast::RandomState;

/// A table of one block can double so often.
const DOUBLINGS: usize = MAX_BLOCKS.ilog2() as usize;

/// The load at which a table grows: `IcebergHT`'s threshold, in percent.
const FULL_PERCENT: usize = 96;

/// A part that a doubling adds, in a place of its own: the map itself is small.
type Added<K, V> = OnceLock<Box<Part<(K, V)>>>;

/// A concurrent hash map whose items keep their places. See the [crate's documentation](crate).
pub struct IcebergMap<K, V, S = DefaultHasher> {
    pub(crate) hasher: S,
    pub(crate) shape: Shape,
    /// The part that the table begins with.
    part: Part<(K, V)>,
    /// The parts that doublings have added.
    added: [Added<K, V>; DOUBLINGS],
    pub(crate) growth: Growth,
    pub(crate) count: Count,
    /// Items of the third level.
    pub(crate) chained: AtomicUsize,
    /// Walks over the map that are under way.
    pub(crate) walks: AtomicUsize,
}

impl<K, V> IcebergMap<K, V> {
    /// Creates an empty map of one block, 72 slots.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty map that grows only after it holds so many items.
    ///
    /// # Panics
    ///
    /// If these are more than 4.6 billion items.
    pub fn with_capacity(items: usize) -> Self {
        Self::with_capacity_and_hasher(items, DefaultHasher::default())
    }

    /// Returns an empty map that never grows: it has slots for so many items at load 0.96, and some more. When an
    /// item finds no place, it is refused ([`try_insert`](Self::try_insert)).
    ///
    /// # Panics
    ///
    /// If these are more than 4.6 billion items.
    pub fn fixed(items: usize) -> Self {
        Self::fixed_with_hasher(items, DefaultHasher::default())
    }
}

impl<K, V, S> IcebergMap<K, V, S> {
    /// Creates an empty map of one block, with this hasher.
    pub fn with_hasher(hasher: S) -> Self {
        Self::with_capacity_and_hasher(0, hasher)
    }

    /// Creates an empty map that grows only after it holds so many items, with this hasher.
    ///
    /// # Panics
    ///
    /// If these are more than 4.6 billion items.
    pub fn with_capacity_and_hasher(items: usize, hasher: S) -> Self {
        Self::of(items, hasher, true)
    }

    /// Creates a map like [`fixed`](IcebergMap::fixed), with this hasher.
    ///
    /// # Panics
    ///
    /// If these are more than 4.6 billion items.
    pub fn fixed_with_hasher(items: usize, hasher: S) -> Self {
        Self::of(items, hasher, false)
    }

    fn of(items: usize, hasher: S, grows: bool) -> Self {
        let blocks = blocks_of(items).unwrap_or_else(|error| panic!("{error}"));
        Self::of_part(Part::new(blocks), blocks, hasher, grows)
    }

    /// An empty map of a part of so many blocks.
    fn of_part(part: Part<(K, V)>, blocks: usize, hasher: S, grows: bool) -> Self {
        part.ask_for_large_pages();
        Self {
            hasher,
            shape: Shape { base: blocks as u32 },
            part,
            added: [const { OnceLock::new() }; DOUBLINGS],
            growth: Growth::new(grows),
            count: Count::new(),
            chained: AtomicUsize::new(0),
            walks: AtomicUsize::new(0),
        }
    }

    /// Items in the map. While others change it, one of the numbers that it goes through, or next to it; never a
    /// point of contention.
    pub fn len(&self) -> usize {
        self.count.sum()
    }

    /// Returns whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots of the first two levels.
    pub fn slots(&self) -> usize {
        self.shape.blocks(self.growth.doublings()) * BLOCK_SLOTS
    }

    /// Items at which the map grows next; of a map that does not grow, those that it has a place for with near
    /// certainty.
    pub fn capacity(&self) -> usize {
        self.slots() * FULL_PERCENT / 100
    }

    /// Returns the share of the slots that would be in use if no item were in the third level.
    pub fn load(&self) -> f64 {
        self.len() as f64 / self.slots() as f64
    }

    /// Returns all memory of the map, its own struct included, without what keys and values own elsewhere.
    pub fn memory_bytes(&self) -> usize {
        let parts = (0..=self.growth.doublings()).map(|part| self.shape.blocks(part.saturating_sub(1)));
        let chained = self.chained.load(Ordering::Relaxed) * Chain::<(K, V)>::NODE_BYTES;
        size_of::<Self>() + parts.map(Part::<(K, V)>::bytes).sum::<usize>() + chained
    }

    /// Returns the hasher of the map.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    #[inline(always)]
    fn part(&self, at: At) -> (&Part<(K, V)>, usize) {
        if at.extra == 0 {
            return (&self.part, at.base as usize);
        }
        let (doubling, offset) = self.shape.in_added(at);
        (self.added[doubling].get().expect("a part is added before its blocks are used"), offset)
    }

    /// Returns the items of all blocks, to be changed. They are where they are, settled or not: each is in one place.
    pub(crate) fn items_mut(&mut self) -> impl Iterator<Item = &mut (K, V)> {
        let added = self.added.iter_mut().filter_map(|part| part.get_mut().map(|part| &mut **part));
        std::iter::once(&mut self.part).chain(added).flat_map(Part::items_mut)
    }

    /// Adds the part that the doubling after `doublings` needs.
    pub(crate) fn add_part(&self, doublings: u32) {
        // If the part is there already, a thread has panicked between adding it and using it.
        let _ = self.added[doublings as usize].set(Box::new(Part::new(self.shape.blocks(doublings))));
    }

    #[inline(always)]
    pub(crate) fn count_first(&self, at: At) -> usize {
        let (part, offset) = self.part(at);
        part.count_first(offset)
    }

    #[inline(always)]
    pub(crate) fn count_second(&self, at: At) -> usize {
        let (part, offset) = self.part(at);
        part.count_second(offset)
    }

    #[inline(always)]
    pub(crate) fn prefetch_second(&self, at: At, home: usize) {
        let (part, offset) = self.part(at);
        part.prefetch_second(offset, home);
    }

    /// Lets the processor fetch a slot's line while it waits for what is known about the block.
    #[inline(always)]
    pub(crate) fn lock_first(&self, at: At, guessed: Option<usize>) -> FirstYard<'_, (K, V)> {
        let (part, offset) = self.part(at);
        part.lock_first(offset, guessed)
    }

    pub(crate) fn try_lock_first(&self, at: At) -> Option<FirstYard<'_, (K, V)>> {
        let (part, offset) = self.part(at);
        part.try_lock_first(offset)
    }

    #[inline(always)]
    pub(crate) fn lock_second(&self, at: At) -> SecondYard<'_, (K, V)> {
        let (part, offset) = self.part(at);
        part.lock_second(offset)
    }
}

/// The blocks that so many items need at the load where a table grows; at least one.
fn blocks_of(items: usize) -> Result<usize, TryReserveError> {
    // In 128 bits: no number of items overflows. Few blocks are rounded up by the item, as each has room for so many.
    let (of_block, hundred) = (BLOCK_SLOTS * FULL_PERCENT, 100);
    let blocks = match items.div_ceil(of_block / hundred).max(1) {
        few if few < 100 => few as u128,
        _ => (items as u128 * hundred as u128).div_ceil(of_block as u128),
    };
    let possible = blocks <= MAX_BLOCKS as u128;
    if possible { Ok(blocks as usize) } else { Err(TryReserveError::TooMany { items }) }
}

/// The operations that make and give back room. These wait for no other user of the map, since there is none.
impl<K: KeyHash + Eq, V, S: BuildHasher> IcebergMap<K, V, S> {
    /// Makes room for so many more items, after which the map grows next. All items are moved, if the room is not there.
    ///
    /// # Panics
    ///
    /// If these are more than 4.6 billion items together with those that are there. If a key's `Hash` panics, the items that
    /// have not been moved yet are dropped.
    pub fn reserve(&mut self, additional: usize) {
        self.try_reserve(additional).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Reserves room like [`reserve`](Self::reserve), but returns an error instead of a panic.
    ///
    /// # Errors
    ///
    /// [`TryReserveError`], with the map as it was, if there is no such room.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), TryReserveError> {
        let items = self.len().saturating_add(additional);
        if items <= self.capacity() { Ok(()) } else { self.rebuild(items) }
    }

    /// Gives back the memory that the items do not need: all items are moved to a smaller table, if there is a smaller one.
    /// [`clear`](Self::clear), during which other threads use the map, keeps the memory; this gives it back. A map of fixed size
    /// has a place for its items afterwards, and for few others. Keys that share few hashes may take more memory in a smaller table, as
    /// more of them stand in lists.
    ///
    /// # Panics
    ///
    /// If a key's `Hash` panics, the items that have not been moved yet are dropped.
    pub fn shrink_to_fit(&mut self) {
        // One more, which would let the table grow at once.
        let items = self.len() + 1;
        if blocks_of(items).is_ok_and(|blocks| blocks < self.shape.blocks(self.growth.doublings())) {
            // Without memory for a smaller table, the larger one stays.
            let _ = self.rebuild(items);
        }
    }

    /// Moves all items to a table for `items`.
    fn rebuild(&mut self, items: usize) -> Result<(), TryReserveError> {
        let (mut items, mut refused) = (items, Vec::new());
        let mut old = self.replace(items)?;
        loop {
            for (key, value) in old.into_iter().chain(std::mem::take(&mut refused)) {
                if let Err(full) = self.try_insert(key, value) {
                    refused.push((full.key, full.value));
                }
            }
            if refused.is_empty() {
                return Ok(());
            }
            // A table that does not grow may have no place for an item that another of its size had one for. Memory's end is
            // the program's then, since there is no way back.
            items += items / 8 + BLOCK_SLOTS;
            old = self.replace(items).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

impl<K, V, S> IcebergMap<K, V, S> {
    /// Puts an empty table for so many items in the place of this one, which is the answer.
    pub(crate) fn replace(&mut self, items: usize) -> Result<IcebergMap<K, V, ()>, TryReserveError> {
        let blocks = blocks_of(items)?;
        let part = Part::try_new(blocks).ok_or(TryReserveError::NoMemory { items })?;
        let mut other = IcebergMap::of_part(part, blocks, (), self.growth.grows());
        let Self { hasher: _, shape, part, added, growth, count, chained, walks } = self;
        std::mem::swap(shape, &mut other.shape);
        std::mem::swap(part, &mut other.part);
        std::mem::swap(added, &mut other.added);
        std::mem::swap(growth, &mut other.growth);
        std::mem::swap(count, &mut other.count);
        std::mem::swap(chained, &mut other.chained);
        std::mem::swap(walks, &mut other.walks);
        Ok(other)
    }
}

impl<K, V, S: BuildHasher> IcebergMap<K, V, S> {
    #[inline(always)]
    pub(crate) fn hash<Q: KeyHash + ?Sized>(&self, key: &Q) -> Hash {
        Hash::new(self.hasher.hash_one(key))
    }
}
