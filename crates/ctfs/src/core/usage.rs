//! The number of pages with frames of each file, so that `stat` need not look at the file's part of the page table.
//!
//! The counts are in memory alone: a count is made when it is first asked for, and every transaction that maps or unmaps pages of the
//! file changes it. Small files are counted each time, which reads one table at most.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::core::inode::Ino;

/// Counts that are remembered at most; then all are forgotten.
const MOST_COUNTS: usize = 1 << 16;

/// Pages with frames, of files whose attributes were asked for.
#[derive(Debug, Default)]
pub(crate) struct PageCounts(Mutex<FxHashMap<Ino, u64>>);

impl PageCounts {
    /// The count of a file, made if it is not known.
    pub(crate) fn get(&self, ino: Ino, count: impl FnOnce() -> u64) -> u64 {
        let mut counts = self.0.lock();
        if let Some(known) = counts.get(&ino) {
            return *known;
        }
        if counts.len() >= MOST_COUNTS {
            counts.clear();
        }
        *counts.entry(ino).or_insert_with(count)
    }

    /// A committed transaction has mapped so many pages of a file more than it has unmapped.
    pub(crate) fn add(&mut self, ino: Ino, net_pages: i64) {
        if let Some(count) = self.0.get_mut().get_mut(&ino) {
            *count = count.saturating_add_signed(net_pages);
        }
    }

    /// The number is no file's any more.
    pub(crate) fn forget(&mut self, ino: Ino) {
        self.0.get_mut().remove(&ino);
    }
}
