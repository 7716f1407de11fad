//! The persistent page table: which frame holds which page of the store's address space, and the swap of two ranges.
//!
//! Four levels as the hardware's have, and everything in it is relative: pages count from the beginning of the store's
//! address space, frames from that of its memory. There is one table for all processes; what a process has mapped is a cache of
//! it. Source: Li et al., "ctFS: Replacing File Indexing with Hardware Memory Translation through Contiguous File Allocation
//! for Persistent Memory", ;login: 2022; the format of entries is ours.

use std::ops::{ControlFlow, Range};

use super::error::StoreError;
use super::memory::{PersistentMemory, Remapped};
use super::store::{Store, Transaction, root, root_place};
use crate::addr::Pfn;
use crate::addr::{PhysAddr, Vpn};
use crate::table::{Entry, Geometry, Leaf, Levels, PageTable, Radix, TableWords, WalkEnd};

/// The format of the persistent page table.
///
/// ```text
///  63                                 12 11     2  1  0
/// +-------------------------------------+--------+--+--+
/// |             frame number            |   0    |PG| P|
/// +-------------------------------------+--------+--+--+
/// ```
///
/// `PG` marks a page, of 4 KiB or 2 MiB by its level; an entry without it is a table's.
#[derive(Clone, Copy, Debug)]
pub enum Persistent {}

const PRESENT: u64 = 1;
const PAGE: u64 = 2;

impl Persistent {
    /// The levels of the table.
    pub(super) const LEVELS: u32 = 4;
}

impl Geometry for Persistent {
    const MAX_LEAF_LEVEL: u32 = 1;

    #[inline]
    fn table(frame: Pfn) -> u64 {
        frame.addr().0 | PRESENT
    }

    #[inline]
    fn leaf(leaf: Leaf, _: u32) -> u64 {
        leaf.frame.addr().0 | PRESENT | PAGE
    }

    #[inline]
    fn decode(raw: u64, level: u32) -> Entry {
        match (raw & PRESENT != 0, raw & PAGE != 0) {
            (false, _) => Entry::Empty,
            (true, true) if level <= Self::MAX_LEAF_LEVEL => Entry::Leaf(Leaf::data(PhysAddr(raw).frame())),
            (true, false) if level > 0 => Entry::Table(PhysAddr(raw).frame()),
            // Damaged: nothing that could be followed.
            (true, _) => Entry::Empty,
        }
    }
}

/// The first page beyond the address space: 512 partitions of 512 GiB.
pub const SPACE_END: Vpn = Vpn(1 << 36);
/// Words of the log that unmapping 2 MiB takes at most: an entry and a bit in another word for each page, and the tables'.
const MOST_WORDS_OF_A_CHUNK: u64 = 1_100;
const CHUNK_PAGES: u64 = 512;
/// Entries of a table.
const ENTRIES: u64 = 512;

/// Entries that a swap exchanged, by level: of 4 KiB, of 2 MiB, of 1 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwapCounts(pub [u64; 3]);

impl SwapCounts {
    /// Returns the number of swaps of all kinds together.
    pub fn total(self) -> u64 {
        self.0.iter().sum()
    }
}

/// A page that the table maps, with its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedPage {
    /// The frame that holds the page.
    pub frame: Pfn,
    /// Whether it is a part of a page of 2 MiB.
    pub large: bool,
}

/// The highest level whose entries can take part at this place of a swap.
fn swap_level(a: Vpn, b: Vpn, pages: u64) -> u32 {
    let fits = |level: &u32| {
        let reach = Persistent::leaf_pages(*level);
        a.0.is_multiple_of(reach) && b.0.is_multiple_of(reach) && pages >= reach
    };
    (0..3).rev().find(fits).expect("pages are aligned to themselves")
}

fn table_of(root: Pfn) -> Radix<Persistent> {
    Radix::of_root(root, Levels(Persistent::LEVELS))
}

fn find(table: Radix<Persistent>, words: &impl TableWords, page: Vpn) -> Result<MappedPage, u64> {
    debug_assert!(page < SPACE_END, "{page}");
    match table.walk_root(words, page).end {
        WalkEnd::Leaf { leaf, level } => {
            let inside = page.0 & (Persistent::leaf_pages(level) - 1);
            Ok(MappedPage { frame: leaf.frame.add(inside), large: level > 0 })
        }
        WalkEnd::Empty { level } => Err(Persistent::leaf_pages(level)),
    }
}

/// The page table of the store that lies in a memory, to read. The reader must make sure that no other thread changes
/// the table meanwhile.
#[derive(Debug)]
pub struct Pages<'a, M>(pub &'a M);

impl<M> Clone for Pages<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Pages<'_, M> {}

impl<M: PersistentMemory> TableWords for Pages<'_, M> {
    /// The word at an aligned address; 0 beyond the end.
    #[inline]
    fn read(&self, addr: PhysAddr) -> u64 {
        if addr.0 < self.0.bytes() { self.0.load(addr.0) } else { 0 }
    }
}

impl<M: PersistentMemory> Pages<'_, M> {
    pub(super) fn table(self) -> Radix<Persistent> {
        table_of(Pfn(self.0.load(root_place(root::TABLE))))
    }

    /// Returns the frame of a page, if the page is mapped.
    #[inline]
    pub fn find(self, page: Vpn) -> Option<MappedPage> {
        self.find_or_gap(page).ok()
    }

    /// Returns the frame of a page like [`Pages::find`], or for how many pages from an aligned place on there is
    /// none.
    #[inline]
    pub fn find_or_gap(self, page: Vpn) -> Result<MappedPage, u64> {
        find(self.table(), &self, page)
    }

    /// Visits what lies in a range of pages, in the order of addresses, until the visitor breaks: the pages of each entry, cut to the
    /// range, and the first one's frame, or none where nothing is mapped. Every table is read once, an entry after the other, and
    /// what an empty entry stands for is one piece, so that the time is that of the entries that there are.
    pub fn scan<B>(
        self,
        pages: Range<Vpn>,
        visit: &mut impl FnMut(Range<Vpn>, Option<Pfn>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.scan_node(self.table().root(), Persistent::LEVELS - 1, &pages, visit)
    }

    fn scan_node<B>(
        self,
        node: Pfn,
        level: u32,
        pages: &Range<Vpn>,
        visit: &mut impl FnMut(Range<Vpn>, Option<Pfn>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let reach = Persistent::leaf_pages(level);
        let mut at = pages.start;
        while at < pages.end {
            let entry = Vpn(at.0 / reach * reach);
            let part = at..Vpn(entry.0 + reach).min(pages.end);
            at = part.end;
            let place = node.addr().add(8 * (entry.0 / reach % ENTRIES));
            match Persistent::decode(self.read(place), level) {
                Entry::Empty => visit(part, None)?,
                Entry::Leaf(leaf) => {
                    let first = leaf.frame.add(part.start.0 - entry.0);
                    visit(part, Some(first))?;
                }
                Entry::Table(next) => self.scan_node(next, level - 1, &part, visit)?,
            }
        }
        ControlFlow::Continue(())
    }
}

impl<M: PersistentMemory> Store<M> {
    /// Returns the page table, to read.
    #[inline]
    pub fn pages(&self) -> Pages<'_, M> {
        Pages(self.memory())
    }

    /// Returns the frame of a page, if the page is mapped.
    #[inline]
    pub fn find(&self, page: Vpn) -> Option<MappedPage> {
        self.pages().find(page)
    }

    /// Returns the frame of a page like [`Self::find`], or for how many pages from an aligned place on there is none.
    pub fn find_or_gap(&self, page: Vpn) -> Result<MappedPage, u64> {
        self.pages().find_or_gap(page)
    }

    /// Swaps what two ranges of pages are mapped to: for both or for neither, whatever happens. With a `flag`, the word at
    /// that address is 1 afterwards if they were swapped and 0 if not, whatever it was.
    ///
    /// # Errors
    ///
    /// Nothing has been swapped: the ranges overlap or lie outside, or there is no memory for a table.
    pub fn swap(&mut self, a: Vpn, b: Vpn, pages: u64, flag: Option<u64>) -> Result<SwapCounts, StoreError> {
        if let Some(flag) = flag {
            self.settle();
            self.memory().store(flag, 0);
            self.memory().flush(flag, 8);
            self.memory().fence();
        }
        let mut transaction = self.begin();
        let counts = transaction.swap(a, b, pages)?;
        if let Some(flag) = flag {
            transaction.set(flag, 1);
        }
        transaction.commit()?;
        Ok(counts)
    }
}

impl<M: PersistentMemory> Transaction<'_, M> {
    pub(super) fn table(&self) -> Radix<Persistent> {
        table_of(self.table_root())
    }

    /// Returns the frame of a page, if the page is mapped.
    pub fn find(&self, page: Vpn) -> Option<MappedPage> {
        find(self.table(), self, page).ok()
    }

    /// Returns the frame of a page like [`Self::find`], or for how many pages from an aligned place on there is none.
    pub fn find_or_gap(&self, page: Vpn) -> Result<MappedPage, u64> {
        find(self.table(), self, page)
    }

    /// Maps a page that is not mapped, of 2 MiB if it is to be a large one.
    ///
    /// # Errors
    ///
    /// There is no memory for a table.
    ///
    /// # Panics
    ///
    /// Something is mapped there, or the page is not aligned.
    pub fn map(&mut self, page: Vpn, frame: Pfn, large: bool) -> Result<(), StoreError> {
        let mut table = self.table();
        match table.map(self, page, Leaf::data(frame), u32::from(large)) {
            Ok(_) => {
                let pages = Persistent::leaf_pages(u32::from(large));
                self.remapped.push(Remapped::Changed { first: page, pages });
                self.net_pages += pages as i64;
                Ok(())
            }
            Err(crate::table::MapError::NoMemory(missing)) => Err(missing.into()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Lets the page of 2 MiB that a page lies in fall apart into small ones, in the same frames.
    ///
    /// # Errors
    ///
    /// There is no frame for their table.
    pub fn split(&mut self, page: Vpn) -> Result<(), StoreError> {
        let chunk = Vpn(page.0 / CHUNK_PAGES * CHUNK_PAGES);
        self.table().entry(self, page, 0)?;
        self.remapped.push(Remapped::Changed { first: chunk, pages: CHUNK_PAGES });
        Ok(())
    }

    /// Keeps those pages of a page of 2 MiB that lie before `page`, as small ones in the same frames, and gives the frames from `page` on
    /// back. Where no frame is free for the table of the small pages, the table lies in the last of those frames, so that a full
    /// store can do this, too: what those frames hold must not matter any more. Without a page of 2 MiB there, nothing changes.
    ///
    /// # Errors
    ///
    /// The page table is damaged.
    pub fn cut_large(&mut self, page: Vpn) -> Result<(), StoreError> {
        let kept = page.0 % CHUNK_PAGES;
        let chunk = Vpn(page.0 - kept);
        let Some(MappedPage { frame, large: true }) = self.find(chunk).filter(|_| kept > 0) else {
            return Ok(());
        };
        let entry = self.table().entry(self, chunk, 1)?;
        let (node, given) = match self.take_frames(0) {
            Ok(node) => (node, CHUNK_PAGES),
            Err(_) => (frame.add(CHUNK_PAGES - 1), CHUNK_PAGES - 1),
        };
        // Not by the log: no walk reaches the table before the transaction counts.
        let memory = self.memory();
        memory.clear_frame(node);
        for number in 0..kept {
            let leaf = Persistent::leaf(Leaf::data(frame.add(number)), 0);
            memory.store(node.addr().0 + 8 * number, leaf);
        }
        memory.flush(node.addr().0, 8 * kept);
        self.set(entry.0, Persistent::table(node));
        self.give_frames(frame.add(kept), given - kept);
        self.net_pages -= (CHUNK_PAGES - kept) as i64;
        self.remapped.push(Remapped::Changed { first: chunk, pages: CHUNK_PAGES });
        Ok(())
    }

    /// Unmaps the pages that lie in the range whole, and gives their frames back, as far as the log has room; where it
    /// stopped. A page of 2 MiB of which only a part lies there stays.
    pub fn unmap(&mut self, start: Vpn, end: Vpn) -> Vpn {
        let mut table = self.table();
        let mut at = start;
        while at < end && self.room() > MOST_WORDS_OF_A_CHUNK {
            let chunk_end = Vpn((at.0 / CHUNK_PAGES + 1) * CHUNK_PAGES).min(end);
            match find(table.clone(), self, at) {
                // What is below such an entry is not mapped at all.
                Err(gap) if gap >= CHUNK_PAGES => at = Vpn((at.0 / gap + 1) * gap).min(end),
                _ => {
                    let mut given = Vec::new();
                    table.visit(self, at, chunk_end, |page, leaf, level| {
                        let pages = Persistent::leaf_pages(level);
                        if page < start || page.0 + pages > end.0 {
                            return Some(leaf);
                        }
                        given.push((leaf.frame, pages));
                        None
                    });
                    if !given.is_empty() {
                        self.remapped.push(Remapped::Changed { first: at, pages: chunk_end.0 - at.0 });
                    }
                    for (frame, pages) in given {
                        self.net_pages -= pages as i64;
                        self.give_frames(frame, pages);
                    }
                    at = chunk_end;
                }
            }
        }
        at
    }

    /// Swaps what two ranges of pages are mapped to, with as few entries as their alignment lets it.
    ///
    /// # Errors
    ///
    /// The ranges overlap or lie outside, or there is no memory for a table; the transaction is not to be committed then.
    pub fn swap(&mut self, a: Vpn, b: Vpn, pages: u64) -> Result<SwapCounts, StoreError> {
        let inside = |first: Vpn| first.0.checked_add(pages).is_some_and(|end| end <= SPACE_END.0);
        if !inside(a) || !inside(b) {
            return Err(StoreError::Range);
        }
        if a.0.abs_diff(b.0) < pages {
            return Err(StoreError::Overlap);
        }
        let mut counts = SwapCounts::default();
        let mut done = 0;
        while done < pages {
            let (x, y) = (Vpn(a.0 + done), Vpn(b.0 + done));
            let level = swap_level(x, y, pages - done);
            self.swap_entries(x, y, level)?;
            counts.0[level as usize] += 1;
            done += Persistent::leaf_pages(level);
        }
        self.remapped.push(Remapped::Swapped { a, b, pages });
        Ok(counts)
    }

    fn swap_entries(&mut self, a: Vpn, b: Vpn, level: u32) -> Result<(), StoreError> {
        let mut table = self.table();
        let reach = Persistent::leaf_pages(level);
        let is_vacant = |gap: Result<MappedPage, u64>| gap.is_err_and(|gap| gap >= reach);
        if is_vacant(find(table.clone(), self, a)) && is_vacant(find(table.clone(), self, b)) {
            return Ok(());
        }
        let (at_a, at_b) = (table.entry(self, a, level)?, table.entry(self, b, level)?);
        let (of_a, of_b) = (self.load(at_a.0), self.load(at_b.0));
        self.set(at_a.0, of_b);
        self.set(at_b.0, of_a);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_say_what_they_are() {
        for frame in [Pfn(1), Pfn((1 << 40) - 1)] {
            assert_eq!(Persistent::decode(Persistent::table(frame), 1), Entry::Table(frame));
            for level in [0, 1] {
                let leaf = Leaf::data(frame);
                assert_eq!(Persistent::decode(Persistent::leaf(leaf, level), level), Entry::Leaf(leaf));
            }
        }
        assert_eq!(Persistent::decode(0, 0), Entry::Empty);
        assert_eq!(Persistent::decode(PRESENT, 0), Entry::Empty, "no table at the lowest level");
        assert_eq!(Persistent::decode(PRESENT | PAGE, 2), Entry::Empty, "no page of 1 GiB");
        assert_eq!(Persistent::end(Levels(Persistent::LEVELS)), SPACE_END);
    }
}
