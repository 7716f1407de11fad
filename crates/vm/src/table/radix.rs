//! The radix table and its walker, once for every geometry.

use std::marker::PhantomData;

use arrayvec::ArrayVec;

use super::cuckoo::NoChunk;
use super::{
    Entry, Geometry, Leaf, Levels, MOST_LEVELS, MapError, PageTable, RunMemory, TableMemory, TableStore,
    TableWords, Waits, WalkCache, WalkEnd, WalkOutcome, WalkRead, WalkStart,
};
use crate::addr::{Asid, Granule, PAGE_BYTES, Pfn, PhysAddr, Vpn};

/// A radix page table: one address space's root.
#[derive(Clone, Debug)]
pub struct Radix<G> {
    root: Pfn,
    levels: u32,
    nodes: u64,
    geometry: PhantomData<G>,
}

/// One address that a walk read, and the level of its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkReference {
    /// The physical address of the entry.
    pub addr: PhysAddr,
    /// The level of its table.
    pub level: u32,
}

/// The path of a walk: the entries that it read, one after the other, and where it ended.
///
/// A walk goes down one level at a time, so that the addresses of the entries and the level of the first say all. A walk is handed
/// on many times: it has to be small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walk {
    addrs: ArrayVec<PhysAddr, MOST_LEVELS>,
    /// The level of the first entry.
    top: u32,
    /// The page or the empty entry at the end of the walk.
    pub end: WalkEnd,
}

impl Walk {
    /// Returns the references in order; each depends on the one before.
    #[inline(always)]
    pub fn references(&self) -> impl ExactSizeIterator<Item = WalkReference> {
        let reference = |(at, &addr)| WalkReference { addr, level: self.top - at as u32 };
        self.addrs.iter().enumerate().map(reference)
    }

    /// Returns the last reference, to the entry at the end of the walk.
    #[inline]
    pub fn last(&self) -> WalkReference {
        let below = self.addrs.len() - 1;
        WalkReference { addr: self.addrs[below], level: self.top - below as u32 }
    }
}

impl<G: Geometry> Radix<G> {
    /// Returns the table of so many levels with this root, which another owner keeps. How many nodes it has is not known:
    /// [`Radix::nodes`] says nothing.
    #[inline]
    pub fn of_root(root: Pfn, Levels(levels): Levels) -> Self {
        Self { root, levels, nodes: 0, geometry: PhantomData }
    }

    /// Returns the root node's frame.
    pub fn root(&self) -> Pfn {
        self.root
    }

    /// Nodes in use, root included; each is as large as a base page.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Returns the first page number that the table cannot map.
    fn end(&self) -> Vpn {
        G::end(Levels(self.levels))
    }

    #[inline]
    fn entry_addr(node: Pfn, vpn: Vpn, level: u32) -> PhysAddr {
        node.addr().add(G::index(vpn, level) << G::entry_shift(level))
    }

    /// Reads the entry at `addr`, which may be a part of a word.
    #[inline]
    fn read(memory: &impl TableWords, addr: PhysAddr, level: u32) -> u64 {
        let word = memory.read(PhysAddr(addr.0 & !7));
        field(word, addr, G::entry_shift(level))
    }

    fn write(memory: &mut impl TableMemory, addr: PhysAddr, level: u32, raw: u64) {
        let (whole, shift) = (PhysAddr(addr.0 & !7), 8 * (addr.0 & 7));
        let others = match G::entry_shift(level) {
            3 => 0,
            entry_shift => memory.read(whole) & !(field(u64::MAX, PhysAddr(0), entry_shift) << shift),
        };
        memory.write(whole, others | raw << shift);
    }

    /// Returns the node where a walk without walk caches starts.
    #[inline]
    pub fn start(&self) -> WalkStart {
        WalkStart { level: self.levels - 1, node: self.root }
    }

    /// Walks from the root.
    pub fn walk_root(&self, memory: &impl TableWords, vpn: Vpn) -> Walk {
        let WalkStart { level, node } = self.start();
        self.walk_from(memory, vpn, level, node)
    }

    /// Walks from `node`, a table at `level` on the path of `vpn`, as a walk cache gave it.
    #[inline(always)]
    pub fn walk_from(&self, memory: &impl TableWords, vpn: Vpn, level: u32, node: Pfn) -> Walk {
        let mut walk = Walk { addrs: ArrayVec::new(), top: level, end: WalkEnd::Empty { level } };
        walk.end = Self::descend(memory, vpn, WalkStart { level, node }, |addr| walk.addrs.push(addr));
        walk
    }

    /// Goes down to the entry that maps `vpn`, or to the empty one in its place; `read` hears of every entry on the way.
    #[inline(always)]
    fn descend(
        memory: &impl TableWords,
        vpn: Vpn,
        WalkStart { mut level, mut node }: WalkStart,
        mut read: impl FnMut(PhysAddr),
    ) -> WalkEnd {
        loop {
            let addr = Self::entry_addr(node, vpn, level);
            read(addr);
            match G::decode(Self::read(memory, addr, level), level) {
                Entry::Empty => return WalkEnd::Empty { level },
                Entry::Leaf(leaf) => return WalkEnd::Leaf { leaf, level },
                Entry::Table(next) => {
                    debug_assert!(level > 0, "a table entry at level 0 at {addr}");
                    node = next;
                    level -= 1;
                }
            }
        }
    }

    /// Returns the address of the entry that maps `vpn`, or of the empty one in its place, and what a walk finds there. It costs less
    /// than a walk, which notes its way.
    #[inline]
    pub(super) fn end_of_walk(&self, memory: &impl TableWords, vpn: Vpn) -> (PhysAddr, WalkEnd) {
        let mut last = PhysAddr(0);
        let end = Self::descend(memory, vpn, self.start(), |addr| last = addr);
        (last, end)
    }

    /// Replaces the entry of a page, at an address where [`end_of_walk`](Self::end_of_walk) found it.
    #[inline]
    pub(super) fn write_leaf(memory: &mut impl TableMemory, addr: PhysAddr, level: u32, leaf: Leaf) {
        Self::write(memory, addr, level, G::leaf(leaf, level));
    }

    fn new_node(&mut self, store: &mut impl TableStore) -> Result<Pfn, NoChunk> {
        let node = store.allocate(G::NODE_BYTES)?.frame();
        (0..G::NODE_BYTES / PAGE_BYTES).for_each(|at| store.zero_frame(node.add(at)));
        self.nodes += 1;
        Ok(node)
    }

    fn free_node(&mut self, node: Pfn, store: &mut impl TableStore) {
        (0..G::NODE_BYTES / PAGE_BYTES).for_each(|at| store.release_frame(node.add(at)));
        store.free(node.addr(), G::NODE_BYTES);
        self.nodes = self.nodes.wrapping_sub(1);
    }

    /// Frees a node and all below it.
    fn free_below(&mut self, node: Pfn, level: u32, store: &mut impl TableStore) {
        for index in 0..if level == 0 { 0 } else { 1 << G::index_bits(level) } {
            let addr = node.addr().add(index << G::entry_shift(level));
            if let Entry::Table(next) = G::decode(Self::read(store, addr, level), level) {
                self.free_below(next, level - 1, store);
            }
        }
        self.free_node(node, store);
    }

    /// Returns the address of the entry of `vpn` at `level`. Tables on the way to it are made, and a larger page that
    /// is in the way becomes smaller ones, so that the entry stands for these pages alone.
    ///
    /// # Errors
    ///
    /// There is no memory for a table; those that were made stay.
    pub fn entry(&mut self, store: &mut impl TableStore, vpn: Vpn, level: u32) -> Result<PhysAddr, NoChunk> {
        let mut node = self.root;
        for above in (level + 1..self.levels).rev() {
            let addr = Self::entry_addr(node, vpn, above);
            node = match G::decode(Self::read(store, addr, above), above) {
                Entry::Table(next) => next,
                Entry::Leaf(leaf) => self.split_leaf(store, addr, leaf, above)?,
                Entry::Empty => {
                    let next = self.new_node(store)?;
                    store.write(addr, G::table(next));
                    next
                }
            };
        }
        Ok(Self::entry_addr(node, vpn, level))
    }

    /// Puts a table of the next smaller pages where a page was.
    fn split_leaf(
        &mut self,
        store: &mut impl TableStore,
        addr: PhysAddr,
        leaf: Leaf,
        level: u32,
    ) -> Result<Pfn, NoChunk> {
        let below = level - 1;
        let node = self.new_node(store)?;
        for index in 0..1 << G::index_bits(below) {
            let piece = Leaf { frame: leaf.frame.add(index * G::leaf_pages(below)), ..leaf };
            let at = node.addr().add(index << G::entry_shift(below));
            Self::write_leaf(store, at, below, piece);
        }
        store.write(addr, G::table(node));
        Ok(node)
    }

    /// Visits the entries of one node; tells whether the node is empty afterwards.
    fn visit_node(
        &mut self,
        store: &mut impl TableStore,
        node: Pfn,
        level: u32,
        (start, end): (Vpn, Vpn),
        visit: &mut dyn FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
        freed: &mut bool,
    ) -> bool {
        let step = G::leaf_pages(level);
        let mut changed = false;
        let mut vpn = Vpn(start.0 / step * step);
        while vpn < end {
            let addr = Self::entry_addr(node, vpn, level);
            let next = Vpn(vpn.0 + step);
            match G::decode(Self::read(store, addr, level), level) {
                Entry::Empty => {}
                Entry::Leaf(leaf) => match visit(vpn, leaf, level) {
                    Some(kept) if kept == leaf => {}
                    Some(kept) => Self::write_leaf(store, addr, level, kept),
                    None => {
                        Self::write(store, addr, level, 0);
                        changed = true;
                    }
                },
                Entry::Table(child) => {
                    let part = (start.max(vpn), end.min(next));
                    if self.visit_node(store, child, level - 1, part, visit, freed) {
                        store.write(addr, 0);
                        self.free_node(child, store);
                        (changed, *freed) = (true, true);
                    }
                }
            }
            vpn = next;
        }
        changed && Self::is_empty_node(store, node, level)
    }

    fn is_empty_node(memory: &impl TableWords, node: Pfn, level: u32) -> bool {
        (0..1 << G::index_bits(level)).all(|index: u64| {
            let addr = node.addr().add(index << G::entry_shift(level));
            G::decode(Self::read(memory, addr, level), level) == Entry::Empty
        })
    }
}

impl<G: Geometry + Send> PageTable for Radix<G> {
    type Design = Levels;
    type Caches = WalkCache;
    type Walk = Walk;

    const GRANULE: Granule = G::GRANULE;
    const MAX_LEAF_LEVEL: u32 = G::MAX_LEAF_LEVEL;
    const IS_COMPRESSED: bool = G::IS_COMPRESSED;

    fn levels(&Levels(levels): &Levels) -> u32 {
        levels
    }

    /// # Panics
    ///
    /// If no radix table has so many levels.
    fn new(&Levels(levels): &Levels, _seed: u64, store: &mut impl TableStore) -> Result<Self, NoChunk> {
        assert!((1..=MOST_LEVELS as u32).contains(&levels), "a radix table of {levels} levels");
        let mut table = Self { root: Pfn(0), levels, nodes: 0, geometry: PhantomData };
        table.root = table.new_node(store)?;
        Ok(table)
    }

    #[inline(always)]
    fn walk(
        &self,
        memory: &impl TableMemory,
        asid: Asid,
        vpn: Vpn,
        mut caches: Option<&mut WalkCache>,
    ) -> Walk {
        let start = caches.as_deref_mut().and_then(|cache| cache.lookup(asid, vpn));
        let WalkStart { level, node } = start.unwrap_or_else(|| self.start());
        let walk = self.walk_from(memory, vpn, level, node);
        if let Some(cache) = caches {
            cache.fill(asid, vpn, &walk);
        }
        walk
    }

    /// Returns the translations that a mosaic walk finds in the table of contents. The pages lie in one level-0 node.
    #[inline]
    fn leaf_run(
        &self,
        memory: &impl RunMemory,
        walk: &Walk,
        base: Vpn,
        pages: usize,
    ) -> impl Iterator<Item = Option<Leaf>> {
        let last = walk.last();
        debug_assert!(last.level == 0 && G::index(base, 0) + pages as u64 <= 1 << G::index_bits(0));
        let first = Self::entry_addr(PhysAddr(last.addr.0 & !(G::NODE_BYTES - 1)).frame(), base, 0);
        let step = 1 << G::entry_shift(0);
        let whole = PhysAddr(first.0 & !7);
        let words = memory.read_run(whole, ((first.0 - whole.0) as usize + pages * step).div_ceil(8));
        (0..pages).map(move |page| {
            let addr = first.add((page * step) as u64);
            let raw = field(words[(addr.0 - whole.0) as usize / 8], addr, G::entry_shift(0));
            match G::decode(raw, 0) {
                Entry::Leaf(leaf) => Some(leaf),
                _ => None,
            }
        })
    }

    fn find(&self, memory: &impl TableMemory, vpn: Vpn) -> Option<(Leaf, u32)> {
        match self.end_of_walk(memory, vpn).1 {
            WalkEnd::Leaf { leaf, level } => Some((leaf, level)),
            WalkEnd::Empty { .. } => None,
        }
    }

    fn is_vacant(&self, memory: &impl TableMemory, vpn: Vpn, level: u32) -> bool {
        matches!(self.end_of_walk(memory, vpn).1, WalkEnd::Empty { level: at } if at >= level)
    }

    /// Nodes that were made before a failure stay, empty and accounted for.
    fn map(
        &mut self,
        store: &mut impl TableStore,
        vpn: Vpn,
        leaf: Leaf,
        level: u32,
    ) -> Result<Option<NoChunk>, MapError> {
        let pages = G::leaf_pages(level);
        assert!(level <= G::MAX_LEAF_LEVEL && level < self.levels, "no leaf at level {level}");
        assert!(
            vpn.0.is_multiple_of(pages) && leaf.frame.0.is_multiple_of(pages),
            "{vpn} or {} is unaligned",
            leaf.frame
        );
        assert!(vpn < self.end(), "{vpn} is beyond the table's {} levels", self.levels);
        let mut node = self.root;
        for above in (level + 1..self.levels).rev() {
            let addr = Self::entry_addr(node, vpn, above);
            node = match G::decode(Self::read(store, addr, above), above) {
                Entry::Table(next) => next,
                Entry::Leaf(_) => return Err(MapError::Occupied { vpn }),
                Entry::Empty => {
                    let next = self.new_node(store)?;
                    store.write(addr, G::table(next));
                    next
                }
            };
        }
        let addr = Self::entry_addr(node, vpn, level);
        if G::decode(Self::read(store, addr, level), level) != Entry::Empty {
            return Err(MapError::Occupied { vpn });
        }
        Self::write_leaf(store, addr, level, leaf);
        Ok(None)
    }

    fn update(
        &mut self,
        memory: &mut impl TableMemory,
        vpn: Vpn,
        change: impl FnOnce(&mut Leaf),
    ) -> Option<(Leaf, u32)> {
        let (addr, WalkEnd::Leaf { leaf, level }) = self.end_of_walk(memory, vpn) else { return None };
        let mut changed = leaf;
        change(&mut changed);
        if changed != leaf {
            Self::write_leaf(memory, addr, level, changed);
        }
        Some((leaf, level))
    }

    /// Nodes that become empty are given back.
    fn visit(
        &mut self,
        store: &mut impl TableStore,
        start: Vpn,
        end: Vpn,
        mut visit: impl FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
    ) -> bool {
        let (end, mut freed) = (end.min(self.end()), false);
        if start < end {
            let root = self.root;
            self.visit_node(store, root, self.levels - 1, (start, end), &mut visit, &mut freed);
        }
        freed
    }

    fn split(&mut self, store: &mut impl TableStore, vpn: Vpn) -> Result<bool, MapError> {
        let (addr, WalkEnd::Leaf { leaf, level: level @ 1.. }) = self.end_of_walk(store, vpn) else {
            return Ok(false);
        };
        self.split_leaf(store, addr, leaf, level)?;
        Ok(true)
    }

    fn release(mut self, store: &mut impl TableStore) {
        self.free_below(self.root, self.levels - 1, store);
    }
}

impl WalkOutcome for Walk {
    #[inline(always)]
    fn end(&self) -> WalkEnd {
        self.end
    }

    #[inline(always)]
    fn reads(&self) -> impl Iterator<Item = WalkRead> {
        let read = |WalkReference { addr, level }| WalkRead { addr, level, waits: Waits::InTurn };
        self.references().map(read)
    }
}

/// The entry of `1 << entry_shift` bytes at `addr`, out of the word around it.
#[inline]
fn field(word: u64, addr: PhysAddr, entry_shift: u32) -> u64 {
    if entry_shift == 3 {
        return word;
    }
    word >> (8 * (addr.0 & 7)) & ((1 << (8 << entry_shift)) - 1)
}
