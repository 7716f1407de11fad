//! The messages by which programs reach the owner of a mount: `ioctl` on a file of it, and the owner's sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::core::error::Result;

/// Of the messages below.
pub(crate) const VERSION: u64 = 7;

/// `_IOWR('p', number, words * 8)`.
const fn command(number: u32, words: u32) -> u32 {
    3 << 30 | (words * 8) << 16 | (b'p' as u32) << 8 | number
}

/// Words of every message.
pub(crate) const WORDS: usize = 4;
/// Out: version, the number in the socket's name.
pub(crate) const HELLO: u32 = command(1, WORDS as u32);
/// In: the client's number; where it is about to write, or [`FILE_END`], and how many bytes are to have frames if that is the end; the
/// client's serial number.
/// Out: the lease's number and word, where the inode lies, whether it may be written.
pub(crate) const LEASE: u32 = command(2, WORDS as u32);
/// In place of an offset: behind the last byte of the file, wherever that is then.
pub(crate) const FILE_END: u64 = u64::MAX;
/// In: offset and length that are to have frames. Out: up to where they have.
pub(crate) const RESERVE: u32 = command(3, WORDS as u32);
/// The file is used through the kernel until it is closed.
pub(crate) const BAR: u32 = command(4, WORDS as u32);

/// In: the keeper's number and serial number, and the serial number of the client that will look where the frames are. Out: the pin's
/// number, where the inode lies. The number, sent on the keeper's socket, undoes it.
pub(crate) const PIN: u32 = command(5, WORDS as u32);

/// In: offset and length of a range that is taken out of the file, as `FALLOC_FL_COLLAPSE_RANGE` does. For any program.
pub(crate) const COLLAPSE: u32 = command(6, WORDS as u32);
/// In: offset and length of a hole that is put into the file, as `FALLOC_FL_INSERT_RANGE` does. For any program.
pub(crate) const INSERT: u32 = command(7, WORDS as u32);

/// In: bytes that the store is to have. For root and the owner's user.
pub(crate) const GROW: u32 = command(8, WORDS as u32);

/// What a process connects for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// To read and write bytes in the store's memory: it gets a descriptor of the store that writes.
    Client,
    /// To map files: it gets one that reads.
    Keeper,
}

/// The owner's socket, in the abstract name space.
pub(crate) fn socket_name(number: u64, role: Role) -> String {
    match role {
        Role::Client => format!("pagewalk-ctfs-{number:016x}"),
        Role::Keeper => format!("pagewalk-ctfs-{number:016x}-keeper"),
    }
}

/// Bytes of the first and only message on the socket: version, the client's number and serial number, what the store survives.
pub(crate) const WELCOME_BYTES: usize = 32;

/// Sends a message to the owner of the mount that an open file lies on, and gives back the words of the answer.
///
/// # Errors
///
/// `ENOTTY` elsewhere than on a mount, and what the owner refuses.
#[allow(unsafe_code)]
pub(crate) fn send(file: BorrowedFd<'_>, command: u32, words: [u64; WORDS]) -> Result<[u64; WORDS]> {
    let mut words = words;
    // SAFETY: the command says how much is read and written there, and that is what there is.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), u64::from(command) as _, words.as_mut_ptr()) };
    if done >= 0 {
        Ok(words)
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}
