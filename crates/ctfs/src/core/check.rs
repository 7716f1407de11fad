//! Whether everything in a file system is what it must be.

use std::collections::{BTreeMap, BTreeSet};

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{Level, Part, Partition, PersistentMemory};

use crate::core::directory::SLOT_BYTES;
use crate::core::inode::{self, Field, Ino, Inode, kind};
use crate::core::root;
use crate::core::system::FileSystem;

/// Problems that are named at most.
const MOST_PROBLEMS: usize = 100;

/// Returns everything that is wrong with a file system, in words.
pub fn check<M: PersistentMemory>(system: &FileSystem<M>) -> Vec<String> {
    let mut problems = Vec::new();
    let store = &system.store;
    if let Err(damage) = store.check() {
        // Nothing can be read of a page table that is damaged.
        return vec![damage.to_string()];
    }
    let mut partitions = BTreeSet::new();
    if let Err(error) = store.visit_partitions(&mut |partition, part| {
        if part == Part::Allocated {
            partitions.insert(partition);
        }
    }) {
        return vec![error.to_string()];
    }
    match store.wrong_availability() {
        Ok(None) => {}
        Ok(Some(Partition { level, first })) => problems.push(format!(
            "the header of the L{} partition at page {first} is wrong about what is free in it",
            level.number()
        )),
        Err(error) => problems.push(error.to_string()),
    }
    if let Ok(Some(page)) = store.stray_page() {
        problems.push(format!("page {page} is mapped, and no file's"));
    }
    check_inodes(system, &mut partitions, &mut problems);
    if let Some(Partition { level, first }) = partitions.first() {
        problems.push(format!("the L{} partition at page {first} is no file's", level.number()));
    }
    problems.truncate(MOST_PROBLEMS);
    problems
}

/// What the tree says of an inode.
#[derive(Default)]
struct Seen {
    names: u64,
    directories: u64,
}

fn check_inodes<M: PersistentMemory>(
    system: &FileSystem<M>,
    partitions: &mut BTreeSet<Partition>,
    problems: &mut Vec<String>,
) {
    let mut inodes = Vec::new();
    inode::visit(&system.store, &mut |ino| inodes.push(ino));
    let seen = inodes.iter().map(|&ino| (ino, Seen::default())).collect();
    let mut check = InodeCheck { system, partitions, problems, seen, attributes: BTreeSet::new() };
    inodes.iter().for_each(|&ino| check.inode(ino));
    let orphans = orphans(system, check.problems);
    inodes.iter().for_each(|&ino| check.links(ino, &orphans));
    match system.inode(Ino::ROOT) {
        Ok(inode) if inode.is(kind::DIRECTORY) => {}
        _ => problems.push("there is no root directory".to_owned()),
    }
    check_reachable(system, &inodes, &orphans, problems);
}

/// The check of all inodes, one after the other.
struct InodeCheck<'a, M> {
    system: &'a FileSystem<M>,
    /// Partitions that no inode has had so far.
    partitions: &'a mut BTreeSet<Partition>,
    problems: &'a mut Vec<String>,
    seen: BTreeMap<Ino, Seen>,
    /// Inodes that hold another inode's extended attributes.
    attributes: BTreeSet<Ino>,
}

impl<M: PersistentMemory> InodeCheck<'_, M> {
    /// Checks what an inode says of itself, and counts what it says of others.
    fn inode(&mut self, ino: Ino) {
        let number = ino.0;
        let Ok(inode) = self.system.inode(ino) else {
            self.problems.push(format!("inode {number} is used and has no place in the table"));
            return;
        };
        if let Some(problem) = self.wrong_place(number, &inode) {
            self.problems.push(problem);
            return;
        }
        if inode.impossible_times().next().is_some() {
            self.problems.push(format!("inode {number} has a time that no program can set"));
        }
        self.attributes_of(number, &inode);
        if inode.is(kind::DIRECTORY) {
            self.directory(ino, &inode);
        }
    }

    /// What is wrong with an inode's partition or size.
    fn wrong_place(&mut self, number: u64, inode: &Inode) -> Option<String> {
        match inode.partition() {
            Some(partition) if !self.partitions.remove(&partition) => Some(format!(
                "inode {number} has a partition at page {} that is not its own",
                partition.first
            )),
            Some(partition) if inode.size() > partition.level.bytes() => {
                Some(format!("inode {number} has {} bytes, more than its partition", inode.size()))
            }
            None if inode.size() > 0 => {
                Some(format!("inode {number} has {} bytes and no partition", inode.size()))
            }
            _ => None,
        }
    }

    /// Checks the inode that holds an inode's extended attributes.
    fn attributes_of(&mut self, number: u64, inode: &Inode) {
        let system = self.system;
        let holder = Ino(inode.get(Field::Attributes));
        if holder != Ino::NONE {
            let is_one = system.inode(holder).is_ok_and(|holder| {
                holder.is(kind::FILE) && holder.links() == 1 && holder.get(Field::Attributes) == 0
            });
            if !is_one || !self.attributes.insert(holder) {
                self.problems.push(format!(
                    "inode {number} has its attributes in inode {}, which is not for that",
                    holder.0
                ));
            }
        }
        if let Ok(held) = system.inode(holder)
            && !system.has_whole_attributes(&held)
        {
            self.problems.push(format!("inode {number} has attributes that cannot be read"));
        }
    }

    /// Checks a directory's entries, and counts the names and directories that they give.
    fn directory(&mut self, ino: Ino, inode: &Inode) {
        let (system, number) = (self.system, ino.0);
        if !is_whole(system, inode) {
            self.problems
                .push(format!("directory {number} has {} bytes, not all of which are there", inode.size()));
            return;
        }
        let Ok(directory) = system.read_directory(inode) else {
            self.problems.push(format!("directory {number} has an entry that is none"));
            return;
        };
        for (name, entry) in directory.entries_from(0) {
            let name = String::from_utf8_lossy(name);
            let child = system.inode(entry.ino).ok();
            let Some(child) = child.filter(|child| child.mode() >> 12 == u32::from(entry.kind)) else {
                self.problems.push(format!("directory {number} calls something {name:?} that is not there"));
                continue;
            };
            let named = self.seen.entry(entry.ino).or_default();
            named.names += 1;
            if child.is(kind::DIRECTORY) {
                if child.get(Field::Parent) != ino.0 {
                    self.problems
                        .push(format!("directory {} does not know that it lies in {number}", entry.ino.0));
                }
                self.seen.entry(ino).or_default().directories += 1;
            }
        }
    }

    /// Checks an inode's number of links against the names that all directories give it.
    fn links(&mut self, ino: Ino, orphans: &BTreeSet<Ino>) {
        let (number, found) = (ino.0, &self.seen[&ino]);
        let Ok(inode) = self.system.inode(ino) else { return };
        let (is_directory, is_orphan) = (inode.is(kind::DIRECTORY), orphans.contains(&ino));
        let holds_attributes = self.attributes.contains(&ino);
        let expected = match (is_orphan, is_directory) {
            (true, _) => 0,
            (false, true) => 2 + found.directories,
            (false, false) => found.names,
        };
        let is_named = found.names > 0 || ino == Ino::ROOT || is_orphan;
        if is_named && holds_attributes {
            self.problems.push(format!("inode {number} holds attributes and is a file, too"));
        }
        if !is_named && !holds_attributes {
            self.problems.push(format!("inode {number} has neither a name nor a user"));
        } else if inode.links() != expected && !holds_attributes {
            self.problems
                .push(format!("inode {number} says that it has {} links; it has {expected}", inode.links()));
        } else if is_directory && found.names > 1 {
            self.problems.push(format!("directory {number} has {} names", found.names));
        } else if is_orphan && found.names > 0 {
            self.problems.push(format!("inode {number} has a name and is among those that have none"));
        }
    }
}

/// Whether all of a directory's bytes have frames: a hole would be a damage.
fn is_whole<M: PersistentMemory>(system: &FileSystem<M>, inode: &Inode) -> bool {
    let Some(partition) = inode.partition() else { return inode.size() == 0 };
    inode.size().is_multiple_of(SLOT_BYTES)
        && (0..inode.size().div_ceil(PAGE_BYTES))
            .all(|page| system.store.find(Vpn(partition.first.0 + page)).is_some())
}

/// The list of inodes without a name.
fn orphans<M: PersistentMemory>(system: &FileSystem<M>, problems: &mut Vec<String>) -> BTreeSet<Ino> {
    let mut orphans = BTreeSet::new();
    let mut at = Ino(system.store.root_word(root::ORPHANS));
    while at != Ino::NONE {
        if !orphans.insert(at) {
            problems.push(format!("inode {} is twice among those without a name", at.0));
            break;
        }
        match system.inode(at) {
            Ok(inode) => at = Ino(inode.get(Field::NextOrphan)),
            Err(_) => {
                problems.push(format!("inode {} is among those without a name, and is not used", at.0));
                break;
            }
        }
    }
    orphans
}

/// Directories must hang together: their parents lead to the root.
fn check_reachable<M: PersistentMemory>(
    system: &FileSystem<M>,
    inodes: &[Ino],
    orphans: &BTreeSet<Ino>,
    problems: &mut Vec<String>,
) {
    let mut good = BTreeSet::from([Ino::ROOT]);
    for &ino in inodes {
        let mut path = BTreeSet::new();
        let mut at = ino;
        while !good.contains(&at) && !orphans.contains(&at) {
            let Ok(inode) = system.inode(at) else { break };
            if !inode.is(kind::DIRECTORY) {
                break;
            }
            if !path.insert(at) {
                problems.push(format!("directory {} lies in itself", at.0));
                break;
            }
            at = Ino(inode.get(Field::Parent));
        }
        good.extend(path);
    }
}

/// Counts partitions by level: those that are allocated, and those that are cut into smaller ones.
pub fn partition_counts<M: PersistentMemory>(system: &FileSystem<M>) -> Vec<(Level, u64, u64)> {
    let mut counts = [(0, 0); 10];
    // A store that was mounted has headers that can be read.
    let _ = system.store.visit_partitions(&mut |partition, part| {
        let count = &mut counts[usize::from(partition.level.number())];
        match part {
            Part::Allocated => count.0 += 1,
            Part::Cut => count.1 += 1,
            Part::Empty => {}
        }
    });
    (0..)
        .zip(counts)
        .filter_map(|(number, (allocated, cut))| Some((Level::new(number)?, allocated, cut)))
        .collect()
}
