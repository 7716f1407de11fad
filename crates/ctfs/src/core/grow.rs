//! A store that becomes larger, while it is open or not.
//!
//! The file is made longer and mapped once more; the store is opened there with more frames, by what opens every store, and takes the
//! place of the one that was open. Names, open files and everything else that is known of files stay: none of it says where frames lie.

use std::io;

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::{GrowError as StoreGrowError, OpenError, PersistentMemory, Store};
use rustix::io::Errno;

use crate::core::system::FileSystem;
use crate::core::volume::Volume;
use crate::memory::mapped::Mapped;

/// The reason why a store is as large as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowError {
    /// The size is none for this store.
    #[error(transparent)]
    Store(#[from] StoreGrowError),
    /// The store is open to be read only.
    #[error("the store is open to be read only")]
    ReadOnly,
    /// The disk is full, or the file cannot be mapped or written back.
    #[error("the store's file: {0}")]
    File(io::Error),
    /// A client is in the middle of a copy, or this is a child of the process that has the store.
    #[error(transparent)]
    Busy(#[from] Errno),
}

impl From<io::Error> for GrowError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl GrowError {
    /// Returns the system's number: `EINVAL` for a store that would become smaller, `ERANGE` for another size that cannot be, `EROFS`, and
    /// what the file's system says (`ENOSPC`).
    pub fn errno(&self) -> Errno {
        match self {
            Self::Store(StoreGrowError::Smaller { .. }) => Errno::INVAL,
            Self::Store(StoreGrowError::TooLittle { .. } | StoreGrowError::Size(_)) => Errno::RANGE,
            Self::Store(StoreGrowError::Open(OpenError::NoRoom { .. })) => Errno::NOSPC,
            Self::Store(_) => Errno::IO,
            Self::ReadOnly => Errno::ROFS,
            Self::File(error) if error.kind() == io::ErrorKind::StorageFull => Errno::NOSPC,
            Self::File(error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
            Self::Busy(errno) => *errno,
        }
    }
}

impl FileSystem<Mapped> {
    /// Lets the store have so many bytes, whole pages of 4 KiB, and its file at least as many. After a crash the store has its old size or
    /// the new one. A size that it has already changes nothing.
    ///
    /// # Errors
    ///
    /// [`GrowError`]; the store goes on as it was.
    pub fn grow(&mut self, bytes: u64) -> Result<(), GrowError> {
        self.grow_with(bytes, |_| Ok(())).map(drop)
    }

    /// The same; makes what needs the new memory before anything has changed. Nothing where the store has the size already.
    pub(crate) fn grow_with<T>(
        &mut self,
        bytes: u64,
        prepare: impl FnOnce(&Mapped) -> io::Result<T>,
    ) -> Result<Option<T>, GrowError> {
        if self.is_read_only() {
            return Err(GrowError::ReadOnly);
        }
        let frames = bytes / PAGE_BYTES;
        if !self.store.can_grow(frames)? {
            return Ok(None);
        }
        let memory = self.store.memory().longer(frames)?;
        let prepared = prepare(&memory)?;
        self.store.settle();
        let old = self.store.memory();
        if let Some(checkpoints) = old.checkpoints() {
            checkpoints.end(old).map_err(io::Error::other)?;
        }
        match Store::grow(memory, frames) {
            Ok(store) => {
                self.store = store;
                Ok(Some(prepared))
            }
            Err(error) => {
                // A power failure must find a checkpoint again. If that cannot be written, every `fsync` says so.
                let _ = self.store.checkpoint();
                Err(error.into())
            }
        }
    }
}

impl Volume<Mapped> {
    /// Lets the store have so many bytes: see [`FileSystem::grow`]. Files stay open.
    ///
    /// # Errors
    ///
    /// [`GrowError`].
    pub fn grow(&self, bytes: u64) -> Result<(), GrowError> {
        self.exclusive()?.surely(|system| system.grow(bytes))
    }
}
