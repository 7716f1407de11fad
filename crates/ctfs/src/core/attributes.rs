//! Attributes of files: reading and changing them.

use pagewalk_vm::file::PersistentMemory;
use rustix::io::Errno;

use crate::core::error::{Result, of_store};
use crate::core::extended::CAPABILITIES;
use crate::core::inode::{Field, Ino, Inode, Inodes, kind};
use crate::core::system::FileSystem;
use crate::core::types::{Attributes, MOST_LINKS, SetAttributes};

impl<M: PersistentMemory> FileSystem<M> {
    /// Returns the attributes of a file.
    ///
    /// # Errors
    ///
    /// There is no such inode.
    pub fn attributes(&self, ino: Ino) -> Result<Attributes> {
        self.sure(self.attributes_present(ino))
    }

    fn attributes_present(&self, ino: Ino) -> Result<Attributes> {
        let inode = self.inode(ino)?;
        let owner = inode.get(Field::Owner);
        Ok(Attributes {
            ino,
            generation: inode.get(Field::Generation),
            mode: inode.mode(),
            links: reported_links(&inode),
            uid: owner as u32,
            gid: (owner >> 32) as u32,
            device: inode.get(Field::Device),
            size: inode.size(),
            blocks: self.mapped_bytes(ino, &inode) / 512,
            accessed: inode.time(Field::Accessed),
            modified: inode.time(Field::Modified),
            changed: inode.time(Field::Changed),
        })
    }

    /// Whether running a file gives a program rights that its user does not have, which a write by another user takes away.
    pub(crate) fn has_privileges(&self, ino: Ino) -> Result<bool> {
        Ok(self.inode(ino)?.without_privileges().is_some() || self.has_capabilities(ino)?)
    }

    /// Whether a file gives capabilities to the program that runs it.
    pub(crate) fn has_capabilities(&self, ino: Ino) -> Result<bool> {
        let inode = self.inode(ino)?;
        if !inode.is(kind::FILE) || inode.get(Field::Attributes) == Ino::NONE.0 {
            return Ok(false);
        }
        match self.extended(ino, CAPABILITIES) {
            Ok(_) => Ok(true),
            Err(Errno::NODATA) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes attributes of a file.
    ///
    /// # Errors
    ///
    /// The size is not a file's, or too large; a time's seconds do not fit into 64 bits (`EINVAL`).
    pub fn set_attributes(&mut self, ino: Ino, set: &SetAttributes) -> Result<()> {
        let inode = self.inode(ino)?;
        if let Some(size) = set.size {
            match inode.mode() & kind::MASK {
                kind::FILE => self.set_size(ino, size)?,
                kind::DIRECTORY => return Err(Errno::ISDIR),
                _ => return Err(Errno::INVAL),
            }
        }
        if let Some(mode) = set.mode {
            self.set_list_permissions(ino, mode)?;
        }
        let now = self.now();
        let inode = self.inode(ino)?;
        let mut transaction = self.store.begin();
        if let Some(mode) = set.mode {
            let word = inode.get(Field::Mode) & !0o7777 | u64::from(mode & 0o7777);
            transaction.set_field(ino, Field::Mode, word)?;
        }
        let owner = inode.get(Field::Owner);
        let (uid, gid) = (set.uid.unwrap_or(owner as u32), set.gid.unwrap_or((owner >> 32) as u32));
        transaction.set_field(ino, Field::Owner, u64::from(uid) | u64::from(gid) << 32)?;
        for (field, time) in [(Field::Accessed, set.accessed), (Field::Modified, set.modified)] {
            if let Some(time) = time {
                transaction.set_time(ino, field, time)?;
            }
        }
        match set.changed {
            Some(time) => transaction.set_time(ino, Field::Changed, time)?,
            None => transaction.set_field(ino, Field::Changed, now)?,
        }
        transaction.commit().map_err(of_store)
    }
}

/// A directory with very many directories in it says that its links were not counted, as ext4 does with `dir_nlink`: programs such as
/// `find` take any other number as that of its directories, and some keep it in 16 bits.
fn reported_links(inode: &Inode) -> u64 {
    let is_uncounted = inode.is(kind::DIRECTORY) && inode.links() >= MOST_LINKS;
    if is_uncounted { 1 } else { inode.links() }
}
