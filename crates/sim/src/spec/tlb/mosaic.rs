//! Arrays with several neighbouring pages an entry.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{ArrayShape, ShapeError};
use pagewalk_vm::tlb::{Mosaic, TlbStorage};

use super::array::{ArrayDraft, Eviction, Geometry, TlbDesign, TlbKind, check_run};
use crate::spec::geometry::Misfit;
use crate::spec::section::section;

section! {
    fn resolve(table, resolver) -> ArrayDraft;
    const KEYS {
        geometry = "" group(Geometry), "entries, ways and the choice of a set";
        arity = "arity" integer(1, 64), "4 KiB pages per entry, a power of two";
        eviction = "" group(Eviction), "the choice of the entry that is evicted";
    }
    { Some(ArrayDraft { geometry, eviction, kind: arity.map(kind) }) }
    const VARIANT: ArrayDraft = "mosaic", "entries of `arity` neighbouring 4 KiB pages; larger pages are chopped";
}

fn kind(arity: u32) -> Result<TlbKind, (&'static str, Misfit)> {
    check_run("arity", arity).map(|arity| RunEntries { arity }.into())
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

    fn holds_runs(&self) -> bool {
        true
    }

    fn build(&self, shape: &ArrayShape) -> Result<TlbStorage, ShapeError> {
        Mosaic::stored(shape, self.arity)
    }
}
