//! Resources that are busy for a while.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Equal resources, of which a request takes the one that has been free for longest, or will be free first.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    free_at: BinaryHeap<Reverse<u64>>,
}

impl Pool {
    pub(super) fn new(count: u32) -> Self {
        Self { free_at: (0..count).map(|_| Reverse(0)).collect() }
    }

    /// Returns the earliest time at which the next request could have one.
    #[inline(always)]
    pub(super) fn next_free_ps(&self) -> u64 {
        self.free_at.peek().map_or(0, |first| first.0)
    }

    /// Takes one at `from_ps` at the earliest; returns when. `until_ps` tells, given that, when it is free again.
    #[inline(always)]
    pub(super) fn take(&mut self, from_ps: u64, until_ps: impl FnOnce(u64) -> u64) -> u64 {
        let mut first = self.free_at.peek_mut().expect("a pool is never empty");
        let start_ps = first.0.max(from_ps);
        first.0 = until_ps(start_ps);
        start_ps
    }
}
