//! Step 2: finds out which inodes are used, and what kind they are of.

use pagewalk_vm::addr::Vpn;
use pagewalk_vm::file::{PersistentMemory, StoreError};
use rustix::io::Errno;

use crate::core::error::{Result, of_store};
use crate::core::inode::{self, Field, Ino, Inode, kind};
use crate::core::repair::state::Repair;

impl<M: PersistentMemory> Repair<M> {
    /// Finds out which inodes are used. Those that are not hold zeroes, but for how often they were used: of what is marked
    /// used and holds nothing the mark is wrong, and of what is not and looks like an inode.
    pub(super) fn find_inodes(&mut self) -> Result<()> {
        for page in inode::pages(Ino::ROOT) {
            self.map_cleared(page)?;
        }
        let mut misplaced = Vec::new();
        inode::visit(&self.store, &mut |ino| {
            if ino == Ino::NONE || inode::address(&self.store, ino).is_none() {
                misplaced.push(ino);
            }
        });
        for ino in misplaced {
            let (at, bit) = inode::bit_address(&self.store, ino).ok_or(Errno::IO)?;
            let word = self.store.memory().load(at);
            self.set(at, word & !bit);
            self.say(format!("inode {} was marked used, and has no place in the table", ino.0));
        }
        let mut found = Vec::new();
        inode::visit_table(&self.store, &mut |ino, inode| {
            let is_used = inode::is_used(&self.store, ino);
            if ino != Ino::NONE && (is_used || looks_used(&inode) || ino == Ino::ROOT) {
                found.push((ino, inode, is_used));
            }
        });
        for (ino, inode, was_used) in found {
            let number = ino.0;
            let is_blank = inode.words[..Field::Generation as usize].iter().all(|&word| word == 0);
            if is_blank && ino != Ino::ROOT {
                self.mark(ino, false)?;
                self.say(format!("inode {number} was marked used, and holds nothing"));
                continue;
            }
            let mode = match inode.mode() & 0o177_777 {
                _ if is_blank => kind::DIRECTORY | 0o755,
                mode if ino == Ino::ROOT => mode & 0o7777 | kind::DIRECTORY,
                mode if kind::is_one(mode) => mode,
                mode => mode & 0o7777 | kind::FILE,
            };
            let level = inode.get(Field::Mode) >> 32 & 0xff;
            if self.set_field(ino, Field::Mode, u64::from(mode) | level << 32)? {
                self.say(format!("inode {number} had mode {:#o}, and has {mode:#o}", inode.get(Field::Mode)));
            }
            for time in inode.impossible_times() {
                let epochs = self.inode_word(ino, Field::Epochs)?;
                self.set_field(ino, Field::Epochs, inode::with_epoch(epochs, time, 0))?;
                self.say(format!("inode {number} had a time that no program can set"));
            }
            if !was_used {
                self.mark(ino, true)?;
                self.say(format!("inode {number} was not marked used"));
            }
            self.used.insert(ino, mode & kind::MASK);
        }
        self.fence();
        Ok(())
    }

    pub(super) fn mark(&mut self, ino: Ino, used: bool) -> Result<()> {
        for page in inode::pages(ino) {
            self.map_cleared(page)?;
        }
        let (at, bit) = inode::bit_address(&self.store, ino).ok_or(Errno::IO)?;
        let word = self.store.memory().load(at);
        self.set(at, if used { word | bit } else { word & !bit });
        Ok(())
    }

    /// Maps a cleared frame at a page of the inodes' table or bitmap. Something else loses its frame if none is free.
    pub(super) fn map_cleared(&mut self, page: Vpn) -> Result<()> {
        while self.store.find(page).is_none() {
            let mut transaction = self.store.begin();
            let mapped = transaction.take_frames(0).and_then(|frame| {
                transaction.memory().clear_frame(frame);
                transaction.map(page, frame, false)
            });
            match mapped {
                Ok(()) => transaction.commit().map_err(of_store)?,
                Err(StoreError::NoFrames) => {
                    drop(transaction);
                    // What is before it is as necessary.
                    let [_, least] = inode::pages(Ino::ROOT);
                    let given = self.store.give_up_last_page(least.max(page)).map_err(of_store)?;
                    let given = given.ok_or(Errno::NOSPC)?;
                    self.say(format!("unmapped page {given}, as there was no frame for inodes"));
                }
                Err(error) => return Err(of_store(error)),
            }
        }
        Ok(())
    }
}

/// Whether what is not marked used is an inode all the same.
fn looks_used(inode: &Inode) -> bool {
    let mode = inode.get(Field::Mode);
    let level = mode >> 32;
    kind::is_one(inode.mode())
        && mode & 0xffff_0000 == 0
        && level <= 10
        && (level > 0 || inode.size() == 0)
        && inode.get(Field::Generation) > 0
}
