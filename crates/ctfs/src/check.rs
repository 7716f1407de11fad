//! Whether everything in a file system is what it must be.

use std::collections::{BTreeMap, BTreeSet};

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{Level, Part, Partition, PersistentMemory};

use crate::directory::SLOT_BYTES;
use crate::inode::{self, Field, Ino, kind};
use crate::system::{FileSystem, root};

/// Problems that are named at most.
const MOST_PROBLEMS: usize = 100;

/// Everything that is wrong, in words.
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
        problems.push(format!("page {page} is mapped, and nobody's"));
    }
    check_inodes(system, &mut partitions, &mut problems);
    if let Some(Partition { level, first }) = partitions.first() {
        problems.push(format!("the L{} partition at page {first} is nobody's", level.number()));
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
    let mut seen: BTreeMap<Ino, Seen> = inodes.iter().map(|&ino| (ino, Seen::default())).collect();
    let mut attributes = BTreeSet::new();
    for &ino in &inodes {
        let number = ino.0;
        let Ok(inode) = system.inode(ino) else {
            problems.push(format!("inode {number} is used and has no place in the table"));
            continue;
        };
        match inode.partition() {
            Some(partition) if !partitions.remove(&partition) => {
                problems.push(format!(
                    "inode {number} has a partition at page {} that is not its own",
                    partition.first
                ));
                continue;
            }
            Some(partition) if inode.size() > partition.level.bytes() => {
                problems.push(format!("inode {number} has {} bytes, more than its partition", inode.size()));
                continue;
            }
            None if inode.size() > 0 => {
                problems.push(format!("inode {number} has {} bytes and no partition", inode.size()));
                continue;
            }
            _ => {}
        }
        if inode.impossible_times().next().is_some() {
            problems.push(format!("inode {number} has a time that no program can set"));
        }
        let holder = Ino(inode.get(Field::Attributes));
        if holder != Ino::NONE {
            let is_one = system.inode(holder).is_ok_and(|holder| {
                holder.is(kind::FILE) && holder.links() == 1 && holder.get(Field::Attributes) == 0
            });
            if !is_one || !attributes.insert(holder) {
                problems.push(format!(
                    "inode {number} has its attributes in inode {}, which is not for that",
                    holder.0
                ));
            }
        }
        if let Ok(held) = system.inode(holder)
            && !system.has_whole_attributes(&held)
        {
            problems.push(format!("inode {number} has attributes that cannot be read"));
        }
        if !inode.is(kind::DIRECTORY) {
            continue;
        }
        if !is_whole(system, &inode) {
            problems
                .push(format!("directory {number} has {} bytes, not all of which are there", inode.size()));
            continue;
        }
        let Ok(directory) = system.read_directory(&inode) else {
            problems.push(format!("directory {number} has an entry that is none"));
            continue;
        };
        for (name, entry) in directory.entries_from(0) {
            let name = String::from_utf8_lossy(name);
            let child = system.inode(entry.ino).ok();
            let Some(child) = child.filter(|child| child.mode() >> 12 == u32::from(entry.kind)) else {
                problems.push(format!("directory {number} calls something {name:?} that is not there"));
                continue;
            };
            let named = seen.entry(entry.ino).or_default();
            named.names += 1;
            if child.is(kind::DIRECTORY) {
                if child.get(Field::Parent) != ino.0 {
                    problems
                        .push(format!("directory {} does not know that it lies in {number}", entry.ino.0));
                }
                seen.entry(ino).or_default().directories += 1;
            }
        }
    }
    let orphans = orphans(system, problems);
    for &ino in &inodes {
        let (number, found) = (ino.0, &seen[&ino]);
        let Ok(inode) = system.inode(ino) else { continue };
        let is_directory = inode.is(kind::DIRECTORY);
        let expected = match (orphans.contains(&ino), is_directory) {
            (true, _) => 0,
            (false, true) => 2 + found.directories,
            (false, false) => found.names,
        };
        let is_named = found.names > 0 || ino == Ino::ROOT || orphans.contains(&ino);
        let is_known = is_named || attributes.contains(&ino);
        if is_named && attributes.contains(&ino) {
            problems.push(format!("inode {number} holds attributes and is a file, too"));
        }
        if !is_known {
            problems.push(format!("inode {number} has neither a name nor a user"));
        } else if inode.links() != expected && !attributes.contains(&ino) {
            problems
                .push(format!("inode {number} says that it has {} links; it has {expected}", inode.links()));
        } else if is_directory && found.names > 1 {
            problems.push(format!("directory {number} has {} names", found.names));
        } else if orphans.contains(&ino) && found.names > 0 {
            problems.push(format!("inode {number} has a name and is among those that have none"));
        }
    }
    match system.inode(Ino::ROOT) {
        Ok(inode) if inode.is(kind::DIRECTORY) => {}
        _ => problems.push("there is no root directory".to_owned()),
    }
    check_reachable(system, &inodes, &orphans, problems);
}

/// Whether all of a directory's bytes have frames: a hole would be a damage.
fn is_whole<M: PersistentMemory>(system: &FileSystem<M>, inode: &inode::Inode) -> bool {
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

/// Partitions by level, for whoever wants a picture: allocated, and cut.
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
