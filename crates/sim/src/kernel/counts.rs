//! What the kernel counted, as rows.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::reclaim::PlacedOrder;
use pagewalk_vm::table::PageTable;

use super::state::State;
use crate::metrics::Rows;
use crate::metrics::names::{fault, frames, kernel, reclaim, swap, table};
use crate::spec::settings::TableSpec;

/// What the kernel counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelCounts {
    pub(crate) faults: FaultCounts,
    pub(crate) changes: ChangeCounts,
    pub(crate) resident: Resident,
    pub(super) upkeep: UpkeepCounts,
}

/// Counts of page faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultCounts {
    /// First touches and copies, by page size.
    pub(crate) minor: [u64; 3],
    pub(super) major: u64,
    /// Faults for pages that had left, and were in memory again or still.
    pub(super) swap_cache: u64,
    /// Faults for pages of files and shared memory that another mapping had.
    pub(super) page_cache: u64,
    pub(super) protection: u64,
    pub(super) unannounced_pages: u64,
    /// First touches of pages of which the trace says where they are.
    pub(crate) given_pages: u64,
    /// First touches of pages for which the machine chose a frame.
    pub(crate) own_pages: u64,
}

/// Counts of changes of address spaces, and of what they did to pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeCounts {
    pub(super) refused_calls: u64,
    pub(super) shootdowns: u64,
    pub(crate) dropped_pages: u64,
    pub(crate) splits: u64,
    /// Huge pages made of small ones because the program asked for it.
    pub(super) collapses: u64,
    /// Pages copied because one of those that shared a frame was written to.
    pub(super) copies_on_write: u64,
    /// Pages copied because their frame was not one of theirs any more.
    pub(super) copied_pages: u64,
}

/// The resident pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resident {
    /// By page size, now; without those in given frames.
    pub(crate) pages: [u64; 3],
    /// The most bytes of all of them.
    pub(super) bytes_peak: u64,
}

/// What page tables took of the kernel's time, beside entering pages.
#[derive(Clone, Debug, Default)]
pub(super) struct UpkeepCounts {
    pub(super) ps: u64,
    pub(super) lines_visited: u64,
    pub(super) lines_moved: u64,
    /// Rows of chunk tables saved and restored at switches between processes.
    pub(super) chunk_rows_switched: u64,
}

impl<T: PageTable> State<T> {
    pub(super) fn rows(&self, manages_tier: bool, rows: &mut Rows) {
        let KernelCounts { faults, changes, resident, upkeep } = &self.counts;
        for size in PageSize::ALL {
            rows.sum(fault::minor(size), faults.minor[size as usize]);
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
        let pages = self.resident_pages();
        let large = |size: PageSize| pages[size as usize] * size.bytes();
        rows.level(frames::RESIDENT, self.resident_bytes());
        rows.level(frames::RESIDENT_PEAK, resident.bytes_peak);
        rows.level(frames::RESIDENT_HUGE, large(PageSize::Size2M) + large(PageSize::Size1G));
        rows.level(frames::MEMORY, self.spec.frames.memory_bytes());
        if self.frames.takes_given() {
            rows.sum(frames::GIVEN_PAGES, faults.given_pages);
            rows.sum(frames::OWN_PAGES, faults.own_pages);
        }
        if let Some(counts) = self.frames.crowd_counts() {
            rows.sum(frames::COMPACTIONS, counts.compactions);
            rows.sum(frames::COMPACTION_FAILURES, counts.failures);
            rows.sum(frames::MIGRATED_PAGES, counts.migrated);
            rows.sum(frames::OTHERS_RECLAIMED_PAGES, counts.reclaimed);
        }
        if manages_tier || self.spec.reclaim.is_some() {
            rows.sum(fault::MAJOR, faults.major);
        }
        self.reclaim_rows(rows);
        rows.level(table::BYTES, self.tables.bytes);
        rows.level(table::BYTES_PEAK, self.tables.bytes_peak);
        rows.level(table::CONTIGUOUS, self.tables.largest_bytes);
        rows.sum(table::UPKEEP, upkeep.ps);
        if matches!(self.spec.table, TableSpec::Radix { .. } | TableSpec::Toc) {
            return;
        }
        let chunk_rows = self.processes.list.iter().map(|process| process.table.chunk_rows() as u64).sum();
        rows.level(table::CHUNK_ROWS, chunk_rows);
        rows.sum(table::CHUNK_ROWS_SWITCHED, upkeep.chunk_rows_switched);
        rows.sum(table::LINES_VISITED, upkeep.lines_visited);
        rows.sum(table::LINES_MOVED, upkeep.lines_moved);
    }

    /// Rows of hash-placed frames, and of pages that left; nothing for a machine without them.
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
        rows.sum(fault::SWAP_CACHE, self.counts.faults.swap_cache);
        rows.sum(reclaim::EVICTIONS, self.frames.evictions());
        rows.sum(reclaim::COPIED_PAGES, self.counts.changes.copied_pages);
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
