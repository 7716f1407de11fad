//! The binary buddy allocator.

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::frame::{BuddyAllocator, CrowdedMemory};
use pagewalk_vm::reclaim::PagePool;

use super::design::{FrameDesign, FrameKind};
use crate::spec::reclaim::ReclaimDesign;
use crate::spec::section::{Words, section};

/// The binary buddy allocator.
#[derive(Clone, Debug, Default)]
pub struct BuddySpec {
    /// Physical memory in bytes, a multiple of 4 KiB.
    pub memory_bytes: u64,
    /// The share of free memory in blocks smaller than 2 MiB at the start, in percent: what other programs left.
    pub fragmentation: u32,
    /// Free blocks of each order below that of 2 MiB at the start, from single frames on: what other programs left.
    pub free_blocks: Vec<u32>,
    /// Whether any of the smallest free blocks is taken, not the one with the lowest address.
    pub is_scattered: bool,
}

impl BuddySpec {
    /// Returns whether other programs leave free blocks of known sizes.
    pub fn is_shared(&self) -> bool {
        self.free_blocks.iter().any(|count| *count > 0)
    }
}

static CHOICES: Words<bool> = Words(&[
    ("lowest", false, "the one with the lowest address"),
    ("any", true, "one that is drawn, as on a system that has run for some time"),
]);

section! {
    fn resolve(table, resolver) -> BuddySpec;
    const KEYS {
        memory = "memory" bytes(1 << 20, 1 << 50) or "\"64GiB\"", "physical memory, a multiple of 4KiB";
        fragmentation = "fragmentation" integer(0, 100) or "0", "percent of free memory in blocks smaller than 2 MiB at the start (FMFI); other programs have the rest of them";
        free_blocks = "free-blocks" integers(1 << 30, 9) or "[0]", "free blocks of one frame, of two, of four and so on below 2 MiB at the start, as /proc/buddyinfo counts them; other programs have as much memory next to them";
        is_scattered = "choice" word(&CHOICES) or "\"lowest\"", "of the smallest free blocks, the one that is taken";
    }
    {
        let memory_bytes = resolver.whole(table, "memory", memory?, PAGE_BYTES)?;
        let (fragmentation, free_blocks) = (fragmentation?, free_blocks?.integers(1)?);
        let spec = BuddySpec { memory_bytes, fragmentation, free_blocks, is_scattered: is_scattered? };
        if spec.is_shared() && fragmentation > 0 {
            let message = "two things say what other programs left";
            return resolver.refuse(message, "leave one of them out", table, &["fragmentation", "free-blocks"]);
        }
        Some(spec)
    }
    const VARIANT: FrameKind =
        "buddy", "the binary buddy allocator";
}

/// Builds an empty allocator.
pub(super) fn allocator(bytes: u64) -> BuddyAllocator {
    BuddyAllocator::new(bytes).expect("the machine file was checked")
}

impl FrameDesign for BuddySpec {
    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    fn pool(&self, reclaim: Option<&dyn ReclaimDesign>, seed: u64) -> PagePool {
        let frames = allocator(self.memory_bytes);
        let frames = if self.is_scattered { frames.scattered(seed) } else { frames };
        let memory = match self.is_shared() {
            true => CrowdedMemory::with_free_blocks(frames, &self.free_blocks, seed),
            false => CrowdedMemory::fragmented(frames, self.fragmentation, seed),
        };
        match reclaim.and_then(|policy| policy.order(self.memory_bytes)) {
            Some((order, limit_bytes)) => PagePool::ordered(memory, order, limit_bytes / PAGE_BYTES),
            None => PagePool::kept(memory),
        }
    }
}
