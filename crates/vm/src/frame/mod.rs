//! Physical memory: which page gets which frame.
//!
//! A *frame* is 4 KiB of physical memory; a *block* of order `k` is `2^k` frames, aligned to its own size. The
//! page sizes of a granule of 4 KiB are the orders 0, 9 and 18 ([`PageSize::order`](crate::addr::PageSize::order)).
//! Frame 0 is never handed out, so that a zero in a page-table entry can never name a frame in use.
//!
//! Running out is an ordinary answer ([`OutOfFrames`]): a frame is never handed out twice. Giving back what was
//! not taken is a bug of the caller and panics, in release builds too.

mod bit_tree;
mod buddy;
mod cpfn;
mod crowded;
mod given;
mod iceberg;

pub use buddy::{BuddyAllocator, MAX_MEMORY_BYTES, MAX_ORDER, MemorySizeError};
pub use cpfn::{Cpfn, CpfnCodec, Spot};
pub use crowded::{CrowdCounts, CrowdedMemory};
pub use given::{GivenBlocks, GivenPages, OWN_START, PageFrame, PageFrameError};
pub use iceberg::{BackRanges, Iceberg, IcebergShape, IcebergShapeError, MAX_CHOICES};

use std::fmt::Debug;

use crate::addr::{Asid, Pfn, Vpn};

/// The page that a frame is wanted for.
///
/// A hash-placed allocator computes the allowed frames from it (Mosaic Pages, IEEE Micro 2024: the virtual page
/// number with the address-space identifier above it); the buddy allocator has no use for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PageKey {
    /// The address space that the page belongs to.
    pub asid: Asid,
    /// The first base page of the page.
    pub page: Vpn,
}

/// Hands out blocks of physical memory: `2^order` frames, aligned to their own size.
///
/// # Contract
///
/// - `alloc` answers the first frame of a block none of whose frames is in use, or changes nothing and says why it cannot.
///   It never evicts: making room is the reclaim policy's job.
/// - A block stays where it is, and its frames belong to the caller, until `free` is called with the same frame and order.
///   Any other `free` panics.
/// - `free_frames() <= total_frames()`, and after everything was freed they are equal. An error may leave
///   `free_frames` above zero: free memory may be scattered.
/// - Frame 0 is never handed out.
/// - The same calls in the same order give the same frames.
pub trait FrameAllocator: Debug + Send {
    /// Takes a block of frames.
    ///
    /// # Errors
    ///
    /// No block of that order is free.
    fn alloc(&mut self, order: u32) -> Result<Pfn, OutOfFrames>;

    /// Takes the block that begins at `first`. Returns whether all of it was free; if not, nothing changes.
    fn alloc_at(&mut self, first: Pfn, order: u32) -> bool;

    /// Gives a block back.
    ///
    /// # Panics
    ///
    /// If `first` is not the first frame of a block that was taken with this `order` and not given back since.
    fn free(&mut self, first: Pfn, order: u32);

    /// Makes a taken block several smaller ones, each of which is given back for itself.
    ///
    /// # Panics
    ///
    /// If `first` is not the first frame of a block that was taken with the order `from`, or `to` is above that.
    fn split(&mut self, first: Pfn, from: u32, to: u32);

    /// Returns the number of frames that are free now.
    fn free_frames(&self) -> u64;

    /// Returns the number of frames that can be handed out at all.
    fn total_frames(&self) -> u64;

    /// Returns the share of free memory in blocks smaller than `2^order` frames; `None` if no memory is free.
    fn unusable_free_index(&self, order: u32) -> Option<f64>;
}

/// No block of the wanted order is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "out of frames: no free block of order {order} ({} KiB); {free_frames} frames are free, {}; \
     give the machine more memory or the program a smaller input",
    4u64 << .order, largest_text(*.largest_free_order)
)]
pub struct OutOfFrames {
    /// The base-2 logarithm of the number of frames that were wanted in one block.
    pub order: u32,
    /// Frames that are free nevertheless.
    pub free_frames: u64,
    /// The order of the largest free block; none if nothing is free.
    pub largest_free_order: Option<u32>,
}

fn largest_text(order: Option<u32>) -> String {
    match order {
        Some(order) => format!("the largest free block has order {order}"),
        None => "there is no free block at all".to_owned(),
    }
}
