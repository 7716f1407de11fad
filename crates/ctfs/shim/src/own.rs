//! Descriptors of our own among the program's: as if they were not there.
//!
//! The connection to the owner must stay open, as its end tells that this process is gone; so must what mappings depend on. None of
//! them writes to the store. They lie behind the numbers that programs choose, are refused to the program's calls, and move when the
//! program wants their number.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;

use crate::kernel;

/// Descriptors from this one on are the kernel's alone.
pub(crate) const DESCRIPTORS: usize = 4_096;

/// Numbers that a program has at least if some are our own: with fewer it counts them, as `sort` does.
const LEAST_LIMIT: u64 = 256;
/// How far behind the end of the numbers that there may be.
const BEHIND: u64 = 64;
/// The first number that they lie at where there may be very many.
const MOST_FIRST: u64 = 1 << 16;

/// No own descriptor has a lower number.
pub(crate) static LEAST: AtomicI32 = AtomicI32::new(c_int::MAX);

/// Whether there are so many numbers that the program does not miss those of our own.
pub(crate) fn has_room() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.is_none_or(|limit| limit >= LEAST_LIMIT)
}

/// Moves a descriptor behind those that programs choose: its number then, which may be the same where there is no other.
pub(crate) fn out_of_the_way(descriptor: c_int) -> c_int {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let first = limit.unwrap_or(u64::MAX).min(MOST_FIRST).saturating_sub(BEHIND);
    let number = copy(descriptor, first as c_int);
    LEAST.fetch_min(number, Ordering::Relaxed);
    number
}

/// The descriptor's number behind another one; the old one is closed.
pub(crate) fn copy(descriptor: c_int, first: c_int) -> c_int {
    let command = libc::F_DUPFD_CLOEXEC as usize;
    // SAFETY: it touches no memory.
    let copied =
        unsafe { kernel::call(libc::SYS_fcntl, [descriptor as usize, command, first.max(0) as usize]) };
    match c_int::try_from(copied) {
        Ok(copied) if copied >= 0 => {
            close(descriptor);
            copied
        }
        _ => descriptor,
    }
}

/// Closes one of them.
pub(crate) fn close(descriptor: c_int) {
    // SAFETY: it touches no memory.
    unsafe { kernel::call(libc::SYS_close, [descriptor as usize]) };
}
