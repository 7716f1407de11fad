//! A count that many threads change at once.

use crate::sync::{AtomicIsize, Ordering, thread_number};

const SHARDS: usize = 16;

/// A sum of counts, each on a cache line of its own. The first threads that count anything have one each; all others
/// share the first, by atomic operations, of which each takes as long as a good part of an insertion.
pub(crate) struct Count([Shard; SHARDS]);

#[repr(align(64))]
struct Shard(AtomicIsize);

impl Count {
    pub(crate) fn new() -> Self {
        Self([const { Shard(AtomicIsize::new(0)) }; SHARDS])
    }

    /// Changes the count, and returns what this thread's part of it was before.
    #[inline]
    pub(crate) fn add(&self, change: isize) -> isize {
        let number = thread_number();
        match self.0.get(number) {
            Some(Shard(own)) if number != 0 => {
                let before = own.load(Ordering::Relaxed);
                own.store(before + change, Ordering::Relaxed);
                before
            }
            _ => self.0[0].0.fetch_add(change, Ordering::Relaxed),
        }
    }

    /// Returns the sum of all parts of the count. Changes that happen meanwhile are in it or not.
    pub(crate) fn sum(&self) -> usize {
        let sum: isize = self.0.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum();
        // An item that one thread puts in and another takes out may be seen going but not coming.
        sum.max(0) as usize
    }
}
