//! What a frame allocator of a machine file says of itself.

use pagewalk_vm::frame::IcebergShape;
use pagewalk_vm::reclaim::PagePool;

use crate::spec::design::{Design, Settings, from_settings};
use crate::spec::reclaim::ReclaimDesign;

/// The frame allocator and the memory that it hands out.
pub type FrameKind = Design<dyn FrameDesign>;

/// A frame allocator, as a machine file describes it.
pub trait FrameDesign: Settings {
    /// Returns the size of physical memory of all kinds, in bytes.
    fn memory_bytes(&self) -> u64;

    /// Returns the buckets of hash-placed frames, of which a page may have few only; none if a page may have any frame.
    fn hash_placed(&self) -> Option<IcebergShape> {
        None
    }

    /// Builds the frames, from which pages leave by this policy.
    fn pool(&self, reclaim: Option<&dyn ReclaimDesign>, seed: u64) -> PagePool;
}

from_settings!(FrameDesign);
