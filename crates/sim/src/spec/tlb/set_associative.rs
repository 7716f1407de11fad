//! Arrays with one translation an entry.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{Replacement, ShapeError};
use pagewalk_vm::tlb::{SetAssociative, TlbStorage};

use super::registry::{ArrayVariant, TlbDesign, TlbKind};
use super::{ENTRIES, REPLACEMENT, WAYS};
use crate::spec::schema::{Key, Kind, PAGES, Presence};

const KEYS: &[Key] = &[
    ENTRIES,
    WAYS,
    REPLACEMENT,
    Key::value(
        "pages",
        Kind::Words(&PAGES),
        Presence::Required,
        "page sizes held; some array of every level holds 4KiB",
    ),
];

pub(super) const VARIANT: ArrayVariant = ArrayVariant {
    key: Key::table("set-associative", KEYS, Presence::Variant, "entries of one page each"),
    example: "pages = [\"4KiB\"]",
    resolve: |_, table, _| Some(TlbKind::new(OnePageEntries { pages: PAGES.each(table.leaf("pages")?)? })),
};

/// Entries of one page each.
#[derive(Debug)]
pub struct OnePageEntries {
    /// Which page sizes, smallest first, at least one.
    pub pages: Vec<PageSize>,
}

impl TlbDesign for OnePageEntries {
    fn holds(&self, size: PageSize) -> bool {
        self.pages.contains(&size)
    }

    fn build(&self, entries: u32, ways: u32, replacement: Replacement) -> Result<TlbStorage, ShapeError> {
        SetAssociative::new(entries, ways, replacement, &self.pages).map(TlbStorage::from)
    }
}
