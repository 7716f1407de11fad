//! The accesses of a job that remain when only its pages are of interest: of its accesses to a page the first, and the first store.

use pagewalk_trace::Access;

/// Entries of the table: for the pages of a job, which are some tens, with room.
const ENTRIES: usize = 1 << 10;

/// Remembers which pages the job at hand has touched.
pub(crate) struct Thin {
    /// Page and kind of an access, with the job that it belongs to; open addressing with linear probing. An entry of
    /// another job counts as empty, so that a new job need not clear the table.
    table: Vec<(u64, u64)>,
    job: u64,
    /// Entries of this job.
    used: usize,
    /// Up to where in the batch everything is thinned.
    pub(crate) done: usize,
    last: Access,
}

impl Thin {
    pub(crate) fn new(done: usize) -> Self {
        Self { table: vec![(0, 0); ENTRIES], job: 1, used: 0, done, last: Access::NONE }
    }

    /// Forgets the pages of the job before.
    pub(crate) fn next_job(&mut self) {
        self.job += 1;
        self.used = 0;
        self.last = Access::NONE;
    }

    /// Moves those of `accesses[done..len]` that remain together, and returns where they end.
    pub(crate) fn compact(&mut self, accesses: &mut [Access], len: usize) -> usize {
        let mut kept = self.done;
        for at in self.done..len {
            let access = accesses[at];
            if self.is_news(access) {
                accesses[kept] = access;
                kept += 1;
            }
        }
        self.done = kept;
        kept
    }

    fn is_news(&mut self, access: Access) -> bool {
        // Most often a job goes on where it is.
        let page = access.addr().page();
        if page == self.last.addr().page() && (self.last.is_write() || !access.is_write()) {
            return false;
        }
        self.last = access;
        // A store is an access, too: after it, loads of the page are no news.
        match access.is_write() {
            false => self.enter(page.0 << 1),
            true => {
                let is_first_store = self.enter(page.0 << 1 | 1);
                if is_first_store {
                    self.enter(page.0 << 1);
                }
                is_first_store
            }
        }
    }

    /// Whether this job had no such entry; now it has.
    fn enter(&mut self, key: u64) -> bool {
        if self.used > ENTRIES / 2 {
            // A job of so many pages is forgotten in the middle; a few of its accesses come twice.
            self.next_job();
        }
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ENTRIES.ilog2())) as usize;
        while self.table[at].1 == self.job {
            if self.table[at].0 == key {
                return false;
            }
            at = (at + 1) % ENTRIES;
        }
        self.table[at] = (key, self.job);
        self.used += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pagewalk_vm::addr::VirtAddr;

    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn the_first_access_and_the_first_store_of_each_page_remain() {
        let mut random = SplitMix64::new(4);
        let mut thin = Thin::new(0);
        for pages in [1, 3, 40, 200] {
            let all: Vec<_> = (0..1000)
                .map(|_| {
                    Access::new(
                        VirtAddr(0x7f00_0000_0000 + random.below(pages << 12)),
                        1,
                        random.below(3) == 0,
                    )
                })
                .collect();
            let (mut touched, mut stored) = (BTreeSet::new(), BTreeSet::new());
            let expected: Vec<_> = all
                .iter()
                .copied()
                .filter(|access| {
                    let is_first_store = access.is_write() && stored.insert(access.addr().page());
                    touched.insert(access.addr().page()) || is_first_store
                })
                .collect();
            // At one go, and in two.
            for cut in [0, 500] {
                thin.next_job();
                thin.done = 0;
                let mut accesses = all.clone();
                let kept = thin.compact(&mut accesses, cut);
                accesses.copy_within(cut.., kept);
                let kept = thin.compact(&mut accesses, kept + all.len() - cut);
                assert_eq!(accesses[..kept], expected, "{pages} pages");
            }
        }
    }

    #[test]
    fn a_job_of_very_many_pages_repeats_some_and_loses_none() {
        let mut accesses: Vec<_> =
            (0..5000).map(|i| Access::load(VirtAddr((1 + i % 1500) << 12), 8)).collect();
        let mut thin = Thin::new(0);
        let kept = thin.compact(&mut accesses, 5000);
        let pages: BTreeSet<_> = accesses[..kept].iter().map(|access| access.addr().page()).collect();
        assert_eq!(pages.len(), 1500);
    }
}
