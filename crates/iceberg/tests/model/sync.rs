//! The model checker's atomics in the place of `src/sync.rs`.

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicU32, AtomicUsize, Ordering};

pub(crate) const NEW_IS_ZERO: bool = false;

/// Another thread's turn.
pub(crate) fn wait(_attempts: u32) {
    shuttle::thread::yield_now();
}

/// All threads share one count: each looks at each insertion.
pub(crate) fn thread_number() -> usize {
    0
}
