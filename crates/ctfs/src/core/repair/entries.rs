//! Step 4: lets every entry of a directory name an inode of its kind; and names that later steps add and remove.

use std::collections::BTreeSet;

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{Level, PersistentMemory, StoreError, Transaction};
use rustix::io::Errno;

use crate::core::directory::{self, Directory, Entry, SLOT_BYTES, check_name, slots_of};
use crate::core::error::{Result, of_store};
use crate::core::frames::set_place;
use crate::core::inode::{Field, Ino, Inode, Inodes};
use crate::core::repair::state::Repair;

impl<M: PersistentMemory> Repair<M> {
    /// All of a directory's bytes have frames then. Those that were lost are free slots, unless they are too many.
    pub(super) fn fill_holes(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        let Some(partition) = inode.partition() else { return Ok(()) };
        let first = partition.first.0;
        let end = first + inode.size().div_ceil(PAGE_BYTES);
        let (mut page, mut mapped) = (first, Vec::new());
        while page < end {
            match self.store.find_or_gap(Vpn(page)) {
                Err(gap) => page = (page / gap + 1) * gap,
                Ok(_) => {
                    mapped.push(page);
                    page += 1;
                }
            }
        }
        let mut kept = mapped.last().map_or(0, |last| last + 1 - first);
        if kept > 2 * mapped.len() as u64 {
            // They cannot all have been there.
            kept = (first..).zip(&mapped).take_while(|&(page, &mapped)| page == mapped).count() as u64;
        }
        for page in first..first + kept {
            if self.store.find(Vpn(page)).is_some() {
                continue;
            }
            let mut transaction = self.store.begin();
            let filled = transaction.take_frames(0).and_then(|frame| {
                transaction.memory().clear_frame(frame);
                transaction.map(Vpn(page), frame, false)
            });
            match filled {
                Ok(()) => transaction.commit().map_err(of_store)?,
                Err(StoreError::NoFrames) => {
                    kept = page - first;
                    break;
                }
                Err(error) => return Err(of_store(error)),
            }
            self.say(format!("directory {} has lost the entries of its page {}", ino.0, page - first));
        }
        let size = inode.size().min(kept * PAGE_BYTES) / SLOT_BYTES * SLOT_BYTES;
        if self.set_field(ino, Field::Size, size)? {
            self.say(format!("directory {} had {} bytes, and has {size}", ino.0, inode.size()));
        }
        self.fence();
        Ok(())
    }

    pub(super) fn directory_bytes(&self, inode: &Inode) -> Vec<u8> {
        let mut bytes = vec![0; inode.size() as usize];
        let first = inode.partition().map_or(0, |partition| partition.first.0);
        for (page, part) in (first..).zip(bytes.chunks_mut(PAGE_BYTES as usize)) {
            if let Some(mapped) = self.store.find(Vpn(page)) {
                self.store.memory().read(mapped.frame.addr().0, part);
            }
        }
        bytes
    }

    /// Frees slots that are no entries or name what is not there.
    pub(super) fn clean_entries(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        let bytes = self.directory_bytes(&inode);
        let (mut slot, end) = (0, bytes.len() as u64 / SLOT_BYTES);
        let mut known = BTreeSet::new();
        while slot < end {
            let at = (slot * SLOT_BYTES) as usize;
            let child = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            let [length, kind, slots] = [8, 9, 10].map(|byte| bytes[at + byte]);
            if child == 0 {
                slot += u64::from(slots).max(1);
                continue;
            }
            let name = bytes.get(at + 16..at + 16 + usize::from(length)).unwrap_or_default();
            let slots = u64::from(slots);
            if slots != slots_of(name) || slot + slots > end || check_name(name).is_err() {
                // How many slots it was cannot be known; what follows is looked at by itself.
                self.free_slots(&inode, slot, 1)?;
                self.say(format!("directory {} had an entry in slot {slot} that was none", ino.0));
                slot += 1;
                continue;
            }
            let kind_of_child = self.used.get(&Ino(child)).map(|kind| kind >> 12);
            let is_right = kind_of_child == Some(u32::from(kind)) && child != Ino::ROOT.0;
            if !is_right || !known.insert(name) {
                let name = String::from_utf8_lossy(name);
                self.say(format!("directory {} called something {name:?} that is not there", ino.0));
                self.free_slots(&inode, slot, slots)?;
            }
            slot += slots;
        }
        let directory = Directory::of_bytes(&self.directory_bytes(&inode))?;
        for (_, entry) in directory.entries_from(0) {
            *self.names.entry(entry.ino).or_default() += 1;
        }
        self.directories.insert(ino, directory);
        self.fence();
        Ok(())
    }

    pub(super) fn free_slots(&mut self, inode: &Inode, slot: u64, slots: u64) -> Result<()> {
        let partition = inode.partition().ok_or(Errno::IO)?;
        let mut transaction = self.store.begin();
        directory::set_free(&mut transaction, partition, slot, slots)?;
        transaction.commit().map_err(of_store)
    }

    /// Takes a name away.
    pub(super) fn remove_name(&mut self, parent: Ino, name: &[u8], entry: Entry) -> Result<()> {
        let inode = self.inode(parent)?;
        self.free_slots(&inode, entry.slot, entry.slots)?;
        self.directories.get_mut(&parent).ok_or(Errno::IO)?.remove(name);
        let names = self.names.get_mut(&entry.ino).ok_or(Errno::IO)?;
        *names -= 1;
        if *names == 0 {
            self.names.remove(&entry.ino);
        }
        Ok(())
    }

    /// Puts a name into a directory, and whatever else is to happen with it.
    pub(super) fn add_name(
        &mut self,
        parent: Ino,
        name: &[u8],
        ino: Ino,
        also: impl FnOnce(&mut Transaction<'_, M>) -> Result<()>,
    ) -> Result<()> {
        let slots = slots_of(name);
        if self.directory(parent)?.room(slots).is_none() {
            self.grow(parent)?;
        }
        let (slot, run) = self.directory(parent)?.room(slots).ok_or(Errno::NOSPC)?;
        let partition = self.inode(parent)?.partition().ok_or(Errno::IO)?;
        let entry = Entry { ino, kind: (self.used.get(&ino).ok_or(Errno::IO)? >> 12) as u8, slot, slots };
        let mut transaction = self.store.begin();
        also(&mut transaction)?;
        directory::put(&mut transaction, partition, name, entry, run)?;
        transaction.commit().map_err(of_store)?;
        self.directories.get_mut(&parent).ok_or(Errno::IO)?.insert(name, entry);
        *self.names.entry(ino).or_default() += 1;
        Ok(())
    }

    /// Adds a page of free slots to a directory.
    pub(super) fn grow(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        // A part of a page may be left behind the end.
        let (size, end) = (inode.size(), (inode.size() / PAGE_BYTES + 1) * PAGE_BYTES);
        let level = Level::of_bytes(end).ok_or(Errno::NOSPC)?;
        let mut transaction = self.store.begin();
        let partition = match inode.partition() {
            Some(partition) if partition.level >= level => partition,
            old => {
                let new = transaction.allocate(level).map_err(of_store)?;
                if let Some(old) = old {
                    transaction.swap(new.first, old.first, old.level.pages()).map_err(of_store)?;
                    transaction.free_partition(old).map_err(of_store)?;
                }
                set_place(&mut transaction, ino, inode.mode(), Some(new))?;
                new
            }
        };
        let page = Vpn(partition.first.0 + size / PAGE_BYTES);
        match transaction.find(page) {
            Some(mapped) => {
                let at = mapped.frame.addr().0 + size % PAGE_BYTES;
                transaction.memory().zero(at, end - size);
                transaction.memory().flush(at, end - size);
            }
            None => {
                let frame = transaction.take_frames(0).map_err(of_store)?;
                transaction.memory().clear_frame(frame);
                transaction.map(page, frame, false).map_err(of_store)?;
            }
        }
        transaction.set_field(ino, Field::Size, end)?;
        transaction.commit().map_err(of_store)?;
        let directory = self.directories.get_mut(&ino).ok_or(Errno::IO)?;
        directory.add_free(size / SLOT_BYTES, (end - size) / SLOT_BYTES);
        Ok(())
    }
}
