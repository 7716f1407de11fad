//! Promises of a store: the events that it survives, and when its file gets its blocks.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::memory::medium::{self, Medium, is_in_memory};

/// The events that a store survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Survives {
    /// The end of the process, however sudden: the page cache keeps what was stored. A fence costs nothing.
    #[default]
    ProcessCrash,
    /// Power failures, too: a fence writes the file back.
    PowerFailure,
    /// Power failures, too, as far as programs ask for that: `fsync` writes the file back, a fence costs nothing, and a power failure
    /// leaves the state of a moment since the last one. Needs room behind the store, see `Checkpoints`.
    Synced,
    /// Power failures, too, of a file that lies in persistent memory itself (DAX): what is flushed leaves the caches, and a fence
    /// waits for that.
    PowerFailureOfDax,
}

impl Survives {
    /// As a number, for another process.
    pub(crate) fn number(self) -> u64 {
        self as u64
    }

    /// Returns what a store survives by default: what programs ask for with `fsync`, if its file lies on a disk; everything in
    /// persistent memory.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or is of a kind that holds no store.
    pub fn usual(path: &Path) -> io::Result<Self> {
        let file = medium::open_to_read(path)?;
        Ok(match Medium::of(&file)? {
            Medium::Dax => Self::PowerFailureOfDax,
            _ if is_in_memory(file.as_fd())? => Self::ProcessCrash,
            _ => Self::Synced,
        })
    }

    pub(crate) fn of_number(number: u64) -> Option<Self> {
        [Self::ProcessCrash, Self::PowerFailure, Self::Synced, Self::PowerFailureOfDax]
            .into_iter()
            .find(|survives| survives.number() == number)
    }
}

/// When a new store's file gets its blocks on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Blocks {
    /// All of them when it is made: nothing finds the disk full later.
    #[default]
    AtOnce,
    /// Each when a frame in it is first used: the file takes what its files take, and an operation that finds the disk full fails with
    /// `ENOSPC`.
    AsNeeded,
}
