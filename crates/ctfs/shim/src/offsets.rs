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
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use libc::{c_int, siginfo_t};
use pagewalk_ctfs::alone;

use crate::{files, kernel, signals};

/// Offsets that are borrowed at once.
const MOST_BORROWED: usize = 8;
/// No descriptor.
const NONE: c_int = -1;
/// Operations of a file before its offset is borrowed, at first and at most: borrowing takes four system calls.
const FIRST_GAP: u32 = 4;
const MOST_GAP: u32 = 4_096;
/// Operations that a borrowed offset must serve for that to have been worth it.
const WORTH: u32 = 16;

/// What the kernel looks at before each system call.
const ALLOW: u8 = 0;
const DISPATCH: u8 = 1;
static SELECTOR: AtomicU8 = AtomicU8::new(ALLOW);

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

    /// The same; it is borrowed if that is worth it, unless other processes share it.
    #[inline]
    pub(crate) fn borrowed(&mut self, descriptor: c_int, is_shared: bool) -> Option<u64> {
        if !alone::is_alone() || is_shared {
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

    /// It moves to another place, borrowed or not.
    #[inline]
    pub(crate) fn move_to(&self, descriptor: c_int, offset: u64) {
        match self.borrowed.filter(|_| self.offset().is_some()) {
            Some((index, _)) => ENTRIES[index].offset.store(offset, Ordering::Relaxed),
            None => {
                // The kernel has it, and takes every offset that a file's bytes can have.
                let _ = kernel::seek(descriptor, offset as libc::off_t, libc::SEEK_SET);
            }
        }
    }
}

fn borrow(descriptor: c_int) -> Option<(usize, u32, u64)> {
    if !dispatches() || kernel::blocked_signals() & signals::bit(libc::SIGSYS) != 0 {
        return None;
    }
    let is_free = |entry: &Entry| entry.descriptor.load(Ordering::Relaxed) == NONE;
    let index = ENTRIES.iter().position(is_free).unwrap_or_else(|| {
        settle();
        0
    });
    let offset = kernel::seek(descriptor, 0, libc::SEEK_CUR).ok()?;
    let entry = &ENTRIES[index];
    entry.offset.store(offset, Ordering::Relaxed);
    entry.descriptor.store(descriptor, Ordering::Relaxed);
    SELECTOR.store(DISPATCH, Ordering::Relaxed);
    Some((index, entry.serial.load(Ordering::Relaxed), offset))
}

/// The kernel does not know everything of files that it may use by this process's next system call.
#[inline]
pub(crate) fn watch() {
    if SELECTOR.load(Ordering::Relaxed) != DISPATCH && alone::is_alone() {
        watch_now();
    }
}

#[cold]
fn watch_now() {
    if dispatches() && kernel::blocked_signals() & signals::bit(libc::SIGSYS) == 0 {
        SELECTOR.store(DISPATCH, Ordering::Relaxed);
    }
}

/// Gives all offsets back to the kernel: before each system call that is not made here, and each call of the C library's.
#[inline]
pub(crate) fn settle() {
    if SELECTOR.load(Ordering::Relaxed) != ALLOW {
        settle_all();
    }
}

#[cold]
fn settle_all() {
    for entry in &ENTRIES {
        let descriptor = entry.descriptor.load(Ordering::Relaxed);
        if descriptor != NONE {
            // A descriptor that is closed is given back before.
            let _ = kernel::seek(
                descriptor,
                entry.offset.load(Ordering::Relaxed) as libc::off_t,
                libc::SEEK_SET,
            );
            entry.serial.store(entry.serial.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            entry.descriptor.store(NONE, Ordering::Relaxed);
        }
    }
    SELECTOR.store(ALLOW, Ordering::Relaxed);
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
    if !files::is_our_process() {
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

/// The handler of `SIGSYS` for calls that the kernel dispatches: makes the kernel's knowledge whole, and lets the program make the
/// call.
///
/// # Safety
///
/// Both are the kernel's, of this thread.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn dispatched(_: *mut siginfo_t, context: *mut c_void) {
    /// `syscall`, and `int 0x80` as well.
    const INSTRUCTION_BYTES: i64 = 2;
    settle_all();
    // SAFETY: the caller's.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let argument = |register: c_int| registers[register as usize] as usize;
    let arguments = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];
    let arguments = arguments.map(argument);
    files::about_to_call(registers[libc::REG_RAX as usize], arguments);
    // The kernel has left the call's number and arguments as they were.
    registers[libc::REG_RIP as usize] -= INSTRUCTION_BYTES;
}

/// Nothing is dispatched here.
///
/// # Safety
///
/// None.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn dispatched(_: *mut siginfo_t, _: *mut c_void) {}
