//! Renaming: one name of a file becomes another, in one transaction.

use pagewalk_vm::file::{Partition, PersistentMemory, Transaction};
use rustix::io::Errno;

use crate::core::directory::{self, Entry, check_name, slots_of};
use crate::core::error::{Result, of_store};
use crate::core::inode::{self, Field, Ino, Inode, Inodes, kind};
use crate::core::names::{add_links, drop_link, fill, kind_byte, touch};
use crate::core::system::FileSystem;
use crate::core::types::{Owner, Replace};

/// What a rename that is allowed does.
enum Plan {
    /// Both names are the same file's: nothing changes.
    Nothing,
    /// The two entries swap their files.
    Exchange(Entry, Entry),
    Move(Moved),
}

/// The entry that a rename moves, and the entry that has the new name so far.
struct Moved {
    entry: Entry,
    is_directory: bool,
    target: Option<(Entry, Inode)>,
}

impl<M: PersistentMemory> FileSystem<M> {
    /// Renames a file, whatever it is, from one directory to another or within one: before and after there is always one name.
    ///
    /// # Errors
    ///
    /// There is no such name; the new one is taken by what cannot be replaced; a directory would be within itself.
    pub fn rename(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), replace: Replace) -> Result<()> {
        self.rename_as(from, to, replace, None)
    }

    /// Renames a file, as [`FileSystem::rename`], and leaves a *whiteout* at its old name in the same transaction: a character device
    /// with the number 0. An overlay file system takes that name as removed.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::rename`]; `EINVAL` if the two files are to swap their names.
    pub fn rename_and_white_out(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        replace: Replace,
        owner: Owner,
    ) -> Result<()> {
        match replace {
            Replace::Exchange => Err(Errno::INVAL),
            replace => self.rename_as(from, to, replace, Some(owner)),
        }
    }

    fn rename_as(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        replace: Replace,
        whiteout_owner: Option<Owner>,
    ) -> Result<()> {
        match self.plan_rename(from, to, replace)? {
            Plan::Nothing => Ok(()),
            Plan::Exchange(entry, other) => self.exchange((from.0, from.1, entry), (to.0, to.1, other)),
            Plan::Move(moved) => self.move_name(from, to, moved, whiteout_owner),
        }
    }

    /// Decides what a rename does, or why it is refused; changes nothing.
    fn plan_rename(
        &mut self,
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        replace: Replace,
    ) -> Result<Plan> {
        for name in [name, new_name] {
            if matches!(name, b"." | b"..") {
                return Err(Errno::INVAL);
            }
        }
        self.directory_inode(parent)?;
        let new_above = self.directory_inode(new_parent)?;
        let entry = self.directory(parent)?.get(name).ok_or(Errno::NOENT)?;
        let moved = self.inode(entry.ino)?;
        check_name(new_name)?;
        if new_above.links() == 0 {
            return Err(Errno::NOENT);
        }
        let target = self.directory(new_parent)?.get(new_name);
        let target = target.map(|target| self.inode(target.ino).map(|inode| (target, inode))).transpose()?;
        let is_directory = moved.is(kind::DIRECTORY);
        if is_directory && self.is_within(new_parent, entry.ino)? {
            return Err(Errno::INVAL);
        }
        match (target, replace) {
            (None, Replace::Exchange) => return Err(Errno::NOENT),
            (Some(_), Replace::No) => return Err(Errno::EXIST),
            (Some((target, _)), _) if target.ino == entry.ino => return Ok(Plan::Nothing),
            (Some((target, inode)), Replace::Exchange) => {
                if inode.is(kind::DIRECTORY) && self.is_within(parent, target.ino)? {
                    return Err(Errno::INVAL);
                }
                return Ok(Plan::Exchange(entry, target));
            }
            (Some((target, inode)), _) => match (is_directory, inode.is(kind::DIRECTORY)) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if !self.directory(target.ino)?.is_empty() => return Err(Errno::NOTEMPTY),
                _ => {}
            },
            (None, _) => {}
        }
        Ok(Plan::Move(Moved { entry, is_directory, target }))
    }

    /// Moves a name in one transaction, and then in the indices; what has lost its last name by that goes.
    fn move_name(
        &mut self,
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        Moved { entry, is_directory, target }: Moved,
        whiteout_owner: Option<Owner>,
    ) -> Result<()> {
        // Where the new name goes. This may move the directory's slots elsewhere.
        let room = if target.is_none() { Some(self.room(new_parent, new_name)?) } else { None };
        let new_entry = room.map(|(slot, run)| (Entry { slot, slots: slots_of(new_name), ..entry }, run));
        let [from, to] = [parent, new_parent].map(|ino| self.inode(ino).map(|inode| inode.partition()));
        let (from, to) = (from?.ok_or(Errno::IO)?, to?.ok_or(Errno::IO)?);
        let whiteout = whiteout_owner.map(|owner| Ok((self.free_inode()?, owner))).transpose()?;
        let now = self.now();
        let mut transaction = self.store.begin();
        let mut is_last = false;
        if let Some((target, inode)) = target {
            directory::redirect(&mut transaction, to, target, new_name, (entry.ino, entry.kind))?;
            is_last = drop_link(&mut transaction, target.ino, &inode, now)?;
            if inode.is(kind::DIRECTORY) {
                add_links(&mut transaction, new_parent, -1)?;
            }
        } else if let Some((new_entry, run)) = new_entry {
            directory::put(&mut transaction, to, new_name, new_entry, run)?;
        }
        leave_name(&mut transaction, from, (name, entry), whiteout, now)?;
        if is_directory {
            move_directory(&mut transaction, entry.ino, parent, new_parent)?;
        }
        transaction.set_field(entry.ino, Field::Changed, now)?;
        for parent in [parent, new_parent] {
            touch(&mut transaction, parent, now)?;
        }
        transaction.commit().map_err(of_store)?;
        match new_entry {
            Some((new_entry, _)) => self.directory(new_parent)?.insert(new_name, new_entry),
            None => self.directory(new_parent)?.replace(new_name, entry.ino, entry.kind),
        }
        match whiteout {
            Some((ino, _)) => {
                self.used_inodes += 1;
                self.directory(parent)?.replace(name, ino, kind_byte(kind::CHARACTERS));
            }
            None => self.directory(parent)?.remove(name),
        }
        match target {
            Some((target, _)) if is_last => self.reclaim_unused(target.ino),
            _ => Ok(()),
        }
    }

    fn exchange(
        &mut self,
        (parent, name, entry): (Ino, &[u8], Entry),
        (other_parent, other_name, other): (Ino, &[u8], Entry),
    ) -> Result<()> {
        let [from, to] = [parent, other_parent].map(|ino| self.inode(ino).map(|inode| inode.partition()));
        let (from, to) = (from?.ok_or(Errno::IO)?, to?.ok_or(Errno::IO)?);
        let is_directory = |entry: Entry| entry.kind == kind_byte(kind::DIRECTORY);
        let now = self.now();
        let mut transaction = self.store.begin();
        directory::redirect(&mut transaction, from, entry, name, (other.ino, other.kind))?;
        directory::redirect(&mut transaction, to, other, other_name, (entry.ino, entry.kind))?;
        for (moved, from, to) in [(entry, parent, other_parent), (other, other_parent, parent)] {
            if is_directory(moved) {
                move_directory(&mut transaction, moved.ino, from, to)?;
            }
            transaction.set_field(moved.ino, Field::Changed, now)?;
            touch(&mut transaction, from, now)?;
        }
        transaction.commit().map_err(of_store)?;
        self.directory(parent)?.replace(name, other.ino, other.kind);
        self.directory(other_parent)?.replace(other_name, entry.ino, entry.kind);
        Ok(())
    }

    /// Whether a directory is another one or lies within it.
    fn is_within(&self, ino: Ino, other: Ino) -> Result<bool> {
        let mut at = ino;
        // A damaged tree may be a circle.
        for _ in 0..inode::MOST_INODES {
            if at == other {
                return Ok(true);
            }
            if at == Ino::ROOT {
                return Ok(false);
            }
            at = Ino(self.inode(at)?.get(Field::Parent));
        }
        Err(Errno::IO)
    }
}

/// A directory lies in another one than before.
fn move_directory<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    from: Ino,
    to: Ino,
) -> Result<()> {
    transaction.set_field(ino, Field::Parent, to.0)?;
    add_links(transaction, from, -1)?;
    add_links(transaction, to, 1)
}

/// Frees the slots of a name that a file has left, or gives the name to a whiteout with an inode and an owner.
fn leave_name<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    partition: Partition,
    (name, entry): (&[u8], Entry),
    whiteout: Option<(Ino, Owner)>,
    now: u64,
) -> Result<()> {
    let Some((ino, owner)) = whiteout else {
        return directory::set_free(transaction, partition, entry.slot, entry.slots);
    };
    transaction.mark_inode(ino, true)?;
    fill(transaction, ino, kind::CHARACTERS, owner, now)?;
    let left = (ino, kind_byte(kind::CHARACTERS));
    directory::redirect(transaction, partition, entry, name, left)
}
