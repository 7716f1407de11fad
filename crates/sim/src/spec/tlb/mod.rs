//! The TLB levels of a machine file, and the kinds of array in them.

mod array;
#[cfg(test)]
mod conformance;
mod levels;
mod mosaic;
mod set_associative;

pub use array::{Replacement, TlbArraySpec, TlbDesign, TlbKind};
pub use levels::TlbLevelSpec;
pub(super) use levels::{LEVEL, levels};
pub use mosaic::RunEntries;
pub use set_associative::OnePageEntries;

use super::variant::Registry;

/// All kinds of array: a new one is a file with its keys and its design, and a row here.
static ARRAYS: Registry<array::ArrayDraft> = Registry(&[
    // In the order of the reference.
    set_associative::VARIANT,
    mosaic::VARIANT,
]);
