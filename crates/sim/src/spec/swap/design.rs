//! What a swap device of a machine file says of itself.

use crate::spec::design::{Design, Settings, from_settings};
use crate::time::device::store::BackingStore;

/// The kind of the swap device.
pub type SwapKind = Design<dyn SwapDesign>;

/// A kind of swap device.
pub trait SwapDesign: Settings {
    /// Builds the device.
    fn build(&self) -> Box<dyn BackingStore>;
}

from_settings!(SwapDesign);
