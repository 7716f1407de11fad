//! Requests that any program may make of a mount, by an open file of it.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::core::error::Result;
#[cfg(doc)]
use crate::core::{grow::GrowError, system::FileSystem};
use crate::protocol::messages;

/// Lets the store that an open folder or file of a mount lies in have so many bytes.
///
/// # Errors
///
/// Those of [`GrowError::errno`]; `EPERM` for a user other than root and the mount's, `ENOTTY` elsewhere than on a mount.
pub fn grow_on_mount(folder: BorrowedFd<'_>, bytes: u64) -> Result<()> {
    messages::send(folder, messages::GROW, [bytes, 0, 0, 0]).map(drop)
}

/// Takes a range out of a file on a mount, as [`FileSystem::collapse`] does; the file is open to write.
///
/// # Errors
///
/// As [`FileSystem::collapse`]; `ENOTTY`: the file lies in another file system.
pub fn collapse_on_mount(file: BorrowedFd<'_>, bytes: Range<u64>) -> Result<()> {
    ask(file, messages::COLLAPSE, bytes)
}

/// Puts a hole into a file on a mount, as [`FileSystem::insert`] does; the file is open to write.
///
/// # Errors
///
/// As [`FileSystem::insert`]; `ENOTTY`: the file lies in another file system.
pub fn insert_on_mount(file: BorrowedFd<'_>, bytes: Range<u64>) -> Result<()> {
    ask(file, messages::INSERT, bytes)
}

fn ask(file: BorrowedFd<'_>, command: u32, bytes: Range<u64>) -> Result<()> {
    let length = bytes.end.checked_sub(bytes.start).ok_or(Errno::INVAL)?;
    // What programs have stored in mappings belongs to the offsets from before.
    rustix::fs::fdatasync(file)?;
    messages::send(file, command, [bytes.start, length, 0, 0]).map(drop)
}
