//! Steps 6 and 7: one name for every directory, which leads to it from the root, and numbers of links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pagewalk_vm::file::PersistentMemory;
use rustix::io::Errno;

use crate::core::directory::{Directory, Entry};
use crate::core::error::Result;
use crate::core::inode::{self, Field, Ino, Inodes, kind};
use crate::core::repair::state::Repair;
use crate::core::root;

impl<M: PersistentMemory> Repair<M> {
    /// Finds the one name of each directory, which leads to it from the root, and takes the others away. A directory that no
    /// name leads to gets one.
    pub(super) fn find_homes(&mut self, orphans: &BTreeSet<Ino>) -> Result<()> {
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
    pub(super) fn follow(&mut self, from: Ino) -> Result<()> {
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
    pub(super) fn names_from_known(&self, unknown: &[Ino]) -> Result<BTreeMap<Ino, Ino>> {
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

    pub(super) fn remove_other_names(&mut self) -> Result<()> {
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
    pub(super) fn adopt(&mut self, ino: Ino) -> Result<()> {
        match self.name_lost(ino) {
            Err(Errno::NOSPC) => self.give_up(ino),
            Err(error) => Err(error),
            Ok(()) if self.is_directory(ino) => self.follow(ino),
            Ok(()) => Ok(()),
        }
    }

    pub(super) fn name_lost(&mut self, ino: Ino) -> Result<()> {
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
    pub(super) fn lost_and_found(&mut self) -> Result<Ino> {
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

    /// Nothing that there is no room to name stays: it joins the list of what has no name, and so does what only it had named.
    pub(super) fn give_up(&mut self, ino: Ino) -> Result<()> {
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
    pub(super) fn count_links(&mut self, holders: &BTreeSet<Ino>) -> Result<()> {
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

/// A name that a directory does not have, like this one.
fn unused_name(directory: &Directory, name: &str) -> Vec<u8> {
    let others = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(others);
    names
        .find(|name| directory.get(name.as_bytes()).is_none())
        .expect("there are more than names")
        .into_bytes()
}
