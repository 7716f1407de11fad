//! The calls that make, replace and end processes, and that set their limits.

use std::ffi::c_void;

use libc::{c_char, c_int, c_long, pid_t};

use super::{before, behind};
use crate::files::{self, shared};
use crate::limits::limit_may_have_changed;
use crate::process::shares_memory;
use crate::real::real;
use crate::{connection, dispatch};
/// What becomes another program, which inherits what is not marked.
macro_rules! becomes {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            shared(false);
            let failed = real!($name($($argument => $type),*) -> c_int);
            // A child of `vfork` can only end now.
            connection::ends();
            failed
        }
    )*};
}

type Strings = *const *const c_char;

becomes! {
    execve(path: *const c_char, arguments: Strings, environment: Strings);
    execv(path: *const c_char, arguments: Strings);
    execvp(path: *const c_char, arguments: Strings);
    execvpe(path: *const c_char, arguments: Strings, environment: Strings);
    fexecve(file: c_int, arguments: Strings, environment: Strings);
}

/// What starts another program, and whether that may have failed behind our back.
macro_rules! starts {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $all:expr, $failed:expr;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            shared($all);
            let done = real!($name($($argument => $type),*) -> $result);
            let failed: fn($result) -> bool = $failed;
            if failed(done) {
                connection::ends_with_our_memory();
            }
            done
        }
    )*};
}

starts! {
    posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int, !actions.is_null(), |error| error != 0;
    posix_spawnp(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int, !actions.is_null(), |error| error != 0;
    system(command: *const c_char) -> c_int, false, |status| status == -1 || libc::WEXITSTATUS(status) == 127;
    popen(command: *const c_char, mode: *const c_char) -> *mut c_void, false, |stream| stream.is_null();
}

/// What ends a process at once, under its names.
macro_rules! ends {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(status: c_int) -> ! {
            connection::ends();
            real!($name(status => c_int) -> ());
            // It does not come back.
            std::process::abort()
        }
    )*};
}

ends! { _exit _Exit }

behind! {
    setrlimit(which: c_int, limit: *const c_void) -> c_int, |_failed| limit_may_have_changed();
    setrlimit64(which: c_int, limit: *const c_void) -> c_int, |_failed| limit_may_have_changed();
    prlimit(process: pid_t, which: c_int, new: *const c_void, old: *mut c_void) -> c_int, |_failed| limit_may_have_changed();
    prlimit64(process: pid_t, which: c_int, new: *const c_void, old: *mut c_void) -> c_int, |_failed| limit_may_have_changed();
    ulimit(command: c_int, limit: c_long) -> c_long, |_done| limit_may_have_changed();
}

type Started = extern "C" fn(*mut c_void) -> c_int;

before! {
    clone(start: Started, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent: *mut pid_t, own: *mut c_void, child: *mut pid_t) -> c_int,
        dispatch::about_to_call(libc::SYS_clone, [flags as usize, 0, 0, 0, 0, 0]);
    __clone(start: Started, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent: *mut pid_t, own: *mut c_void, child: *mut pid_t) -> c_int,
        dispatch::about_to_call(libc::SYS_clone, [flags as usize, 0, 0, 0, 0, 0]);
}

/// As the C library's. What the call changes of descriptors is known here then.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    let arguments = [first, second, third, fourth, fifth, sixth];
    dispatch::about_to_call(number, arguments);
    files::lengths_are_needed();
    let answer = real!(syscall(number => c_long, first => usize, second => usize, third => usize, fourth => usize, fifth => usize, sixth => usize) -> c_long);
    dispatch::has_called(number, arguments, answer as isize);
    answer
}

// A call that returns twice is made from the program's own frame: this does what is to be done before, and leaves.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl vfork",
    ".type vfork, @function",
    ".globl __vfork",
    ".type __vfork, @function",
    "vfork:",
    "__vfork:",
    "sub rsp, 8",
    "call {before}",
    "add rsp, 8",
    "jmp rax",
    ".size vfork, . - vfork",
    before = sym before_vfork,
);

/// The child has the same memory: it may use all descriptors until it becomes another program, which inherits some. Answers where the C
/// library's function is.
#[cfg(target_arch = "x86_64")]
extern "C" fn before_vfork() -> *mut c_void {
    static REAL: crate::real::Real = crate::real::Real::new(c"vfork");
    shares_memory();
    shared(false);
    REAL.get()
}
