//! Arrays with one translation an entry.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{Replacement, ShapeError};
use pagewalk_vm::tlb::{SetAssociative, TlbStorage};

use super::array::{ENTRIES, REPLACEMENT, Resolved, TlbDesign, WAYS};
use crate::spec::key::Kind;
use crate::spec::section::{Key, Presence, Variant, Words};

static PAGES: Words<PageSize> = Words(&[
    ("4KiB", PageSize::Size4K, "base pages"),
    ("2MiB", PageSize::Size2M, "huge pages"),
    ("1GiB", PageSize::Size1G, "giant pages"),
]);

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

pub(super) const VARIANT: Variant<Resolved> = Variant {
    key: Key::variant("set-associative", KEYS, "entries of one page each"),
    resolve: |table, _| Some(Ok(OnePageEntries { pages: PAGES.each(table, "pages")? }.into())),
};

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

    fn build(&self, entries: u32, ways: u32, replacement: Replacement) -> Result<TlbStorage, ShapeError> {
        SetAssociative::new(entries, ways, replacement, &self.pages).map(TlbStorage::from)
    }
}
