//! Tables of contents, with the ordinary table beside them.

use super::cuckoo::NoChunk;
use super::{
    Leaf, Levels, MapError, PageTable, Radix, RunMemory, TableMemory, TableStore, Walk, WalkCache, WalkEnd,
    WalkOutcome, WalkRead, X86_64, X86_64Toc,
};
use crate::addr::{Asid, Pfn, Vpn};

/// A page table whose leaf entries are codes of hash-placed frames (Mosaic Pages).
///
/// A code says nothing of a frame that was not placed by hashing: the entry of such a page only says that its frame is an
/// ordinary one, and a conventional table beside names it. Both tables change together. A walk to such a page reads the
/// tables of contents first and then the other table, from its root.
#[derive(Clone, Debug)]
pub struct Contents {
    codes: Radix<X86_64Toc>,
    ordinary: Radix<X86_64>,
}

/// Both tables are as x86-64's.
const LEVELS: Levels = Levels(4);

/// The walk to a page: in the tables of contents, and in the table beside if the page has an ordinary frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentsWalk {
    codes: Walk,
    ordinary: Option<Walk>,
}

impl Contents {
    /// Returns the leaf with the frame that the page has, whichever table names it.
    fn whole(&self, memory: &impl TableMemory, vpn: Vpn, leaf: Leaf) -> Leaf {
        match leaf.frame.code() {
            Some(_) => leaf,
            None => Leaf { frame: frame_at(self.ordinary.end_of_walk(memory, vpn).1), ..leaf },
        }
    }
}

/// Returns the frame at the end of a walk of the ordinary table.
#[inline(always)]
fn frame_at(end: WalkEnd) -> Pfn {
    match end {
        WalkEnd::Leaf { leaf, .. } => leaf.frame,
        WalkEnd::Empty { .. } => unreachable!("an entry says that its page has an ordinary frame"),
    }
}

impl PageTable for Contents {
    type Design = ();
    type Caches = WalkCache;
    type Walk = ContentsWalk;

    const MAX_LEAF_LEVEL: u32 = Radix::<X86_64Toc>::MAX_LEAF_LEVEL;
    const IS_COMPRESSED: bool = true;

    fn levels(_: &()) -> u32 {
        LEVELS.0
    }

    fn new(_: &(), seed: u64, store: &mut impl TableStore) -> Result<Self, NoChunk> {
        Ok(Self { codes: Radix::new(&LEVELS, seed, store)?, ordinary: Radix::new(&LEVELS, seed, store)? })
    }

    #[inline(always)]
    fn walk(
        &self,
        memory: &impl TableMemory,
        asid: Asid,
        vpn: Vpn,
        caches: Option<&mut WalkCache>,
    ) -> ContentsWalk {
        let codes = self.codes.walk(memory, asid, vpn, caches);
        let ordinary = match codes.end {
            WalkEnd::Leaf { leaf, .. } if leaf.frame.code().is_none() => {
                Some(self.ordinary.walk_root(memory, vpn))
            }
            _ => None,
        };
        ContentsWalk { codes, ordinary }
    }

    /// Pages with ordinary frames are left out: their frames are not in what the walk read.
    #[inline]
    fn leaf_run(
        &self,
        memory: &impl RunMemory,
        walk: &ContentsWalk,
        base: Vpn,
        pages: usize,
    ) -> impl Iterator<Item = Option<Leaf>> {
        let leaves = self.codes.leaf_run(memory, &walk.codes, base, pages);
        leaves.map(|leaf| leaf.filter(|leaf| leaf.frame.code().is_some()))
    }

    fn find(&self, memory: &impl TableMemory, vpn: Vpn) -> Option<(Leaf, u32)> {
        let (leaf, level) = self.codes.find(memory, vpn)?;
        Some((self.whole(memory, vpn, leaf), level))
    }

    fn is_vacant(&self, memory: &impl TableMemory, vpn: Vpn, level: u32) -> bool {
        self.codes.is_vacant(memory, vpn, level)
    }

    fn map(
        &mut self,
        store: &mut impl TableStore,
        vpn: Vpn,
        leaf: Leaf,
        level: u32,
    ) -> Result<Option<NoChunk>, MapError> {
        let mapped = self.codes.map(store, vpn, leaf, level)?;
        match leaf.frame.code() {
            Some(_) => Ok(mapped),
            None => self.ordinary.map(store, vpn, leaf, level),
        }
    }

    fn update(
        &mut self,
        memory: &mut impl TableMemory,
        vpn: Vpn,
        change: impl FnOnce(&mut Leaf),
    ) -> Option<(Leaf, u32)> {
        let (addr, WalkEnd::Leaf { leaf, level }) = self.codes.end_of_walk(memory, vpn) else { return None };
        let before = self.whole(memory, vpn, leaf);
        let mut changed = before;
        change(&mut changed);
        debug_assert_eq!(
            before.frame.code().is_some(),
            changed.frame.code().is_some(),
            "{vpn} would belong into the other table"
        );
        if changed == before {
            return Some((before, level));
        }
        Radix::<X86_64Toc>::write_leaf(memory, addr, level, changed);
        if changed.frame.code().is_none() {
            self.ordinary.update(memory, vpn, |leaf| *leaf = changed);
        }
        Some((before, level))
    }

    fn visit(
        &mut self,
        store: &mut impl TableStore,
        start: Vpn,
        end: Vpn,
        mut visit: impl FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
    ) -> bool {
        // Both tables are visited in the order of pages.
        let mut frames = Vec::new();
        self.ordinary.visit(store, start, end, |_, leaf, _| {
            frames.push(leaf.frame);
            Some(leaf)
        });
        let (mut frames, mut changed) = (frames.into_iter(), Vec::new());
        let mut freed = self.codes.visit(store, start, end, |vpn, leaf, level| {
            if leaf.frame.code().is_some() {
                return visit(vpn, leaf, level);
            }
            let frame = frames.next().expect("a page without a code has an ordinary frame");
            changed.push(visit(vpn, Leaf { frame, ..leaf }, level));
            changed[changed.len() - 1]
        });
        let mut changed = changed.into_iter();
        let next = |_, _, _| changed.next().expect("as many pages as before");
        freed |= self.ordinary.visit(store, start, end, next);
        freed
    }

    fn split(&mut self, store: &mut impl TableStore, vpn: Vpn) -> Result<bool, MapError> {
        self.codes.split(store, vpn)
    }

    fn release(self, store: &mut impl TableStore) {
        self.codes.release(store);
        self.ordinary.release(store);
    }
}

impl WalkOutcome for ContentsWalk {
    #[inline(always)]
    fn end(&self) -> WalkEnd {
        match (self.codes.end, &self.ordinary) {
            (WalkEnd::Leaf { leaf, level }, Some(walk)) => {
                WalkEnd::Leaf { leaf: Leaf { frame: frame_at(walk.end), ..leaf }, level }
            }
            (end, _) => end,
        }
    }

    #[inline(always)]
    fn reads(&self) -> impl Iterator<Item = WalkRead> {
        self.codes.reads()
    }

    #[inline(always)]
    fn second(&self) -> Option<&Walk> {
        self.ordinary.as_ref()
    }
}
