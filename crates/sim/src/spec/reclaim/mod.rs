//! The policies by which pages leave memory.

mod clock;
mod design;
mod horizon_lru;
mod iceberg_lru;
mod lru;

pub use clock::ClockSpec;
pub use design::{ReclaimDesign, ReclaimKind};
pub use horizon_lru::HorizonLruSpec;
pub use iceberg_lru::IcebergLruSpec;
pub use lru::LruSpec;

use super::section::section;
use super::variant::Registry;

/// All policies: a new one is a file with its keys and its design, and a row here.
pub(super) static RECLAIM: Registry<ReclaimKind> = Registry(&[
    // In the order of the reference.
    lru::VARIANT,
    clock::VARIANT,
    horizon_lru::VARIANT,
    iceberg_lru::VARIANT,
]);

section! {
    /// The share of memory that a daemon keeps free, in percent.
    pub(super) fn background(table, resolver) -> u32;
    pub(super) const RECLAIM_COMMON {
        percent = "background" integer(0, 50) or "0", "percent of memory that a daemon keeps free, as kswapd: it wakes at half of that; 0 for none";
    }
    { percent }
}
