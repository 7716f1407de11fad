//! Who has to leave when memory is full.
//!
//! [`HorizonLru`] and [`IcebergLru`] choose among the few frames that a page may have in an
//! [`Iceberg`](crate::frame::Iceberg).

mod horizon;
mod iceberg_lru;
mod recency;

pub use horizon::HorizonLru;
pub use iceberg_lru::{IcebergLru, Ripeness};
pub use recency::Recency;

use crate::frame::PageKey;

/// What it took to give a page a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The page's frame from now on.
    pub frame: u32,
    /// The page that had to leave, and the frame it had.
    pub evicted: Option<(u32, PageKey)>,
}

#[cfg(test)]
mod tests;
