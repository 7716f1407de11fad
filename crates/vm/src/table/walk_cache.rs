//! Page-walk caches: the table nodes of recent walks, so that a walk can start in the middle.

use super::{Geometry, Walk, WalkCaching, WalkReference};
use crate::addr::{Asid, PageSize, Pfn, PhysAddr, Vpn};
use crate::sets::{Replacement, SetArray, ShapeError};
use crate::tlb::{key, key_asid};

/// The place where a walk may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkStart {
    /// The level of `node`: 0 leaves one reference to make.
    pub level: u32,
    /// The table to read first.
    pub node: Pfn,
}

/// The walk cache of a radix table: one small LRU cache for each non-leaf level.
///
/// A cache for level `l` holds entries of level-`l` tables that point to level `l - 1`, keyed by the bits of the
/// page number above level `l`'s reach. Large leaves are not held: they belong to the TLB.
#[derive(Clone, Debug)]
pub struct WalkCache {
    /// Deepest level first: element 0 is level 1.
    levels: Vec<Option<LevelCache>>,
    /// The base-2 logarithm of the base pages that an entry of each level reaches, from level 1 on.
    reach_shifts: Vec<u32>,
    /// Bytes of a node of the table.
    node_bytes: u64,
    hits: Vec<u64>,
    lookups: u64,
}

#[derive(Clone, Debug)]
struct LevelCache {
    keys: SetArray,
    nodes: Vec<Pfn>,
    /// The entry used last, by key: using it again changes nothing.
    last: (u64, Pfn),
}

impl LevelCache {
    fn lookup(&mut self, tag: u64, key: u64) -> Option<Pfn> {
        if self.last.0 != key {
            self.last = (key, self.nodes[self.keys.lookup(tag, key)?]);
        }
        Some(self.last.1)
    }

    fn insert(&mut self, tag: u64, key: u64, node: Pfn) {
        let slot = self.keys.insert(tag, key).slot;
        self.nodes[slot] = node;
        self.last = (key, node);
    }
}

/// A value above all keys.
const NO_KEY: u64 = u64::MAX;

impl WalkCache {
    /// Caches with `entries[i]` entries, **root first**: as many as the table has non-leaf levels; 0 leaves a
    /// level out. `ways` of `None` makes them fully associative.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if a shape is impossible.
    pub fn new<G: Geometry>(entries: &[u32], ways: Option<u32>) -> Result<Self, ShapeError> {
        let level = |&entries: &u32| {
            if entries == 0 {
                return Ok(None);
            }
            let keys = SetArray::new(entries, ways.unwrap_or(entries), Replacement::Lru)?;
            Ok(Some(LevelCache { keys, nodes: vec![Pfn(0); entries as usize], last: (NO_KEY, Pfn(0)) }))
        };
        let levels = entries.iter().rev().map(level).collect::<Result<Vec<_>, _>>()?;
        let reach_shifts = (1..=levels.len() as u32).map(G::reach_shift).collect();
        Ok(Self { hits: vec![0; levels.len()], levels, reach_shifts, node_bytes: G::NODE_BYTES, lookups: 0 })
    }

    fn tag(&self, vpn: Vpn, level: u32) -> u64 {
        vpn.0 >> self.reach_shifts[level as usize - 1]
    }

    /// Looks up all levels; every hit counts as a use. Returns the deepest.
    #[inline]
    pub fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Option<WalkStart> {
        self.lookups += 1;
        let mut deepest = None;
        for at in 0..self.levels.len() {
            let level = at as u32 + 1;
            let tag = self.tag(vpn, level);
            let Some(cache) = &mut self.levels[at] else { continue };
            let found = cache.lookup(tag, key(asid, PageSize::Size4K, tag));
            if let Some(node) = found.filter(|_| deepest.is_none()) {
                deepest = Some(WalkStart { level: level - 1, node });
                self.hits[at] += 1;
            }
        }
        deepest
    }

    /// Takes in the pointers that a walk read, which began where [`lookup`](Self::lookup) said: the levels below
    /// have just missed.
    #[inline]
    pub fn fill(&mut self, asid: Asid, vpn: Vpn, walk: &Walk) {
        // The entry before a reference points to the node that the reference lies in.
        for WalkReference { addr, level: below } in walk.references().skip(1) {
            let (level, node) = (below + 1, PhysAddr(addr.0 & !(self.node_bytes - 1)).frame());
            let tag = self.tag(vpn, level);
            let Some(Some(cache)) = self.levels.get_mut(level as usize - 1) else { continue };
            cache.insert(tag, key(asid, PageSize::Size4K, tag), node);
        }
    }
}

impl WalkCaching for WalkCache {
    fn flush(&mut self, asid: Option<Asid>) {
        for cache in self.levels.iter_mut().flatten() {
            cache.keys.retain(|key, _| asid.is_some_and(|asid| key_asid(key) != asid));
            cache.last = (NO_KEY, Pfn(0));
        }
    }

    fn lookups(&self) -> u64 {
        self.lookups
    }

    /// Hits that decided where a walk started: `level1` counts walks left with one reference.
    fn hits(&self) -> Vec<(String, u64)> {
        self.hits.iter().enumerate().map(|(at, &hits)| (format!("level{}", at + 1), hits)).collect()
    }
}
