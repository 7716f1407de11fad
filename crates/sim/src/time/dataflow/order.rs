//! What a pipeline gives out in order.

/// A resource that is given out in order, so many in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InOrder {
    pub(super) cycle: u64,
    pub(super) taken: u32,
}

impl InOrder {
    /// Takes a slot at `from` at the earliest, and not before the last one that was taken.
    #[inline]
    pub(super) fn take(&mut self, from: u64, width: u32) -> u64 {
        if from > self.cycle {
            *self = Self { cycle: from, taken: 1 };
        } else if self.taken < width {
            self.taken += 1;
        } else {
            *self = Self { cycle: self.cycle + 1, taken: 1 };
        }
        self.cycle
    }
}

/// The times at which the last so many entries of a buffer became free.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    times: Box<[u64]>,
    next: usize,
}

impl Ring {
    pub(super) fn new(entries: usize) -> Self {
        Self { times: vec![0; entries].into_boxed_slice(), next: 0 }
    }

    /// When the entry that comes next is free.
    #[inline]
    pub(super) fn free(&self) -> u64 {
        self.times[self.next]
    }

    #[inline]
    pub(super) fn push(&mut self, free: u64) {
        self.times[self.next] = free;
        self.next = if self.next + 1 == self.times.len() { 0 } else { self.next + 1 };
    }
}
