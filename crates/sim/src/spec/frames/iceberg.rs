//! Frames placed by Iceberg hashing.

use pagewalk_vm::addr::{PAGE_BYTES, Pfn};
use pagewalk_vm::frame::{BackRanges, CrowdedMemory, Iceberg, IcebergShape};
use pagewalk_vm::hash::{PageHash, Tabulation, Xxh64};
use pagewalk_vm::reclaim::{NoEviction, PagePool};

use super::buddy::allocator;
use super::design::{FrameDesign, FrameKind};
use crate::spec::reclaim::ReclaimDesign;
use crate::spec::section::{Words, section};

/// Hash-placed frames for private anonymous 4 KiB pages, and a buddy allocator for everything else.
#[derive(Clone, Debug)]
pub struct IcebergSpec {
    /// Buckets of the hash-placed memory.
    pub shape: IcebergShape,
    /// The family of hash functions.
    pub hash: HashKind,
    /// The buddy allocator's memory in bytes, a multiple of 4 KiB.
    pub ordinary_bytes: u64,
}

/// Families of hash functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    /// The hash xxh64 with a seed for each member, as the Linux prototype of Mosaic Pages.
    Xxh64,
    /// Tabulation with probing, as its hardware.
    Tabulation,
    /// The low bits of the page number.
    LowBits,
}

static RANGES: Words<BackRanges> = Words(&[
    ("disjoint", BackRanges::Disjoint, "a part of memory for each choice"),
    ("common", BackRanges::Common, "all memory for every choice"),
]);
static HASHES: Words<HashKind> = Words(&[
    ("xxh64", HashKind::Xxh64, "with a seed for each member"),
    ("tabulation", HashKind::Tabulation, "with probing"),
    ("low-bits", HashKind::LowBits, "of the page number"),
]);

section! {
    fn resolve(table, resolver) -> IcebergSpec;
    const KEYS {
        memory = "memory" bytes(1 << 20, 1 << 43) or "\"4GiB\"", "hash-placed memory, a multiple of a bucket: (front + back) * 4KiB";
        ordinary = "ordinary" bytes(1 << 20, 1 << 50) or "\"60GiB\"", "the buddy allocator's memory, a multiple of 4KiB";
        front = "front" integer(1, 255) or "56", "frames of a bucket's front";
        back = "back" integer(0, 255) or "8", "frames of a bucket's back; 0 with `choices = 0` for a memory of sets";
        choices = "choices" integer(0, 16) or "6", "back buckets that a page may choose from";
        ranges = "ranges" word(&RANGES) or "\"disjoint\"", "whether each choice has a part of memory of its own, or all choices lie anywhere";
        hash = "hash" word(&HASHES) or "\"xxh64\"", "the family of hash functions; `low-bits` with `choices = 0` takes the set from the page number";
    }
    {
        let (front, back, choices) = (front?, back?, choices?);
        let bucket_bytes = u64::from(front + back) * PAGE_BYTES;
        let memory_bytes = resolver.whole(table, "memory", memory?, bucket_bytes)?;
        let ordinary_bytes = resolver.whole(table, "ordinary", ordinary?, PAGE_BYTES)?;
        let (ranges, hash) = (ranges?, hash?);
        let buckets = u32::try_from(memory_bytes / bucket_bytes).unwrap_or(u32::MAX);
        let shape = IcebergShape { front, back, choices, ranges, buckets };
        if let Err(wrong) = shape.check() {
            let help = "the published geometry is 56, 8 and 6";
            return resolver.refuse(wrong.to_string(), help, table, &["memory", "front", "back", "choices"]);
        }
        if hash == HashKind::LowBits && choices > 0 {
            let message = "the low bits of the page number are one function, but each choice needs its own";
            let help = "write `back = 0` and `choices = 0`, or another hash";
            return resolver.refuse(message, help, table, &["choices", "hash"]);
        }
        Some(IcebergSpec { shape, hash, ordinary_bytes })
    }
    const VARIANT: FrameKind =
        "iceberg", "frames placed by Iceberg hashing for private anonymous 4 KiB pages, and a buddy allocator for all else";
}

impl FrameDesign for IcebergSpec {
    fn memory_bytes(&self) -> u64 {
        self.ordinary_bytes + self.shape.frames() * PAGE_BYTES
    }

    fn hash_placed(&self) -> Option<IcebergShape> {
        Some(self.shape)
    }

    fn pool(&self, reclaim: Option<&dyn ReclaimDesign>, seed: u64) -> PagePool {
        let hash = match self.hash {
            HashKind::Xxh64 => PageHash::Xxh64(Xxh64::new(seed)),
            HashKind::Tabulation => PageHash::Tabulation(Tabulation::new(seed)),
            HashKind::LowBits => PageHash::LowBits,
        };
        let base = Pfn(self.ordinary_bytes / PAGE_BYTES);
        let placed = Iceberg::new(self.shape, base, hash).expect("the machine file was checked");
        let order = reclaim.and_then(|policy| policy.placement(self.shape.frames(), seed));
        let ordinary = CrowdedMemory::alone(allocator(self.ordinary_bytes));
        PagePool::placed(ordinary, placed, order.unwrap_or(Box::new(NoEviction)))
    }
}
