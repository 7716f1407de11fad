//! The frame allocators that machine files can ask for.

mod buddy;
#[cfg(test)]
mod conformance;
mod design;
mod iceberg;

pub use buddy::BuddySpec;
pub use design::{FrameDesign, FrameKind};
pub use iceberg::{HashKind, IcebergSpec};

use super::variant::Registry;

/// All frame allocators: a new one is a file with its keys and its design, and a row here.
pub(super) static FRAMES: Registry<FrameKind> = Registry(&[
    // In the order of the reference.
    buddy::VARIANT,
    iceberg::VARIANT,
]);
