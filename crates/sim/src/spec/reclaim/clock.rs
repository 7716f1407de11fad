//! Linux's lists.

use pagewalk_vm::reclaim::{EvictionOrder, TwoListClock};

use super::design::{ReclaimDesign, ReclaimKind};
use crate::spec::section::section;

section! {
    /// Linux's active and inactive lists.
    pub struct ClockSpec {
        limit_bytes: Option<u64> = "limit" maybe_bytes(1 << 20, 1 << 50), "most memory for such pages, as a control group's limit; without it, all of it";
    }
    const VARIANT: ReclaimKind =
        "clock", "an active and an inactive list, as in Linux; for `frames.buddy`";
}

impl ReclaimDesign for ClockSpec {
    fn order(&self, memory_bytes: u64) -> Option<(Box<dyn EvictionOrder>, u64)> {
        let limit_bytes = self.limit_bytes.unwrap_or(memory_bytes);
        Some((Box::new(TwoListClock::new(limit_bytes)), limit_bytes))
    }

    fn limited(&self, limit_bytes: u64) -> Option<ReclaimKind> {
        Some(Self { limit_bytes: Some(limit_bytes) }.into())
    }
}
