//! Names: entries of directories, and the inodes that they lead to. Before and behind every operation all of it holds together.

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::{PersistentMemory, Transaction};
use rustix::io::Errno;

use crate::core::directory::{self, Entry, check_name, slots_of};
use crate::core::error::{Result, of_store};
use crate::core::frames::give_first_frames;
use crate::core::inode::{Field, Ino, Inode, Inodes, kind};
use crate::core::orphans;
use crate::core::reclaim::{give_back, is_little};
use crate::core::system::FileSystem;
use crate::core::types::{MOST_LINKS, Owner, Visit};

/// Symbolic links that a path leads through at most.
pub(crate) const MOST_LINKS_FOLLOWED: usize = 40;
/// Bytes of a path at most.
pub(crate) const MOST_PATH_BYTES: usize = 4_095;

/// What a new file begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum With {
    Nothing,
    /// The number of the device that it stands for.
    Device(u64),
    /// Frames for its first bytes.
    Room(u64),
}

/// The kind of a file as directories have it.
pub(super) fn kind_byte(mode: u32) -> u8 {
    (mode >> 12) as u8
}

impl<M: PersistentMemory> FileSystem<M> {
    /// Returns the file of a name in a directory; "." and ".." are names, too.
    ///
    /// # Errors
    ///
    /// It has no such name.
    pub fn look_up(&mut self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let found = self.directory_inode(parent).and_then(|inode| match name {
            b"." => Ok(parent),
            b".." => Ok(Ino(inode.get(Field::Parent))),
            _ if name.len() > directory::MOST_NAME_BYTES => Err(Errno::NAMETOOLONG),
            _ => self.directory(parent)?.get(name).map(|entry| entry.ino).ok_or(Errno::NOENT),
        });
        self.sure(found)
    }

    /// Entries of a directory from a cookie on, 0 for the first: visits name, inode, kind and the cookie behind each, until
    /// it is told not to.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn list(&mut self, ino: Ino, cookie: u64, visit: Visit<'_>) -> Result<()> {
        let listed = self.list_present(ino, cookie, visit);
        self.sure(listed)
    }

    fn list_present(&mut self, ino: Ino, cookie: u64, visit: Visit<'_>) -> Result<()> {
        let inode = self.directory_inode(ino)?;
        let directory_kind = kind_byte(kind::DIRECTORY);
        let own = [(&b"."[..], ino), (b"..", Ino(inode.get(Field::Parent)))];
        for (at, (name, ino)) in (0..).zip(own) {
            if cookie <= at && !visit(name, ino, directory_kind, at + 1) {
                return Ok(());
            }
        }
        for (name, entry) in self.directory(ino)?.entries_from(cookie.saturating_sub(2)) {
            if !visit(name, entry.ino, entry.kind, entry.slot + 3) {
                break;
            }
        }
        Ok(())
    }

    /// Finds free slots for a name, and makes some if there are none.
    pub(super) fn room(&mut self, parent: Ino, name: &[u8]) -> Result<(u64, u64)> {
        let slots = slots_of(name);
        if let Some(room) = self.directory(parent)?.room(slots) {
            return Ok(room);
        }
        let size = self.inode(parent)?.size();
        // An eighth more, so that a large directory does not grow with every few names.
        let more = (size / 8).next_multiple_of(PAGE_BYTES).clamp(PAGE_BYTES, 1 << 20);
        let written = self.write_bytes(parent, size, &vec![0; more as usize])? as u64;
        let slot_bytes = directory::SLOT_BYTES;
        self.directory(parent)?.add_free(size / slot_bytes, written / slot_bytes);
        self.directory(parent)?.room(slots).ok_or(Errno::NOSPC)
    }

    /// A directory to which a name can be added, and the name is free.
    fn check_new(&mut self, parent: Ino, name: &[u8]) -> Result<Inode> {
        let inode = self.directory_inode(parent)?;
        check_name(name)?;
        if inode.links() == 0 {
            return Err(Errno::NOENT);
        }
        if self.directory(parent)?.get(name).is_some() {
            return Err(Errno::EXIST);
        }
        Ok(inode)
    }

    /// Makes a file of any kind but a symbolic link.
    ///
    /// # Errors
    ///
    /// The name is taken or cannot be one, or there is no room.
    pub fn create(&mut self, parent: Ino, name: &[u8], mode: u32, owner: Owner, device: u64) -> Result<Ino> {
        self.create_with(parent, name, mode, owner, With::Device(device))
    }

    /// The same, with more than a device's number. Where there is no room for the first bytes the file begins without.
    pub(crate) fn create_with(
        &mut self,
        parent: Ino,
        name: &[u8],
        mode: u32,
        owner: Owner,
        with: With,
    ) -> Result<Ino> {
        match self.create_once(parent, name, mode, owner, with) {
            Err(Errno::NOSPC) if matches!(with, With::Room(_)) => {
                self.create_once(parent, name, mode, owner, With::Nothing)
            }
            made => made,
        }
    }

    fn create_once(&mut self, parent: Ino, name: &[u8], mode: u32, owner: Owner, with: With) -> Result<Ino> {
        let above = self.check_new(parent, name)?;
        let is_directory = mode & kind::MASK == kind::DIRECTORY;
        let (mut mode, mut owner) = (mode, owner);
        if above.mode() & 0o2000 != 0 {
            owner.gid = (above.get(Field::Owner) >> 32) as u32;
            mode |= if is_directory { 0o2000 } else { 0 };
        }
        let (slot, run) = self.room(parent, name)?;
        let partition = self.inode(parent)?.partition().ok_or(Errno::IO)?;
        let ino = self.free_inode()?;
        let entry = Entry { ino, kind: kind_byte(mode), slot, slots: slots_of(name) };
        let now = self.now();
        let mut transaction = self.store.begin();
        transaction.mark_inode(ino, true)?;
        fill(&mut transaction, ino, mode, owner, now)?;
        if let With::Device(device) = with {
            transaction.set_field(ino, Field::Device, device)?;
        }
        if is_directory {
            transaction.set_field(ino, Field::Links, 2)?;
            transaction.set_field(ino, Field::Parent, parent.0)?;
            transaction.set_field(parent, Field::Links, above.links() + 1)?;
        }
        directory::put(&mut transaction, partition, name, entry, run)?;
        touch(&mut transaction, parent, now)?;
        if let With::Room(bytes) = with {
            give_first_frames(&mut transaction, ino, mode, bytes)?;
        }
        transaction.commit().map_err(of_store)?;
        self.used_inodes += 1;
        self.directory(parent)?.insert(name, entry);
        Ok(ino)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::create`]; a target of more than 4,095 bytes.
    pub fn create_link_to(&mut self, parent: Ino, name: &[u8], target: &[u8], owner: Owner) -> Result<Ino> {
        if target.len() >= 4_096 {
            return Err(Errno::NAMETOOLONG);
        }
        if target.is_empty() {
            return Err(Errno::NOENT);
        }
        self.check_new(parent, name)?;
        // Written before it has its name, so that a crash leaves no half of it.
        let ino = self.create_without_name(kind::SYMLINK | 0o777, owner)?;
        let written = self.write_bytes(ino, 0, target);
        let named = match written {
            Ok(bytes) if bytes == target.len() => self.link_new(ino, parent, name),
            Ok(_) => Err(Errno::NOSPC),
            Err(error) => Err(error),
        };
        if named.is_err() {
            self.reclaim(ino)?;
        }
        named.map(|()| ino)
    }

    /// An inode that only the list of those without a name knows.
    pub(crate) fn create_without_name(&mut self, mode: u32, owner: Owner) -> Result<Ino> {
        let ino = self.free_inode()?;
        let now = self.now();
        let mut transaction = self.store.begin();
        transaction.mark_inode(ino, true)?;
        fill(&mut transaction, ino, mode, owner, now)?;
        transaction.set_field(ino, Field::Links, 0)?;
        orphans::add(&mut transaction, ino)?;
        transaction.commit().map_err(of_store)?;
        self.used_inodes += 1;
        Ok(ino)
    }

    /// Gives a name to a file, which may have none so far.
    fn link_new(&mut self, ino: Ino, parent: Ino, name: &[u8]) -> Result<()> {
        let inode = self.inode(ino)?;
        let (slot, run) = self.room(parent, name)?;
        let partition = self.inode(parent)?.partition().ok_or(Errno::IO)?;
        let entry = Entry { ino, kind: kind_byte(inode.mode()), slot, slots: slots_of(name) };
        let now = self.now();
        let mut transaction = self.store.begin();
        if inode.links() == 0 {
            orphans::remove(&mut transaction, ino)?;
        }
        transaction.set_field(ino, Field::Links, inode.links() + 1)?;
        transaction.set_field(ino, Field::Changed, now)?;
        directory::put(&mut transaction, partition, name, entry, run)?;
        touch(&mut transaction, parent, now)?;
        transaction.commit().map_err(of_store)?;
        self.directory(parent)?.insert(name, entry);
        Ok(())
    }

    /// Gives a file another name.
    ///
    /// # Errors
    ///
    /// It is a directory, the name is taken or cannot be one, or there is no room.
    pub fn link(&mut self, ino: Ino, parent: Ino, name: &[u8]) -> Result<()> {
        let inode = self.inode(ino)?;
        if inode.is(kind::DIRECTORY) {
            return Err(Errno::PERM);
        }
        if inode.links() >= MOST_LINKS {
            return Err(Errno::MLINK);
        }
        self.check_new(parent, name)?;
        self.link_new(ino, parent, name)
    }

    /// Takes a name away; the file goes with its last one, when no program has it open any more.
    ///
    /// # Errors
    ///
    /// There is no such name, or it is a directory's.
    pub fn unlink(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        self.remove(parent, name, false)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// There is no such name, it is no directory's, or the directory is not empty.
    pub fn remove_directory(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        match name {
            b"." => Err(Errno::INVAL),
            b".." => Err(Errno::NOTEMPTY),
            _ => self.remove(parent, name, true),
        }
    }

    fn remove(&mut self, parent: Ino, name: &[u8], wants_directory: bool) -> Result<()> {
        let above = self.directory_inode(parent)?;
        let entry = self.directory(parent)?.get(name).ok_or(Errno::NOENT)?;
        let inode = self.inode(entry.ino)?;
        match (inode.is(kind::DIRECTORY), wants_directory) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            (true, true) if !self.directory(entry.ino)?.is_empty() => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        let partition = above.partition().ok_or(Errno::IO)?;
        let now = self.now();
        // What is little goes with its last name, at once.
        let goes = is_last_link(&inode) && !self.users.contains_key(&entry.ino) && is_little(&inode);
        let mut transaction = self.store.begin();
        directory::set_free(&mut transaction, partition, entry.slot, entry.slots)?;
        let is_last = if goes {
            give_back(&mut transaction, entry.ino, &inode)?;
            false
        } else {
            drop_link(&mut transaction, entry.ino, &inode, now)?
        };
        if wants_directory {
            transaction.set_field(parent, Field::Links, above.links() - 1)?;
        }
        touch(&mut transaction, parent, now)?;
        transaction.commit().map_err(of_store)?;
        self.directory(parent)?.remove(name);
        if goes {
            self.has_gone(entry.ino);
        }
        if is_last { self.reclaim_unused(entry.ino) } else { Ok(()) }
    }

    pub(super) fn reclaim_unused(&mut self, ino: Ino) -> Result<()> {
        if self.users.contains_key(&ino) { Ok(()) } else { self.reclaim(ino) }
    }
}

/// Fills a fresh inode.
pub(crate) fn fill<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    mode: u32,
    owner: Owner,
    now: u64,
) -> Result<()> {
    transaction.set_fields(
        ino,
        [
            (Field::Mode, mode.into()),
            (Field::Links, 1),
            (Field::Owner, u64::from(owner.uid) | u64::from(owner.gid) << 32),
            (Field::Accessed, now),
            (Field::Modified, now),
            (Field::Changed, now),
        ],
    )
}

/// A directory's names have changed.
pub(super) fn touch<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    now: u64,
) -> Result<()> {
    transaction.set_fields(ino, [(Field::Modified, now), (Field::Changed, now)])
}

/// A directory has more links, or fewer: one for each directory in it.
pub(super) fn add_links<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    more: i64,
) -> Result<()> {
    let links = transaction.field(ino, Field::Links)?;
    transaction.set_field(ino, Field::Links, links.wrapping_add_signed(more))
}

/// A file has a name less; whether it was its last. It is on the list of those without one then.
pub(super) fn drop_link<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    inode: &Inode,
    now: u64,
) -> Result<bool> {
    let is_last = is_last_link(inode);
    let links = if is_last { 0 } else { inode.links() - 1 };
    transaction.set_fields(ino, [(Field::Links, links), (Field::Changed, now)])?;
    if is_last {
        orphans::add(transaction, ino)?;
    }
    Ok(is_last)
}

/// Whether a file has no name when it loses one more.
fn is_last_link(inode: &Inode) -> bool {
    inode.is(kind::DIRECTORY) || inode.links() <= 1
}
