//! The lock of a block.
//!
//! One bit, as in `IcebergHT`, but of each level, and for look-ups, too. Two things decide how fast a look-up is, with
//! a table that the processor's caches do not hold: how many lines of memory it waits for, and how much of the next
//! look-up the processor can begin while it waits. An atomic operation gets in the way of that: it waits until everything
//! ahead of it is done and written. This lock takes one such operation, which is a tenth of a look-up; a lock that readers
//! share, or that knows which threads sleep for it, takes a second one when it is left, just when the item is on its way from
//! memory.
//!
//! So readers exclude each other for the time that it takes to copy a value, and a thread that finds a lock taken looks again,
//! now and then, in growing distances. That takes long only if another thread holds the lock long, in a closure of a user's.
//!
//! Beside the bit stands a number, for something that can then be known of the block without waiting for memory: locks
//! are in caches, the blocks of a large table are not.

use crate::sync::{AtomicBool, AtomicU8, Ordering, wait};

pub(crate) struct Lock {
    taken: AtomicBool,
    number: AtomicU8,
}

/// Has the lock while it lives.
pub(crate) struct Guard<'a>(&'a Lock);

impl Lock {
    /// Free, with number zero.
    pub(crate) fn new() -> Self {
        Self { taken: AtomicBool::new(false), number: AtomicU8::new(0) }
    }

    /// The number, which the thread that has the lock may be about to change.
    #[inline(always)]
    pub(crate) fn number(&self) -> u8 {
        self.number.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.try_lock().unwrap_or_else(|| self.lock_later())
    }

    #[cold]
    fn lock_later(&self) -> Guard<'_> {
        let mut attempts = 0;
        loop {
            if !self.taken.load(Ordering::Relaxed)
                && let Some(guard) = self.try_lock()
            {
                return guard;
            }
            wait(attempts);
            attempts += 1;
        }
    }

    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_>> {
        (!self.taken.swap(true, Ordering::Acquire)).then(|| Guard(self))
    }
}

impl Guard<'_> {
    /// The number, which no other thread changes.
    #[inline(always)]
    pub(crate) fn number(&self) -> u8 {
        self.0.number()
    }

    #[inline(always)]
    pub(crate) fn set_number(&mut self, number: u8) {
        self.0.number.store(number, Ordering::Relaxed);
    }
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}
