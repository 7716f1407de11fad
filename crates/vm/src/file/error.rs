//! The reasons why operations of a store fail.

use super::checkpoint::NotPersistent;
use super::journal::LogFull;
use crate::addr::Vpn;
use crate::table::cuckoo::NoChunk;

/// The reason why an operation of the store failed. Nothing has changed, unless the memory has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No frame is left, or no such run of frames.
    #[error("no memory is left in the store")]
    NoFrames,
    /// No partition of that size is left.
    #[error("no address range is left in the store")]
    NoPartition,
    /// Too much at once.
    #[error(transparent)]
    LogFull(#[from] LogFull),
    /// The memory has failed.
    #[error(transparent)]
    NotPersistent(#[from] NotPersistent),
    /// The ranges to swap or to move overlap.
    #[error("the two ranges of pages overlap")]
    Overlap,
    /// Beyond the address space.
    #[error("pages beyond the end of the address space")]
    Range,
    /// The memory is there to be read only ([`PersistentMemory::is_read_only`](super::PersistentMemory::is_read_only)).
    #[error("the store is open to be read only")]
    ReadOnly,
    /// The store has a structure that it cannot have.
    #[error("damaged: the partition at page {page} is not what the partitions around it say")]
    Damaged {
        /// The page where the damage was found.
        page: Vpn,
    },
}

impl From<NoChunk> for StoreError {
    fn from(_: NoChunk) -> Self {
        Self::NoFrames
    }
}
