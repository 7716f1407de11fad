//! The calls that each thread is in the middle of.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{Ordering, compiler_fence};

use libc::{c_int, siginfo_t};
use pagewalk_ctfs::faults::Recovery;
use pagewalk_ctfs::single_threaded::{self, Reading, Writing};
use parking_lot::RwLock;

/// A signal that arrived while its handler could not run.
pub(crate) struct Deferred {
    pub(crate) number: c_int,
    pub(crate) information: siginfo_t,
    /// What the thread blocked before.
    pub(crate) blocked: u64,
    /// The function that lets it arrive.
    pub(crate) deliver: fn(&Deferred),
}

/// A thread's own state.
pub(crate) struct Thread {
    /// The thread is in the middle of something here: calls that come from it now are the kernel's.
    is_within: Cell<bool>,
    /// The thread cannot be cancelled in the middle: its calls are the kernel's.
    pub(crate) is_cancelled_anywhere: Cell<bool>,
    pub(crate) recovery: Recovery,
    is_deferring: Cell<bool>,
    deferred: UnsafeCell<Option<Deferred>>,
}

impl Thread {
    const fn new() -> Self {
        Self {
            is_within: Cell::new(false),
            is_cancelled_anywhere: Cell::new(false),
            recovery: Recovery::new(),
            is_deferring: Cell::new(false),
            deferred: UnsafeCell::new(None),
        }
    }

    /// Whether handlers of signals must wait.
    pub(crate) fn is_within(&self) -> bool {
        self.is_within.get()
    }

    /// Keeps a signal until the thread is out. The thread blocks all signals that can wait until then, so that there is one at most.
    pub(crate) fn defer(&self, deferred: Deferred) {
        // SAFETY: only this thread and its handlers of signals use it, and what they interrupt does so while none can come.
        unsafe { *self.deferred.get() = Some(deferred) };
        self.is_deferring.set(true);
    }

    #[cold]
    fn deliver(&self) {
        self.is_deferring.set(false);
        // SAFETY: as in `defer`; all signals are blocked.
        if let Some(deferred) = unsafe { &mut *self.deferred.get() }.take() {
            (deferred.deliver)(&deferred);
        }
    }
}

thread_local! {
    static OWN: Thread = const { Thread::new() };
}

/// The only thread's: finding what is a thread's own takes as long as everything else.
struct OnlyThreads(Thread);

// SAFETY: there is only one thread when it is used.
unsafe impl Sync for OnlyThreads {}

static ONLY: OnlyThreads = OnlyThreads(Thread::new());

/// Does something with this thread's state.
#[inline]
pub(crate) fn this<T>(act: impl FnOnce(&Thread) -> T) -> T {
    if single_threaded::is_single_threaded() { act(&ONLY.0) } else { OWN.with(act) }
}

/// In the middle of something: calls of the same thread pass by, those made from here and those of what calls back. Handlers of signals
/// wait until the value is dropped, so that none of them finds a lock taken or the gate entered, and none leaves from the middle
/// (`siglongjmp`). Nothing that is done within starts a thread.
pub(crate) struct Within(*const Thread);

impl Within {
    #[inline]
    pub(crate) fn new() -> Option<Self> {
        this(|thread| {
            let is_outside = !thread.is_within.get() && !thread.is_cancelled_anywhere.get();
            is_outside.then(|| {
                thread.is_within.set(true);
                // A handler sees this before anything that is done within.
                compiler_fence(Ordering::SeqCst);
                Self(thread)
            })
        })
    }

    /// Where this thread goes on if a copy that it makes faults.
    #[inline]
    pub(crate) fn recovery(&self) -> &Recovery {
        // SAFETY: it is this thread's, which has the value.
        unsafe { &(*self.0).recovery }
    }
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is this thread's, which alone has the value.
        let thread = unsafe { &*self.0 };
        // And everything that was done before this.
        compiler_fence(Ordering::SeqCst);
        thread.is_within.set(false);
        // A handler that runs from here on does not wait, and one that waits blocks all others.
        compiler_fence(Ordering::SeqCst);
        if thread.is_deferring.get() {
            thread.deliver();
        }
    }
}

/// Takes a lock, within a call.
#[inline]
pub(crate) fn reading<T>(lock: &RwLock<T>) -> Reading<'_, T> {
    // SAFETY: it is dropped within, and no lock is taken twice there.
    unsafe { single_threaded::read(lock) }
}

/// The same to change what it guards.
#[inline]
pub(crate) fn writing<T>(lock: &RwLock<T>) -> Writing<'_, T> {
    // SAFETY: as for `reading`.
    unsafe { single_threaded::write(lock) }
}
