//! Every lock and atomic of the crate, in one place.
//!
//! The model checks in `tests/model` compile the same sources with this file exchanged for one whose types are those
//! of the checker.

pub(crate) use parking_lot::{Mutex, RwLock};
pub(crate) use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering};

pub(crate) type ReadGuard<'a, T> = parking_lot::RwLockReadGuard<'a, T>;
pub(crate) type WriteGuard<'a, T> = parking_lot::RwLockWriteGuard<'a, T>;

/// Whether an unlocked lock is all zeros, so that zeroed memory is an array of unlocked locks.
pub(crate) const UNLOCKED_IS_ZERO: bool = true;

/// A number that a thread keeps, and that threads share evenly.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|&number| number)
}
