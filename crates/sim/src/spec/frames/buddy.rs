//! The binary buddy allocator.

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::frame::{BuddyAllocator, CrowdedMemory};
use pagewalk_vm::reclaim::PagePool;

use super::design::{FrameDesign, FrameKind};
use crate::spec::reclaim::ReclaimDesign;
use crate::spec::section::section;

/// The binary buddy allocator.
#[derive(Clone, Debug)]
pub struct BuddySpec {
    /// Physical memory in bytes, a multiple of 4 KiB.
    pub memory_bytes: u64,
    /// The share of free memory in blocks smaller than 2 MiB at the start, in percent: what other programs left.
    pub fragmentation: u32,
}

section! {
    fn resolve(table, resolver) -> BuddySpec;
    const KEYS {
        memory = "memory" bytes(1 << 20, 1 << 50) or "\"64GiB\"", "physical memory, a multiple of 4KiB";
        fragmentation = "fragmentation" integer(0, 100) or "0", "percent of free memory in blocks smaller than 2 MiB at the start (FMFI); other programs have the rest of them";
    }
    {
        let memory_bytes = resolver.whole(table, "memory", memory?, PAGE_BYTES)?;
        Some(BuddySpec { memory_bytes, fragmentation: fragmentation? })
    }
    const VARIANT: FrameKind =
        "buddy", "the binary buddy allocator";
}

/// Builds memory for a buddy allocator.
pub(super) fn memory(bytes: u64, fragmentation: u32, seed: u64) -> CrowdedMemory {
    let buddy = BuddyAllocator::new(bytes).expect("the machine file was checked");
    CrowdedMemory::fragmented(buddy, fragmentation, seed)
}

impl FrameDesign for BuddySpec {
    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    fn pool(&self, reclaim: Option<&dyn ReclaimDesign>, seed: u64) -> PagePool {
        let memory = memory(self.memory_bytes, self.fragmentation, seed);
        match reclaim.and_then(|policy| policy.order(self.memory_bytes)) {
            Some((order, limit_bytes)) => PagePool::ordered(memory, order, limit_bytes / PAGE_BYTES),
            None => PagePool::kept(memory),
        }
    }
}
