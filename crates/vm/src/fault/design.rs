//! The design of an accelerator.

use std::ops::Range;

use super::Accelerator;
use crate::addr::Pfn;

/// The depths of an accelerator's queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depths {
    /// Frames for pages to come.
    pub free: usize,
    /// Pages that came and are not yet reported. There are two queues of this depth, of ids and of addresses.
    pub new: usize,
    /// Pages on their way out.
    pub evict: usize,
}

impl Default for Depths {
    /// 64 each, as evaluated (thesis, 5.2); the evict queue's depth there was 1 in effect, because of the prototype.
    fn default() -> Self {
        Self { free: 64, new: 64, evict: 64 }
    }
}

/// The parameters of an accelerator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcceleratorDesign {
    /// The depths of the queues: 1 to 65,536 each.
    pub depths: Depths,
    /// Fetches that may be under way at once: 1 as published, for one hart that waits; 65,536 at most. DEVIATION: more
    /// than 1 is ours, for several harts.
    pub fetches: usize,
    /// The frames there are. Only these can be given and evicted.
    pub ram: Range<Pfn>,
    /// Different pages that remote memory has room for; `None` for all there can be. A page keeps its place there when it
    /// is fetched.
    pub remote_pages: Option<u32>,
}

impl AcceleratorDesign {
    /// Returns the published design for a machine with this memory.
    pub fn of_ram(ram: Range<Pfn>) -> Self {
        Self { depths: Depths::default(), fetches: 1, ram, remote_pages: None }
    }

    /// Checks that an accelerator can have this design.
    ///
    /// # Errors
    ///
    /// [`DesignError`] names what cannot be.
    pub fn check(&self) -> Result<(), DesignError> {
        let Depths { free, new, evict } = self.depths;
        for (what, value) in [
            ("free queue", free),
            ("new queue", new),
            ("evict queue", evict),
            ("fetches at once", self.fetches),
        ] {
            if !(1..=1 << 16).contains(&value) {
                return Err(DesignError { what, value: value as u64, allowed: "1 to 65536" });
            }
        }
        if self.ram.is_empty() || self.ram.end.0 > 1 << Accelerator::FRAME_BITS {
            let value = self.ram.end.0.saturating_sub(self.ram.start.0);
            return Err(DesignError { what: "frames", value, allowed: "at least one, all below 2^36" });
        }
        Ok(())
    }
}

/// A design that no accelerator, or none of its timers, can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} of a page fault accelerator: {value}; allowed: {allowed}")]
pub struct DesignError {
    /// The part of the design that is wrong, in words.
    pub what: &'static str,
    /// The value that the part was to have.
    pub value: u64,
    /// The values that are allowed.
    pub allowed: &'static str,
}
