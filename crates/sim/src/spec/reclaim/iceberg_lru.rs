//! Iceberg LRU.

use pagewalk_vm::reclaim::{IcebergLru, PlacementPolicy, Ripeness};

use super::design::{ReclaimDesign, ReclaimKind};
use crate::spec::section::{Words, section};

/// Whether ripe pages leave at once.
static VERSIONS: Words<bool> =
    Words(&[("lazy", false, "when their frame is wanted"), ("strict", true, "at once")]);

section! {
    /// Iceberg LRU among the frames that a page may have.
    pub struct IcebergLruSpec {
        live_percent: u32 = "live" integer(1, 100) or "87", "percent of memory for pages that must stay; the others are ripe";
        is_strict: bool = "version" word(&VERSIONS) or "\"lazy\"", "whether ripe pages leave when their frame is wanted, or at once";
    }
    const VARIANT: ReclaimKind =
        "iceberg-lru", "keeps a share of memory ready; for `frames.iceberg`";
}

impl ReclaimDesign for IcebergLruSpec {
    fn is_for_hash_placed(&self) -> bool {
        true
    }

    fn placement(&self, frames: u64, _: u64) -> Option<Box<dyn PlacementPolicy>> {
        let live = frames * u64::from(self.live_percent) / 100;
        let ripeness = if self.is_strict { Ripeness::Strict } else { Ripeness::Lazy };
        Some(Box::new(IcebergLru::new(frames, live, ripeness)))
    }
}
