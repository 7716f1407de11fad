//! A queue, and the same thing used as a stack: vertex numbers of 8 bytes in an array.
//!
//! DEVIATION: the suite's containers (`std::queue`, `std::stack`) keep them in blocks of 512 bytes.

use super::sites;
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// At most as many vertices at once as it was made for.
pub(crate) struct Queue {
    places: Traced<u32, 8>,
    head: usize,
    len: usize,
}

impl Queue {
    pub(crate) fn new(
        capacity: usize,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Self, Stop> {
        Ok(Self { places: Traced::new(capacity, 0, space, out)?, head: 0, len: 0 })
    }

    /// Where the entry `ahead` of the first lies.
    #[inline(always)]
    fn place(&self, ahead: usize) -> usize {
        let at = self.head + ahead;
        if at < self.places.len() { at } else { at - self.places.len() }
    }

    /// Appends a vertex to the queue.
    #[inline(always)]
    pub(crate) fn push(&mut self, v: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        assert!(self.len < self.places.len(), "no more than {} vertices can wait", self.len);
        out.block(&sites::PUSH)?;
        self.len += 1;
        self.places.store(self.place(self.len - 1), v, out)
    }

    /// Takes the first vertex.
    #[inline(always)]
    pub(crate) fn pop_first(&mut self, out: &mut Emitter<'_>) -> Result<Option<u32>, Stop> {
        if self.len == 0 {
            return Ok(None);
        }
        out.block(&sites::POP_FIRST)?;
        let v = self.places.load(self.head, out)?;
        self.head = self.place(1);
        self.len -= 1;
        Ok(Some(v))
    }

    /// Takes the last vertex.
    #[inline(always)]
    pub(crate) fn pop_last(&mut self, out: &mut Emitter<'_>) -> Result<Option<u32>, Stop> {
        if self.len == 0 {
            return Ok(None);
        }
        out.block(&sites::POP_LAST)?;
        self.len -= 1;
        Ok(Some(self.places.load(self.place(self.len), out)?))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    #[test]
    fn both_ends_give_what_was_put_in_round_the_corner_too() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let mut queue = Queue::new(3, &mut space, &mut out).unwrap();
        for v in 0..10 {
            queue.push(v, &mut out).unwrap();
            queue.push(v + 100, &mut out).unwrap();
            queue.push(v + 200, &mut out).unwrap();
            assert_eq!(queue.pop_first(&mut out).unwrap(), Some(v));
            assert_eq!(queue.pop_last(&mut out).unwrap(), Some(v + 200));
            assert_eq!(queue.pop_first(&mut out).unwrap(), Some(v + 100));
            assert_eq!(queue.pop_last(&mut out).unwrap(), None);
        }
    }
}
