//! Arrays with several neighbouring pages an entry.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{Replacement, ShapeError};
use pagewalk_vm::tlb::{Mosaic, TlbStorage};

use super::array::{ENTRIES, REPLACEMENT, Resolved, TlbDesign, WAYS};
use crate::spec::geometry::Misfit;
use crate::spec::key::Kind;
use crate::spec::section::{Key, Presence, Table, Variant};

const KEYS: &[Key] = &[
    ENTRIES,
    WAYS,
    Key::value(
        "arity",
        Kind::Integer { min: 1, max: 64 },
        Presence::Required,
        "4 KiB pages per entry, a power of two",
    ),
    REPLACEMENT,
];

pub(super) const VARIANT: Variant<Resolved> = Variant {
    key: Key::variant(
        "mosaic",
        KEYS,
        "entries of `arity` neighbouring 4 KiB pages; larger pages are chopped",
    ),
    resolve: |table, _| resolve(table),
};

fn resolve(table: &Table) -> Option<Resolved> {
    let arity = table.integer("arity")?;
    if !arity.is_power_of_two() {
        let message = format!("an arity of {arity} is not a power of two");
        let help = format!("write {} or {}", arity.next_power_of_two() / 2, arity.next_power_of_two());
        return Some(Err(("arity", Misfit { message, help })));
    }
    Some(Ok(RunEntries { arity }.into()))
}

/// Entries of `arity` consecutive 4 KiB pages with a valid bit each (Mosaic). Larger pages enter chopped into 4 KiB pieces
/// unless another array of the level holds their size.
#[derive(Debug)]
pub struct RunEntries {
    /// Base pages per entry: 4, 8, 16, 32 or 64 (a power of two from 1 to 64 is accepted).
    pub arity: u32,
}

impl TlbDesign for RunEntries {
    fn holds(&self, size: PageSize) -> bool {
        size == PageSize::Size4K
    }

    fn serves(&self, _: PageSize) -> bool {
        true
    }

    fn build(&self, entries: u32, ways: u32, replacement: Replacement) -> Result<TlbStorage, ShapeError> {
        Mosaic::new(entries, ways, replacement, self.arity).map(TlbStorage::from)
    }
}
