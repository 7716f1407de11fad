//! The model checker's locks and atomics in the place of `src/sync.rs`.

pub(crate) use shuttle::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering};
use std::sync::PoisonError;

pub(crate) type ReadGuard<'a, T> = shuttle::sync::RwLockReadGuard<'a, T>;
pub(crate) type WriteGuard<'a, T> = shuttle::sync::RwLockWriteGuard<'a, T>;

pub(crate) const UNLOCKED_IS_ZERO: bool = false;

/// Locks that a panic does not poison.
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        self.0.try_write().ok()
    }
}

pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn try_lock(&self) -> Option<shuttle::sync::MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// All threads share: an insertion is looked at by each.
pub(crate) fn thread_number() -> usize {
    0
}
