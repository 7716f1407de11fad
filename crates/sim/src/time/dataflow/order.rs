//! What a pipeline gives out in order.

/// Bits of the place of a slot in its cycle. A machine file allows 64 slots.
const PLACE_BITS: u32 = 8;
/// The place of the last slot of a cycle.
const LAST: u64 = (1 << PLACE_BITS) - 1;

/// A resource that is given out in order, so many slots in a cycle.
///
/// A slot is the number of its cycle, and below it the slot's place. The last place has all bits set, so that the number behind it is in
/// the next cycle: the next slot is found without a branch that no processor could predict.
#[derive(Clone, Copy, Debug)]
pub(super) struct InOrder {
    /// The last slot that was taken.
    last: u64,
    /// The place of the first slot of a cycle.
    first: u64,
}

impl InOrder {
    /// Creates a resource with so many slots in a cycle, none of which is taken.
    pub(super) fn new(width: u64) -> Self {
        let first = LAST + 1 - width;
        Self { last: first - 1, first }
    }

    /// Goes on to a cycle, none of whose slots are taken.
    pub(super) fn begin(&mut self, cycle: u64) {
        self.last = (cycle << PLACE_BITS | self.first) - 1;
    }

    /// Goes on to a cycle, all of whose slots are taken.
    #[inline]
    pub(super) fn fill(&mut self, cycle: u64) {
        self.last = cycle << PLACE_BITS | LAST;
    }

    /// Returns the cycle of the last slot that was taken.
    #[inline]
    pub(super) fn cycle(self) -> u64 {
        self.last >> PLACE_BITS
    }

    /// Takes so many slots, as [`Self::take`] takes one; returns the cycle of the last of them.
    #[inline(always)]
    pub(super) fn take_all(&mut self, slots: u8, from: u64) -> u64 {
        let mut cycle = self.take(from);
        for _ in 1..slots {
            cycle = self.take(cycle);
        }
        cycle
    }

    /// Takes a slot at `from` at the earliest, and not before the last one that was taken; returns its cycle.
    #[inline]
    pub(super) fn take(&mut self, from: u64) -> u64 {
        let next = self.last + 1;
        let cycle = from.max(next >> PLACE_BITS);
        self.last = next.max(cycle << PLACE_BITS | self.first);
        cycle
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
        let mut slots = InOrder::new(2);
        slots.begin(3);
        let cycles = [0, 3, 3, 9, 4, 9, 10].map(|from| slots.take(from));
        assert_eq!(cycles, [3, 3, 4, 9, 9, 10, 10]);
        assert_eq!((slots.cycle(), slots.take(0)), (10, 11));
        assert_eq!([slots.take_all(1, 0), slots.take_all(3, 0), slots.take_all(2, 15)], [11, 13, 15]);
        slots.fill(20);
        assert_eq!([slots.take(7), slots.take(7), slots.take(7)], [21, 21, 22]);
    }
}
