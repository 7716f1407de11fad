//! Every atomic of the crate, and every way to wait, in one place.
//!
//! The model checks in `tests/model` compile the same sources with this file exchanged for one whose types are those
//! of the checker.

use std::cell::Cell;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Whether a new atomic is all zeros, so that zeroed memory is an array of them.
pub(crate) const NEW_IS_ZERO: bool = true;

/// Waits for another thread, after so many attempts in vain: for as long as a few instructions take, then for as long
/// as another thread's turn, then so long that waiting costs next to nothing.
pub(crate) fn wait(attempts: u32) {
    match attempts {
        0..64 => std::hint::spin_loop(),
        64..256 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(u64::from(attempts.min(1000)))),
    }
}

/// A number that a thread keeps and no other has.
#[inline(always)]
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        /// Zero until the thread is asked.
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }
    #[cold]
    #[inline(never)]
    fn next() -> usize {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
        NUMBER.get()
    }
    match NUMBER.get() {
        0 => next(),
        number => number,
    }
}
