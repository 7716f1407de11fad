//! The prefetcher of a core's TLBs: what it guesses at a miss is walked to in the background.

use pagewalk_vm::addr::{Asid, Vpn};
use pagewalk_vm::table::{PageTable, Waits, WalkCaching, WalkEnd, WalkOutcome, WalkRead};
use pagewalk_vm::tlb::prefetch::{PrefetchBuffer, TlbMiss, TlbPrefetcher};
use pagewalk_vm::tlb::{Fill, Translation};

use super::{Core, Mmu, Walked, translation_of};
use crate::metrics::Rows;
use crate::metrics::names::tlb_prefetch;
use crate::time::WalkBegin;

/// A core's prefetcher, and the buffer beside the TLBs.
#[derive(Debug)]
pub(crate) struct Prefetching {
    prefetcher: Box<dyn TlbPrefetcher>,
    pub(super) buffer: PrefetchBuffer,
    /// Scratch space for guesses.
    guesses: Vec<Vpn>,
    counts: PrefetchCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct PrefetchCounts {
    misses: u64,
    hits: u64,
    walks: u64,
    empty: u64,
    references: u64,
}

impl Prefetching {
    pub(crate) fn new(prefetcher: Box<dyn TlbPrefetcher>, buffer: PrefetchBuffer) -> Self {
        Self { prefetcher, buffer, guesses: Vec::new(), counts: PrefetchCounts::default() }
    }
}

impl PrefetchCounts {
    fn count(&mut self, reads: impl Iterator<Item = WalkRead>) {
        // Lines for walk caches are counted apart, as they are for a walk that the program waits for.
        self.references += reads.filter(|read| read.waits != Waits::Background).count() as u64;
    }
}

impl<W: WalkCaching> Core<W> {
    /// Returns the core with a prefetcher beside its TLBs.
    pub(crate) fn with_prefetching(self, prefetching: Option<Prefetching>) -> Self {
        Self { prefetching: prefetching.map(Box::new), ..self }
    }
}

impl<T: PageTable> Mmu<T> {
    /// Returns whether misses of a core concern a prefetcher.
    #[inline]
    pub(crate) fn has_prefetcher(&self, core: usize) -> bool {
        self.cores[core].prefetching.is_some()
    }

    /// Moves a page that missed in all TLBs of a core from its prefetch buffer to them; returns the last level, whose time the
    /// buffer takes, and the translation.
    pub(crate) fn take_prefetched(
        &mut self,
        core: usize,
        asid: Asid,
        vpn: Vpn,
    ) -> Option<(usize, Translation)> {
        let Core { tlbs, prefetching, .. } = &mut self.cores[core];
        let Prefetching { buffer, counts, .. } = &mut **prefetching.as_mut()?;
        counts.misses += 1;
        let translation = buffer.take(asid, vpn)?;
        counts.hits += 1;
        let fill = Fill::single(vpn, translation);
        tlbs.fill(asid, &fill);
        let mut levels = tlbs.levels().len();
        if let Some(shared) = &mut self.shared {
            shared.fill(asid, &fill);
            levels += shared.levels().len();
        }
        Some((levels - 1, translation))
    }

    /// Lets a core's prefetcher hear of a miss, and walks to the pages that it guesses: a page that is mapped enters the buffer, and
    /// nothing else happens to it. `hear` is told what each walk reads.
    pub(crate) fn prefetch(
        &mut self,
        core: usize,
        walked: &Walked<'_, T>,
        vpn: Vpn,
        translation: Translation,
        hear: &mut dyn FnMut(&mut dyn Iterator<Item = WalkRead>, WalkBegin),
    ) {
        let Self { cores, host, .. } = self;
        let Core { walk_cache, prefetching, .. } = &mut cores[core];
        let Some(prefetching) = prefetching else { return };
        let Prefetching { prefetcher, buffer, guesses, counts } = &mut **prefetching;
        guesses.clear();
        prefetcher.miss(&TlbMiss::of(walked.asid, vpn, translation.size()), guesses);
        for &page in &*guesses {
            if buffer.contains(walked.asid, page) {
                continue;
            }
            let begins = WalkBegin::after_miss(walk_cache.is_some());
            counts.walks += 1;
            if let Some(host) = host {
                let (_, end) = host.attempt(core, walk_cache.as_mut(), walked, page);
                counts.count(host.reads());
                hear(&mut host.reads(), begins);
                match end {
                    Ok(WalkEnd::Leaf { leaf, level }) => {
                        buffer.put(walked.asid, page, translation_of::<T>(leaf, level));
                    }
                    // A prefetch does not fault, and does not leave the guest either.
                    Ok(WalkEnd::Empty { .. }) | Err(_) => counts.empty += 1,
                }
                continue;
            }
            let walk = walked.table.walk(walked.memory, walked.asid, page, walk_cache.as_mut());
            counts.count(walk.reads());
            hear(&mut walk.reads(), begins);
            if let Some(second) = walk.second() {
                counts.count(second.reads());
                hear(&mut second.reads(), WalkBegin::Continued);
            }
            match walk.end() {
                WalkEnd::Leaf { leaf, level } => {
                    buffer.put(walked.asid, page, translation_of::<T>(leaf, level))
                }
                WalkEnd::Empty { .. } => counts.empty += 1,
            }
        }
    }

    /// Adds the counts of prefetchers to the rows, if the cores have them.
    pub(super) fn prefetch_rows(&self, rows: &mut Rows) {
        let counts = || self.cores.iter().filter_map(|core| Some(core.prefetching.as_ref()?.counts));
        if counts().next().is_none() {
            return;
        }
        let mut sum = |name, of: fn(PrefetchCounts) -> u64| rows.sum(name, counts().map(of).sum());
        sum(tlb_prefetch::MISSES, |counts| counts.misses);
        sum(tlb_prefetch::HITS, |counts| counts.hits);
        sum(tlb_prefetch::PREFETCHES, |counts| counts.walks);
        sum(tlb_prefetch::EMPTY, |counts| counts.empty);
        sum(tlb_prefetch::REFERENCES, |counts| counts.references);
    }
}
