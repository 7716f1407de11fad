//! Offsets of open files that are kept here for a while, and what notices that the kernel needs them.
//!
//! A system call takes longer than a copy of 4 KiB, so that a program which reads or writes from the offset on must not pay for one
//! to move it. As long as it does nothing else, the offset is *borrowed*: the kernel's stays behind. Whatever else could use the
//! kernel's comes with a system call, of the program, of the C library's inside, or of some other library: while an offset is borrowed,
//! the kernel dispatches every system call of this thread to [`dispatched`] (`PR_SET_SYSCALL_USER_DISPATCH`, Linux 5.11), which gives all
//! offsets back before the call is made. There is no list of calls that could lack one.
//!
//! Only a process with one thread borrows. With several, or where the kernel cannot dispatch, every read and write moves the kernel's
//! offset itself.

use std::ffi::c_void;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence,
};

use libc::{c_int, siginfo_t};
use pagewalk_ctfs::single_threaded;

use crate::process::is_our_process;
use crate::threads::Within;
use crate::{kernel, signals};

/// Offsets that are borrowed at once.
const MOST_BORROWED: usize = 8;
/// The number that stands for no descriptor.
const NONE: c_int = -1;
/// Operations of a file before its offset is borrowed, at first and at most: borrowing takes four system calls.
const FIRST_GAP: u32 = 4;
const MOST_GAP: u32 = 4_096;
/// Operations that a borrowed offset must serve for that to have been worth it.
const WORTH: u32 = 16;

/// The largest block that `malloc` keeps to itself when it is freed, from the program's beginning on.
const KEPT_BLOCK: usize = 1 << 20;

/// `malloc` gets every large block from the kernel until the first one is freed, and keeps those of that size from then on, as it takes them
/// for short-lived. Programs that allocate a buffer for each file, as `cp` does, stay just below that, and each of these calls would be
/// dispatched: two for each file, at 3 us. So the first one is freed here.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn begin() {
        // SAFETY: no other code has the block's address.
        unsafe { libc::free(std::hint::black_box(libc::malloc(KEPT_BLOCK))) }
    }
    begin
};

/// What the kernel looks at before each system call.
const ALLOW: u8 = 0;
const DISPATCH: u8 = 1;
static SELECTOR: AtomicU8 = AtomicU8::new(ALLOW);

/// Open files that are longer than the kernel knows.
static GROWN: AtomicU32 = AtomicU32::new(0);

/// Whether an open file is longer than the kernel knows. It has to know before this process's next system call that is not made here.
pub(crate) struct Growth(AtomicBool);

impl Growth {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// The file has grown.
    #[inline]
    pub(crate) fn begins(&self) {
        if !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::AcqRel) {
            GROWN.fetch_add(1, Ordering::Relaxed);
            watch_again();
        }
    }

    /// The kernel is about to learn how long the file is; whether it did not know until now.
    pub(crate) fn ends(&self) -> bool {
        let is_there = self.0.load(Ordering::Acquire) && self.0.swap(false, Ordering::AcqRel);
        if is_there {
            GROWN.fetch_sub(1, Ordering::Relaxed);
        }
        is_there
    }
}

impl Drop for Growth {
    /// The owner has told the kernel that it knows nothing when the file was closed.
    fn drop(&mut self) {
        self.ends();
    }
}

/// Whether an open file is longer than the kernel knows.
pub(crate) fn has_grown() -> bool {
    GROWN.load(Ordering::Relaxed) > 0
}

/// The thread whose calls the kernel dispatches: 0 before there was one, [`NEVER`] where that is impossible.
static THREAD: AtomicI32 = AtomicI32::new(0);
const NEVER: c_int = -1;

struct Entry {
    descriptor: AtomicI32,
    offset: AtomicU64,
    /// Another one whenever the offset was given back.
    serial: AtomicU32,
}

static ENTRIES: [Entry; MOST_BORROWED] = [const {
    Entry { descriptor: AtomicI32::new(NONE), offset: AtomicU64::new(0), serial: AtomicU32::new(0) }
}; MOST_BORROWED];

/// Where a file's offset is, and whether borrowing it is worth it.
#[derive(Debug)]
pub(crate) struct Sequence {
    borrowed: Option<(usize, u32)>,
    /// Since it was borrowed.
    operations: u32,
    /// Operations that are to be done before it is borrowed again, and how many these were the last time.
    left: u32,
    gap: u32,
}

impl Sequence {
    pub(crate) const fn new() -> Self {
        Self { borrowed: None, operations: 0, left: FIRST_GAP, gap: FIRST_GAP }
    }

    /// The offset, if it is borrowed now.
    #[inline]
    pub(crate) fn offset(&self) -> Option<u64> {
        let (index, serial) = self.borrowed?;
        let entry = &ENTRIES[index];
        (entry.serial.load(Ordering::Relaxed) == serial).then(|| entry.offset.load(Ordering::Relaxed))
    }

    /// The same; it is borrowed if that is worth it. No other process may have the file's description.
    #[inline]
    pub(crate) fn borrowed(&mut self, descriptor: c_int) -> Option<u64> {
        if !single_threaded::is_single_threaded() {
            return None;
        }
        self.operations = self.operations.saturating_add(1);
        self.offset().or_else(|| self.borrow_now(descriptor))
    }

    #[cold]
    fn borrow_now(&mut self, descriptor: c_int) -> Option<u64> {
        if self.borrowed.take().is_some() {
            // It was given back meanwhile.
            let was_worth_it = self.operations > WORTH;
            self.gap = if was_worth_it { self.gap / 2 } else { self.gap * 2 }.clamp(1, MOST_GAP);
            self.left = if was_worth_it { 0 } else { self.gap };
        }
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.operations = 0;
        let borrowed = borrow(descriptor);
        if borrowed.is_none() {
            self.left = MOST_GAP;
        }
        let (index, serial, offset) = borrowed?;
        self.borrowed = Some((index, serial));
        Some(offset)
    }

    /// Moves the offset to another place, borrowed or not.
    #[inline]
    pub(crate) fn move_to(&self, descriptor: c_int, offset: u64) {
        if let Some((index, _)) = self.borrowed
            && self.offset().is_some()
        {
            ENTRIES[index].offset.store(offset, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            // The end of a handler that has put its signal off is a system call, too, and gave back what was here before.
            if self.offset().is_some() {
                return;
            }
        }
        // The kernel has it, and takes every offset that a file's bytes can have.
        let _ = kernel::seek(descriptor, offset as libc::off_t, libc::SEEK_SET);
    }
}

fn borrow(descriptor: c_int) -> Option<(usize, u32, u64)> {
    if !dispatches() || !can_handle() {
        return None;
    }
    let is_free = |entry: &Entry| entry.descriptor.load(Ordering::Relaxed) == NONE;
    let index = ENTRIES.iter().position(is_free).unwrap_or_else(|| {
        settle();
        0
    });
    let offset = kernel::seek(descriptor, 0, libc::SEEK_CUR).ok()?;
    let entry = &ENTRIES[index];
    // Before it is there to be given back.
    let serial = entry.serial.load(Ordering::Relaxed);
    entry.offset.store(offset, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    entry.descriptor.store(descriptor, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    SELECTOR.store(DISPATCH, Ordering::Relaxed);
    Some((index, serial, offset))
}

/// Has calls dispatched again, if there is something that the kernel does not know: behind a call of the C library's, which has been made
/// with all offsets given back.
#[inline]
pub(crate) fn watch_again() {
    if GROWN.load(Ordering::Relaxed) > 0 {
        watch_now();
    }
}

#[cold]
fn watch_now() {
    // In a child of `vfork` nothing is dispatched; it is again when the parent goes on.
    let does_dispatch = THREAD.load(Ordering::Relaxed) > 0 || dispatches();
    if does_dispatch && single_threaded::is_single_threaded() && can_handle() {
        SELECTOR.store(DISPATCH, Ordering::Relaxed);
    }
}

/// Whether the handler can run: the kernel ends a process that blocks its signal.
fn can_handle() -> bool {
    kernel::blocked_signals() & signals::bit(libc::SIGSYS) == 0
}

/// A child: nothing is borrowed in it, and its calls are not dispatched.
pub(crate) fn in_child() {
    THREAD.store(0, Ordering::Relaxed);
    SELECTOR.store(ALLOW, Ordering::Relaxed);
}

/// Whether calls of this thread are dispatched now, and were since the caller has seen to it.
#[inline]
pub(crate) fn is_watching() -> bool {
    SELECTOR.load(Ordering::Relaxed) != ALLOW
}

/// Has calls dispatched from now on; whether they are.
pub(crate) fn watch() -> bool {
    let does = is_watching() || dispatches() && can_handle();
    if does {
        SELECTOR.store(DISPATCH, Ordering::Relaxed);
    }
    does
}

/// Gives all offsets back to the kernel, and lets files that it does not know be the kernel's: before each system call that is not made
/// here, and each call of the C library's.
#[inline]
pub(crate) fn settle() {
    if SELECTOR.load(Ordering::Relaxed) != ALLOW {
        settle_all();
    }
}

#[cold]
pub(crate) fn settle_all() {
    // A handler that moved an offset in the middle of this would see it go back.
    let within = Within::new();
    give_back_all();
    // Calls from within here are made where they are dispatched.
    let Some(within) = within else { return };
    if let Some(above) = above() {
        (above.release)(&within);
    }
    SELECTOR.store(ALLOW, Ordering::Relaxed);
}

/// Gives all offsets back to the kernel.
pub(crate) fn give_back() {
    if is_watching() {
        let _within = Within::new();
        give_back_all();
    }
}

fn give_back_all() {
    for entry in &ENTRIES {
        let descriptor = entry.descriptor.load(Ordering::Relaxed);
        if descriptor != NONE {
            // A descriptor that is closed is given back before.
            let _ =
                kernel::seek(descriptor, entry.offset.load(Ordering::Relaxed) as libc::off_t, libc::SEEK_SET);
            entry.serial.store(entry.serial.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            entry.descriptor.store(NONE, Ordering::Relaxed);
        }
    }
}

/// Whether the kernel dispatches this thread's calls, from now on at the latest. A child does not inherit that.
fn dispatches() -> bool {
    let thread = THREAD.load(Ordering::Relaxed);
    if thread == NEVER {
        return false;
    }
    let this = kernel::thread();
    if thread == this {
        return true;
    }
    // The memory's first process has the only thread that may: a child of `vfork` has the same memory for a while.
    if !is_our_process() {
        return false;
    }
    let does = begin();
    THREAD.store(if does { this } else { NEVER }, Ordering::Relaxed);
    does
}

#[cfg(target_arch = "x86_64")]
fn begin() -> bool {
    const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
    const ON: usize = 1;
    if !signals::own_dispatches() {
        return false;
    }
    let (start, length) = kernel::place();
    let arguments = [PR_SET_SYSCALL_USER_DISPATCH, ON, start, length, SELECTOR.as_ptr() as usize];
    // SAFETY: the kernel reads a byte that is always there.
    unsafe { kernel::call(libc::SYS_prctl, arguments) == 0 }
}

/// How a call is made again is known for one processor.
#[cfg(not(target_arch = "x86_64"))]
fn begin() -> bool {
    false
}

/// The parts above that know files and names: they act before the kernel's knowledge is whole, and when it has dispatched a call.
pub(crate) struct Above {
    /// Lets files that the kernel does not know be the kernel's, and forgets what is remembered.
    pub(crate) release: fn(&Within),
    /// The handler of dispatched calls. Both are the kernel's, of this thread.
    pub(crate) dispatched: unsafe fn(*mut siginfo_t, *mut c_void),
}

static ABOVE: AtomicPtr<Above> = AtomicPtr::new(std::ptr::null_mut());

/// Sets the parts above, before anything is dispatched.
pub(crate) fn set_above(above: &'static Above) {
    ABOVE.store(std::ptr::from_ref(above).cast_mut(), Ordering::Release);
}

fn above() -> Option<&'static Above> {
    // SAFETY: it was a reference that is always valid, to what is never written.
    unsafe { ABOVE.load(Ordering::Acquire).as_ref() }
}

/// The handler of `SIGSYS` for calls that the kernel dispatches.
///
/// # Safety
///
/// Both are the kernel's, of this thread.
pub(crate) unsafe fn dispatched(information: *mut siginfo_t, context: *mut c_void) {
    if let Some(above) = above() {
        // SAFETY: the caller's.
        unsafe { (above.dispatched)(information, context) }
    }
}
