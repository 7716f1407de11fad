//! System calls that no function of the C library makes, and that nothing intercepts.
//!
//! They are made from one place, which the kernel lets through while it dispatches all others to a handler (see `offsets`). None of
//! them is a point where a thread is cancelled, and none changes `errno`.

use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use libc::{c_int, c_long, off_t};

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    // C's order of arguments, the call's number first, to the kernel's.
    ".p2align 4",
    ".hidden pagewalk_system_call",
    ".globl pagewalk_system_call",
    ".type pagewalk_system_call, @function",
    "pagewalk_system_call:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    "ret",
    // What a handler of a signal that was set here returns to: the kernel wants to be told. Programs that unwind a stack know the frame
    // by these instructions, and look at one before.
    "nop",
    ".hidden pagewalk_handled",
    ".globl pagewalk_handled",
    "pagewalk_handled:",
    "mov rax, 15",
    "syscall",
    "ud2",
    ".hidden pagewalk_system_call_end",
    ".globl pagewalk_system_call_end",
    "pagewalk_system_call_end:",
    ".size pagewalk_system_call, . - pagewalk_system_call",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn pagewalk_handled();
    fn pagewalk_system_call(
        number: c_long,
        first: usize,
        second: usize,
        third: usize,
        fourth: usize,
        fifth: usize,
        sixth: usize,
    ) -> isize;
    fn pagewalk_system_call_end();
}

/// A flag of `open` that files of 64-bit programs have anyway.
pub(crate) const LARGE: c_int = 0o100_000;

/// A descriptor that the program has just got or is using.
pub(crate) fn borrowed(descriptor: &c_int) -> BorrowedFd<'_> {
    // SAFETY: it is open, as above.
    unsafe { BorrowedFd::borrow_raw(*descriptor) }
}

/// Where the calls are made, and how many bytes of instructions that is.
#[cfg(target_arch = "x86_64")]
pub(crate) fn place() -> (usize, usize) {
    let start = pagewalk_system_call as *const () as usize;
    (start, pagewalk_system_call_end as *const () as usize - start)
}

/// Where a handler of a signal ends.
#[cfg(target_arch = "x86_64")]
pub(crate) fn end_of_handler() -> usize {
    pagewalk_handled as *const () as usize
}

/// Makes a system call: its answer, or the error's number below zero.
///
/// # Safety
///
/// As of the call.
#[inline]
pub(crate) unsafe fn call<const ARGUMENTS: usize>(number: c_long, arguments: [usize; ARGUMENTS]) -> isize {
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's.
    return unsafe {
        pagewalk_system_call(
            number,
            argument(0),
            argument(1),
            argument(2),
            argument(3),
            argument(4),
            argument(5),
        )
    };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's.
    unsafe {
        let kept = *libc::__errno_location();
        let done = libc::syscall(
            number,
            argument(0),
            argument(1),
            argument(2),
            argument(3),
            argument(4),
            argument(5),
        );
        let error = std::mem::replace(&mut *libc::__errno_location(), kept);
        if done == -1 { -(error as isize) } else { done as isize }
    }
}

/// The same of a call that reads and writes only what its caller has, as all in this library do: what it answers, or the error's number.
pub(crate) fn checked<const ARGUMENTS: usize>(
    number: c_long,
    arguments: [usize; ARGUMENTS],
) -> Result<usize, c_int> {
    // SAFETY: as it says.
    let done = unsafe { call(number, arguments) };
    usize::try_from(done).map_err(|_| -done as c_int)
}

/// Whether valgrind runs the program: it makes the program's system calls from places of its own, at which the kernel would dispatch
/// them, and ends the program.
pub(crate) fn is_valgrinds() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const RUNNING_ON_VALGRIND: usize = 0x1001;
        let request = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
        let mut answer = 0usize;
        // SAFETY: instructions that change nothing (`valgrind.h`), which valgrind takes for a question and answers.
        unsafe {
            std::arch::asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                in("rax") request.as_ptr(),
                inout("rdx") answer,
                options(nostack),
            );
        }
        answer != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Moves a descriptor's offset: where it is then, or the error's number.
pub(crate) fn seek(descriptor: c_int, by: off_t, whence: c_int) -> Result<u64, c_int> {
    // SAFETY: it touches no memory.
    let at = unsafe { call(libc::SYS_lseek, [descriptor as usize, by as usize, whence as usize]) };
    u64::try_from(at).map_err(|_| -at as c_int)
}

/// Puts a file behind another descriptor, with that one's mark, and closes its own.
pub(crate) fn replace(opened: c_int, descriptor: c_int) {
    // SAFETY: none of them touches memory.
    unsafe {
        let flags = call(libc::SYS_fcntl, [descriptor as usize, libc::F_GETFD as usize]);
        let closes = if flags & libc::FD_CLOEXEC as isize != 0 { libc::O_CLOEXEC } else { 0 };
        call(libc::SYS_dup3, [opened as usize, descriptor as usize, closes as usize]);
        call(libc::SYS_close, [opened as usize]);
    }
}

/// Opens something behind a descriptor's number while the program has used up all others; whether it is open. Otherwise the number stays
/// taken, by a copy of another descriptor.
pub(crate) fn open_in_place(descriptor: c_int, instead: c_int, open: impl FnOnce() -> Option<c_int>) -> bool {
    let copied = checked(libc::SYS_fcntl, [descriptor as usize, libc::F_DUPFD_CLOEXEC as usize, 0]);
    if let Ok(copied) = copied {
        let _ = checked(libc::SYS_close, [copied]);
    }
    if copied != Err(libc::EMFILE) {
        return false;
    }
    let flags = checked(libc::SYS_fcntl, [descriptor as usize, libc::F_GETFD as usize]).unwrap_or(0);
    let _ = checked(libc::SYS_close, [descriptor as usize]);
    let opened = open();
    let source = opened.unwrap_or(instead);
    if source != descriptor {
        let _ = checked(libc::SYS_dup3, [source as usize, descriptor as usize, 0]);
    }
    let _ = checked(libc::SYS_fcntl, [descriptor as usize, libc::F_SETFD as usize, flags]);
    if let Some(opened) = opened.filter(|&opened| opened != descriptor) {
        let _ = checked(libc::SYS_close, [opened as usize]);
    }
    opened.is_some()
}

/// Sleeps while a word is so, for a time at most.
pub(crate) fn wait(word: &AtomicU32, value: u32, time: Duration) {
    let time = libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let arguments = [
        word.as_ptr() as usize,
        libc::FUTEX_WAIT as usize,
        value as usize,
        std::ptr::from_ref(&time) as usize,
    ];
    // SAFETY: both are read.
    unsafe { call(libc::SYS_futex, arguments) };
}

/// Wakes the threads that sleep there.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: it touches no memory.
    unsafe { call(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, i32::MAX as usize]) };
}

/// A file's attributes, for which the kernel may ask the owner.
pub(crate) fn status(descriptor: c_int) -> Option<libc::stat> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: (1) there is room; (2) the kernel has filled it.
    unsafe {
        let done = call(libc::SYS_fstat, [descriptor as usize, status.as_mut_ptr() as usize]);
        (done == 0).then(|| status.assume_init())
    }
}

/// Has the kernel ask the owner for a file's attributes: it knows its length then.
pub(crate) fn look_at(descriptor: c_int) {
    let _ = status(descriptor);
}

/// The calling thread's number, which a child of `vfork` does not share.
pub(crate) fn thread() -> c_int {
    // SAFETY: it touches no memory.
    (unsafe { call(libc::SYS_gettid, []) }) as c_int
}

/// Which signals the calling thread blocks: the first is bit 0.
pub(crate) fn blocked_signals() -> u64 {
    let mut blocked = 0u64;
    // SAFETY: so many bytes are written there.
    unsafe {
        call(libc::SYS_rt_sigprocmask, [libc::SIG_BLOCK as usize, 0, (&raw mut blocked) as usize, 8]);
    }
    blocked
}

/// Sets which signals the calling thread blocks.
pub(crate) fn block_signals(blocked: u64) {
    // SAFETY: so many bytes are read there.
    unsafe {
        call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, (&raw const blocked) as usize, 0, 8]);
    }
}

/// What is done at a signal, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Action {
    pub(crate) handler: usize,
    pub(crate) flags: u64,
    restorer: usize,
    pub(crate) mask: u64,
}

impl Action {
    /// So many are passed.
    const MASK_BYTES: usize = 8;

    /// A handler, or what stands for none.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn new(handler: usize, flags: c_int, mask: u64) -> Self {
        const SA_RESTORER: u64 = 0x0400_0000;
        let restorer = pagewalk_handled as *const () as usize;
        Self { handler, flags: flags as u32 as u64 | SA_RESTORER, restorer, mask }
    }

    /// What is done at a signal now; and from now on, if something is given. Libraries that stand between this one and the C library do
    /// not hear of it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn exchange(signal: c_int, new: Option<&Self>) -> Option<Self> {
        let mut old = Self::default();
        let new = new.map_or(0, |new| std::ptr::from_ref(new) as usize);
        let arguments = [signal as usize, new, (&raw mut old) as usize, Self::MASK_BYTES];
        // SAFETY: both are read and written as the kernel has them.
        (unsafe { call(libc::SYS_rt_sigaction, arguments) } == 0).then_some(old)
    }
}
