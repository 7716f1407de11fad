//! The program's own system calls, where the kernel dispatches them: what they change of files and names, and how they are made.

use std::ffi::c_void;

use libc::{c_int, siginfo_t};

use crate::files::{closed, copied, get, shared};
use crate::limits::limit_is_about_to_change;
use crate::offsets::{self, Above, has_grown, settle_all, watch_again};
use crate::own::DESCRIPTORS;
use crate::threads::{Thread, Within, this};
use crate::{files, kept, kernel, names, process};

static ABOVE: Above = Above { release, dispatched };

/// When the program is loaded: nothing is dispatched yet.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn begin() {
        offsets::set_above(&ABOVE);
    }
    begin
};

/// Files that were opened without the kernel become the kernel's, and what is remembered of names is forgotten.
fn release(within: &Within) {
    files::make_all_real(within);
    names::forget();
}

/// What the program's own system calls change here, before they are made.
pub(crate) fn about_to_call(number: i64, arguments: [usize; 6]) {
    let descriptor = |index: usize| arguments[index] as c_int;
    match number {
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
            process::shares_memory();
            let shares_memory = number == libc::SYS_clone && descriptor(0) & libc::CLONE_VM != 0;
            if !shares_memory || descriptor(0) & libc::CLONE_FILES == 0 {
                shared(true);
            }
        }
        libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_io_uring_setup => shared(true),
        libc::SYS_close => closed(descriptor(0)),
        libc::SYS_dup2 | libc::SYS_dup3 => {
            kept::make_way(descriptor(1));
            closed(descriptor(1));
        }
        libc::SYS_close_range => {
            (arguments[0]..=arguments[1].min(DESCRIPTORS)).for_each(|descriptor| closed(descriptor as c_int));
        }
        libc::SYS_fcntl if descriptor(1) == libc::F_SETFL => {
            if let Some(file) = get(descriptor(0)) {
                file.set_flags(arguments[2] as c_int);
            }
        }
        libc::SYS_setrlimit | libc::SYS_prlimit64 => limit_is_about_to_change(),
        _ => {}
    }
}

/// What they change here, behind them: those that make a copy of a descriptor.
pub(crate) fn has_called(number: i64, arguments: [usize; 6], answer: isize) {
    let is_copy = match number {
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => true,
        libc::SYS_fcntl => [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(arguments[1] as c_int)),
        _ => false,
    };
    if is_copy && answer >= 0 {
        copied(arguments[0] as c_int, answer as c_int);
    }
}

/// Calls that have nothing to do with any descriptor, and with nothing that is known here.
#[cfg(target_arch = "x86_64")]
const APART: [i64; 13] = [
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getrusage,
    libc::SYS_clock_gettime,
];

/// Calls that are made in the handler's place, so that those behind them are dispatched, too: they use neither an offset nor a length,
/// cannot wait, and change nothing that a handler's end sets again.
#[cfg(target_arch = "x86_64")]
const MADE_HERE: [i64; 8] = [
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_fcntl,
];

/// The handler of `SIGSYS` for calls that the kernel dispatches: makes the kernel's knowledge whole, and lets the program make the
/// call.
///
/// # Safety
///
/// Both are the kernel's, of this thread.
#[cfg(target_arch = "x86_64")]
unsafe fn dispatched(_: *mut siginfo_t, context: *mut c_void) {
    /// `syscall`, and `int 0x80` as well.
    const INSTRUCTION_BYTES: i64 = 2;
    // SAFETY: the caller's.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let argument = |register: c_int| registers[register as usize] as usize;
    let arguments = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];
    let (number, arguments) = (registers[libc::REG_RAX as usize], arguments.map(argument));
    let is_anonymous = number == libc::SYS_mmap && arguments[3] as c_int & libc::MAP_ANONYMOUS != 0;
    let is_within = this(Thread::is_within);
    if is_within && number == libc::SYS_rt_sigreturn {
        // The end of a handler that has put its signal off: made from the place that the kernel lets through, with the frame's stack.
        registers[libc::REG_RIP as usize] = kernel::end_of_handler() as i64;
        return;
    }
    if is_anonymous || APART.contains(&number) || is_within {
        // SAFETY: as the program's own, or as the one that was made within here.
        registers[libc::REG_RAX as usize] = unsafe { kernel::call(number, arguments) } as i64;
        return;
    }
    settle_all();
    // Locks lie from the offset on or from the end.
    let is_lock = number == libc::SYS_fcntl
        && ![libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL]
            .contains(&(arguments[1] as c_int));
    about_to_call(number, arguments);
    if MADE_HERE.contains(&number) && !is_lock {
        // SAFETY: as the program's own.
        let answer = unsafe { kernel::call(number, arguments) };
        has_called(number, arguments, answer);
        registers[libc::REG_RAX as usize] = answer as i64;
        watch_again();
        return;
    }
    if has_grown() {
        files::lengths_are_needed();
    }
    // The kernel has left the call's number and arguments as they were.
    registers[libc::REG_RIP as usize] -= INSTRUCTION_BYTES;
}

/// Nothing is dispatched here.
///
/// # Safety
///
/// None.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn dispatched(_: *mut siginfo_t, _: *mut c_void) {}
