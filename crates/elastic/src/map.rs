//! The map: what it is made of, its constructors, its size.

use std::collections::VecDeque;

use pagewalk_cuckoo::{Cuckoo, FirstWay, Policy, Scope};

use crate::item::{Item, Words};
use crate::memory::Memory;

/// The hasher that a map takes if it is told nothing else: fast, seeded anew for each map.
pub type DefaultHasher = foldhash::fast::RandomState;

/// A hash map that grows and shrinks without pauses. See the [crate's documentation](crate).
pub struct ElasticMap<K, V, S = DefaultHasher> {
    pub(crate) hasher: S,
    /// From the first insertion on.
    pub(crate) table: Option<Cuckoo<Item<K, V>, Words>>,
    /// Items that have no place in the table: with too many of one hash, or very unlucky.
    pub(crate) rest: VecDeque<Item<K, V>>,
    pub(crate) memory: Memory,
}

/// What the table does. Four ways can be filled to 97 % (Fotakis, Pagh, Sanders, Spirakis, STACS 2003); the fuller, the
/// more items move: with a million items at most 58 for an insertion at this load, 139 at 0.9.
///
/// One way at a time: the load goes from 0.85 to 0.68 or less far down, and never to half of what it was. A shrink begins
/// at 0.4 of all and ends below 0.5, far from where it would have to be turned round.
pub(crate) const POLICY: Policy = Policy {
    ways: 4,
    first_slots: 0,
    slot_bytes: 0,
    upsize_above: 850,
    downsize_below: 400,
    growth: 2,
    steps: 4,
    scope: Scope::NextWay,
    in_place: true,
    rekey: false,
    first_way: FirstWay::Free,
    tries: 500,
    gradual: true,
};

/// Items of one hash in the table. As many as there are ways would fit, but would stand in the way of others.
pub(crate) const EQUAL_HASHES: usize = POLICY.ways / 2;

impl<K, V> ElasticMap<K, V> {
    /// An empty map without memory.
    pub fn new() -> Self {
        Self::with_hasher(DefaultHasher::default())
    }
}

impl<K, V, S> ElasticMap<K, V, S> {
    /// An empty map without memory, with this hasher.
    pub const fn with_hasher(hasher: S) -> Self {
        Self { hasher, table: None, rest: VecDeque::new(), memory: Memory::of::<Item<K, V>>() }
    }

    /// The hasher.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Items in the map.
    pub fn len(&self) -> usize {
        self.table.as_ref().map_or(0, Cuckoo::len) + self.rest.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots of the table; of a part that grows or shrinks, those that it will have.
    pub fn slots(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.way_slots().sum())
    }

    /// Memory for items that the map has now, without what keys and values own elsewhere. What the table knows about its
    /// chunks is less than a hundredth of that.
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes as usize + self.rest.capacity() * size_of::<Item<K, V>>()
    }

    /// All items, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let items = self.table.iter().flat_map(Cuckoo::iter).chain(&self.rest);
        items.map(|item| (&item.key, &item.value))
    }

    /// All keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Drops all items, and gives all memory back: the map's only operation besides its end that takes as long as it has
    /// items.
    pub fn clear(&mut self) {
        self.memory.bytes = 0;
        self.rest = VecDeque::new();
        self.table = None;
    }
}
