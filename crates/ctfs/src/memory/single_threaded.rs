//! The locks and barriers that a process with one thread need not take.
//!
//! No other thread comes between the instructions of the only thread: it takes no lock, and no store of it has to be seen before it goes on.
//! That is more than it saves on locks themselves. A locked instruction waits until everything stored before it has reached memory,
//! which for stores past the caches takes as long as the copy; without one, the next copy begins meanwhile. The C library and the
//! kernel do the same (`stdio`, `fdget`).

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Where the C library says so; null before it was asked.
static SAYS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// What is so where it does not say.
static NEVER: AtomicU8 = AtomicU8::new(0);

/// Returns whether this process has one thread only.
#[inline]
#[allow(unsafe_code)]
pub fn is_single_threaded() -> bool {
    let says = SAYS.load(Ordering::Relaxed);
    let says = if says.is_null() { ask() } else { says };
    // SAFETY: it is a byte that lives as long as the process; this thread changes it, when it starts another one.
    unsafe { AtomicU8::from_ptr(says) }.load(Ordering::Relaxed) != 0
}

#[cold]
#[allow(unsafe_code)]
fn ask() -> *mut u8 {
    // glibc has it since 2.32. Not by its symbol: with an older one no program would start.
    // SAFETY: the name is a string of C's.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    let says = if found.is_null() { NEVER.as_ptr() } else { found.cast() };
    SAYS.store(says, Ordering::Relaxed);
    says
}

#[doc(hidden)]
pub use is_single_threaded as is_alone;

/// The guard of a lock for a look at its value.
pub enum Reading<'a, T> {
    /// The process has no other thread, so that no lock was taken.
    Alone(&'a T),
    /// The lock is held to read.
    Locked(RwLockReadGuard<'a, T>),
}

/// The guard of a lock for a change of its value.
pub enum Writing<'a, T> {
    /// The process has no other thread, so that no lock was taken.
    Alone(&'a mut T),
    /// The lock is held to write.
    Locked(RwLockWriteGuard<'a, T>),
}

/// Takes a lock to look at what it guards, if the process has another thread.
///
/// # Safety
///
/// Until it is dropped, this thread starts no other one and does not take the lock to change anything, in a signal's handler
/// neither.
#[inline]
#[allow(unsafe_code)]
pub unsafe fn read<T>(lock: &RwLock<T>) -> Reading<'_, T> {
    if is_single_threaded() && !lock.is_locked_exclusive() {
        // SAFETY: no thread changes it, as the caller says and the lock's state.
        return Reading::Alone(unsafe { &*lock.data_ptr() });
    }
    Reading::Locked(lock.read())
}

/// Takes a lock to change what it guards, if the process has another thread.
///
/// # Safety
///
/// Until it is dropped, this thread starts no other one and does not take the lock, in a signal's handler neither.
#[inline]
#[allow(unsafe_code)]
pub unsafe fn write<T>(lock: &RwLock<T>) -> Writing<'_, T> {
    if is_single_threaded() && !lock.is_locked() {
        // SAFETY: no other thread has it, as the caller says and the lock's state.
        return Writing::Alone(unsafe { &mut *lock.data_ptr() });
    }
    Writing::Locked(lock.write())
}

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::Alone(value) => value,
            Self::Locked(guard) => guard,
        }
    }
}

impl<T> Deref for Writing<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::Alone(value) => value,
            Self::Locked(guard) => guard,
        }
    }
}

impl<T> DerefMut for Writing<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Self::Alone(value) => value,
            Self::Locked(guard) => guard,
        }
    }
}

/// Barriers that one side pays for.
///
/// Two sides each store a word and then look at the other's; at least one must see what the other has stored. Without barriers both
/// may look before their stores are seen. Here the rare side has every processor that runs the frequent one pass a barrier, so that
/// this needs none of its own. Like every locked instruction it also makes stores past the caches seen.
pub(crate) mod barrier {
    /// `MEMBARRIER_CMD_GLOBAL_EXPEDITED` and its registration, since Linux 4.16.
    const PASS: i32 = 1 << 1;
    const REGISTER: i32 = 1 << 2;
    const QUERY: i32 = 0;

    #[allow(unsafe_code)]
    fn command(command: i32) -> i64 {
        // SAFETY: it touches no memory of the process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// Whether this kernel has them.
    pub(crate) fn is_there() -> bool {
        let commands = command(QUERY);
        commands >= 0 && commands as i32 & (PASS | REGISTER) == PASS | REGISTER
    }

    /// From now on this process's threads pass them; whether that is so.
    pub(crate) fn register() -> bool {
        command(REGISTER) == 0
    }

    /// The threads of all processes that have registered pass one before this returns; whether they have.
    pub(crate) fn pass() -> bool {
        command(PASS) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests have threads.
    #[test]
    #[allow(unsafe_code)]
    fn who_is_not_alone_takes_the_lock() {
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!is_single_threaded())).join().expect("it does not panic");
        });
        let lock = RwLock::new(7);
        {
            // SAFETY: nothing happens meanwhile.
            let reading = unsafe { read(&lock) };
            assert!(matches!(reading, Reading::Locked(_)) && *reading == 7);
            assert!(lock.try_write().is_none() && lock.try_read().is_some());
        }
        // SAFETY: the same.
        let mut writing = unsafe { write(&lock) };
        *writing += 1;
        assert!(matches!(writing, Writing::Locked(_)) && lock.try_read().is_none());
        drop(writing);
        assert_eq!(*lock.read(), 8);
    }
}
