//! Descriptors that stand for files which were opened without the kernel, and how the kernel opens such files once more.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;
use pagewalk_ctfs::{Ask, BY_HANDLE};

use crate::buffers::{ANSWERED, WHOLE, cleared};
use crate::mounts::{self, device_of, status_of};
use crate::own::DESCRIPTORS;
use crate::{kernel, own};

const NONE: RawFd = -1;
/// What descriptors that stand for files are copies of.
static STAND_IN: AtomicI32 = AtomicI32::new(NONE);

/// A descriptor that stands for a file: the lowest number that is free.
pub(crate) fn stand_in(flags: c_int) -> Option<c_int> {
    if STAND_IN.load(Ordering::Relaxed) == NONE {
        let path = [&mounts::place()?.prefix[..], b"/.\0"].concat();
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize];
        let opened = kernel::checked(libc::SYS_openat, arguments).ok()?;
        STAND_IN.store(own::out_of_the_way(opened as RawFd), Ordering::Relaxed);
    }
    let command = if flags & libc::O_CLOEXEC != 0 { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    let of = STAND_IN.load(Ordering::Relaxed);
    let descriptor = kernel::checked(libc::SYS_fcntl, [of as usize, command as usize, 0]).ok()?;
    if descriptor >= DESCRIPTORS {
        own::close(descriptor as c_int);
        return None;
    }
    Some(descriptor as c_int)
}

/// What descriptors that stand for files are copies of.
pub(crate) fn stands_in() -> RawFd {
    STAND_IN.load(Ordering::Relaxed)
}

/// Opens once more by the kernel what was opened without it. A handler of a signal may do that in the middle of anything: no memory is taken.
pub(crate) fn open_again(ask: &Ask<'_>, handle: u64, flags: c_int, device: u64) -> Option<RawFd> {
    let place = mounts::place()?;
    // SAFETY: no other part of this call has either.
    let (answered, whole) = unsafe { (cleared(ANSWERED), cleared(WHOLE)) };
    let (path, ino) = ask.path(handle, answered).ok()?;
    let mut digits = [0; 16];
    let by_handle = by_handle(handle, &mut digits);
    let flags = flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC) | libc::O_CLOEXEC;
    [[path, b""], by_handle].into_iter().find_map(|path| {
        let mut end = 0;
        for part in [&place.prefix[..], b"/", path[0], path[1], b"\0"] {
            whole.get_mut(end..end + part.len())?.copy_from_slice(part);
            end += part.len();
        }
        let arguments = [libc::AT_FDCWD as usize, whole.as_ptr() as usize, flags as usize];
        let opened = kernel::checked(libc::SYS_openat, arguments).ok()? as RawFd;
        let is_it = status_of(opened, libc::STATX_INO)
            .is_some_and(|status| status.stx_ino == ino.0 && device_of(&status) == device);
        if !is_it {
            own::close(opened);
        }
        is_it.then_some(opened)
    })
}

/// The name by which the owner knows what was opened, whatever name it has by now: a part that is the same for all, and digits.
fn by_handle(handle: u64, digits: &mut [u8; 16]) -> [&[u8]; 2] {
    let count = (64 - handle.leading_zeros() as usize).div_ceil(4).max(1);
    for (at, digit) in digits[..count].iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(handle >> (4 * at) & 15) as usize];
    }
    [BY_HANDLE, &digits[..count]]
}

/// Closes the stand-in, which is opened again when it is needed.
pub(crate) fn close_stand_in() {
    let number = STAND_IN.swap(NONE, Ordering::Relaxed);
    if number != NONE {
        own::close(number);
    }
}

/// Notes that the descriptor `from` has the number `to` now, if it is the stand-in's.
pub(crate) fn moved(from: RawFd, to: RawFd) {
    let _ = STAND_IN.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
}
