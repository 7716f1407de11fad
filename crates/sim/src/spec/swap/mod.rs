//! The swap devices that machine files can ask for.

mod blade;
mod block;
#[cfg(test)]
mod conformance;
mod design;
mod memory;

pub use design::{SwapDesign, SwapKind};
pub use memory::MemoryCopySpec;

use super::section::section;
use super::variant::Registry;

/// All swap devices: a new one is a file with its keys and its design, and a row here.
pub(super) static SWAP: Registry<SwapKind> = Registry(&[
    // In the order of the reference.
    block::VARIANT,
    memory::VARIANT,
    blade::VARIANT,
]);

/// The settings of the swap device.
#[derive(Clone, Debug, PartialEq)]
pub struct SwapSpec {
    /// The capacity, in bytes.
    pub bytes: u64,
    /// Pages that a fault brings, itself included; a power of two.
    pub readahead: u32,
    /// The kind of device.
    pub kind: SwapKind,
}

section! {
    /// The swap device.
    pub(super) fn swap(table, resolver) -> SwapSpec;
    pub(super) const SWAP_COMMON {
        bytes = "size" bytes(4_096, 1 << 50) or "\"64GiB\"", "capacity";
        readahead = "readahead" integer(1, 64) or "1", "pages that a fault brings, itself included: those whose copies lie in the same aligned run; a power of two";
    }
    {
        let readahead = readahead?;
        if !readahead.is_power_of_two() {
            let message = format!("swap: {readahead} pages of read-ahead make no aligned runs");
            return resolver.refuse(message, "write 1, 2, 4, 8, 16, 32 or 64", table, &["readahead"]);
        }
        let kind = SWAP.resolve(table, resolver)?;
        Some(SwapSpec { bytes: bytes?, readahead, kind })
    }
}
