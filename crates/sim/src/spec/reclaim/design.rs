//! What a policy by which pages leave memory says of itself.

use pagewalk_vm::reclaim::{EvictionOrder, PlacementPolicy};

use crate::spec::design::{Design, Settings, from_settings};

/// The choice of the pages that leave a full memory. Only private anonymous 4 KiB pages ever do.
pub type ReclaimKind = Design<dyn ReclaimDesign>;

/// A policy by which pages leave memory: among all frames, or among the few that a page may have.
pub trait ReclaimDesign: Settings {
    /// Returns whether the policy chooses among the few frames that a page may have, and not among all.
    fn is_for_hash_placed(&self) -> bool {
        false
    }

    /// Builds the order of pages that may have any frame, and returns the most bytes of them.
    fn order(&self, memory_bytes: u64) -> Option<(Box<dyn EvictionOrder>, u64)> {
        let _ = memory_bytes;
        None
    }

    /// Builds the policy for pages that may have few frames each, of so many in all.
    fn placement(&self, frames: u64, seed: u64) -> Option<Box<dyn PlacementPolicy>> {
        let _ = (frames, seed);
        None
    }

    /// Returns the number of accesses between two scans of a timestamp daemon, if there is one.
    fn scan_interval(&self) -> Option<u64> {
        None
    }

    /// Returns the policy with another limit on the bytes of such pages, if it has limits.
    fn limited(&self, limit_bytes: u64) -> Option<ReclaimKind> {
        let _ = limit_bytes;
        None
    }
}

from_settings!(ReclaimDesign);
