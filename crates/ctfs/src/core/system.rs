//! The mounted file system: its store, what it keeps in memory beside that, and the reads and stores of single inodes on which every
//! operation stands.

use pagewalk_vm::file::{PersistentMemory, Store};
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use crate::core::bytes::{self, Bytes};
use crate::core::directory::Directory;
use crate::core::error::Result;
use crate::core::inode::{self, Field, Ino, Inode, kind};
use crate::core::types::{Clock, Counts, Overwrites, Space};
use crate::core::usage::PageCounts;

/// Names that indices hold before the least needed are forgotten.
const MOST_INDEXED: usize = 1 << 22;

/// A mounted file system.
pub struct FileSystem<M> {
    pub(crate) store: Store<M>,
    pub(crate) directories: FxHashMap<Ino, Directory>,
    /// How often each inode is open.
    pub(crate) users: FxHashMap<Ino, u64>,
    /// How often each file's frames are kept where they are.
    pub(super) pins: FxHashMap<Ino, u64>,
    /// Up to which byte behind its end each file keeps the frames that `fallocate` gave it.
    pub(crate) preallocated: FxHashMap<Ino, u64>,
    pub(crate) page_counts: PageCounts,
    pub(crate) hint: Ino,
    pub(crate) used_inodes: u64,
    pub(super) clock: Clock,
    pub(crate) overwrites: Overwrites,
    pub(crate) counts: Counts,
    /// What a crash left in the log, or had not written, was applied when this was mounted.
    pub(crate) was_recovered: bool,
}

impl<M: PersistentMemory> FileSystem<M> {
    /// Returns whether nothing can be changed.
    pub fn is_read_only(&self) -> bool {
        self.store.memory().is_read_only()
    }

    /// Refuses where nothing can be changed (`EROFS`), for what would find out too late, or never, as it changes nothing by a transaction.
    pub(crate) fn may_change(&self) -> Result<()> {
        if self.is_read_only() { Err(Errno::ROFS) } else { Ok(()) }
    }

    /// Says what becomes of interrupted writes from now on.
    pub fn set_overwrites(&mut self, overwrites: Overwrites) {
        self.overwrites = overwrites;
    }

    /// Gives the memory back.
    pub fn into_memory(self) -> M {
        self.store.into_memory()
    }

    /// Returns the store that the file system lies in.
    pub fn store(&self) -> &Store<M> {
        &self.store
    }

    /// Returns counts of what the file system did.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns how much room there is.
    pub fn space(&self) -> Space {
        let (frames, free) = self.store.frame_counts();
        Space { frames, free, inodes: inode::MOST_INODES, used_inodes: self.used_inodes }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn now(&self) -> u64 {
        (self.clock)() as u64
    }

    /// What an operation answers, unless the memory has failed meanwhile: then what was found or done means nothing.
    pub(crate) fn sure<T>(&self, answer: Result<T>) -> Result<T> {
        if self.store.memory().has_failed() { Err(Errno::IO) } else { answer }
    }

    pub(crate) fn inode(&self, ino: Ino) -> Result<Inode> {
        self.sure(inode::read(&self.store, ino))
    }

    pub(crate) fn directory_inode(&self, ino: Ino) -> Result<Inode> {
        let inode = self.inode(ino)?;
        if inode.is(kind::DIRECTORY) { Ok(inode) } else { Err(Errno::NOTDIR) }
    }

    /// A directory's index, which is made if there is none yet.
    pub(crate) fn directory(&mut self, ino: Ino) -> Result<&mut Directory> {
        // One that has an index is a directory as long as there is its number.
        if !self.directories.contains_key(&ino) {
            let inode = self.directory_inode(ino)?;
            let directory = self.read_directory(&inode)?;
            let indexed: usize = self.directories.values().map(Directory::len).sum();
            if indexed + directory.len() > MOST_INDEXED {
                self.directories.clear();
            }
            self.directories.insert(ino, directory);
        }
        Ok(self.directories.get_mut(&ino).expect("it was just made"))
    }

    pub(crate) fn read_directory(&self, inode: &Inode) -> Result<Directory> {
        let mut bytes = vec![0; inode.size() as usize];
        self.read_bytes(inode, 0, &mut bytes);
        self.sure(Directory::of_bytes(&bytes))
    }

    pub(crate) fn is_pinned(&self, ino: Ino) -> bool {
        self.pins.contains_key(&ino)
    }

    /// Reads at an offset, up to the file's end; how much that was.
    pub(crate) fn read_bytes(&self, inode: &Inode, offset: u64, into: &mut [u8]) -> usize {
        let end = inode.size().min(offset.saturating_add(into.len() as u64));
        let Some(partition) = inode.partition().filter(|_| offset < end) else { return 0 };
        bytes::read(self.store.memory(), partition, offset, &mut into[..(end - offset) as usize]);
        (end - offset) as usize
    }

    pub(super) fn bytes(&self, ino: Ino) -> Result<Bytes<'_, M>> {
        Ok(Bytes::new(self.store.memory(), inode::address(&self.store, ino).ok_or(Errno::IO)?))
    }

    /// Stores words of an inode without the log, each by itself.
    pub(crate) fn store_fields<const WORDS: usize>(
        &mut self,
        ino: Ino,
        words: [(Field, u64); WORDS],
    ) -> Result<()> {
        self.may_change()?;
        self.store.settle();
        self.bytes(ino)?.store(words);
        self.sure(Ok(()))
    }

    /// A number that no file has.
    pub(super) fn free_inode(&mut self) -> Result<Ino> {
        let ino = inode::find_free(&self.store, self.hint).ok_or(Errno::NOSPC)?;
        self.hint = Ino(ino.0 + 1);
        Ok(ino)
    }

    /// The lowest numbers are used first, so that the table stays small.
    pub(crate) fn freed_inode(&mut self, ino: Ino) {
        self.hint = self.hint.min(ino);
        self.used_inodes -= 1;
    }
}
