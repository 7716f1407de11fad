//! A file system that threads share.
//!
//! Two locks, in this order: the system's, which threads share that read or write bytes with frames, and which a thread has to
//! itself that changes names, inodes, frames or the page table; and the file's, so that no thread reads what another writes. A write
//! that finds no frames gets them with the system's lock alone, and tries again.

use std::ops::{Deref, DerefMut};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pagewalk_vm::file::PersistentMemory;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use rustix::io::Errno;

use crate::core::bytes::Bytes;
use crate::core::error::{Error, Result};
use crate::core::file::Begun;
use crate::core::inode::{self, Ino, kind};
use crate::core::retry::or_reclaim;
use crate::core::system::FileSystem;
use crate::core::types::{Clock, Overwrites, Place};
use crate::memory::gate::Gate;
use crate::memory::mapped::Mapped;
use crate::memory::sharing::{Process, SharedMemory};
use crate::memory::single_threaded;
use crate::memory::turns::Turns;

/// Locks of files; those with the same number modulo this share one.
const FILE_LOCKS: usize = 256;

/// Volumes that there were.
static VOLUMES: AtomicU64 = AtomicU64::new(0);

/// A regular file that is in use: it is there until it is closed, with a name or without. Closing takes this, so that it is used no more
/// then; what is dropped otherwise stays until the store is mounted again.
#[derive(PartialEq, Eq, Debug)]
pub struct Opened {
    /// The number of the file's inode.
    ino: Ino,
    /// Where its inode lies; inodes do not move.
    pub(crate) at: u64,
    /// The volume that has it.
    volume: u64,
}

impl Opened {
    /// Returns the inode number of the file.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    fn of<M: PersistentMemory>(system: &FileSystem<M>, ino: Ino, volume: u64) -> Result<Self> {
        match system.inode(ino)?.mode() & kind::MASK {
            kind::FILE => {}
            kind::DIRECTORY => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        Ok(Self { ino, at: inode::address(&system.store, ino).ok_or(Errno::IO)?, volume })
    }
}

/// A file system that threads share.
pub struct Volume<M> {
    system: RwLock<FileSystem<M>>,
    clock: Clock,
    files: Box<[RwLock<()>]>,
    /// Between this process and those that use files' bytes beside it.
    gate: Option<Arc<Gate>>,
    /// Of all volumes of this program.
    number: u64,
    process: Process,
    pub(crate) turns: Turns,
}

// SAFETY: (1) the memory allows what the locks let threads do, as its trait says; (2) everything else is shared by its locks.
#[allow(unsafe_code)]
unsafe impl<M: SharedMemory> Sync for Volume<M> {}

impl<M: SharedMemory> Volume<M> {
    /// Lets threads share a file system.
    pub fn new(mut system: FileSystem<M>) -> Self {
        system.store.settle();
        Self {
            clock: system.clock(),
            system: RwLock::new(system),
            files: std::iter::repeat_with(RwLock::default).take(FILE_LOCKS).collect(),
            gate: None,
            number: VOLUMES.fetch_add(1, Ordering::Relaxed),
            process: Process::this(),
            turns: Turns::default(),
        }
    }

    /// Whether a child of the process that has the store is here: the parent goes on with it.
    #[inline]
    pub(crate) fn is_ours(&self) -> Result<()> {
        if self.process.is_here() { Ok(()) } else { Err(Errno::STALE) }
    }

    /// Whether a file is one of this volume's, in the process that has it.
    #[inline]
    fn has(&self, file: &Opened) -> Result<()> {
        if file.volume == self.number { self.is_ours() } else { Err(Errno::BADF) }
    }

    /// The same, with other processes beside.
    pub(crate) fn with_gate(system: FileSystem<M>, gate: Arc<Gate>) -> Self {
        Self { gate: Some(gate), ..Self::new(system) }
    }

    /// Gives the file system back.
    pub fn into_system(self) -> FileSystem<M> {
        self.system.into_inner()
    }

    /// The file system, to look at.
    ///
    /// A thread that panicked with it has changed nothing that counts: the transaction was not committed.
    pub(crate) fn shared(&self) -> RwLockReadGuard<'_, FileSystem<M>> {
        self.system.read()
    }

    /// The file system, to change it.
    ///
    /// # Errors
    ///
    /// Another process is in the middle of a copy and does not go on (`EBUSY`), this one is a child of the process that has the store
    /// (`ESTALE`), or the store has failed (`EIO`).
    pub(crate) fn exclusive(&self) -> Result<Exclusive<'_, M>> {
        self.is_ours()?;
        let system = self.unnoticed();
        system.sure(Ok(()))?;
        system.noticed()
    }

    /// Does something with the file system to itself.
    ///
    /// # Errors
    ///
    /// As for [`Volume::exclusive`], and what is done.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut FileSystem<M>) -> Result<T>) -> Result<T> {
        self.exclusive()?.surely(|system| act(system))
    }

    /// Does something with the file system as [`Volume::names`] gives it.
    ///
    /// # Errors
    ///
    /// As for [`Volume::names`], and what is done.
    pub(crate) fn with_names<T, E: From<Error>>(
        &self,
        act: impl FnOnce(&mut Exclusive<'_, M>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.names()?.surely(act)
    }

    /// The file system, to change names, and files that no other process uses: those beside go on meanwhile. They neither load nor store
    /// the words of inodes that this changes, and use none of the pages that it moves.
    ///
    /// # Errors
    ///
    /// As [`Volume::exclusive`].
    fn names(&self) -> Result<Exclusive<'_, M>> {
        self.is_ours()?;
        let system = self.system.write();
        system.sure(Ok(()))?;
        Ok(Exclusive { system, gate: None, beside: self.gate.as_deref() })
    }

    /// The file system, to change what those beside do not see: they go on meanwhile.
    pub(crate) fn unnoticed(&self) -> Unnoticed<'_, M> {
        Unnoticed { system: self.system.write(), gate: self.gate.as_deref() }
    }

    fn file_lock(&self, ino: Ino) -> &RwLock<()> {
        &self.files[ino.0 as usize % FILE_LOCKS]
    }

    /// Opens a regular file for reads and writes.
    ///
    /// # Errors
    ///
    /// There is no such file, this is a child of the process that has the store (`ESTALE`), or the store has failed (`EIO`).
    pub fn open(&self, ino: Ino) -> Result<Opened> {
        self.with(|system| self.open_in(system, ino))
    }

    /// The same under a lock that is held.
    pub(crate) fn open_in(&self, system: &mut FileSystem<M>, ino: Ino) -> Result<Opened> {
        let file = Opened::of(system, ino, self.number)?;
        system.open(ino)?;
        Ok(file)
    }

    /// A regular file that the caller keeps open otherwise.
    pub(crate) fn find(&self, ino: Ino) -> Result<Opened> {
        let system = self.shared();
        system.sure(Opened::of(&system, ino, self.number))
    }

    /// Closes an open file. The last close gives back the frames behind the file's end.
    ///
    /// ```compile_fail
    /// # fn twice(volume: &pagewalk_ctfs::Volume<pagewalk_ctfs::Mapped>, file: pagewalk_ctfs::Opened) {
    /// volume.close(file);
    /// volume.close(file); // Another file may have its place by now.
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The file is damaged; it is another volume's (`EBADF`), this is a child of the process that has the store (`ESTALE`), or the store
    /// has failed (`EIO`).
    pub fn close(&self, file: Opened) -> Result<()> {
        self.has(&file)?;
        self.with(|system| {
            if system.has_one_user(file.ino) && system.has_slack(file.ino) {
                system.shrink(file.ino)?;
            }
            system.close(file.ino)
        })
    }

    /// Bytes of the file.
    ///
    /// # Errors
    ///
    /// It is another volume's (`EBADF`), this is a child of the process that has the store (`ESTALE`), or the store has failed (`EIO`).
    pub fn size(&self, file: &Opened) -> Result<u64> {
        self.has(file)?;
        let system = self.shared();
        system.sure(Ok(Bytes::new(system.store.memory(), file.at).size()))
    }

    /// Reads at an offset, up to the file's end; how much that was.
    ///
    /// # Errors
    ///
    /// As for [`Volume::size`].
    #[inline]
    pub fn read(&self, file: &Opened, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.has(file)?;
        // SAFETY: until both are dropped nothing is called but what follows, and the memory, which starts no thread.
        #[allow(unsafe_code)]
        let (system, _file) =
            unsafe { (single_threaded::read(&self.system), single_threaded::read(self.file_lock(file.ino))) };
        let read = Bytes::new(system.store.memory(), file.at).read(offset, into);
        if system.store.memory().has_failed() { Err(Errno::IO) } else { Ok(read) }
    }

    /// Writes; the bytes persist before it returns. Where that was, and how many there was room for.
    ///
    /// # Errors
    ///
    /// There is no room at all, or the file would be too large; and as for [`Volume::size`].
    #[inline]
    pub fn write(&self, file: &Opened, place: Place, data: &[u8]) -> Result<(u64, usize)> {
        self.has(file)?;
        match self.write_in_place(file, place, data, false) {
            Some(offset) => Ok((offset, data.len())),
            None => self.write_with_room(file, place, data),
        }
    }

    /// Writes all where all has frames and the log is not needed, or nothing; where that was. What it skips must have been given back.
    ///
    /// The answer is for registers: one in memory may be loaded as a whole, and that waits for everything that was stored before.
    #[inline]
    fn write_in_place(&self, file: &Opened, place: Place, data: &[u8], is_reserved: bool) -> Option<u64> {
        let now = (self.clock)();
        // SAFETY: as in `read`.
        #[allow(unsafe_code)]
        let (system, _file) = unsafe {
            (single_threaded::read(&self.system), single_threaded::write(self.file_lock(file.ino)))
        };
        let bytes = Bytes::new(system.store.memory(), file.at);
        let (offset, is_ready) = bytes.begin_write(place, is_reserved);
        let is_logged = system.overwrites == Overwrites::Whole && offset < bytes.size();
        let is_done = data.is_empty() || is_ready && !is_logged && bytes.write(offset, data, now as u64);
        is_done.then_some(offset)
    }

    #[inline(never)]
    fn write_with_room(&self, file: &Opened, place: Place, data: &[u8]) -> Result<(u64, usize)> {
        let mut data = data;
        loop {
            {
                let mut system = self.exclusive()?;
                let offset = Bytes::new(system.store.memory(), file.at).offset_of(place);
                // A mount has its own list of files that are open.
                let begun = or_reclaim(
                    &mut *system,
                    |system| system.begin_write(file.ino, offset, data),
                    |system| Ok(self.gate.is_none() && system.reclaim_slack()?),
                )?;
                match begun {
                    Begun::Reserved(bytes) => data = &data[..bytes],
                    Begun::Logged(bytes) => return Ok((offset, bytes)),
                }
            }
            if let Some(offset) = self.write_in_place(file, place, data, true) {
                return Ok((offset, data.len()));
            }
        }
    }
}

impl Volume<Mapped> {
    /// Waits until everything that was done before, to any file, is on the disk, where the store was opened as [`Survives::Synced`](crate::Survives::Synced)
    /// says; others go on meanwhile. Where everything persists before it is answered, or was not to persist, there is nothing to wait for.
    ///
    /// # Errors
    ///
    /// The disk refuses (`EIO`), as it does from then on; or this is a child of the process that has the store (`ESTALE`).
    pub fn sync(&self) -> Result<()> {
        self.is_ours()?;
        self.turns.ask();
        self.turns.take(|| {
            let system = self.shared();
            system.sure(Ok(()))?;
            let once_more = system.store.memory().for_checkpoints().map_err(|_| Errno::NOMEM)?;
            let Some((memory, checkpoints)) = once_more else { return Ok(()) };
            checkpoints.checkpoint_then(&memory, None, || drop(system)).map_err(|_| Errno::IO)
        })
    }
}

/// The file system of a thread that has it to itself but for other processes, which use bytes of files where these are.
pub(crate) struct Unnoticed<'a, M: PersistentMemory> {
    system: RwLockWriteGuard<'a, FileSystem<M>>,
    gate: Option<&'a Gate>,
}

impl<'a, M: PersistentMemory> Unnoticed<'a, M> {
    /// Keeps the other processes out, too.
    pub(crate) fn noticed(self) -> Result<Exclusive<'a, M>> {
        self.gate.map_or(Ok(()), Gate::close)?;
        Ok(Exclusive { system: self.system, gate: self.gate, beside: None })
    }

    /// The same, if none of them stays inside for so long.
    pub(crate) fn noticed_within(self, patience: Duration) -> Result<Exclusive<'a, M>> {
        self.gate.map_or(Ok(()), |gate| gate.close_within(patience))?;
        Ok(Exclusive { system: self.system, gate: self.gate, beside: None })
    }
}

impl<M: PersistentMemory> Deref for Unnoticed<'_, M> {
    type Target = FileSystem<M>;

    fn deref(&self) -> &Self::Target {
        &self.system
    }
}

impl<M: PersistentMemory> DerefMut for Unnoticed<'_, M> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.system
    }
}

/// The file system of a thread that has it to itself, or as far as [`Volume::names`] says.
pub(crate) struct Exclusive<'a, M: PersistentMemory> {
    system: RwLockWriteGuard<'a, FileSystem<M>>,
    /// The gate that is closed as long as this lives.
    gate: Option<&'a Gate>,
    /// The gate that is open, as clients go on.
    beside: Option<&'a Gate>,
}

impl<M: PersistentMemory> Exclusive<'_, M> {
    /// Does something, and answers `EIO` instead if the store has failed by then.
    pub(crate) fn surely<T, E: From<Error>>(
        mut self,
        act: impl FnOnce(&mut Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        // Code that trusts a sound store may meet zeroes in the middle of it, where a page has gone missing.
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| act(&mut self)));
        self.sure(Ok(()))?;
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Keeps the other processes out from now on, if they are not yet.
    pub(crate) fn keep_others_out(&mut self) -> Result<()> {
        if let Some(gate) = self.beside {
            self.system.store.settle();
            gate.close()?;
            (self.gate, self.beside) = (Some(gate), None);
        }
        Ok(())
    }
}

impl<M: PersistentMemory> Deref for Exclusive<'_, M> {
    type Target = FileSystem<M>;

    fn deref(&self) -> &Self::Target {
        &self.system
    }
}

impl<M: PersistentMemory> DerefMut for Exclusive<'_, M> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.system
    }
}

impl<M: PersistentMemory> Drop for Exclusive<'_, M> {
    /// Words of inodes are stored without the log from now on: it must not bring back what it holds.
    fn drop(&mut self) {
        self.system.store.settle();
        let has_failed = self.system.store.memory().has_failed();
        if let Some(gate) = self.gate {
            if has_failed {
                // The log may hold words of inodes that the next recovery brings back: no client may store others until then.
                gate.end_leases();
            }
            gate.reopen();
        }
        if let Some(gate) = self.beside {
            gate.pages_moved();
            if has_failed {
                // The same; a client that does not leave stores nothing more behind the copy that it is in.
                let closed = gate.close();
                gate.end_leases();
                if closed.is_ok() {
                    gate.reopen();
                }
            }
        }
    }
}
