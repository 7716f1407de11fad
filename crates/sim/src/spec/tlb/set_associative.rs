//! Arrays with one translation an entry.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{ArrayShape, ShapeError};
use pagewalk_vm::tlb::{SetAssociative, TlbStorage};

use super::array::{ArrayDraft, Eviction, Geometry, TlbDesign};
use crate::spec::section::{Words, section};

pub(super) static PAGES: Words<PageSize> = Words(&[
    ("4KiB", PageSize::Size4K, "base pages"),
    ("16KiB", PageSize::Size16K, "base pages of that granule"),
    ("64KiB", PageSize::Size64K, "base pages of that granule"),
    ("2MiB", PageSize::Size2M, "huge pages"),
    ("32MiB", PageSize::Size32M, "huge pages of 16KiB"),
    ("512MiB", PageSize::Size512M, "huge pages of 64KiB"),
    ("1GiB", PageSize::Size1G, "giant pages"),
]);

section! {
    fn resolve(table, resolver) -> ArrayDraft;
    const KEYS {
        geometry = "" group(Geometry), "entries, ways and the choice of a set";
        eviction = "" group(Eviction), "the choice of the entry that is evicted";
        pages = "pages" words(&PAGES), "page sizes held; some array of every level holds base pages: 4KiB, or the `granule` of [table.radix]";
    }
    { Some(ArrayDraft { geometry, eviction, kind: pages.map(|pages| Ok(OnePageEntries { pages }.into())) }) }
    const VARIANT: ArrayDraft = "set-associative", "entries of one page each";
}

/// Entries of one page each.
#[derive(Debug)]
pub struct OnePageEntries {
    /// The page sizes, smallest first, at least one.
    pub pages: Vec<PageSize>,
}

impl TlbDesign for OnePageEntries {
    fn holds(&self, size: PageSize) -> bool {
        self.pages.contains(&size)
    }

    fn build(&self, shape: &ArrayShape) -> Result<TlbStorage, ShapeError> {
        SetAssociative::stored(shape, &self.pages)
    }
}
