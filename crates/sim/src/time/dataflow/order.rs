//! What a pipeline gives out in order.

/// Bits of the number of slots that are taken in a cycle. A machine file allows 64.
const TAKEN_BITS: u32 = 8;
const TAKEN: u64 = (1 << TAKEN_BITS) - 1;

/// A resource that is given out in order, so many in a cycle: the last cycle, and below it how many are taken in it. In one number, the
/// next slot is found without a branch that no processor could predict.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InOrder(u64);

impl InOrder {
    /// Creates a resource of which so many are taken in a cycle.
    pub(super) fn new(cycle: u64, taken: u32) -> Self {
        Self(cycle << TAKEN_BITS | u64::from(taken))
    }

    /// Returns the cycle of the last slot that was taken.
    #[inline]
    pub(super) fn cycle(self) -> u64 {
        self.0 >> TAKEN_BITS
    }

    /// Takes a slot at `from` at the earliest, and not before the last one that was taken; returns its cycle.
    #[inline]
    pub(super) fn take(&mut self, from: u64, width: u32) -> u64 {
        let next = (self.0 + 1).max(from << TAKEN_BITS | 1);
        let is_full = next & TAKEN > u64::from(width);
        // The first slot of the next cycle.
        self.0 = if is_full { (next | TAKEN) + 2 } else { next };
        self.cycle()
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

    /// Returns when the entry that comes next is free.
    #[inline]
    pub(super) fn free(&self) -> u64 {
        self.times[self.next]
    }

    /// Takes the entry that comes next, until a time.
    #[inline]
    pub(super) fn push(&mut self, free: u64) {
        self.turn().push(free);
    }

    /// Goes around the entries, for a while.
    #[inline]
    pub(super) fn turn(&mut self) -> Turn<'_> {
        Turn { times: &mut self.times, at: self.next, next: &mut self.next }
    }
}

/// The entries of a buffer while they are taken in turn.
pub(super) struct Turn<'a> {
    times: &'a mut [u64],
    at: usize,
    /// Where the buffer keeps its place.
    next: &'a mut usize,
}

impl Turn<'_> {
    /// Returns when the entry that comes next is free.
    #[inline]
    pub(super) fn free(&self) -> u64 {
        self.times[self.at]
    }

    /// Takes the entry that comes next, until a time.
    #[inline]
    pub(super) fn push(&mut self, free: u64) {
        self.times[self.at] = free;
        self.at = if self.at + 1 == self.times.len() { 0 } else { self.at + 1 };
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        *self.next = self.at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_out_in_order_so_many_in_a_cycle() {
        let mut slots = InOrder::new(3, 0);
        let cycles = [0, 3, 3, 9, 4, 9, 10].map(|from| slots.take(from, 2));
        assert_eq!(cycles, [3, 3, 4, 9, 9, 10, 10]);
        assert_eq!((slots.cycle(), slots.take(0, 2)), (10, 11));
    }
}
