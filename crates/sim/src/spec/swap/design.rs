//! What a swap device of a machine file says of itself.

use std::sync::Arc;

use crate::spec::design::{Design, Settings};
use crate::time::device::store::BackingStore;

/// The kind of the swap device.
pub type SwapKind = Design<dyn SwapDesign>;

/// A kind of swap device.
pub trait SwapDesign: Settings {
    /// Builds the device.
    fn build(&self) -> Box<dyn BackingStore>;
}

impl<D: SwapDesign> From<D> for SwapKind {
    fn from(design: D) -> Self {
        Self::of(Arc::new(design))
    }
}
