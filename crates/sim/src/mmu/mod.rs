//! The translation hardware of all cores: TLBs, walk caches, and the walkers over a page table.

mod fetch;
mod filter;
mod host;
mod prefetch;
mod side;

use pagewalk_vm::addr::{Asid, PageSize, Vpn};
use pagewalk_vm::table::{
    Leaf, MOST_LEVELS, PageTable, SparseMemory, Waits, WalkCaching, WalkEnd, WalkOutcome, WalkRead,
};
use pagewalk_vm::tlb::{Fill, LevelCounts, TlbHit, Tlbs, Translation};

use self::filter::FrontFilter;
pub(crate) use self::filter::{MOST_CLASSES, PageUse};
pub(crate) use self::host::Below;
pub(crate) use self::prefetch::Prefetching;
use self::side::InstructionSide;
use crate::metrics::Rows;
use crate::metrics::names::{tlb, walk, walk_cache};
use crate::time::{Missed, WalkBegin};

/// The translation hardware of all cores, over page tables `T`.
pub(crate) struct Mmu<T: PageTable> {
    cores: Vec<Core<T::Caches>>,
    /// The TLB levels that all cores share, behind those of each core.
    shared: Option<Tlbs>,
    /// Levels of the page tables.
    levels: u32,
    counts: WalkCounts,
    /// The host, if the machine is a guest: TLBs hold its frames then.
    host: Option<Below>,
}

/// A core's translation hardware.
pub(crate) struct Core<W> {
    tlbs: Tlbs,
    walk_cache: Option<W>,
    prefetching: Option<Box<Prefetching>>,
    /// What is for instructions, if the core fetches them.
    instructions: Option<Box<InstructionSide>>,
    front: FrontFilter,
    /// Accesses that took the slow path: all others are known hits of the first level.
    looked_up: u64,
    /// All accesses of this core, those included that were made again because a page was not in DRAM.
    accesses: u64,
}

/// Counts of the walkers of all cores.
#[derive(Clone, Debug, Default)]
struct WalkCounts {
    walks: u64,
    /// By level, leaf first.
    references: [u64; MOST_LEVELS],
    /// Of those walks' translations by the host.
    of_host: u64,
    /// Lines of walk tables fetched for walk caches.
    cache_refills: u64,
    dirty_updates: u64,
}

/// The page table of the address space that a core runs in, as its walker reads it.
pub(crate) struct Walked<'a, T> {
    pub(crate) asid: Asid,
    pub(crate) table: &'a T,
    pub(crate) memory: &'a SparseMemory,
}

/// A walk, and what it found, or the entry in a page that is not in DRAM.
pub(crate) struct Finished<W> {
    pub(crate) walk: W,
    pub(crate) end: Result<WalkEnd, Missed>,
}

/// Hears what a walk reads, in order.
pub(crate) trait WalkListener {
    /// Notes where a walk will end, before it reads anything.
    fn leads_to(&mut self, end: WalkEnd);

    /// Notes that a walk reads these entries. One in a page that is not in DRAM ends the walk.
    fn reads(&mut self, reads: impl Iterator<Item = WalkRead>, begins: WalkBegin) -> Option<Missed>;

    /// Notes that the walk ends with an exit to the host, which takes so long; the walk begins anew.
    fn exits(&mut self, ps: u64);
}

impl<W: WalkCaching> Core<W> {
    /// Creates a core's hardware over page tables with base pages of a size. `classes`: the most that the front filter may tell apart;
    /// none for a filter that never learns.
    pub(crate) fn new(mut tlbs: Tlbs, walk_cache: Option<W>, base: PageSize, classes: usize) -> Self {
        let mut front = match classes {
            0 => FrontFilter::never(),
            _ => FrontFilter::new(tlbs.levels().first(), base, classes),
        };
        if classes > 0 && tlbs.has_first_level_for_stores() {
            tlbs.select(true);
            front = front.with_stores(FrontFilter::new(tlbs.levels().first(), base, classes));
            tlbs.select(false);
        }
        Self { tlbs, walk_cache, prefetching: None, instructions: None, front, looked_up: 0, accesses: 0 }
    }

    /// Lets the core look up the next reference to every page.
    fn forget_repetitions(&mut self) {
        self.front.flush();
        if let Some(side) = &mut self.instructions {
            side.front.flush();
        }
    }

    fn flush_walk_cache(&mut self, asid: Asid) {
        if let Some(cache) = &mut self.walk_cache {
            cache.flush(Some(asid));
        }
    }
}

impl<T: PageTable> Mmu<T> {
    pub(crate) fn new(
        levels: u32,
        cores: Vec<Core<T::Caches>>,
        shared: Option<Tlbs>,
        host: Option<Below>,
    ) -> Self {
        Self { levels, cores, shared, counts: WalkCounts::default(), host }
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Counts so many accesses of a core.
    #[inline(always)]
    pub(crate) fn count_accesses(&mut self, core: usize, accesses: u64) {
        self.cores[core].accesses += accesses;
    }

    /// Returns the front filter of a core.
    #[inline(always)]
    pub(crate) fn front(&self, core: usize) -> &FrontFilter {
        &self.cores[core].front
    }

    /// Learns a translation that a core has finished; repetitions need no look-up.
    #[inline(always)]
    pub(crate) fn learn(&mut self, core: usize, vpn: Vpn, translation: Translation) {
        let core = &mut self.cores[core];
        if core.tlbs.has_first_level_for_stores() {
            core.front.learn_split(vpn, translation, core.tlbs.is_for_stores());
        } else {
            core.front.learn(vpn, translation);
        }
    }

    /// Looks a page up in a core's TLBs, for a load or a store.
    #[inline(always)]
    pub(crate) fn lookup(&mut self, core: usize, asid: Asid, vpn: Vpn, write: bool) -> Option<TlbHit> {
        let core = &mut self.cores[core];
        core.looked_up += 1;
        core.tlbs.select(write);
        match core.tlbs.lookup(asid, vpn) {
            None => lookup_shared(self.shared.as_mut()?, core, asid, vpn),
            hit => hit,
        }
    }

    /// Walks to a page, as short as the walk caches make it.
    #[inline(always)]
    pub(crate) fn walk<L: WalkListener>(
        &mut self,
        core: usize,
        walked: &Walked<'_, T>,
        vpn: Vpn,
        listener: &mut L,
    ) -> Finished<T::Walk> {
        if let Some(host) = &mut self.host {
            return host.walk((core, &mut self.cores[core]), &mut self.counts, walked, vpn, listener);
        }
        let caches = self.cores[core].walk_cache.as_mut();
        let begins = WalkBegin::after_miss(caches.is_some());
        let walk = walked.table.walk(walked.memory, walked.asid, vpn, caches);
        self.counts.walks += 1;
        self.counts.count(walk.reads());
        listener.leads_to(walk.end());
        let mut stop = listener.reads(walk.reads(), begins);
        if stop.is_none()
            && let Some(second) = walk.second()
        {
            self.counts.count(second.reads());
            stop = listener.reads(second.reads(), WalkBegin::Continued);
        }
        let end = stop.map_or_else(|| Ok(walk.end()), Err);
        Finished { walk, end }
    }

    /// Fills a core's TLBs after a walk; mosaic arrays also get the run's other pages.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        core: usize,
        walked: &Walked<'_, T>,
        vpn: Vpn,
        translation: Translation,
        walk: &T::Walk,
    ) {
        let shared_pages = self.shared.as_ref().map_or(1, Tlbs::cluster_pages);
        let pages = self.cores[core].tlbs.cluster_pages().max(shared_pages);
        let tlbs = &mut self.cores[core].tlbs;
        let mut fill_all = |fill: &Fill<'_>| {
            tlbs.fill(walked.asid, fill);
            if let Some(shared) = &mut self.shared {
                shared.fill(walked.asid, fill);
            }
        };
        // A guest's large page may be a small one in the host.
        let is_small = translation.is_small()
            && (self.host.is_none() || matches!(walk.end(), WalkEnd::Leaf { level: 0, .. }));
        if pages == 1 || !is_small {
            return fill_all(&Fill::single(vpn, translation));
        }
        let base = Vpn(vpn.0 & !(pages - 1));
        let mut words = [0; 64];
        let words = &mut words[..pages as usize];
        let leaves = walked.table.leaf_run(walked.memory, walk, base, words.len());
        let page = Leaf::data(translation.frame());
        for (word, leaf) in words.iter_mut().zip(leaves) {
            let leaf = match &self.host {
                Some(host) => leaf.and_then(|leaf| host.neighbour(page, leaf)),
                None => leaf,
            };
            *word = leaf.map_or(0, |leaf| translation_of::<T>(leaf, 0).to_word());
        }
        fill_all(&Fill { vpn, translation, cluster: words, cluster_base: base });
    }

    /// Tells a core's TLBs that a store has made an entry dirty.
    #[inline(always)]
    pub(crate) fn set_dirty(&mut self, core: usize, asid: Asid, vpn: Vpn) {
        let Core { tlbs, prefetching, .. } = &mut self.cores[core];
        tlbs.set_dirty(asid, vpn);
        if let Some(shared) = &mut self.shared {
            shared.set_dirty(asid, vpn);
        }
        if let Some(prefetching) = prefetching {
            prefetching.buffer.set_dirty(asid, vpn);
        }
        self.counts.dirty_updates += 1;
    }

    /// Removes one page's translation from every core.
    pub(crate) fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        if let Some(shared) = &mut self.shared {
            shared.invalidate(asid, vpn);
        }
        for core in &mut self.cores {
            core.tlbs.invalidate(asid, vpn);
            if let Some(prefetching) = &mut core.prefetching {
                prefetching.buffer.invalidate(asid, vpn);
            }
            core.forget_repetitions();
        }
    }

    /// Removes an address space's translations from every core, and the walk caches' part of it.
    pub(crate) fn flush(&mut self, asid: Asid) {
        if let Some(shared) = &mut self.shared {
            shared.flush(Some(asid));
        }
        for core in &mut self.cores {
            core.tlbs.flush(Some(asid));
            if let Some(prefetching) = &mut core.prefetching {
                prefetching.buffer.flush(Some(asid));
            }
            core.flush_walk_cache(asid);
            core.forget_repetitions();
        }
    }

    /// Removes an address space from every core's walk caches.
    pub(crate) fn flush_walk_caches(&mut self, asid: Asid) {
        self.cores.iter_mut().for_each(|core| core.flush_walk_cache(asid));
    }

    /// Lets every core look up the next reference to every page.
    pub(crate) fn forget_repetitions(&mut self) {
        self.cores.iter_mut().for_each(Core::forget_repetitions);
    }

    /// Lets a core look up the next reference to every page.
    pub(crate) fn forget_repetitions_of(&mut self, core: usize) {
        self.cores[core].forget_repetitions();
    }

    /// Switches the filters off, for tests that compare machines with and without them.
    #[cfg(test)]
    pub(crate) fn without_filters(&mut self) {
        for core in &mut self.cores {
            core.front = FrontFilter::never();
            core.instructions.iter_mut().for_each(|side| side.front = FrontFilter::never());
        }
    }

    /// Returns the number of accesses that the filters knew to change nothing.
    #[cfg(test)]
    pub(crate) fn skipped(&self) -> u64 {
        self.cores.iter().map(|core| core.accesses - core.looked_up).sum()
    }

    /// Returns the number of all accesses of all cores.
    pub(crate) fn accesses(&self) -> u64 {
        self.cores.iter().map(|core| core.accesses).sum()
    }

    /// Adds the counts of TLBs, walkers and walk caches to the rows.
    pub(crate) fn rows(&self, rows: &mut Rows) {
        for (counts, level) in self.tlb_counts().iter().zip(1..) {
            rows.sum(tlb::accesses(level), counts.hits + counts.misses);
            rows.sum(tlb::hits(level), counts.hits);
            rows.sum(tlb::misses(level), counts.misses);
            rows.sum(tlb::sub_entry_misses(level), counts.sub_entry_misses);
        }
        rows.sum(walk::WALKS, self.counts.walks);
        if let Some(host) = &self.host {
            host.rows(rows);
        }
        rows.sum(walk::REFERENCES, self.counts.of_host + self.counts.references.iter().sum::<u64>());
        for level in 0..self.levels as usize {
            rows.sum(walk::references_of_level(level), self.counts.references[level]);
        }
        rows.sum(walk::DIRTY_UPDATES, self.counts.dirty_updates);
        self.prefetch_rows(rows);
        self.instruction_rows(rows);
        let caches = || self.cores.iter().filter_map(|core| core.walk_cache.as_ref());
        let Some(first) = caches().next() else { return };
        for (at, (kind, _)) in first.kinds().into_iter().enumerate() {
            rows.sum(walk::kind(kind), caches().map(|cache| cache.kinds()[at].1).sum());
        }
        rows.sum(walk_cache::LOOKUPS, caches().map(|cache| cache.lookups()).sum());
        for (at, (part, _)) in first.hits().into_iter().enumerate() {
            rows.sum(walk_cache::hits(&part), caches().map(|cache| cache.hits()[at].1).sum());
        }
        if !first.kinds().is_empty() {
            rows.sum(walk_cache::REFILLS, self.counts.cache_refills);
        }
    }

    /// Returns the TLB levels' counts over all cores, the front filter's known hits included.
    fn tlb_counts(&self) -> Vec<LevelCounts> {
        let levels = self.cores.first().map_or(0, |core| core.tlbs.levels().len());
        let mut sums = vec![LevelCounts::default(); levels];
        for core in &self.cores {
            for (level, sum) in sums.iter_mut().enumerate() {
                *sum += core.tlbs.counts(level);
            }
            if let Some(first) = sums.first_mut() {
                first.hits += core.accesses - core.looked_up;
            }
        }
        let shared = self.shared.iter().flat_map(Tlbs::levels);
        sums.extend(shared.map(|level| level.counts()));
        sums
    }
}

/// Looks a page up that missed in all TLBs of a core in those that all cores share; a hit fills the core's.
fn lookup_shared<W>(shared: &mut Tlbs, core: &mut Core<W>, asid: Asid, vpn: Vpn) -> Option<TlbHit> {
    let hit = shared.lookup(asid, vpn)?;
    shared.hand_on(hit, asid, vpn, &mut core.tlbs);
    Some(TlbHit { level: hit.level + core.tlbs.levels().len() as u32, ..hit })
}

impl WalkCounts {
    #[inline(always)]
    fn count(&mut self, reads: impl Iterator<Item = WalkRead>) {
        for read in reads {
            match read.waits {
                Waits::Background => self.cache_refills += 1,
                Waits::InTurn | Waits::Together { .. } => self.references[read.level as usize] += 1,
            }
        }
    }
}

/// Returns the translation that a leaf of a level gives.
#[inline]
pub(crate) fn translation_of<T: PageTable>(leaf: Leaf, level: u32) -> Translation {
    Translation::new(leaf.frame, T::page_size(level), leaf.writable, leaf.dirty)
}
