//! The TLB levels of a machine file, and the kinds of array in them.

mod array;
mod coalesced;
#[cfg(test)]
mod conformance;
mod levels;
mod mosaic;
mod prefetch;
mod set_associative;
mod victim;

pub use array::{Replacement, TlbArraySpec, TlbDesign, TlbKind};
pub use coalesced::CoalescedEntries;
pub use levels::TlbLevelSpec;
pub(super) use levels::{LEVEL, levels, whole_array};
pub use mosaic::RunEntries;
pub use prefetch::{DistanceSpec, PrefetcherDesign, PrefetcherKind, SequentialSpec, TlbPrefetchSpec};
pub(super) use prefetch::{PREFETCH_COMMON, PREFETCHERS, prefetch};
pub use set_associative::OnePageEntries;
pub use victim::VictimEntries;

use super::variant::Registry;

/// All kinds of array: a new one is a file with its keys and its design, and a row here.
pub(super) static ARRAYS: Registry<array::ArrayDraft> = Registry(&[
    // In the order of the reference.
    set_associative::VARIANT,
    victim::VARIANT,
    mosaic::VARIANT,
    coalesced::VARIANT,
]);
