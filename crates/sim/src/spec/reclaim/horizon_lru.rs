//! Horizon LRU.

use pagewalk_vm::reclaim::{HorizonLru, PlacementPolicy, SampledHorizon};

use super::design::{ReclaimDesign, ReclaimKind};
use crate::spec::section::{Words, section};

/// Horizon LRU among the frames that a page may have.
#[derive(Clone, Debug)]
pub struct HorizonLruSpec {
    /// Accesses between two scans of the timestamp daemon; absent means exact times.
    pub scan_interval: Option<u64>,
}

/// Whether a daemon guesses the times of use.
static TIMES: Words<bool> =
    Words(&[("exact", false, "at each access"), ("daemon", true, "by scans of accessed bits")]);

section! {
    fn resolve(table, resolver) -> HorizonLruSpec;
    const KEYS {
        has_daemon = "times" word(&TIMES) or "\"exact\"", "whether times of use are exact or guessed by a daemon that scans accessed bits";
        interval = "interval" long(1_000, 1 << 50) or "100000000", "accesses between two scans of the daemon; they stand for a second";
    }
    {
        let interval = interval?;
        Some(HorizonLruSpec { scan_interval: has_daemon?.then_some(interval) })
    }
    const VARIANT: ReclaimKind =
        "horizon-lru", "the least recently used, as far as a page's few frames allow; for `frames.iceberg`";
}

impl ReclaimDesign for HorizonLruSpec {
    fn is_for_hash_placed(&self) -> bool {
        true
    }

    fn placement(&self, frames: u64, seed: u64) -> Option<Box<dyn PlacementPolicy>> {
        Some(match self.scan_interval {
            None => Box::new(HorizonLru::new(frames)),
            Some(_) => Box::new(SampledHorizon::new(frames, seed)),
        })
    }

    fn scan_interval(&self) -> Option<u64> {
        self.scan_interval
    }
}
