//! Arrays with a run of pages and frames an entry.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{ArrayShape, ShapeError};
use pagewalk_vm::tlb::{Coalesced, TlbStorage};

use super::array::{ArrayDraft, Eviction, Geometry, TlbDesign, TlbKind, check_run};
use crate::spec::geometry::Misfit;
use crate::spec::section::section;

section! {
    fn resolve(table, resolver) -> ArrayDraft;
    const KEYS {
        geometry = "" group(Geometry), "entries, ways and the choice of a set, by the number of the block";
        block = "block" integer(2, 64), "4 KiB pages of an aligned block, in which a run lies; a power of two";
        eviction = "" group(Eviction), "the choice of the entry that is evicted";
    }
    { Some(ArrayDraft { geometry, eviction, kind: block.map(kind) }) }
    const VARIANT: ArrayDraft = "coalesced", "entries of a run of 4 KiB pages in a block of `block`, whose frames are neighbours, too, and whose permissions are the same; larger pages are chopped into blocks";
}

fn kind(block: u32) -> Result<TlbKind, (&'static str, Misfit)> {
    check_run("block", block).map(|block| CoalescedEntries { block }.into())
}

/// Entries of a run of 4 KiB pages whose frames are neighbours, too (CoLT). Larger pages enter in pieces of a block unless
/// another array of the level holds their size.
#[derive(Debug)]
pub struct CoalescedEntries {
    /// Base pages of a block: a power of two from 2 to 64.
    pub block: u32,
}

impl TlbDesign for CoalescedEntries {
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
        Coalesced::stored(shape, self.block)
    }
}
