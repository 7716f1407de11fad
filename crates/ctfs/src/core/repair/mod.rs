//! Makes a damaged file system sound, whatever is wrong with it, as long as a superblock can be read.
//!
//! What is sound already stays as it is; nothing is written to a sound file system. In this order:
//!
//! 1. the page table and the bitmap of frames ([`Store::repair`]),
//! 2. inodes: which are used, and what kind they are of; there is a root directory,
//! 3. partitions: an inode has one that no other has, or no bytes; the headers say so,
//! 4. entries of directories: each names an inode of its kind,
//! 5. extended attributes, and the list of inodes without a name,
//! 6. the tree: every directory has one name, and lies in the directory that has it; what has no name gets one in
//!    /lost+found,
//! 7. numbers of links.
//!
//! Where two things contradict each other, that one is believed for which a third speaks: a partition that the headers know,
//! a directory's name where the directory says that it lies. Each step begins with what is in the store, so that the next
//! repair does what a crash has kept one from doing.

mod attributes;
mod entries;
mod inodes;
mod partitions;
mod state;
mod tree;

use std::collections::BTreeMap;

use pagewalk_vm::file::{NotPersistent, OpenError, PersistentMemory, Store};

use crate::core::error::{Result, of_store};
use crate::core::inode::Ino;
use crate::core::repair::state::Repair;
use crate::core::root;
use crate::core::system::FileSystem;
use crate::core::types::{Clock, MountError};

/// Repairs a file system, and says what was done, a line for each thing. [`check`](crate::check()) finds nothing then.
///
/// # Errors
///
/// There is no superblock, or no room for a root directory.
pub fn repair<M: PersistentMemory>(
    memory: M,
    clock: Clock,
) -> std::result::Result<(FileSystem<M>, Vec<String>), MountError> {
    let mut said = Vec::new();
    let store = Store::repair(memory, &mut |line| said.push(line))?;
    let mut repair = Repair {
        store,
        now: clock() as u64,
        said,
        used: BTreeMap::new(),
        directories: BTreeMap::new(),
        names: BTreeMap::new(),
        homes: BTreeMap::new(),
    };
    let repaired = repair.all();
    if repair.store.memory().has_failed() {
        return Err(OpenError::from(NotPersistent).into());
    }
    repaired.map_err(|error| MountError::Damaged(format!("beyond repair: {error}")))?;
    let Repair { store, said, .. } = repair;
    let (system, _) = FileSystem::mount_unchecked(store.into_memory(), clock)?;
    Ok((system, said))
}

impl<M: PersistentMemory> Repair<M> {
    fn all(&mut self) -> Result<()> {
        if self.store.root_word(root::MAGIC_WORD) != root::MAGIC {
            let mut transaction = self.store.begin();
            transaction.set_root_word(root::MAGIC_WORD, root::MAGIC);
            transaction.commit().map_err(of_store)?;
            self.say("marked the store as a file system".to_owned());
        }
        self.find_inodes()?;
        let copies = self.place_inodes()?;
        for (ino, other, size) in copies {
            self.copy(ino, other, size)?;
        }
        let directories: Vec<Ino> = self.used.keys().copied().filter(|&ino| self.is_directory(ino)).collect();
        for ino in directories {
            self.fill_holes(ino)?;
            self.clean_entries(ino)?;
        }
        let holders = self.check_attributes()?;
        let orphans = self.check_orphans(&holders)?;
        self.find_homes(&orphans)?;
        let nameless =
            |ino: &Ino| !self.names.contains_key(ino) && !holders.contains(ino) && !orphans.contains(ino);
        let lost: Vec<Ino> =
            self.used.keys().copied().filter(|ino| !self.is_directory(*ino) && nameless(ino)).collect();
        for ino in lost {
            self.adopt(ino)?;
        }
        self.count_links(&holders)
    }
}
