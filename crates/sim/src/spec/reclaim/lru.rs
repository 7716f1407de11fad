//! Exact least recently used.

use pagewalk_vm::reclaim::{EvictionOrder, Recency};

use super::design::{ReclaimDesign, ReclaimKind};
use crate::spec::section::section;

section! {
    /// The least recently used of all pages.
    pub struct LruSpec {
        limit_bytes: Option<u64> = "limit" maybe_bytes(1 << 20, 1 << 50), "most memory for such pages, as a control group's limit; without it, all of it";
    }
    const VARIANT: ReclaimKind =
        "lru", "the least recently used of all, exactly; for `frames.buddy`";
}

impl ReclaimDesign for LruSpec {
    fn order(&self, memory_bytes: u64) -> Option<(Box<dyn EvictionOrder>, u64)> {
        let limit_bytes = self.limit_bytes.unwrap_or(memory_bytes);
        Some((Box::new(Recency::new(u32::MAX)), limit_bytes))
    }

    fn limited(&self, limit_bytes: u64) -> Option<ReclaimKind> {
        Some(Self { limit_bytes: Some(limit_bytes) }.into())
    }
}
