//! A hashed page table as a machine sees it.

use super::walk::WalkKind;
use super::{HashedDesign, HashedTable, HashedWalk, WalkCaches, split};
use crate::addr::{Asid, PageSize, Vpn};
use crate::table::cuckoo::NoChunk;
use crate::table::{
    Leaf, MapError, PageTable, RunMemory, TableMemory, TableStore, Upkeep, Waits, WalkCaching, WalkEnd,
    WalkOutcome, WalkRead,
};

impl PageTable for HashedTable {
    type Design = HashedDesign;
    type Caches = WalkCaches;
    type Walk = HashedWalk;

    const MAX_LEAF_LEVEL: u32 = 2;

    /// One for each page size.
    fn levels(_: &HashedDesign) -> u32 {
        PageSize::ALL.len() as u32
    }

    fn new(design: &HashedDesign, seed: u64, store: &mut impl TableStore) -> Result<Self, NoChunk> {
        Self::new(design, seed, store)
    }

    fn walk(
        &self,
        _: &impl TableMemory,
        asid: Asid,
        vpn: Vpn,
        caches: Option<&mut WalkCaches>,
    ) -> HashedWalk {
        self.walk(asid, vpn, caches)
    }

    /// The pages of one line.
    fn leaf_run(
        &self,
        _: &impl RunMemory,
        walk: &HashedWalk,
        base: Vpn,
        pages: usize,
    ) -> impl Iterator<Item = Option<Leaf>> {
        (base.0..base.0 + pages as u64).map(|page| {
            let (line, _) = split(Vpn(page), PageSize::Size4K);
            self.leaf(Vpn(page), PageSize::Size4K).filter(|_| line == walk.line)
        })
    }

    fn find(&self, _: &impl TableMemory, vpn: Vpn) -> Option<(Leaf, u32)> {
        self.find(vpn)
    }

    fn is_vacant(&self, _: &impl TableMemory, vpn: Vpn, level: u32) -> bool {
        self.is_vacant(vpn, level)
    }

    fn map(
        &mut self,
        store: &mut impl TableStore,
        vpn: Vpn,
        leaf: Leaf,
        level: u32,
    ) -> Result<Option<NoChunk>, MapError> {
        self.map(vpn, leaf, level, store)
    }

    fn update(
        &mut self,
        _: &mut impl TableMemory,
        vpn: Vpn,
        change: impl FnOnce(&mut Leaf),
    ) -> Option<(Leaf, u32)> {
        self.update(vpn, change)
    }

    /// Walk caches hold what the walk tables say, whatever that is: nothing has to be forgotten.
    fn visit(
        &mut self,
        store: &mut impl TableStore,
        start: Vpn,
        end: Vpn,
        visit: impl FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
    ) -> bool {
        self.visit(start, end, store, visit);
        false
    }

    fn split(&mut self, store: &mut impl TableStore, vpn: Vpn) -> Result<bool, MapError> {
        self.split(vpn, store)
    }

    fn upkeep(&self) -> Upkeep {
        self.upkeep()
    }

    fn chunk_rows(&self) -> usize {
        self.chunks().rows()
    }

    fn release(self, store: &mut impl TableStore) {
        self.release(store);
    }
}

impl WalkOutcome for HashedWalk {
    fn end(&self) -> WalkEnd {
        match self.end {
            Some((leaf, level)) => WalkEnd::Leaf { leaf, level },
            None => WalkEnd::Empty { level: 0 },
        }
    }

    fn reads(&self) -> impl Iterator<Item = WalkRead> {
        let probes = self.probes.iter().map(|probe| WalkRead {
            addr: probe.addr,
            level: probe.size as u32,
            waits: Waits::Together { decides: probe.hit },
        });
        let refill = |&addr| WalkRead { addr, level: 0, waits: Waits::Background };
        probes.chain(self.refills.iter().map(refill))
    }
}

impl WalkCaching for WalkCaches {
    fn flush(&mut self, asid: Option<Asid>) {
        self.flush(asid);
    }

    fn lookups(&self) -> u64 {
        self.lookups()
    }

    fn hits(&self) -> Vec<(String, u64)> {
        ["pmd", "pud"].into_iter().map(str::to_owned).zip(self.hits()).collect()
    }

    fn kinds(&self) -> Vec<(&'static str, u64)> {
        WalkKind::ALL.into_iter().map(|kind| (kind.name(), self.kinds()[kind as usize])).collect()
    }
}
