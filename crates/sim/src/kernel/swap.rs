//! The swap device as the kernel sees it: copies, pages that were read ahead, and pages on their way out.

use std::collections::{BTreeMap, VecDeque};

use pagewalk_vm::addr::{Asid, PAGE_BYTES, Pfn, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::reclaim::SwapSpace;

/// Most pages on their way to a disk: more have to wait, as Linux's writers do. A cluster of 32 for every place in the
/// queue of a usual disk; assumed.
const MOST_LEAVING: usize = 1_024;

/// The copies on the swap device, and the pages between it and memory.
pub(crate) struct Swap {
    pub(crate) space: SwapSpace,
    /// Pages in frames that no entry names yet: they were read ahead.
    cached: BTreeMap<(Asid, Vpn), Cached>,
    /// Pages on their way to the device, that can still be had from memory; in the order of leaving.
    leaving: VecDeque<(PageKey, u64)>,
    /// Pages that have left since the other cores were last told.
    pub(super) unflushed: u64,
    pub(super) counts: SwapCounts,
}

/// Counts of what the kernel did ahead of need.
#[derive(Clone, Copy, Default)]
pub(super) struct SwapCounts {
    /// Pages read because another's copy lay beside theirs.
    pub(super) read_ahead: u64,
    /// Of these, the pages that left again without a use.
    pub(super) read_ahead_unused: u64,
    /// Pages that left before their frame was needed.
    pub(super) reclaimed_ahead: u64,
}

/// A page that was read ahead.
#[derive(Clone, Copy)]
pub(super) struct Cached {
    pub(super) frame: Pfn,
    pub(super) ready_ps: u64,
}

impl Swap {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            space: SwapSpace::new(bytes / PAGE_BYTES),
            cached: BTreeMap::new(),
            leaving: VecDeque::new(),
            unflushed: 0,
            counts: SwapCounts::default(),
        }
    }

    /// Notes that a page has a frame and will be read into it.
    pub(super) fn cache(&mut self, page: PageKey, frame: Pfn) {
        self.cached.insert((page.asid, page.page), Cached { frame, ready_ps: 0 });
    }

    pub(super) fn is_cached(&self, page: PageKey) -> bool {
        self.cached.contains_key(&(page.asid, page.page))
    }

    /// Notes that a page which was read ahead is complete at `ready_ps`.
    pub(super) fn set_ready(&mut self, page: PageKey, ready_ps: u64) {
        if let Some(cached) = self.cached.get_mut(&(page.asid, page.page)) {
            cached.ready_ps = ready_ps;
        }
    }

    /// Takes a page that was read ahead.
    pub(super) fn take_cached(&mut self, page: PageKey) -> Option<Cached> {
        self.cached.remove(&(page.asid, page.page))
    }

    /// Forgets the pages `[start, end)` that were read ahead; returns their frames.
    pub(super) fn drop_cached(&mut self, asid: Asid, start: Vpn, end: Vpn) -> Vec<Pfn> {
        if self.cached.is_empty() || start >= end {
            return Vec::new();
        }
        let pages: Vec<Vpn> = self.cached.range((asid, start)..(asid, end)).map(|(page, _)| page.1).collect();
        self.counts.read_ahead_unused += pages.len() as u64;
        pages
            .iter()
            .filter_map(|&page| self.cached.remove(&(asid, page)))
            .map(|cached| cached.frame)
            .collect()
    }

    /// Returns whether a page is still on its way to the device.
    pub(super) fn is_leaving(&mut self, page: PageKey, now_ps: u64) -> bool {
        while self.leaving.front().is_some_and(|&(_, done_ps)| done_ps <= now_ps) {
            self.leaving.pop_front();
        }
        self.leaving.iter().any(|&(other, _)| other == page)
    }

    /// Notes that a page is on its way until `done_ps`. Returns until when its writer has to wait, if too many are.
    pub(super) fn leave(&mut self, page: PageKey, done_ps: u64) -> Option<u64> {
        self.leaving.push_back((page, done_ps));
        let is_full = self.leaving.len() > MOST_LEAVING;
        is_full.then(|| self.leaving.pop_front())?.map(|(_, done_ps)| done_ps)
    }

    /// Returns the number of frames that hold pages without entries.
    #[cfg(test)]
    pub(super) fn frames_without_entry(&self) -> u64 {
        self.cached.len() as u64
    }
}
