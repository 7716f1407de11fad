//! Open files: a file stays while a program has it open, and its frames stay in their place while a program maps them.

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::PersistentMemory;
use rustix::io::Errno;

use crate::core::bytes;
use crate::core::error::Result;
use crate::core::inode::{Ino, kind};
use crate::core::root;
use crate::core::system::FileSystem;
use crate::core::types::Overwrites;

impl<M: PersistentMemory> FileSystem<M> {
    /// Opens a file once more: it stays when its last name goes.
    ///
    /// # Errors
    ///
    /// There is no such inode.
    pub fn open(&mut self, ino: Ino) -> Result<()> {
        self.inode(ino)?;
        *self.users.entry(ino).or_default() += 1;
        Ok(())
    }

    /// Closes a file that was opened once; one without a name goes with its last user.
    ///
    /// # Errors
    ///
    /// It goes, and something is wrong with it.
    pub fn close(&mut self, ino: Ino) -> Result<()> {
        let users = self.users.get_mut(&ino).ok_or(Errno::BADF)?;
        *users -= 1;
        if *users > 0 {
            return Ok(());
        }
        self.users.remove(&ino);
        if self.inode(ino)?.links() == 0 { self.reclaim(ino) } else { Ok(()) }
    }

    /// The file that lost its last name latest, of those that programs have open.
    pub(crate) fn newest_nameless(&self) -> Option<Ino> {
        Some(Ino(self.store.root_word(root::ORPHANS))).filter(|ino| *ino != Ino::NONE)
    }

    /// Whether exactly one handle of a file is open.
    pub(crate) fn has_one_user(&self, ino: Ino) -> bool {
        self.users.get(&ino) == Some(&1)
    }

    /// Whether a file goes when one fewer uses it.
    pub(crate) fn goes_when_closed(&self, ino: Ino) -> bool {
        self.has_one_user(ino) && self.inode(ino).is_ok_and(|inode| inode.links() == 0)
    }

    /// Uses a file, and lets it keep every frame that it has, in its place: a program maps them. What lies behind the file's end in
    /// its last page is zero, as the program sees that.
    ///
    /// # Errors
    ///
    /// It is no file, or its overwrites are whole: these take other frames.
    pub(crate) fn pin(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        // Read only, what lies behind the end in the store's file cannot be made zero.
        if !inode.is(kind::FILE) || self.overwrites == Overwrites::Whole || self.is_read_only() {
            return Err(Errno::NODEV);
        }
        if let Some(partition) = inode.partition() {
            let size = inode.size();
            bytes::zero(self.store.memory(), partition, size..size.next_multiple_of(PAGE_BYTES));
        }
        self.open(ino)?;
        *self.pins.entry(ino).or_default() += 1;
        Ok(())
    }

    /// Undoes one [`FileSystem::pin`].
    ///
    /// # Errors
    ///
    /// The file goes, and something is wrong with it.
    pub(crate) fn unpin(&mut self, ino: Ino) -> Result<()> {
        // After all were forgotten there may be nothing to undo.
        let Some(pins) = self.pins.get_mut(&ino) else { return Ok(()) };
        *pins -= 1;
        if *pins == 0 {
            self.pins.remove(&ino);
            self.shrink(ino)?;
        }
        self.close(ino)
    }

    /// Closes all files: no program uses one any more.
    ///
    /// # Errors
    ///
    /// Something is wrong with a file that goes.
    pub fn forget_all(&mut self) -> Result<()> {
        self.pins.clear();
        let mut users: Vec<Ino> = self.users.drain().map(|(ino, _)| ino).collect();
        users.sort();
        for ino in users {
            if self.inode(ino)?.links() == 0 {
                self.reclaim(ino)?;
            }
        }
        Ok(())
    }
}
