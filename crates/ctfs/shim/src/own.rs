//! Descriptors of our own among the program's: as if they were not there.
//!
//! The connection to the owner must stay open, as its end tells that this process is gone; so must what mappings depend on. None of
//! them writes to the store. They lie behind the numbers that programs choose, are refused to the program's calls, and move when the
//! program wants their number.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_uint};

use crate::{files, kernel, mappings, names};

/// Numbers that a program has at least if some are our own: with fewer it counts them, as `sort` does.
const LEAST_LIMIT: u64 = 256;
/// How far behind the end of the numbers that there may be.
const BEHIND: u64 = 64;
/// The first number that they lie at where there may be very many.
const MOST_FIRST: u64 = 1 << 16;

/// No own descriptor has a lower number.
static LEAST: AtomicI32 = AtomicI32::new(c_int::MAX);

fn all() -> impl Iterator<Item = c_int> {
    let kept = mappings::kept().chain(names::kept());
    files::connection().map(|(_, number)| number).into_iter().chain(kept).filter(|&own| own >= 0)
}

/// Whether it is one of them.
#[inline]
pub(crate) fn is_own(descriptor: c_int) -> bool {
    descriptor >= LEAST.load(Ordering::Relaxed) && all().any(|own| own == descriptor)
}

/// The first one from a descriptor on.
pub(crate) fn next(from: c_uint) -> Option<c_uint> {
    all().filter_map(|own| c_uint::try_from(own).ok()).filter(|&own| own >= from).min()
}

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
fn copy(descriptor: c_int, first: c_int) -> c_int {
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

/// The program wants a number: what is ours there goes elsewhere.
pub(crate) fn make_way(number: c_int) {
    if !is_own(number) || !files::is_our_process() {
        return;
    }
    let moved = copy(number, number.saturating_add(1));
    let moved = if moved == number { copy(number, 3) } else { moved };
    LEAST.fetch_min(moved, Ordering::Relaxed);
    match files::connection().filter(|&(_, own)| own == number) {
        Some((client, _)) => client.descriptor_is_now(moved),
        None => {
            mappings::moved(number, moved);
            names::moved(number, moved);
        }
    }
}
