//! The beginning and the end of a file system: making an empty one, mounting one that is there, ending it.

use pagewalk_vm::file::{NotPersistent, OpenError, PersistentMemory, Recovered, Store};
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use crate::core::check::check;
use crate::core::error::Result;
use crate::core::inode::{self, Field, Ino, Inodes, kind};
use crate::core::names::fill;
use crate::core::root;
use crate::core::system::FileSystem;
use crate::core::types::{Clock, Counts, MountError, Overwrites, Owner};
use crate::core::usage::PageCounts;

impl<M: PersistentMemory> FileSystem<M> {
    /// Makes an empty file system of all of the memory.
    ///
    /// # Errors
    ///
    /// The memory is too small or too large.
    pub fn format(memory: M, owner: Owner, clock: Clock) -> std::result::Result<Self, MountError> {
        let mut store = Store::format(memory)?;
        let now = clock() as u64;
        let mut transaction = store.begin();
        let mut make = || -> Result<()> {
            transaction.mark_inode(Ino::ROOT, true)?;
            fill(&mut transaction, Ino::ROOT, kind::DIRECTORY | 0o755, owner, now)?;
            transaction.set_field(Ino::ROOT, Field::Links, 2)?;
            transaction.set_field(Ino::ROOT, Field::Parent, Ino::ROOT.0)
        };
        make().map_err(|error| MountError::Damaged(format!("an empty store has no room: {error}")))?;
        transaction.set_root_word(root::MAGIC_WORD, root::MAGIC);
        transaction.commit().map_err(|error| MountError::Damaged(error.to_string()))?;
        Self::mount(store.into_memory(), clock).map(|(system, _)| system)
    }

    /// Mounts a file system: applies what a crash left in the log, looks at all of it, and gives back what files without a name
    /// had. In a memory that is there to be read only ([`Mapped::open_read_only`](crate::Mapped::open_read_only)) the log is applied to
    /// what this process sees, and nothing else is changed: every operation that would change something fails with `EROFS`.
    ///
    /// # Errors
    ///
    /// [`MountError`].
    pub fn mount(memory: M, clock: Clock) -> std::result::Result<(Self, Recovered), MountError> {
        let (mut system, recovered) = Self::mount_unchecked(memory, clock)?;
        let problem = check(&system).into_iter().next();
        if system.store.memory().has_failed() {
            return Err(OpenError::from(NotPersistent).into());
        }
        if let Some(problem) = problem {
            return Err(MountError::Damaged(problem));
        }
        // Read only, nothing needs the room that they take.
        while !system.is_read_only()
            && let orphan @ Ino(1..) = Ino(system.store.root_word(root::ORPHANS))
        {
            system
                .reclaim(orphan)
                .map_err(|error| MountError::Damaged(format!("inode {}: {error}", orphan.0)))?;
        }
        Ok((system, recovered))
    }

    /// Ends a store that nothing is changed in any more, with everything in its place: the next user of the file, on this machine or another one,
    /// finds what is there now. Does nothing where programs do not ask for that anyway ([`Survives::Synced`](crate::Survives::Synced)).
    ///
    /// # Errors
    ///
    /// The disk refuses (`EIO`).
    pub fn end(&self) -> Result<()> {
        let memory = self.store.memory();
        memory.checkpoints().map_or(Ok(()), |checkpoints| checkpoints.end(memory)).map_err(|_| Errno::IO)
    }

    /// Mounts without a look, for [`check`](crate::check()): nothing else may be done with it, as anything may be wrong.
    ///
    /// # Errors
    ///
    /// [`MountError`].
    pub fn mount_unchecked(memory: M, clock: Clock) -> std::result::Result<(Self, Recovered), MountError> {
        let (store, recovered) = Store::open(memory)?;
        let magic = store.root_word(root::MAGIC_WORD);
        if store.memory().has_failed() {
            return Err(OpenError::from(NotPersistent).into());
        }
        if magic != root::MAGIC {
            return Err(MountError::NoFileSystem);
        }
        let mut system = Self {
            store,
            directories: FxHashMap::default(),
            users: FxHashMap::default(),
            pins: FxHashMap::default(),
            preallocated: FxHashMap::default(),
            page_counts: PageCounts::default(),
            hint: Ino(2),
            used_inodes: 0,
            clock,
            overwrites: Overwrites::default(),
            counts: Counts::default(),
            was_recovered: recovered != Recovered::Nothing,
        };
        // A page table that is damaged cannot be followed.
        if system.store.check().is_ok() {
            inode::visit(&system.store, &mut |_| system.used_inodes += 1);
        }
        Ok((system, recovered))
    }
}
