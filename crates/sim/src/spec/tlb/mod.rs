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
