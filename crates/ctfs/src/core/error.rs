//! The reasons why an operation was not done.

use pagewalk_vm::file::StoreError;
use rustix::io::Errno;

/// An error of a file operation: the system's number for it.
pub type Error = Errno;

/// A file operation's result.
pub type Result<T> = std::result::Result<T, Error>;

/// What the store could not do, as a file system says it.
pub(crate) fn of_store(error: StoreError) -> Error {
    match error {
        StoreError::NoFrames | StoreError::NoPartition => Errno::NOSPC,
        StoreError::ReadOnly => Errno::ROFS,
        // The caller's ranges are right and small enough, or the store is damaged, or its memory fails.
        _ => Errno::IO,
    }
}
