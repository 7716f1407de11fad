//! The prefetchers of translations.

#[cfg(test)]
mod conformance;
mod design;
mod distance;
mod sequential;

pub use design::{PrefetcherDesign, PrefetcherKind};
pub use distance::DistanceSpec;
pub use sequential::SequentialSpec;

use super::array::TlbArraySpec;
use crate::spec::section::{Resolver, Table, section};
use crate::spec::variant::Registry;

/// All prefetchers, in the order of the reference: a new one is a file with its keys and its design, and a row here.
pub(in crate::spec) static PREFETCHERS: Registry<PrefetcherKind> =
    Registry(&[sequential::VARIANT, distance::VARIANT]);

/// A prefetcher and its buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct TlbPrefetchSpec {
    /// The entries of the prefetch buffer.
    pub buffer: u32,
    /// The rule by which pages are guessed.
    pub kind: PrefetcherKind,
}

section! {
    /// The prefetcher of TLBs of these arrays.
    pub(in crate::spec) fn prefetch(table, resolver, tree: &Table, arrays: Option<Vec<&TlbArraySpec>>) -> TlbPrefetchSpec;
    pub(in crate::spec) const PREFETCH_COMMON {
        buffer = "buffer" integer(1, 1_024) or "16", "entries of the prefetch buffer, which is fully associative; the oldest leaves";
    }
    {
        let kind = PREFETCHERS.resolve(table, resolver);
        check(table, tree, &arrays?, resolver)?;
        Some(TlbPrefetchSpec { buffer: buffer?, kind: kind? })
    }
}

/// A prefetcher of single pages needs a TLB that holds single pages, and walks that end at once.
fn check(table: &Table, tree: &Table, arrays: &[&TlbArraySpec], resolver: &mut Resolver<'_>) -> Option<()> {
    let mut refuse = |message, help| resolver.refuse_section(table, message, help);
    if arrays.is_empty() {
        let message = "a TLB prefetcher hears of misses in TLBs, and this machine has none";
        return refuse(message, "add [tlb.l1.set-associative], or write tlb-prefetch = \"none\"");
    }
    if arrays.iter().any(|array| array.kind.holds_runs()) {
        let message =
            "a TLB prefetcher brings one page at a time, and an array of this machine holds runs of pages";
        return refuse(message, "write set-associative or victim arrays, or tlb-prefetch = \"none\"");
    }
    if tree.get("tier").is_some() {
        let message = "walks in the background cannot wait for pages on flash";
        return refuse(message, "leave [tier] or [tlb-prefetch] out");
    }
    Some(())
}
