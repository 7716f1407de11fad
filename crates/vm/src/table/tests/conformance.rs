//! The contract of page tables: any kind against a map of what was mapped.
//!
//! The simulator's tests include this file, for every kind that machine files can ask for.

use std::collections::BTreeMap;

use pagewalk_vm::addr::{Asid, Pfn, PhysAddr, Vpn};
use pagewalk_vm::random::SplitMix64;
use pagewalk_vm::table::cuckoo::NoChunk;
use pagewalk_vm::table::{
    ContiguousMemory, Leaf, MapError, PageTable, RunMemory, SparseMemory, TableMemory, TableWords, WalkEnd,
    WalkOutcome,
};

/// Memory for tables: frames from `next` on, `left` pieces.
pub(super) struct Store {
    memory: SparseMemory,
    next: u64,
    pub(super) left: u64,
    /// Bytes handed out.
    pub(super) used: u64,
}

impl Store {
    pub(super) fn new() -> Self {
        Self::of(u64::MAX)
    }

    pub(super) fn of(left: u64) -> Self {
        Self { memory: SparseMemory::new(), next: 0x10, left, used: 0 }
    }
}

impl ContiguousMemory for Store {
    fn allocate(&mut self, bytes: u64) -> Result<PhysAddr, NoChunk> {
        self.left = self.left.checked_sub(1).ok_or(NoChunk { bytes })?;
        let base = Pfn(self.next).addr();
        self.next += bytes.div_ceil(4096);
        self.used += bytes;
        Ok(base)
    }

    fn free(&mut self, _base: PhysAddr, bytes: u64) {
        self.used -= bytes;
    }
}

impl TableWords for Store {
    fn read(&self, addr: PhysAddr) -> u64 {
        self.memory.read(addr)
    }
}

impl TableMemory for Store {
    fn write(&mut self, addr: PhysAddr, word: u64) {
        self.memory.write(addr, word);
    }

    fn zero_frame(&mut self, frame: Pfn) {
        self.memory.zero_frame(frame);
    }

    fn release_frame(&mut self, frame: Pfn) {
        self.memory.release_frame(frame);
    }
}

impl RunMemory for Store {
    fn read_run(&self, addr: PhysAddr, count: usize) -> &[u64] {
        self.memory.read_run(addr, count)
    }
}

/// Any page table against a map of what was mapped: `leaf_pages` by level, up to `top`; pages below `end`.
pub(super) fn conformance<T: PageTable>(
    design: &T::Design,
    end: u64,
    leaf_pages: fn(u32) -> u64,
    frame: fn(u64, u32) -> Pfn,
) {
    let mut store = Store::new();
    let mut table = T::new(design, 1, &mut store).unwrap();
    let mut model: BTreeMap<(u64, u32), Leaf> = BTreeMap::new();
    let mut random = SplitMix64::new(1);
    let mut random = |bound: u64| random.below(bound);
    let reach = end.min(leaf_pages(1) * 40);
    for step in 0..6_000 {
        let level = random(u64::from(T::MAX_LEAF_LEVEL.min(1)) + 1) as u32;
        let pages = leaf_pages(level);
        let vpn = Vpn(random(reach) / pages * pages);
        let overlaps = |key: &(u64, u32)| key.0 < vpn.0 + pages && vpn.0 < key.0 + leaf_pages(key.1);
        if random(4) > 0 {
            let leaf = Leaf { writable: random(2) == 0, ..Leaf::data(frame(step, level)) };
            let taken = model.keys().any(overlaps);
            let vacant = table.is_vacant(&store, vpn, level);
            // An empty node left in the way refuses a large page; unmapping frees empty nodes, so none is left.
            assert_eq!(vacant, !taken, "step {step}");
            let mapped = table.map(&mut store, vpn, leaf, level);
            let expected = if taken { Err(MapError::Occupied { vpn }) } else { Ok(None) };
            assert_eq!(mapped, expected, "step {step}");
            if !taken {
                model.insert((vpn.0, level), leaf);
            }
        } else {
            let end = Vpn(vpn.0 + random(20) * leaf_pages(0) + 1);
            let mut seen = vec![];
            table.visit(&mut store, vpn, end, |at, leaf, level| {
                seen.push(((at.0, level), leaf));
                None
            });
            let expected: Vec<_> =
                model.extract_if(.., |key, _| key.0 < end.0 && vpn.0 < key.0 + leaf_pages(key.1)).collect();
            assert_eq!(seen, expected, "step {step}");
        }
    }
    for vpn in 0..reach {
        let below = model.range(..=(vpn, u32::MAX)).next_back();
        let expected = below.filter(|(k, _)| vpn < k.0 + leaf_pages(k.1));
        let expected = expected.map(|(k, leaf)| (*leaf, k.1));
        assert_eq!(table.find(&store, Vpn(vpn)), expected);
        let walk = table.walk(&store, Asid(0), Vpn(vpn), None);
        match (walk.end(), expected) {
            (WalkEnd::Leaf { leaf, level }, Some(expected)) => assert_eq!((leaf, level), expected),
            (WalkEnd::Empty { .. }, None) => {}
            (end, expected) => panic!("{end:?} at {vpn:#x}, not {expected:?}"),
        }
        assert!(walk.reads().all(|read| read.level < T::levels(design)));
    }
    table.visit(&mut store, Vpn(0), Vpn(end), |_, _, _| None);
    let top = T::MAX_LEAF_LEVEL.min(T::levels(design) - 1);
    assert!(table.is_vacant(&store, Vpn(0), top));
    table.release(&mut store);
    assert_eq!(store.used, 0, "all memory is given back");
}
