//! Arrays with one translation an entry, and a victim buffer behind them.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{ArrayShape, ShapeError};
use pagewalk_vm::tlb::{TlbStorage, VictimBuffered};

use super::array::{ArrayDraft, Eviction, Geometry, TlbDesign};
use super::set_associative::PAGES;
use crate::spec::section::section;

section! {
    fn resolve(table, resolver) -> ArrayDraft;
    const KEYS {
        geometry = "" group(Geometry), "entries, ways and the choice of a set";
        eviction = "" group(Eviction), "the choice of the entry that is evicted";
        pages = "pages" words(&PAGES), "page sizes held; some array of every level holds 4KiB";
        victims = "victims" integer(1, 1_024), "entries of the victim buffer, which is fully associative, with LRU";
    }
    {
        let kind = pages.zip(victims).map(|(pages, victims)| Ok(VictimEntries { pages, victims }.into()));
        Some(ArrayDraft { geometry, eviction, kind })
    }
    const VARIANT: ArrayDraft = "victim", "entries of one page each; what the array evicts goes to a small victim buffer, which is looked up together with it";
}

/// Entries of one page each, and a buffer for those that are evicted.
#[derive(Debug)]
pub struct VictimEntries {
    /// The page sizes, smallest first, at least one.
    pub pages: Vec<PageSize>,
    /// The entries of the buffer.
    pub victims: u32,
}

impl TlbDesign for VictimEntries {
    fn holds(&self, size: PageSize) -> bool {
        self.pages.contains(&size)
    }

    fn build(&self, shape: &ArrayShape) -> Result<TlbStorage, ShapeError> {
        VictimBuffered::stored(shape, &self.pages, self.victims)
    }
}
