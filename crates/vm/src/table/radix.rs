//! The radix table and its walker, once for every geometry.

use std::marker::PhantomData;

use arrayvec::ArrayVec;

use super::{Entry, Geometry, Leaf, TableMemory, WalkStart};
use crate::addr::{Pfn, PhysAddr, Vpn};

/// A radix page table: one address space's root.
#[derive(Clone, Debug)]
pub struct Radix<G> {
    root: Pfn,
    nodes: u64,
    geometry: PhantomData<G>,
}

/// One address that a walk read, and at which level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkReference {
    /// Where the entry lies.
    pub addr: PhysAddr,
    /// The level of its table.
    pub level: u32,
    /// The table that the entry points to, if it does.
    pub next: Option<Pfn>,
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkEnd {
    /// At a page.
    Leaf {
        /// Its entry.
        leaf: Leaf,
        /// The level it was found at.
        level: u32,
    },
    /// At an empty entry: a page fault.
    Empty {
        /// The level of the empty entry.
        level: u32,
    },
}

/// What a walk did: the entries it read, one after the other, and where it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walk {
    /// In order; each depends on the one before.
    pub references: ArrayVec<WalkReference, 5>,
    /// The outcome.
    pub end: WalkEnd,
}

/// Why a page could not be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// A frame for a table node could not be had.
    #[error("out of frames for a page-table node at level {level}")]
    OutOfFrames {
        /// The level of the node.
        level: u32,
    },
    /// A page or a table is there already.
    #[error("page {vpn} is already mapped at level {level}")]
    Occupied {
        /// The page asked for.
        vpn: Vpn,
        /// The level of the entry in the way.
        level: u32,
    },
}

impl<G: Geometry> Radix<G> {
    /// An empty table whose root node is `root`, a frame of the table's own.
    pub fn new(root: Pfn, memory: &mut impl TableMemory) -> Self {
        memory.zero_frame(root);
        Self { root, nodes: 1, geometry: PhantomData }
    }

    /// The root node's frame.
    pub fn root(&self) -> Pfn {
        self.root
    }

    /// Nodes in use, root included; each is one frame.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    #[inline]
    fn entry_addr(node: Pfn, vpn: Vpn, level: u32) -> PhysAddr {
        node.addr().add(G::index(vpn, level) << G::entry_shift(level))
    }

    /// Reads the entry at `addr`, which may be a part of a word.
    #[inline]
    fn read(memory: &impl TableMemory, addr: PhysAddr, level: u32) -> u64 {
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

    /// Where a walk starts without walk caches: at the root.
    #[inline]
    pub fn start(&self) -> WalkStart {
        WalkStart { level: G::LEVELS - 1, node: self.root }
    }

    /// Walks from the root.
    pub fn walk(&self, memory: &impl TableMemory, vpn: Vpn) -> Walk {
        let WalkStart { level, node } = self.start();
        self.walk_from(memory, vpn, level, node)
    }

    /// Walks from `node`, a table at `level` on the path of `vpn`, as a walk cache gave it.
    #[inline(always)]
    pub fn walk_from(&self, memory: &impl TableMemory, vpn: Vpn, level: u32, node: Pfn) -> Walk {
        let mut references = ArrayVec::new();
        let (mut level, mut node) = (level, node);
        loop {
            let addr = Self::entry_addr(node, vpn, level);
            let entry = G::decode(Self::read(memory, addr, level), level);
            let next = if let Entry::Table(next) = entry { Some(next) } else { None };
            references.push(WalkReference { addr, level, next });
            match entry {
                Entry::Empty => return Walk { references, end: WalkEnd::Empty { level } },
                Entry::Leaf(leaf) => return Walk { references, end: WalkEnd::Leaf { leaf, level } },
                Entry::Table(next) => {
                    debug_assert!(level > 0, "a table entry at level 0 at {addr}");
                    node = next;
                    level -= 1;
                }
            }
        }
    }

    /// The leaf that maps `vpn` and its level.
    pub fn find(&self, memory: &impl TableMemory, vpn: Vpn) -> Option<(Leaf, u32)> {
        match self.walk(memory, vpn).end {
            WalkEnd::Leaf { leaf, level } => Some((leaf, level)),
            WalkEnd::Empty { .. } => None,
        }
    }

    /// Maps the page of `level` that starts at `vpn`. Missing nodes come from `new_node`; those made before a
    /// failure stay, empty and accounted for.
    ///
    /// # Errors
    ///
    /// [`MapError`]; nothing that was mapped changes.
    ///
    /// # Panics
    ///
    /// If `vpn` or the frame is not aligned to the level's page size, or lies beyond the geometry.
    pub fn map(
        &mut self,
        memory: &mut impl TableMemory,
        vpn: Vpn,
        leaf: Leaf,
        level: u32,
        mut new_node: impl FnMut() -> Option<Pfn>,
    ) -> Result<(), MapError> {
        let pages = G::leaf_pages(level);
        assert!(level <= G::MAX_LEAF_LEVEL, "no leaf at level {level}");
        assert!(
            vpn.0.is_multiple_of(pages) && leaf.frame.0.is_multiple_of(pages),
            "{vpn} or {} is unaligned",
            leaf.frame
        );
        assert!(vpn < G::end(), "{vpn} is beyond the table's {} levels", G::LEVELS);
        let mut node = self.root;
        for above in (level + 1..G::LEVELS).rev() {
            let addr = Self::entry_addr(node, vpn, above);
            node = match G::decode(Self::read(memory, addr, above), above) {
                Entry::Table(next) => next,
                Entry::Leaf(_) => return Err(MapError::Occupied { vpn, level: above }),
                Entry::Empty => {
                    let next = new_node().ok_or(MapError::OutOfFrames { level: above - 1 })?;
                    memory.zero_frame(next);
                    memory.write(addr, G::table(next));
                    self.nodes += 1;
                    next
                }
            };
        }
        let addr = Self::entry_addr(node, vpn, level);
        if G::decode(Self::read(memory, addr, level), level) != Entry::Empty {
            return Err(MapError::Occupied { vpn, level });
        }
        Self::write(memory, addr, level, G::leaf(leaf, level));
        Ok(())
    }

    /// Replaces the leaf that maps `vpn` by what `change` makes of it; returns the leaf before and its level.
    pub fn update(
        &mut self,
        memory: &mut impl TableMemory,
        vpn: Vpn,
        change: impl FnOnce(&mut Leaf),
    ) -> Option<(Leaf, u32)> {
        let walk = self.walk(memory, vpn);
        let WalkEnd::Leaf { leaf, level } = walk.end else { return None };
        let mut changed = leaf;
        change(&mut changed);
        if changed != leaf {
            let addr = walk.references[walk.references.len() - 1].addr;
            Self::write(memory, addr, level, G::leaf(changed, level));
        }
        Some((leaf, level))
    }

    /// Visits every leaf that overlaps pages `[start, end)`, in order; `visit` gets the leaf's first page, the
    /// leaf and its level, and may change it (`Some`) or unmap it (`None`). Nodes that become empty are handed
    /// to `free_node`.
    pub fn visit(
        &mut self,
        memory: &mut impl TableMemory,
        start: Vpn,
        end: Vpn,
        mut visit: impl FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
        mut free_node: impl FnMut(Pfn),
    ) {
        let end = end.min(G::end());
        if start < end {
            let root = self.root;
            self.visit_node(memory, root, G::LEVELS - 1, (start, end), &mut visit, &mut free_node);
        }
    }

    /// Visits the entries of one node; tells whether the node is empty afterwards.
    fn visit_node(
        &mut self,
        memory: &mut impl TableMemory,
        node: Pfn,
        level: u32,
        (start, end): (Vpn, Vpn),
        visit: &mut dyn FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
        free_node: &mut dyn FnMut(Pfn),
    ) -> bool {
        let step = G::leaf_pages(level);
        let mut changed = false;
        let mut vpn = Vpn(start.0 / step * step);
        while vpn < end {
            let addr = Self::entry_addr(node, vpn, level);
            let next = Vpn(vpn.0 + step);
            match G::decode(Self::read(memory, addr, level), level) {
                Entry::Empty => {}
                Entry::Leaf(leaf) => match visit(vpn, leaf, level) {
                    Some(kept) if kept == leaf => {}
                    Some(kept) => Self::write(memory, addr, level, G::leaf(kept, level)),
                    None => {
                        Self::write(memory, addr, level, 0);
                        changed = true;
                    }
                },
                Entry::Table(child) => {
                    let part = (start.max(vpn), end.min(next));
                    if self.visit_node(memory, child, level - 1, part, visit, free_node) {
                        memory.write(addr, 0);
                        memory.release_frame(child);
                        free_node(child);
                        self.nodes -= 1;
                        changed = true;
                    }
                }
            }
            vpn = next;
        }
        changed && Self::is_empty_node(memory, node, level)
    }

    fn is_empty_node(memory: &impl TableMemory, node: Pfn, level: u32) -> bool {
        (0..1 << G::index_bits(level)).all(|index: u64| {
            let addr = node.addr().add(index << G::entry_shift(level));
            G::decode(Self::read(memory, addr, level), level) == Entry::Empty
        })
    }

    /// Splits the large page that holds `vpn`, if there is one, into pages of the level below. Returns whether
    /// it did.
    ///
    /// # Errors
    ///
    /// [`MapError::OutOfFrames`] if `new_node` has no frame; nothing has changed then.
    pub fn split(
        &mut self,
        memory: &mut impl TableMemory,
        vpn: Vpn,
        new_node: impl FnOnce() -> Option<Pfn>,
    ) -> Result<bool, MapError> {
        let walk = self.walk(memory, vpn);
        let WalkEnd::Leaf { leaf, level: level @ 1.. } = walk.end else { return Ok(false) };
        let below = level - 1;
        let node = new_node().ok_or(MapError::OutOfFrames { level: below })?;
        memory.zero_frame(node);
        for index in 0..1 << G::index_bits(below) {
            let piece = Leaf { frame: leaf.frame.add(index * G::leaf_pages(below)), ..leaf };
            let addr = node.addr().add(index << G::entry_shift(below));
            Self::write(memory, addr, below, G::leaf(piece, below));
        }
        memory.write(walk.references[walk.references.len() - 1].addr, G::table(node));
        self.nodes += 1;
        Ok(true)
    }

    /// Whether nothing at all is mapped in the slot of a page of `level` that holds `vpn`, so that such a page
    /// could be mapped there.
    pub fn is_vacant(&self, memory: &impl TableMemory, vpn: Vpn, level: u32) -> bool {
        matches!(self.walk(memory, vpn).end, WalkEnd::Empty { level: at } if at >= level)
    }

    /// The leaves of the `pages` base pages from `base` on, which lie in one level-0 node: what a mosaic walk finds in
    /// the table of contents. `None` for pages that are not mapped.
    #[inline]
    pub fn leaf_run(
        &self,
        memory: &impl TableMemory,
        last: &WalkReference,
        base: Vpn,
        pages: usize,
    ) -> impl Iterator<Item = Option<Leaf>> {
        debug_assert!(last.level == 0 && G::index(base, 0) + pages as u64 <= 1 << G::index_bits(0));
        let first = Self::entry_addr(Pfn(last.addr.0 >> 12), base, 0);
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
}

/// The entry of `1 << entry_shift` bytes at `addr`, out of the word around it.
#[inline]
fn field(word: u64, addr: PhysAddr, entry_shift: u32) -> u64 {
    if entry_shift == 3 {
        return word;
    }
    word >> (8 * (addr.0 & 7)) & ((1 << (8 << entry_shift)) - 1)
}
