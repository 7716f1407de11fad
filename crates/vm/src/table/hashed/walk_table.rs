//! Cuckoo walk tables: which page sizes there are where, so that a walk need not probe for all.
//!
//! A table has a header of one byte for each *section*: the pages that one line of 2 MiB pages (PMD) or 1 GiB pages
//! (PUD) covers.
//!
//! ```text
//!  level    section          a line (64 headers) covers
//!  PMD      16 MiB           1 GiB                         | 7..5 tag | 4..3 way | 2 smaller | 1 line |
//!  PUD      8 GiB            512 GiB
//! ```
//!
//! `line`: the section has the one line of 2 MiB pages (PMD) or 1 GiB pages (PUD) that it can have, and `way` is where;
//! `smaller`: it has smaller pages.
//!
//! Lines move between ways; the table that moves one says so here. The published headers have a bit for each of the three page
//! sizes; of those, these two decide what a walk probes. (Skarlatos et al., "Elastic Cuckoo Page Tables", ASPLOS 2020.)
//!
//! The walk tables are small cuckoo tables themselves: two ways, each in one piece.

use crate::addr::PhysAddr;
use crate::table::cuckoo::{Cuckoo, Keyed, LineHash, NoChunk, Policy, RejectReason, SlotRef};
use crate::table::{ContiguousMemory, OnePiece};

/// Headers of a line.
const HEADERS: usize = 64;

/// The header of a section, which says what pages the section has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SectionHeader(u8);

impl SectionHeader {
    /// Returns whether there are smaller pages in the range.
    pub fn has_smaller(self) -> bool {
        self.0 & 4 != 0
    }

    /// Returns the way of the one line of the walk table's own page size (2 MiB or 1 GiB), if there is one.
    pub fn line_way(self) -> Option<usize> {
        (self.0 & 2 != 0).then_some(usize::from(self.0 >> 3 & 3))
    }

    /// Returns whether no page is mapped in the range.
    pub fn is_empty(self) -> bool {
        self.0 & 7 == 0
    }
}

/// 64 headers, and how many lines of smaller pages each stands for. The system counts them; the hardware reads headers.
#[derive(Clone, Debug)]
struct WalkLine {
    number: u64,
    headers: [SectionHeader; HEADERS],
    smaller: [u32; HEADERS],
}

impl Keyed for WalkLine {
    fn key(&self) -> u64 {
        self.number
    }
}

/// A walk table: one of the two of a hashed page table.
#[derive(Debug)]
pub(super) struct WalkTable {
    lines: Cuckoo<WalkLine, LineHash>,
}

/// 128 lines in each of two ways at first. (ME-HPT, table III.)
const POLICY: Policy = Policy { ways: 2, upsize_above: 400, downsize_below: 0, ..Policy::ELASTIC };

impl WalkTable {
    pub(super) fn new(seed: u64, memory: &mut impl ContiguousMemory) -> Result<Self, NoChunk> {
        let hashes = LineHash::mixed(seed);
        Ok(Self { lines: Cuckoo::new(POLICY, hashes, seed, &mut OnePiece(memory))? })
    }

    fn split(section: u64) -> (u64, usize) {
        (section / HEADERS as u64, (section % HEADERS as u64) as usize)
    }

    /// The number of the line that has a section's header.
    pub(super) fn line_of(section: u64) -> u64 {
        Self::split(section).0
    }

    fn find(&self, number: u64) -> Option<SlotRef> {
        self.lines.find(number, |_| true)
    }

    /// Returns the header of a section.
    pub(super) fn header(&self, section: u64) -> SectionHeader {
        let (number, index) = Self::split(section);
        let line = self.find(number).and_then(|at| self.lines.get(at));
        line.map_or(SectionHeader::default(), |line| line.headers[index])
    }

    /// Returns the addresses where the line of a section's header may be, and whether there is a line.
    pub(super) fn probes(&self, section: u64) -> (impl Iterator<Item = PhysAddr>, bool) {
        let number = Self::line_of(section);
        (self.lines.probes(number).map(|at| PhysAddr(self.lines.addr(at))), self.find(number).is_some())
    }

    /// The first section from `section` on, before `end`, that has anything.
    pub(super) fn next_used(&self, mut section: u64, end: u64) -> Option<u64> {
        while section < end {
            let (number, index) = Self::split(section);
            if let Some(line) = self.find(number).and_then(|at| self.lines.get(at)) {
                let is_used = |at: &usize| !line.headers[*at].is_empty();
                if let Some(at) = (index..HEADERS).find(is_used) {
                    let found = number * HEADERS as u64 + at as u64;
                    return (found < end).then_some(found);
                }
            }
            section = (number + 1) * HEADERS as u64;
        }
        None
    }

    /// Makes sure that there is a header for a section.
    pub(super) fn reserve(
        &mut self,
        section: u64,
        memory: &mut impl ContiguousMemory,
    ) -> Result<(), RejectReason> {
        let (number, _) = Self::split(section);
        if self.find(number).is_some() {
            return Ok(());
        }
        let headers = [SectionHeader::default(); HEADERS];
        let line = WalkLine { number, headers, smaller: [0; HEADERS] };
        let inserted = self.lines.insert(line, &mut OnePiece(memory));
        inserted.map(drop).map_err(|rejected| rejected.reason)
    }

    /// Changes what is known of a section that has been reserved, or has something in it.
    fn change(&mut self, section: u64, change: impl FnOnce(&mut u8, &mut u32)) {
        let (number, index) = Self::split(section);
        let at = self.find(number).expect("a section with pages has a header");
        let line = self.lines.get_mut(at).expect("it was found there");
        change(&mut line.headers[index].0, &mut line.smaller[index]);
    }

    /// A line of smaller pages has come or gone.
    pub(super) fn count_smaller(&mut self, section: u64, comes: bool) {
        self.change(section, |header, smaller| {
            *smaller = if comes { *smaller + 1 } else { *smaller - 1 };
            *header = *header & !4 | u8::from(*smaller > 0) << 2;
        });
    }

    /// The section's line of the table's own page size stands in that way, or is gone.
    pub(super) fn set_line(&mut self, section: u64, way: Option<usize>) {
        self.change(section, |header, _| {
            *header = *header & 4 | way.map_or(0, |way| 2 | (way as u8 & 3) << 3);
        });
    }

    pub(super) fn bytes(&self) -> u64 {
        self.lines.way_slots().map(|slots| slots as u64 * POLICY.slot_bytes).sum()
    }

    pub(super) fn release(self, memory: &mut impl ContiguousMemory) {
        self.lines.release(&mut OnePiece(memory));
    }
}
