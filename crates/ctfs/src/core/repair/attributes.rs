//! Step 5: inodes that hold extended attributes, and the list of inodes without a name.

use std::collections::BTreeSet;

use pagewalk_vm::file::PersistentMemory;

use crate::core::directory::Directory;
use crate::core::error::{Result, of_store};
use crate::core::extended::{MOST_BYTES, whole_bytes};
use crate::core::inode::{Field, Ino, Inode, kind};
use crate::core::repair::state::Repair;
use crate::core::root;

impl<M: PersistentMemory> Repair<M> {
    /// Each inode's attributes are in an inode that is for nothing else. Answers those.
    pub(super) fn check_attributes(&mut self) -> Result<BTreeSet<Ino>> {
        let mut holders = BTreeSet::new();
        let users: Vec<Ino> = self.used.keys().copied().collect();
        for ino in users {
            let holder = Ino(self.inode(ino)?.get(Field::Attributes));
            if holder == Ino::NONE {
                continue;
            }
            let inode = self.inode(holder).ok().filter(|inode| {
                inode.is(kind::FILE) && inode.get(Field::Attributes) == 0 && !self.names.contains_key(&holder)
            });
            let Some(inode) = inode.filter(|_| !holders.contains(&holder)) else {
                self.set_field(ino, Field::Attributes, 0)?;
                self.say(format!("inode {} lost its attributes: inode {} is not for that", ino.0, holder.0));
                continue;
            };
            holders.insert(holder);
            let bytes = self.attribute_bytes(&inode);
            let whole = whole_bytes(&bytes) as u64;
            if self.set_field(holder, Field::Size, whole)? {
                self.say(format!("inode {} has {whole} of its {} bytes of attributes", ino.0, inode.size()));
            }
            self.set_field(holder, Field::Links, 1)?;
        }
        self.fence();
        Ok(holders)
    }

    pub(super) fn attribute_bytes(&self, holder: &Inode) -> Vec<u8> {
        let size = holder.size().min(MOST_BYTES as u64);
        self.directory_bytes(&Inode { words: with_size(holder, size) })
    }

    /// The list of inodes without a name holds no others.
    pub(super) fn check_orphans(&mut self, holders: &BTreeSet<Ino>) -> Result<BTreeSet<Ino>> {
        let mut orphans = BTreeSet::new();
        let mut last = None;
        let mut at = Ino(self.store.root_word(root::ORPHANS));
        while at != Ino::NONE {
            let is_empty = self.directories.get(&at).is_none_or(Directory::is_empty);
            let next = match self.inode(at) {
                Ok(inode) if !orphans.contains(&at) => Ino(inode.get(Field::NextOrphan)),
                // What was behind it cannot be known.
                _ => Ino::NONE,
            };
            let is_one = self.used.contains_key(&at) && at != Ino::ROOT && !orphans.contains(&at);
            if is_one && is_empty && !self.names.contains_key(&at) && !holders.contains(&at) {
                orphans.insert(at);
                last = Some(at);
            } else {
                match last {
                    Some(last) => drop(self.set_field(last, Field::NextOrphan, next.0)?),
                    None => self.set_orphans(next)?,
                }
                self.say(format!("inode {} is not among those without a name any more", at.0));
            }
            at = next;
        }
        self.fence();
        Ok(orphans)
    }

    pub(super) fn set_orphans(&mut self, first: Ino) -> Result<()> {
        let mut transaction = self.store.begin();
        transaction.set_root_word(root::ORPHANS, first.0);
        transaction.commit().map_err(of_store)
    }
}

fn with_size(inode: &Inode, size: u64) -> [u64; 15] {
    let mut words = inode.words;
    words[Field::Size as usize] = size;
    words
}
