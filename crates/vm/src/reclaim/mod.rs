//! Which pages have to leave when memory is full.
//!
//! [`PagePool`] is a machine's memory: frames, and the policy that makes room among them. [`HorizonLru`] and
//! [`IcebergLru`] choose among the few frames that a page may have in an [`Iceberg`](crate::frame::Iceberg);
//! [`Recency`] and [`TwoListClock`] among all. What leaves is remembered in a [`SwapSpace`].

mod daemon;
mod horizon;
mod iceberg_lru;
mod order;
mod placement;
mod pool;
mod precision;
mod recency;
mod sharing;
mod swap;
mod two_list;

pub use daemon::TimestampDaemon;
pub use horizon::HorizonLru;
pub use iceberg_lru::{IcebergLru, Ripeness};
pub use order::{EvictionOrder, Uses};
pub use placement::{HashedFrames, NoEviction, PlacementPolicy, SampledHorizon};
pub use pool::{GivenFrames, HashPlaced, MOST_EVICTED, PagePool, Taken};
pub use precision::evicted_ages;
pub use recency::Recency;
pub use sharing::{ObjectPage, SharedFrames, Victim};
pub use swap::{SwapFull, SwapSpace};
pub use two_list::TwoListClock;

use crate::frame::PageKey;

/// The frame that a page got, and the page that had to leave for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The page's frame from now on.
    pub frame: u32,
    /// The page that had to leave, and the frame it had.
    pub evicted: Option<(u32, PageKey)>,
}

#[cfg(test)]
mod tests;
