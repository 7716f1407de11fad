//! Memory of the machine itself.

use super::design::{SwapDesign, SwapKind};
use crate::spec::section::{STEP_PS, section};
use crate::time::device::store::{BackingStore, MemoryCopy};

section! {
    /// Memory of the machine itself.
    pub struct MemoryCopySpec {
        in_ps: u64 = "in" time(STEP_PS) or "\"250 ns\"", "bringing a page: copying 4 KiB, or expanding them";
        out_ps: u64 = "out" time(STEP_PS) or "\"250 ns\"", "taking a page away: copying 4 KiB, or compressing them";
    }
    const VARIANT: SwapKind =
        "memory", "memory of the machine itself: the processor copies pages, or compresses and expands them";
}

impl SwapDesign for MemoryCopySpec {
    fn build(&self) -> Box<dyn BackingStore> {
        Box::new(MemoryCopy { in_ps: self.in_ps, out_ps: self.out_ps })
    }
}
