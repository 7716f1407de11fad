//! What a machine counted, as rows; sums over phases and ratios come from the rows alone.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::reclaim::PlacedOrder;
use pagewalk_vm::table::{PageTable, WalkCaching};
use pagewalk_vm::tlb::LevelCounts;

use super::Machine;
use crate::metrics::names::{fault, frames, kernel, program, reclaim, swap, table, tlb, walk, walk_cache};
use crate::metrics::{Rows, RunResult, metrics_of, share};
use crate::spec::settings::TableSpec;
use crate::time::Clock;

/// Events that no mechanism counts by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct EventCounts {
    pub(super) stores: u64,
    /// Accesses that were made again because a page was not in DRAM.
    pub(super) repeated: u64,
    pub(super) instructions: u64,
    pub(super) walks: u64,
    /// By level, leaf first.
    pub(super) walk_references: [u64; 5],
    /// Lines of walk tables fetched for walk caches.
    pub(super) walk_cache_refills: u64,
    /// By page size.
    pub(super) faults: [u64; 3],
    pub(super) major_faults: u64,
    /// Faults for pages that had left, and were in memory again or still.
    pub(super) swap_cache_hits: u64,
    /// Faults for pages of files and shared memory that another mapping had.
    pub(super) page_cache_hits: u64,
    /// Pages read because another's copy lay beside theirs, and how many of them nobody wanted.
    pub(super) read_ahead: u64,
    pub(super) read_ahead_unused: u64,
    /// Pages that left before somebody needed their frame.
    pub(super) reclaimed_ahead: u64,
    /// Pages copied because their frame was not one of theirs any more.
    pub(super) copied_pages: u64,
    pub(super) protection_faults: u64,
    pub(super) unannounced_pages: u64,
    pub(super) refused_calls: u64,
    pub(super) dirty_updates: u64,
    pub(super) shootdowns: u64,
    pub(super) dropped_pages: u64,
    pub(super) splits: u64,
    /// Pages copied because one of those that shared a frame was written to.
    pub(super) copies_on_write: u64,
    /// Huge pages made of small ones because the program asked for it.
    pub(super) collapses: u64,
    /// By page size, now.
    pub(super) resident_pages: [u64; 3],
    /// First touches of pages of which the trace says where they are.
    pub(super) given_pages: u64,
    /// First touches of pages for which the machine chose a frame.
    pub(super) own_pages: u64,
    pub(super) resident_bytes_peak: u64,
    /// What page tables took of the kernel's time, beside entering pages.
    pub(super) table_upkeep_ps: u64,
    pub(super) lines_visited: u64,
    pub(super) lines_moved: u64,
    /// Rows of chunk tables saved and restored at switches between processes.
    pub(super) chunk_rows_switched: u64,
}

impl<T: PageTable, C: Clock> Machine<T, C> {
    pub(super) fn begin_phase(&mut self, name: &str) {
        // Otherwise a wait that this snapshot counts could still be hidden by what comes after it.
        self.clock.settle();
        let rows = self.rows();
        self.phases.push((self.unique_phase(name), rows));
    }

    /// A phase's name, with a number if the program had one of that name before.
    fn unique_phase(&self, name: &str) -> String {
        let is_new = |name: &String| self.phases.iter().all(|(other, _)| other != name);
        let mut names = (2..).map(|time| format!("{name} ({time})"));
        Some(name.to_owned())
            .filter(is_new)
            .or_else(|| names.find(is_new))
            .expect("there is always a larger number")
    }

    pub(super) fn result(&self, source: &str) -> RunResult {
        let end = self.rows();
        let mut metrics = metrics_of(&end, None);
        let latencies = self.serving.as_ref().filter(|_| C::TIMED).map(|serving| &serving.latencies);
        metrics.extend(latencies.map(|of| of.metrics(None)).into_iter().flatten());
        for (number, (name, start)) in self.phases.iter().enumerate() {
            let end = self.phases.get(number + 1).map_or(&end, |(_, next)| next);
            metrics.extend(metrics_of(&share(start, end), Some(name)));
            // Before the first phase is number 0.
            metrics.extend(latencies.map(|of| of.metrics(Some((number + 1, name)))).into_iter().flatten());
        }
        let machine = self.spec.name.clone();
        let result = RunResult { machine, source: source.to_owned(), metrics, spans: self.clock.spans() };
        debug_assert_eq!(result.repeated(), None, "{}", self.spec.name);
        result
    }

    /// All counts now, always the same rows in the same order.
    pub(super) fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        self.program_rows(&mut rows);
        self.translation_rows(&mut rows);
        self.paging_rows(&mut rows);
        if let Some(serving) = self.serving.as_ref().filter(|_| C::TIMED) {
            serving.latencies.rows(&mut rows);
        }
        self.clock.rows(&mut rows);
        rows
    }

    fn program_rows(&self, rows: &mut Rows) {
        let made: u64 = self.cores.iter().map(|core| core.accesses).sum();
        let accesses = made - self.counts.repeated;
        rows.sum(program::ACCESSES, accesses);
        rows.sum(program::LOADS, accesses - self.counts.stores);
        rows.sum(program::STORES, self.counts.stores);
        rows.sum(program::INSTRUCTIONS, self.counts.instructions);
    }

    fn translation_rows(&self, rows: &mut Rows) {
        for (counts, level) in self.tlb_counts().iter().zip(1..) {
            rows.sum(tlb::accesses(level), counts.hits + counts.misses);
            rows.sum(tlb::hits(level), counts.hits);
            rows.sum(tlb::misses(level), counts.misses);
            rows.sum(tlb::sub_entry_misses(level), counts.sub_entry_misses);
        }
        rows.sum(walk::WALKS, self.counts.walks);
        rows.sum(walk::REFERENCES, self.counts.walk_references.iter().sum());
        for level in 0..T::LEVELS as usize {
            rows.sum(walk::references_of_level(level), self.counts.walk_references[level]);
        }
        rows.sum(walk::DIRTY_UPDATES, self.counts.dirty_updates);
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
            rows.sum(walk_cache::REFILLS, self.counts.walk_cache_refills);
        }
    }

    fn paging_rows(&self, rows: &mut Rows) {
        let counts = &self.counts;
        for size in PageSize::ALL {
            rows.sum(fault::minor(size), counts.faults[size as usize]);
        }
        rows.sum(fault::PAGE_CACHE, counts.page_cache_hits);
        rows.sum(fault::PROTECTION, counts.protection_faults);
        rows.sum(fault::UNANNOUNCED_PAGES, counts.unannounced_pages);
        rows.sum(kernel::SHOOTDOWNS, counts.shootdowns);
        rows.sum(kernel::DROPPED_PAGES, counts.dropped_pages);
        rows.sum(kernel::HUGE_PAGE_SPLITS, counts.splits);
        rows.sum(kernel::HUGE_PAGE_COLLAPSES, counts.collapses);
        rows.sum(kernel::COPIES_ON_WRITE, counts.copies_on_write);
        rows.sum(kernel::REFUSED_CALLS, counts.refused_calls);
        let resident = self.resident_pages();
        let large = |size: PageSize| resident[size as usize] * size.bytes();
        rows.level(frames::RESIDENT, self.resident_bytes());
        rows.level(frames::RESIDENT_PEAK, counts.resident_bytes_peak);
        rows.level(frames::RESIDENT_HUGE, large(PageSize::Size2M) + large(PageSize::Size1G));
        rows.level(frames::MEMORY, self.spec.frames.memory_bytes());
        if self.frames.takes_given() {
            rows.sum(frames::GIVEN_PAGES, counts.given_pages);
            rows.sum(frames::OWN_PAGES, counts.own_pages);
        }
        if let Some(counts) = self.frames.crowd_counts() {
            rows.sum(frames::COMPACTIONS, counts.compactions);
            rows.sum(frames::COMPACTION_FAILURES, counts.failures);
            rows.sum(frames::MIGRATED_PAGES, counts.migrated);
            rows.sum(frames::OTHERS_RECLAIMED_PAGES, counts.reclaimed);
        }
        if self.tier_by_kernel || self.spec.reclaim.is_some() {
            rows.sum(fault::MAJOR, counts.major_faults);
        }
        self.reclaim_rows(rows);
        rows.level(table::BYTES, self.tables.bytes);
        rows.level(table::BYTES_PEAK, self.tables.bytes_peak);
        rows.level(table::CONTIGUOUS, self.tables.largest_bytes);
        rows.sum(table::UPKEEP, counts.table_upkeep_ps);
        if matches!(self.spec.table, TableSpec::Radix { .. } | TableSpec::Toc) {
            return;
        }
        let chunk_rows = self.processes.iter().map(|process| process.table.chunk_rows() as u64).sum();
        rows.level(table::CHUNK_ROWS, chunk_rows);
        rows.sum(table::CHUNK_ROWS_SWITCHED, counts.chunk_rows_switched);
        rows.sum(table::LINES_VISITED, counts.lines_visited);
        rows.sum(table::LINES_MOVED, counts.lines_moved);
    }

    /// Hash-placed frames, and pages that left; nothing for a machine without them.
    fn reclaim_rows(&self, rows: &mut Rows) {
        if let Some(placed) = self.frames.hash_placed() {
            rows.level(frames::PLACED, placed.used());
            rows.level(frames::PLACED_PEAK, self.frames.most_placed());
            rows.level(frames::PLACED_TOTAL, placed.shape().frames());
            // All of memory before there was one: the first conflict lies above what was reached.
            let first = self.frames.first_conflict().unwrap_or(placed.shape().frames());
            rows.level(frames::FIRST_CONFLICT, first);
        }
        if self.spec.reclaim.is_none() {
            return;
        }
        rows.sum(fault::SWAP_CACHE, self.counts.swap_cache_hits);
        rows.sum(reclaim::EVICTIONS, self.frames.evictions());
        rows.sum(reclaim::COPIED_PAGES, self.counts.copied_pages);
        if let Some(PlacedOrder::Horizon(lru) | PlacedOrder::SampledHorizon(lru, _)) =
            self.frames.placed_order()
        {
            rows.sum(reclaim::HORIZON_ADVANCES, lru.advances());
        }
        if let Some(PlacedOrder::SampledHorizon(_, daemon)) = self.frames.placed_order() {
            rows.sum(reclaim::SCANS, daemon.scans());
            rows.sum(reclaim::ACCESSED_BITS_READ, daemon.asked());
        }
        if let Some(PlacedOrder::Iceberg(lru)) = self.frames.placed_order() {
            rows.sum(reclaim::FORCED_EVICTIONS, lru.forced());
        }
        rows.sum(swap::PAGES_IN, self.swap.pages_in());
        rows.sum(swap::PAGES_OUT, self.swap.pages_out());
        rows.sum(swap::CLEAN_EVICTIONS, self.swap.clean());
        rows.sum(swap::READ_AHEAD, self.counts.read_ahead);
        rows.sum(swap::READ_AHEAD_UNUSED, self.counts.read_ahead_unused);
        rows.sum(reclaim::AHEAD, self.counts.reclaimed_ahead);
        if let Some(accelerated) = &self.accelerated {
            accelerated.counts.rows(rows);
        }
    }

    /// The TLB levels' counts over all cores, the front filter's known hits included.
    fn tlb_counts(&self) -> Vec<LevelCounts> {
        let mut sums = vec![LevelCounts::default(); self.spec.tlb.len()];
        for core in &self.cores {
            for (sum, level) in sums.iter_mut().zip(core.tlbs.levels()) {
                let level = level.counts();
                sum.hits += level.hits;
                sum.misses += level.misses;
                sum.sub_entry_misses += level.sub_entry_misses;
            }
            if let Some(first) = sums.first_mut() {
                first.hits += core.accesses - core.looked_up;
            }
        }
        sums
    }
}
