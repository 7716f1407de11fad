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

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{
    LARGE_ORDER, Level, NotPersistent, OpenError, PersistentMemory, Places, Store, StoreError,
};
use rustix::io::Errno;

use crate::core::directory::{self, Directory, Entry, SLOT_BYTES, check_name, slots_of};
use crate::core::error::{Result, of_store};
use crate::core::extended::{MOST_BYTES, whole_bytes};
use crate::core::frames::set_place;
use crate::core::inode::{self, Field, Ino, Inode, Inodes, kind};
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

struct Repair<M> {
    store: Store<M>,
    now: u64,
    said: Vec<String>,
    /// Inodes that are used, and their kinds.
    used: BTreeMap<Ino, u32>,
    directories: BTreeMap<Ino, Directory>,
    /// Names in all directories.
    names: BTreeMap<Ino, u64>,
    /// Where each directory's name is.
    homes: BTreeMap<Ino, Ino>,
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

    fn say(&mut self, line: String) {
        self.said.push(line);
    }

    fn is_directory(&self, ino: Ino) -> bool {
        self.used.get(&ino) == Some(&kind::DIRECTORY)
    }

    fn inode(&self, ino: Ino) -> Result<Inode> {
        inode::read(&self.store, ino)
    }

    /// The names of a directory. All directories are here before anything is looked for in them, unless the memory failed while they were read.
    fn directory(&self, ino: Ino) -> Result<&Directory> {
        self.directories.get(&ino).ok_or(Errno::IO)
    }

    /// Stores a word without the log; whether it was another one.
    fn set(&mut self, at: u64, word: u64) -> bool {
        if self.store.memory().load(at) == word {
            return false;
        }
        self.store.settle();
        self.store.memory().store(at, word);
        self.store.memory().flush(at, 8);
        true
    }

    fn inode_word(&self, ino: Ino, field: Field) -> Result<u64> {
        let at = inode::address(&self.store, ino).ok_or(Errno::IO)? + 8 * field as u64;
        Ok(self.store.memory().load(at))
    }

    fn set_field(&mut self, ino: Ino, field: Field, word: u64) -> Result<bool> {
        let at = inode::address(&self.store, ino).ok_or(Errno::IO)? + 8 * field as u64;
        Ok(self.set(at, word))
    }

    fn fence(&mut self) {
        self.store.memory().fence();
    }

    /// Maps a cleared frame at a page of the inodes' table or bitmap. Something else loses its frame if none is free.
    fn map_cleared(&mut self, page: Vpn) -> Result<()> {
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

    fn mark(&mut self, ino: Ino, used: bool) -> Result<()> {
        for page in inode::pages(ino) {
            self.map_cleared(page)?;
        }
        let (at, bit) = inode::bit_address(&self.store, ino).ok_or(Errno::IO)?;
        let word = self.store.memory().load(at);
        self.set(at, if used { word | bit } else { word & !bit });
        Ok(())
    }

    /// Finds out which inodes are used. Those that are not hold zeroes, but for how often they were used: of what is marked
    /// used and holds nothing the mark is wrong, and of what is not and looks like an inode.
    fn find_inodes(&mut self) -> Result<()> {
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

    /// Lets each inode have a partition of its own or none. Answers which inodes are to have a copy of what another has, and
    /// of how many bytes.
    fn place_inodes(&mut self) -> Result<Vec<(Ino, Ino, u64)>> {
        let mut candidates = Vec::new();
        for (&ino, &kind) in &self.used {
            let inode = self.inode(ino)?;
            let is_known = inode.partition().is_some_and(|partition| self.store.is_allocated(partition));
            // What a directory loses costs more than what a file does.
            candidates.push(((!is_known, kind != kind::DIRECTORY, ino), inode));
        }
        candidates.sort_by_key(|&(order, _)| order);
        let (mut places, mut owners, mut copies) = (Places::default(), BTreeMap::new(), Vec::new());
        for ((_, _, ino), inode) in candidates {
            let number = ino.0;
            match inode.partition() {
                Some(partition) if places.claim(partition) => {
                    owners.insert(partition, ino);
                    if inode.size() > partition.level.bytes() {
                        self.set_field(ino, Field::Size, partition.level.bytes())?;
                        self.say(format!("inode {number} had {} bytes, more than it has room", inode.size()));
                    }
                }
                Some(partition) => {
                    if let Some(&owner) = owners.get(&partition) {
                        copies.push((ino, owner, inode.size().min(partition.level.bytes())));
                    }
                    self.say(format!(
                        "inode {number} lost its bytes: it cannot have the L{} partition at page {}",
                        partition.level.number(),
                        partition.first
                    ));
                    self.displace(ino)?;
                }
                None if inode.size() > 0 || inode.get(Field::Mode) >> 32 != 0 => {
                    self.displace(ino)?;
                    self.say(format!("inode {number} had {} bytes and no partition", inode.size()));
                }
                None => {}
            }
        }
        // The inodes agree before the headers follow them.
        self.fence();
        let (failed, is_changed) = self.store.rebuild_partitions(&places).map_err(of_store)?;
        if is_changed {
            self.say(format!("made the headers of partitions say what {} inodes have", owners.len()));
        }
        for partition in failed {
            let ino = *owners.get(&partition).ok_or(Errno::IO)?;
            self.displace(ino)?;
            self.say(format!("inode {} lost its bytes: there was no frame for a header around them", ino.0));
        }
        Ok(copies)
    }

    fn displace(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        self.set_field(ino, Field::Size, 0)?;
        self.set_field(ino, Field::Mode, inode.mode().into())?;
        self.set_field(ino, Field::First, 0)?;
        Ok(())
    }

    /// Gives an inode a copy of another one's bytes, as far as there is room.
    fn copy(&mut self, ino: Ino, other: Ino, size: u64) -> Result<()> {
        let Some(from) = self.inode(other)?.partition() else { return Ok(()) };
        let mode = self.inode(ino)?.mode();
        let mut transaction = self.store.begin();
        let to = match transaction.allocate(from.level) {
            Ok(to) => to,
            Err(StoreError::NoFrames | StoreError::NoPartition) => return Ok(()),
            Err(error) => return Err(of_store(error)),
        };
        set_place(&mut transaction, ino, mode, Some(to))?;
        transaction.commit().map_err(of_store)?;
        let mut page = from.first;
        while page < from.end() {
            let mapped = match self.store.find_or_gap(page) {
                Err(gap) => {
                    page = Vpn((page.0 / gap + 1) * gap);
                    continue;
                }
                Ok(mapped) => mapped,
            };
            let order = if mapped.large { LARGE_ORDER } else { 0 };
            let mut transaction = self.store.begin();
            let copied = transaction.take_frames(order).and_then(|frame| {
                let memory = transaction.memory();
                let mut bytes = vec![0; (PAGE_BYTES << order) as usize];
                memory.read(mapped.frame.addr().0, &mut bytes);
                memory.write(frame.addr().0, &bytes);
                memory.flush(frame.addr().0, bytes.len() as u64);
                transaction.map(Vpn(page.0 - from.first.0 + to.first.0), frame, order > 0)
            });
            match copied {
                Ok(()) => transaction.commit().map_err(of_store)?,
                Err(StoreError::NoFrames) => break,
                Err(error) => return Err(of_store(error)),
            }
            page = Vpn(page.0 + (1 << order));
        }
        let size = size.min((page.0.min(from.end().0) - from.first.0) * PAGE_BYTES);
        self.set_field(ino, Field::Size, size)?;
        self.fence();
        self.say(format!("inode {} has a copy of {size} bytes of inode {}", ino.0, other.0));
        Ok(())
    }

    /// All of a directory's bytes have frames then. Those that were lost are free slots, unless they are too many.
    fn fill_holes(&mut self, ino: Ino) -> Result<()> {
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

    fn directory_bytes(&self, inode: &Inode) -> Vec<u8> {
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
    fn clean_entries(&mut self, ino: Ino) -> Result<()> {
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

    fn free_slots(&mut self, inode: &Inode, slot: u64, slots: u64) -> Result<()> {
        let partition = inode.partition().ok_or(Errno::IO)?;
        let mut transaction = self.store.begin();
        directory::set_free(&mut transaction, partition, slot, slots)?;
        transaction.commit().map_err(of_store)
    }

    /// Takes a name away.
    fn remove_name(&mut self, parent: Ino, name: &[u8], entry: Entry) -> Result<()> {
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

    /// Each inode's attributes are in an inode that is for nothing else. Answers those.
    fn check_attributes(&mut self) -> Result<BTreeSet<Ino>> {
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

    fn attribute_bytes(&self, holder: &Inode) -> Vec<u8> {
        let size = holder.size().min(MOST_BYTES as u64);
        self.directory_bytes(&Inode { words: with_size(holder, size) })
    }

    /// The list of inodes without a name holds no others.
    fn check_orphans(&mut self, holders: &BTreeSet<Ino>) -> Result<BTreeSet<Ino>> {
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

    fn set_orphans(&mut self, first: Ino) -> Result<()> {
        let mut transaction = self.store.begin();
        transaction.set_root_word(root::ORPHANS, first.0);
        transaction.commit().map_err(of_store)
    }

    /// Finds the one name of each directory, which leads to it from the root, and takes the others away. A directory that no
    /// name leads to gets one.
    fn find_homes(&mut self, orphans: &BTreeSet<Ino>) -> Result<()> {
        self.homes.insert(Ino::ROOT, Ino::ROOT);
        self.follow(Ino::ROOT)?;
        // Names first that are where the directory does not know that it lies, then the lowest of those that have none; what
        // is left then is in circles.
        loop {
            let unknown: Vec<Ino> = self
                .used
                .keys()
                .copied()
                .filter(|ino| {
                    self.is_directory(*ino) && !self.homes.contains_key(ino) && !orphans.contains(ino)
                })
                .collect();
            if unknown.is_empty() {
                break;
            }
            let named = self.names_from_known(&unknown)?;
            if named.is_empty() {
                let top = unknown.iter().copied().find(|ino| !self.names.contains_key(ino));
                self.adopt(top.unwrap_or(unknown[0]))?;
                continue;
            }
            for (ino, parent) in named {
                if self.homes.contains_key(&ino) {
                    continue;
                }
                self.homes.insert(ino, parent);
                self.follow(ino)?;
            }
        }
        self.remove_other_names()
    }

    /// Goes to the directories that are where they say that they are.
    fn follow(&mut self, from: Ino) -> Result<()> {
        let mut open = VecDeque::from([from]);
        while let Some(parent) = open.pop_front() {
            let entries = self.directory(parent)?.entries_from(0);
            let children: Vec<Ino> =
                entries.map(|(_, entry)| entry.ino).filter(|&child| self.is_directory(child)).collect();
            for child in children {
                if !self.homes.contains_key(&child) && self.inode(child)?.get(Field::Parent) == parent.0 {
                    self.homes.insert(child, parent);
                    open.push_back(child);
                }
            }
        }
        Ok(())
    }

    /// Directories that are not known, and the known ones that have names for them.
    fn names_from_known(&self, unknown: &[Ino]) -> Result<BTreeMap<Ino, Ino>> {
        let mut named = BTreeMap::new();
        for &parent in self.homes.keys() {
            for (_, entry) in self.directory(parent)?.entries_from(0) {
                if unknown.binary_search(&entry.ino).is_ok() {
                    named.entry(entry.ino).or_insert(parent);
                }
            }
        }
        Ok(named)
    }

    fn remove_other_names(&mut self) -> Result<()> {
        let (mut met, mut others) = (BTreeSet::new(), Vec::new());
        for (&parent, directory) in &self.directories {
            for (name, entry) in directory.entries_from(0) {
                let is_home = self.homes.get(&entry.ino) == Some(&parent) && met.insert(entry.ino);
                if self.is_directory(entry.ino) && !is_home {
                    others.push((parent, name.to_vec(), entry));
                }
            }
        }
        for (parent, name, entry) in others {
            self.remove_name(parent, &name, entry)?;
            let name = String::from_utf8_lossy(&name);
            self.say(format!("directory {} lost the name {name:?} in directory {}", entry.ino.0, parent.0));
        }
        Ok(())
    }

    /// Gives an inode a name in /lost+found. Without room for that it goes, with all that is in it.
    fn adopt(&mut self, ino: Ino) -> Result<()> {
        match self.name_lost(ino) {
            Err(Errno::NOSPC) => self.give_up(ino),
            Err(error) => Err(error),
            Ok(()) if self.is_directory(ino) => self.follow(ino),
            Ok(()) => Ok(()),
        }
    }

    fn name_lost(&mut self, ino: Ino) -> Result<()> {
        let parent = self.lost_and_found()?;
        let directory = self.directory(parent)?;
        let name = unused_name(directory, &format!("#{}", ino.0));
        self.add_name(parent, &name, ino, |_| Ok(()))?;
        if self.is_directory(ino) {
            self.homes.insert(ino, parent);
        }
        self.say(format!(
            "inode {} had no name, and is /lost+found/{}",
            ino.0,
            String::from_utf8_lossy(&name)
        ));
        Ok(())
    }

    /// The directory for what had no name, which is made if there is none.
    fn lost_and_found(&mut self) -> Result<Ino> {
        let root = self.directory(Ino::ROOT)?;
        let found = root.get(b"lost+found").map(|entry| entry.ino);
        if let Some(ino) = found.filter(|&ino| self.is_directory(ino)) {
            // If it says that it lies elsewhere it is not known yet.
            self.homes.entry(ino).or_insert(Ino::ROOT);
            return Ok(ino);
        }
        let root = self.directory(Ino::ROOT)?;
        let name = unused_name(root, "lost+found");
        let ino = inode::find_free(&self.store, Ino(2)).ok_or(Errno::NOSPC)?;
        let (owner, now) = (self.inode(Ino::ROOT)?.get(Field::Owner), self.now);
        self.used.insert(ino, kind::DIRECTORY);
        let made = self.add_name(Ino::ROOT, &name, ino, |transaction| {
            transaction.mark_inode(ino, true)?;
            let words = [
                (Field::Mode, u64::from(kind::DIRECTORY | 0o700)),
                (Field::Links, 2),
                (Field::Owner, owner),
                (Field::Accessed, now),
                (Field::Modified, now),
                (Field::Changed, now),
                (Field::Parent, Ino::ROOT.0),
            ];
            words.into_iter().try_for_each(|(field, word)| transaction.set_field(ino, field, word))
        });
        if made.is_err() {
            self.used.remove(&ino);
            return made.map(|()| ino);
        }
        self.homes.insert(ino, Ino::ROOT);
        self.directories.insert(ino, Directory::default());
        self.say(format!("made /{}", String::from_utf8_lossy(&name)));
        Ok(ino)
    }

    /// Puts a name into a directory, and whatever else is to happen with it.
    fn add_name(
        &mut self,
        parent: Ino,
        name: &[u8],
        ino: Ino,
        also: impl FnOnce(&mut pagewalk_vm::file::Transaction<'_, M>) -> Result<()>,
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
    fn grow(&mut self, ino: Ino) -> Result<()> {
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

    /// Nothing that there is no room to name stays: it joins the list of what has no name, and so does what only it had named.
    fn give_up(&mut self, ino: Ino) -> Result<()> {
        let mut open = vec![ino];
        while let Some(ino) = open.pop() {
            if let Some(directory) = self.directories.get(&ino) {
                let entries: Vec<(Vec<u8>, Entry)> =
                    directory.entries_from(0).map(|(name, entry)| (name.to_vec(), entry)).collect();
                for (name, entry) in entries {
                    self.remove_name(ino, &name, entry)?;
                    // What else has no name is looked at later.
                    if self.is_directory(entry.ino) && !self.names.contains_key(&entry.ino) {
                        open.push(entry.ino);
                    }
                }
            }
            self.set_field(ino, Field::NextOrphan, self.store.root_word(root::ORPHANS))?;
            self.set_field(ino, Field::Links, 0)?;
            self.fence();
            self.set_orphans(ino)?;
            self.used.remove(&ino);
            self.directories.remove(&ino);
            self.say(format!("inode {} goes: it had no name, and there is no room for one", ino.0));
        }
        Ok(())
    }

    /// Links and parents as the tree has them.
    fn count_links(&mut self, holders: &BTreeSet<Ino>) -> Result<()> {
        let mut directories_in: BTreeMap<Ino, u64> = BTreeMap::new();
        for (&ino, &parent) in &self.homes {
            if ino != Ino::ROOT {
                *directories_in.entry(parent).or_default() += 1;
            }
        }
        let all: Vec<Ino> = self.used.keys().copied().filter(|ino| !holders.contains(ino)).collect();
        for ino in all {
            let home = self.homes.get(&ino).copied();
            let links = match home {
                Some(_) => 2 + directories_in.get(&ino).copied().unwrap_or(0),
                None => self.names.get(&ino).copied().unwrap_or(0),
            };
            let was = self.inode(ino)?.links();
            if self.set_field(ino, Field::Links, links)? {
                self.say(format!("inode {} said that it has {was} links; it has {links}", ino.0));
            }
            if let Some(home) = home
                && self.set_field(ino, Field::Parent, home.0)?
            {
                self.say(format!("directory {} lies in directory {}", ino.0, home.0));
            }
        }
        self.fence();
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

fn with_size(inode: &Inode, size: u64) -> [u64; 15] {
    let mut words = inode.words;
    words[Field::Size as usize] = size;
    words
}

/// A name that a directory does not have, like this one.
fn unused_name(directory: &Directory, name: &str) -> Vec<u8> {
    let others = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(others);
    names
        .find(|name| directory.get(name.as_bytes()).is_none())
        .expect("there are more than names")
        .into_bytes()
}
