//! The counts of the kernel, as rows.

use super::counts::KernelCounts;
use super::state::State;
use crate::metrics::Rows;
use crate::metrics::names::{fault, frames, kernel, reclaim, swap, table};

impl State {
    pub(super) fn rows(&self, chunk_rows: usize, manages_tier: bool, rows: &mut Rows) {
        let KernelCounts { faults, changes, resident, upkeep } = &self.counts;
        let sizes = self.shape().granule.sizes();
        for (&size, &faults) in sizes.iter().zip(&faults.minor) {
            rows.sum(fault::minor(size), faults);
        }
        rows.sum(fault::PAGE_CACHE, faults.page_cache);
        rows.sum(fault::PROTECTION, faults.protection);
        rows.sum(fault::UNANNOUNCED_PAGES, faults.unannounced_pages);
        rows.sum(kernel::SHOOTDOWNS, changes.shootdowns);
        rows.sum(kernel::DROPPED_PAGES, changes.dropped_pages);
        rows.sum(kernel::HUGE_PAGE_SPLITS, changes.splits);
        rows.sum(kernel::HUGE_PAGE_COLLAPSES, changes.collapses);
        rows.sum(kernel::COPIES_ON_WRITE, changes.copies_on_write);
        rows.sum(kernel::REFUSED_CALLS, changes.refused_calls);
        let large = sizes.iter().zip(self.resident_pages()).skip(1).map(|(size, pages)| pages * size.bytes());
        rows.level(frames::RESIDENT, self.resident_bytes());
        rows.level(frames::RESIDENT_PEAK, resident.bytes_peak);
        rows.level(frames::RESIDENT_HUGE, large.sum());
        rows.level(frames::MEMORY, self.spec.paging.frames.memory_bytes());
        if self.frames.given().is_some() {
            rows.sum(frames::GIVEN_PAGES, faults.given_pages);
            rows.sum(frames::OWN_PAGES, faults.own_pages);
        }
        if let Some(counts) = self.frames.ordinary().counts() {
            rows.sum(frames::COMPACTIONS, counts.compactions);
            rows.sum(frames::COMPACTION_FAILURES, counts.failures);
            rows.sum(frames::MIGRATED_PAGES, counts.migrated);
            rows.sum(frames::OTHERS_RECLAIMED_PAGES, counts.reclaimed);
        }
        if manages_tier || self.spec.paging.reclaim.is_some() {
            rows.sum(fault::MAJOR, faults.major);
        }
        self.reclaim_rows(rows);
        rows.level(table::BYTES, self.table_space.bytes);
        rows.level(table::BYTES_PEAK, self.table_space.bytes_peak);
        rows.level(table::CONTIGUOUS, self.table_space.largest_bytes);
        rows.sum(table::UPKEEP, upkeep.ps);
        if !self.spec.translation.table.is_hashed() {
            return;
        }
        rows.level(table::CHUNK_ROWS, chunk_rows as u64);
        rows.sum(table::CHUNK_ROWS_SWITCHED, upkeep.chunk_rows_switched);
        rows.sum(table::LINES_VISITED, upkeep.lines_visited);
        rows.sum(table::LINES_MOVED, upkeep.lines_moved);
    }

    /// Rows of hash-placed frames, and of pages that left; nothing for a machine without them.
    fn reclaim_rows(&self, rows: &mut Rows) {
        if let Some(placed) = self.frames.hash_placed() {
            let total = placed.frames().shape().frames();
            rows.level(frames::PLACED, placed.frames().used());
            rows.level(frames::PLACED_PEAK, placed.most_used());
            rows.level(frames::PLACED_TOTAL, total);
            // All of memory before there was one: the first conflict lies above what was reached.
            let first = placed.first_conflict().unwrap_or(total);
            rows.level(frames::FIRST_CONFLICT, first);
        }
        if self.spec.paging.reclaim.is_none() {
            return;
        }
        rows.sum(fault::SWAP_CACHE, self.counts.faults.swap_cache);
        rows.sum(reclaim::EVICTIONS, self.frames.evictions());
        rows.sum(reclaim::COPIED_PAGES, self.counts.changes.copied_pages);
        let policy = self.frames.hash_placed().map(|placed| placed.policy().counts());
        for (name, value) in policy.into_iter().flatten() {
            rows.sum(reclaim::of_policy(name), value);
        }
        rows.sum(swap::PAGES_IN, self.swap.space.pages_in());
        rows.sum(swap::PAGES_OUT, self.swap.space.pages_out());
        rows.sum(swap::CLEAN_EVICTIONS, self.swap.space.clean());
        rows.sum(swap::READ_AHEAD, self.swap.counts.read_ahead);
        rows.sum(swap::READ_AHEAD_UNUSED, self.swap.counts.read_ahead_unused);
        rows.sum(reclaim::AHEAD, self.swap.counts.reclaimed_ahead);
        if let Some(accelerator) = &self.accelerator {
            accelerator.counts.rows(rows);
        }
    }
}
