//! Hashed page tables: a process's three cuckoo tables, one for each page size, and the walk through them.
//!
//! A walk makes all its probes at once: one in each way of every page size that the page may have. What
//! the walk tables say of the page's neighbourhood, as far as the [walk caches](WalkCaches) know it, leaves
//! most of them out:
//!
//! | known | walk | probes (three ways) |
//! |---|---|---|
//! | nothing | complete | 9, or 6 without 1 GiB pages |
//! | PUD: no 1 GiB page here | partial | 6 |
//! | PMD: only 4 KiB pages | size | 3 |
//! | PMD: only a line of 2 MiB pages, and its way | direct | 1 |
//! | PMD: both | mixed | 4 |
//! | both: nothing here | fault | 0 |
//!
//! The tables are elastic or memory-efficient, as the [`Policy`] says; their chunks are found through the
//! [chunk table](L2p).

mod line;
mod page_table;
#[cfg(test)]
mod tests;
mod walk;
mod walk_table;

pub use line::{LINE_ENTRIES, Line};
pub use walk::{HashedWalk, Probe, WalkCaches, WalkKind};
pub use walk_table::SectionHeader;

use self::line::LINE_SHIFT;
use self::walk_table::WalkTable;
use super::cuckoo::{Cuckoo, CuckooCounts, LineHash, NoChunk, Policy, SlotRef, WayHashes};
use super::{ContiguousMemory, Entry, Geometry, HASHED_END, L2p, Leaf, MapError, OnePiece, Upkeep, X86_64};
use crate::addr::{PageSize, Vpn};

/// The parameters of a hashed page table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashedDesign {
    /// The policy by which tables grow and shrink.
    pub policy: Policy,
    /// The sizes of chunks that ways are made of, smallest first; empty if each is one piece.
    pub chunk_bytes: Vec<u64>,
    /// Whether the index is computed by CRC-64.
    pub crc: bool,
}

/// Ways that a header of a walk table can name.
const MOST_WAYS: usize = 4;

/// Hashes lines, and notes which of them have come into another way.
#[derive(Debug)]
struct Hashes {
    line: LineHash,
    /// Line and way, oldest first; for the page sizes that walk tables name the way of.
    placed: Option<Vec<(u64, usize)>>,
}

impl WayHashes for Hashes {
    #[inline]
    fn word(&self, key: u64) -> u64 {
        self.line.word(key)
    }

    #[inline]
    fn placed(&mut self, key: u64, way: usize) {
        if let Some(placed) = &mut self.placed {
            placed.push((key, way));
        }
    }
}

type Lines = Cuckoo<Line, Hashes>;

/// A process's hashed page table, for 48-bit addresses and x86-64 entries.
#[derive(Debug)]
pub struct HashedTable {
    design: HashedDesign,
    seed: u64,
    /// The table of each page size; that of 1 GiB pages comes with the first of them.
    tables: [Option<Lines>; 3],
    chunks: L2p,
    /// The walk tables of the sections of 2 MiB pages' lines, and of 1 GiB pages'.
    pmd: WalkTable,
    pud: WalkTable,
}

fn size_at(level: u32) -> PageSize {
    PageSize::from_level(level).expect("leaves stand at levels 0 to 2")
}

/// The line and the entry in it of a page.
#[inline]
fn split(vpn: Vpn, size: PageSize) -> (u64, usize) {
    let page = vpn.0 >> size.order();
    (page >> LINE_SHIFT, page as usize & (LINE_ENTRIES - 1))
}

/// Base pages, as a power of two, of a section of the two walk tables.
const PMD_SECTION: u32 = 9 + LINE_SHIFT;
const PUD_SECTION: u32 = 18 + LINE_SHIFT;

impl HashedTable {
    /// Creates an empty page table.
    ///
    /// # Errors
    ///
    /// There is no memory for the smallest tables.
    ///
    /// # Panics
    ///
    /// If the policy is impossible, or has more than four ways.
    pub fn new(
        design: &HashedDesign,
        seed: u64,
        memory: &mut impl ContiguousMemory,
    ) -> Result<Self, NoChunk> {
        assert!(design.policy.ways <= MOST_WAYS, "walk tables name one of {MOST_WAYS} ways");
        let pmd = WalkTable::new(seed ^ 0x10, memory)?;
        let pud = match WalkTable::new(seed ^ 0x20, memory) {
            Ok(pud) => pud,
            Err(error) => {
                pmd.release(memory);
                return Err(error);
            }
        };
        let chunks = L2p::new(&design.chunk_bytes);
        let tables = [None, None, None];
        let mut table = Self { design: design.clone(), seed, tables, chunks, pmd, pud };
        for size in [PageSize::Size4K, PageSize::Size2M] {
            if let Err(error) = table.add_table(size, memory) {
                table.release(memory);
                return Err(error);
            }
        }
        Ok(table)
    }

    fn add_table(&mut self, size: PageSize, memory: &mut impl ContiguousMemory) -> Result<(), NoChunk> {
        let seed = self.seed ^ size as u64;
        let line = if self.design.crc { LineHash::crc(seed) } else { LineHash::mixed(seed) };
        let hashes = Hashes { line, placed: (size != PageSize::Size4K).then(Vec::new) };
        let policy = self.design.policy;
        let made = Cuckoo::new(policy, hashes, seed, &mut self.chunks.source(size, memory))?;
        self.tables[size as usize] = Some(made);
        self.note(size);
        Ok(())
    }

    /// After a table has changed: its rows, and the ways of its lines.
    fn note(&mut self, size: PageSize) {
        let Some(table) = &mut self.tables[size as usize] else { return };
        for (way, (chunks, _)) in table.way_chunks().enumerate() {
            self.chunks.set(way, size, chunks);
        }
        let Some(placed) = &mut table.hashes_mut().placed else { return };
        let walk_table = if size == PageSize::Size2M { &mut self.pmd } else { &mut self.pud };
        // A line of these sizes is a section of its walk table.
        for (line, way) in placed.drain(..) {
            walk_table.set_line(line, Some(way));
        }
    }

    /// Returns the counts of the table of a page size; `None` before there is a table.
    pub fn counts(&self, size: PageSize) -> Option<&CuckooCounts> {
        self.tables[size as usize].as_ref().map(Cuckoo::counts)
    }

    /// Returns the table that says where the chunks of ways lie.
    pub fn chunks(&self) -> &L2p {
        &self.chunks
    }

    /// Returns the number of bytes of all tables now, walk tables included; of ways that move, of what they move to.
    pub fn bytes(&self) -> u64 {
        let slot = self.design.policy.slot_bytes;
        let tables =
            self.tables.iter().flatten().flat_map(Cuckoo::way_slots).map(|slots| slots as u64 * slot);
        tables.sum::<u64>() + self.pmd.bytes() + self.pud.bytes()
    }

    /// Returns the cost of growing and making room so far.
    pub fn upkeep(&self) -> Upkeep {
        let mut upkeep = Upkeep::default();
        for counts in self.tables.iter().flatten().map(Cuckoo::counts) {
            upkeep.visited += counts.visited;
            upkeep.moved += counts.inserted.sum + counts.rehashed.sum + counts.rehashed.items();
        }
        upkeep
    }

    /// Gives all memory back.
    pub fn release(self, memory: &mut impl ContiguousMemory) {
        for table in self.tables.into_iter().flatten() {
            // What a chunk is freed as does not depend on what it was part of.
            table.release(&mut OnePiece(memory));
        }
        self.pmd.release(memory);
        self.pud.release(memory);
    }

    #[inline]
    fn find_line(&self, size: PageSize, line: u64) -> Option<SlotRef> {
        self.tables[size as usize].as_ref()?.find(line, |_| true)
    }

    #[inline]
    fn line(&self, size: PageSize, line: u64) -> Option<&Line> {
        self.tables[size as usize].as_ref()?.get(self.find_line(size, line)?)
    }

    /// The leaf that maps `vpn` as a page of one size.
    #[inline]
    fn leaf(&self, vpn: Vpn, size: PageSize) -> Option<Leaf> {
        let (line, index) = split(vpn, size);
        decode(self.line(size, line)?.entry(index), size)
    }

    /// Returns the leaf that maps `vpn` and its level.
    pub fn find(&self, vpn: Vpn) -> Option<(Leaf, u32)> {
        PageSize::ALL.into_iter().find_map(|size| Some((self.leaf(vpn, size)?, size as u32)))
    }

    /// Returns whether nothing at all is mapped in the slot of a page of `level` that holds `vpn`.
    pub fn is_vacant(&self, vpn: Vpn, level: u32) -> bool {
        let size = size_at(level);
        let start = Vpn(vpn.0 >> size.order() << size.order());
        PageSize::ALL.into_iter().skip(level as usize).all(|size| self.leaf(vpn, size).is_none())
            && (level == 0 || self.first_leaf(start, Vpn(start.0 + (1 << size.order()))).is_none())
    }

    /// Maps the page of `level` that starts at `vpn`. [`NoChunk`] beside success: the table should have grown, and could
    /// not.
    ///
    /// # Errors
    ///
    /// [`MapError`]; nothing that was mapped changes.
    ///
    /// # Panics
    ///
    /// If `vpn` or the frame is not aligned to the level's page size.
    pub fn map(
        &mut self,
        vpn: Vpn,
        leaf: Leaf,
        level: u32,
        memory: &mut impl ContiguousMemory,
    ) -> Result<Option<NoChunk>, MapError> {
        let size = size_at(level);
        let pages = 1 << size.order();
        assert!(vpn.0.is_multiple_of(pages) && leaf.frame.0.is_multiple_of(pages), "{vpn} is unaligned");
        assert!(vpn < HASHED_END, "{vpn} is beyond 48 bits");
        let (number, index) = split(vpn, size);
        let raw = X86_64::leaf(leaf, level);
        if !self.is_vacant(vpn, level) {
            return Err(MapError::Occupied { vpn });
        }
        if let Some(at) = self.find_line(size, number) {
            let table = self.tables[size as usize].as_mut().expect("a line was found in it");
            table.get_mut(at).expect("it was found there").set(index, raw);
            return Ok(None);
        }
        self.add_line(size, Line::new(number, index, raw), memory)
    }

    fn add_line(
        &mut self,
        size: PageSize,
        line: Line,
        memory: &mut impl ContiguousMemory,
    ) -> Result<Option<NoChunk>, MapError> {
        if self.tables[size as usize].is_none() {
            self.add_table(size, memory)?;
        }
        let page = line.number() << LINE_SHIFT << size.order();
        let (pmd, pud) = (page >> PMD_SECTION, page >> PUD_SECTION);
        if size != PageSize::Size1G {
            self.pmd.reserve(pmd, memory)?;
        }
        self.pud.reserve(pud, memory)?;
        let table = self.tables[size as usize].as_mut().expect("added above");
        let inserted = table.insert(line, &mut self.chunks.source(size, memory));
        let was_empty = size != PageSize::Size1G && self.pmd.header(pmd).is_empty();
        self.note(size);
        let inserted = inserted.map_err(|rejected| {
            // Its own way may have been noted before it was given back.
            self.forget(size, line.number());
            rejected.reason
        })?;
        if size == PageSize::Size4K {
            self.pmd.count_smaller(pmd, true);
        }
        if was_empty {
            self.pud.count_smaller(pud, true);
        }
        Ok(inserted.stalled)
    }

    /// Takes the way of a line that is gone from the walk table of its size.
    fn forget(&mut self, size: PageSize, line: u64) {
        match size {
            PageSize::Size4K => {}
            PageSize::Size2M => self.pmd.set_line(line, None),
            PageSize::Size1G => self.pud.set_line(line, None),
            _ => unreachable!("a hashed table has no pages of {size}"),
        }
    }

    fn remove_line(&mut self, size: PageSize, number: u64, memory: &mut impl ContiguousMemory) {
        let at = self.find_line(size, number).expect("a line that is removed is there");
        let table = self.tables[size as usize].as_mut().expect("a line was found in it");
        let removed = table.remove(at, &mut self.chunks.source(size, memory));
        debug_assert!(removed.is_some());
        self.note(size);
        self.forget(size, number);
        let page = number << LINE_SHIFT << size.order();
        let (pmd, pud) = (page >> PMD_SECTION, page >> PUD_SECTION);
        if size == PageSize::Size4K {
            self.pmd.count_smaller(pmd, false);
        }
        if size != PageSize::Size1G && self.pmd.header(pmd).is_empty() {
            self.pud.count_smaller(pud, false);
        }
    }

    /// Replaces the leaf that maps `vpn` by what `change` makes of it; returns the leaf before and its level.
    pub fn update(&mut self, vpn: Vpn, change: impl FnOnce(&mut Leaf)) -> Option<(Leaf, u32)> {
        let (leaf, level) = self.find(vpn)?;
        let mut changed = leaf;
        change(&mut changed);
        if changed != leaf {
            let size = size_at(level);
            let (number, index) = split(vpn, size);
            let at = self.find_line(size, number)?;
            let line = self.tables[level as usize].as_mut()?.get_mut(at)?;
            line.set(index, X86_64::leaf(changed, level));
        }
        Some((leaf, level))
    }

    /// Returns the first leaf that overlaps pages `[start, end)`: its first page, the leaf and its level.
    pub fn first_leaf(&self, start: Vpn, end: Vpn) -> Option<(Vpn, Leaf, u32)> {
        let mut page = start.0;
        while page < end.0 {
            let last = end.0 - 1;
            let pud = self.pud.next_used(page >> PUD_SECTION, (last >> PUD_SECTION) + 1)?;
            page = page.max(pud << PUD_SECTION);
            let pud_end = (pud + 1) << PUD_SECTION;
            let huge = self.pud.header(pud).line_way().is_some();
            if huge && let Some(leaf) = self.leaf(Vpn(page), PageSize::Size1G) {
                return Some((Vpn(page >> 18 << 18), leaf, 2));
            }
            // Up to the next 1 GiB page, which this section may have.
            let stop = if huge { (page >> 18).wrapping_add(1) << 18 } else { pud_end }.min(end.0);
            match self.first_below(page, stop) {
                Some(found) => return Some(found),
                None => page = stop,
            }
        }
        None
    }

    /// Returns the first leaf of the two smaller page sizes.
    fn first_below(&self, mut page: u64, end: u64) -> Option<(Vpn, Leaf, u32)> {
        while page < end {
            let pmd = self.pmd.next_used(page >> PMD_SECTION, ((end - 1) >> PMD_SECTION) + 1)?;
            page = page.max(pmd << PMD_SECTION);
            let section_end = ((pmd + 1) << PMD_SECTION).min(end);
            let header = self.pmd.header(pmd);
            while page < section_end {
                if header.line_way().is_some()
                    && let Some(leaf) = self.leaf(Vpn(page), PageSize::Size2M)
                {
                    return Some((Vpn(page >> 9 << 9), leaf, 1));
                }
                let stop = (((page >> 9) + 1) << 9).min(section_end);
                if header.has_smaller()
                    && let Some(found) = self.first_small(page, stop)
                {
                    return Some(found);
                }
                page = stop;
            }
        }
        None
    }

    fn first_small(&self, mut page: u64, end: u64) -> Option<(Vpn, Leaf, u32)> {
        while page < end {
            let (number, index) = split(Vpn(page), PageSize::Size4K);
            let next = (number + 1) << LINE_SHIFT;
            if let Some(line) = self.line(PageSize::Size4K, number) {
                for at in index..LINE_ENTRIES.min(index + (end - page) as usize) {
                    if let Some(leaf) = decode(line.entry(at), PageSize::Size4K) {
                        return Some((Vpn(number << LINE_SHIFT | at as u64), leaf, 0));
                    }
                }
            }
            page = next;
        }
        None
    }

    /// Visits every leaf that overlaps pages `[start, end)`, in order; `visit` gets the leaf's first page, the leaf
    /// and its level, and may change it (`Some`) or unmap it (`None`).
    pub fn visit(
        &mut self,
        start: Vpn,
        end: Vpn,
        memory: &mut impl ContiguousMemory,
        mut visit: impl FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
    ) {
        let end = end.min(HASHED_END);
        let mut from = start;
        while let Some((vpn, leaf, level)) = self.first_leaf(from, end) {
            let kept = visit(vpn, leaf, level);
            if kept != Some(leaf) {
                self.set(vpn, level, kept, memory);
            }
            from = Vpn(vpn.0 + (1 << size_at(level).order()));
        }
    }

    /// Changes a mapped page's entry, or empties it.
    fn set(&mut self, vpn: Vpn, level: u32, leaf: Option<Leaf>, memory: &mut impl ContiguousMemory) {
        let size = size_at(level);
        let (number, index) = split(vpn, size);
        let at = self.find_line(size, number).expect("a mapped page has a line");
        let table = self.tables[level as usize].as_mut().expect("a line was found in it");
        let line = table.get_mut(at).expect("it was found there");
        if !line.set(index, leaf.map_or(0, |leaf| X86_64::leaf(leaf, level))) {
            self.remove_line(size, number, memory);
        }
    }

    /// Splits the large page that holds `vpn`, if there is one, into pages of the level below. Returns whether it did.
    ///
    /// # Errors
    ///
    /// There is no place for the smaller pages; nothing has changed then.
    pub fn split(&mut self, vpn: Vpn, memory: &mut impl ContiguousMemory) -> Result<bool, MapError> {
        let Some((leaf, level @ 1..)) = self.find(vpn) else { return Ok(false) };
        let (size, below) = (size_at(level), size_at(level - 1));
        let first = Vpn(vpn.0 >> size.order() << size.order());
        let lines = 1u64 << (size.order() - below.order() - LINE_SHIFT);
        for line in 0..lines {
            let (number, _) = split(Vpn(first.0 + (line << LINE_SHIFT << below.order())), below);
            let piece = |index: u64| {
                let frame = leaf.frame.add((line << LINE_SHIFT | index) << below.order());
                X86_64::leaf(Leaf { frame, ..leaf }, level - 1)
            };
            let mut pieces = Line::new(number, 0, piece(0));
            (1..LINE_ENTRIES).for_each(|index| {
                pieces.set(index, piece(index as u64));
            });
            if let Err(error) = self.add_line(below, pieces, memory) {
                for added in 0..line {
                    self.remove_line(below, number - line + added, memory);
                }
                return Err(error);
            }
        }
        self.set(first, level, None, memory);
        Ok(true)
    }
}

#[inline]
fn decode(raw: u64, size: PageSize) -> Option<Leaf> {
    match X86_64::decode(raw, size as u32) {
        Entry::Leaf(leaf) => Some(leaf),
        _ => None,
    }
}
