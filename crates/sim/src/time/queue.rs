//! A queue of future events, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events and their times, in integer picoseconds.
///
/// Of events of the same time, the one that was put in first comes first: a run's order depends on nothing else.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    /// The number of events that were ever entered.
    number: u64,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    at_ps: u64,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ps, self.number).cmp(&(other.at_ps, other.number))
    }
}

impl<E> EventQueue<E> {
    /// Returns a queue without events.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), number: 0 }
    }

    /// Enters an event that happens at `at_ps`.
    pub fn push(&mut self, at_ps: u64, event: E) {
        self.heap.push(Reverse(Entry { at_ps, number: self.number, event }));
        self.number += 1;
    }

    /// Returns the time of the next event; the end of time if there is none.
    #[inline]
    pub fn next_ps(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |entry| entry.0.at_ps)
    }

    /// Takes the next event that has happened by `now_ps`; returns its time and the event.
    pub fn pop_by(&mut self, now_ps: u64) -> Option<(u64, E)> {
        if self.next_ps() > now_ps {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at_ps, entry.event))
    }

    /// Returns the number of events to come.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns whether there is no event to come.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_coming_in() {
        let mut queue = EventQueue::new();
        for (at, event) in [(30, 'e'), (10, 'a'), (20, 'c'), (10, 'b'), (20, 'd')] {
            queue.push(at, event);
        }
        assert_eq!(queue.next_ps(), 10);
        let first: Vec<_> = std::iter::from_fn(|| queue.pop_by(20)).collect();
        assert_eq!(first, [(10, 'a'), (10, 'b'), (20, 'c'), (20, 'd')]);
        assert_eq!((queue.next_ps(), queue.len()), (30, 1));
        assert_eq!(queue.pop_by(u64::MAX), Some((30, 'e')));
        assert_eq!((queue.next_ps(), queue.pop_by(u64::MAX)), (u64::MAX, None));
    }
}
