//! The state of a repair, and the words of inodes that it changes without the log.

use std::collections::BTreeMap;

use pagewalk_vm::file::{PersistentMemory, Store};
use rustix::io::Errno;

use crate::core::directory::Directory;
use crate::core::error::Result;
use crate::core::inode::{self, Field, Ino, Inode, kind};

/// A store in repair, and what the steps have found out so far.
pub(super) struct Repair<M> {
    pub(super) store: Store<M>,
    pub(super) now: u64,
    pub(super) said: Vec<String>,
    /// Inodes that are used, and their kinds.
    pub(super) used: BTreeMap<Ino, u32>,
    pub(super) directories: BTreeMap<Ino, Directory>,
    /// Names in all directories.
    pub(super) names: BTreeMap<Ino, u64>,
    /// Where each directory's name is.
    pub(super) homes: BTreeMap<Ino, Ino>,
}

impl<M: PersistentMemory> Repair<M> {
    pub(super) fn say(&mut self, line: String) {
        self.said.push(line);
    }

    pub(super) fn is_directory(&self, ino: Ino) -> bool {
        self.used.get(&ino) == Some(&kind::DIRECTORY)
    }

    pub(super) fn inode(&self, ino: Ino) -> Result<Inode> {
        inode::read(&self.store, ino)
    }

    /// The names of a directory. All directories are here before anything is looked for in them, unless the memory failed while they were read.
    pub(super) fn directory(&self, ino: Ino) -> Result<&Directory> {
        self.directories.get(&ino).ok_or(Errno::IO)
    }

    /// Stores a word without the log; whether it was another one.
    pub(super) fn set(&mut self, at: u64, word: u64) -> bool {
        if self.store.memory().load(at) == word {
            return false;
        }
        self.store.settle();
        self.store.memory().store(at, word);
        self.store.memory().flush(at, 8);
        true
    }

    pub(super) fn inode_word(&self, ino: Ino, field: Field) -> Result<u64> {
        let at = inode::address(&self.store, ino).ok_or(Errno::IO)? + 8 * field as u64;
        Ok(self.store.memory().load(at))
    }

    pub(super) fn set_field(&mut self, ino: Ino, field: Field, word: u64) -> Result<bool> {
        let at = inode::address(&self.store, ino).ok_or(Errno::IO)? + 8 * field as u64;
        Ok(self.set(at, word))
    }

    pub(super) fn fence(&mut self) {
        self.store.memory().fence();
    }
}
