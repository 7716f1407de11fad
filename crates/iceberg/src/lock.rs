//! The lock of a block.
//!
//! One bit, as in `IcebergHT`, but of each level, and for look-ups, too. Two things decide how fast a look-up is, with
//! a table that the processor's caches do not hold: how many lines of memory it waits for, and how much of the next
//! look-up the processor can begin while it waits. An atomic operation ends that: nothing behind it begins before
//! everything ahead of it is done. This lock takes one such operation; a lock that readers share, or that knows who
//! sleeps for it, takes a second one when it is left, just when the item is on its way from memory.
//!
//! So readers exclude each other for the time that it takes to copy a value, and who finds a lock taken looks again,
//! now and then, in growing distances. For that to be long, somebody must hold it long, in a closure of a user's.

use parking_lot::lock_api;

use crate::sync::{AtomicBool, Ordering, wait};

pub(crate) type Lock = lock_api::Mutex<RawLock, ()>;
pub(crate) type Guard<'a> = lock_api::MutexGuard<'a, RawLock, ()>;

pub(crate) struct RawLock {
    taken: AtomicBool,
}

// SAFETY: (1) `try_lock` is true for one caller only until `unlock`: it alone has seen the bit change from zero to one;
// (2) it acquires what `unlock` released; (3) `lock` returns only after a `try_lock`.
unsafe impl lock_api::RawMutex for RawLock {
    const INIT: Self = Self { taken: AtomicBool::new(false) };

    type GuardMarker = lock_api::GuardNoSend;

    #[inline(always)]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_later();
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

impl RawLock {
    #[cold]
    fn lock_later(&self) {
        let mut attempts = 0;
        while self.taken.load(Ordering::Relaxed) || self.taken.swap(true, Ordering::Acquire) {
            wait(attempts);
            attempts += 1;
        }
    }
}
