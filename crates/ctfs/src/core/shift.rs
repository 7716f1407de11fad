//! Ranges that are taken out of files and put into files, as `FALLOC_FL_COLLAPSE_RANGE` and `FALLOC_FL_INSERT_RANGE` do: what lies
//! behind the range moves by entries of the page table, and no byte is copied.
//!
//! Linux passes neither mode to a FUSE server (`fuse_file_fallocate`, 6.18): programs reach these two by the library, or by an `ioctl`
//! of a file on the mount.

use std::ops::Range;

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{PersistentMemory, Transaction};
use rustix::io::Errno;

use crate::core::error::{Result, of_store};
use crate::core::file::MOST_FILE_BYTES;
use crate::core::frames::commit_pages;
use crate::core::inode::{Field, Ino, Inode, Inodes, kind};
use crate::core::system::FileSystem;

/// What is taken out by one transaction: the frames of as many pages fit into the log, beside the entries of what lies behind.
pub(crate) const MOST_COLLAPSED_BYTES: u64 = 64 << 20;

impl<M: PersistentMemory> FileSystem<M> {
    /// Takes a range out of a file: what lies behind the range lies where the range was, and the file is so much shorter. A crash leaves
    /// the file as it was or as it is to be. Ranges of more than 64 MiB go in pieces from their end on, each by itself: a crash may
    /// leave the beginning of such a range.
    ///
    /// # Errors
    ///
    /// - `ENODEV`: not a regular file.
    /// - `EINVAL`: the range is empty, does not begin and end at pages of 4 KiB, or reaches the end of the file.
    /// - `EBUSY`: a program has the file's frames mapped.
    /// - `EFBIG`: so much lies behind the range that the log cannot hold the change of its entries. 40 GiB always fit.
    /// - `ENOSPC`: no frame is free for a table of entries.
    pub fn collapse(&mut self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        let inode = self.shiftable(ino, &bytes)?;
        if bytes.end >= inode.size() {
            return Err(Errno::INVAL);
        }
        // Frames behind the end would have to move, too.
        self.shrink(ino)?;
        let mut end = bytes.end;
        while end > bytes.start {
            let start = bytes.start.max(end.saturating_sub(MOST_COLLAPSED_BYTES));
            self.collapse_piece(ino, start..end)?;
            end = start;
        }
        self.shrink(ino)
    }

    fn collapse_piece(&mut self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        let inode = self.inode(ino)?;
        let (partition, now) = (inode.partition().ok_or(Errno::IO)?, self.now());
        let length = bytes.end - bytes.start;
        let end = self.kept_bytes(ino, &inode).min(partition.level.bytes()).div_ceil(PAGE_BYTES);
        let page = |number: u64| Vpn(partition.first.0 + number);
        let mut transaction = self.store.begin();
        transaction
            .collapse(page(bytes.start / PAGE_BYTES), page(end), length / PAGE_BYTES)
            .map_err(of_shift)?;
        set_size(&mut transaction, ino, inode.size() - length, now)?;
        commit_pages(transaction, &mut self.page_counts, ino)?;
        if let Some(end) = self.preallocated.get_mut(&ino) {
            *end = end.saturating_sub(length);
        }
        Ok(())
    }

    /// Puts a hole into a file: what lies behind the offset lies behind the hole, and the file is so much longer. A crash leaves the file
    /// as it was or as it is to be.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::collapse`]; `EINVAL` also if the offset is not before the end of the file, `EFBIG` if the file would be larger
    /// than [`MOST_FILE_BYTES`].
    pub fn insert(&mut self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        let inode = self.shiftable(ino, &bytes)?;
        if bytes.start >= inode.size() {
            return Err(Errno::INVAL);
        }
        let length = bytes.end - bytes.start;
        let size =
            inode.size().checked_add(length).filter(|&size| size <= MOST_FILE_BYTES).ok_or(Errno::FBIG)?;
        self.shrink(ino)?;
        let kept = self.kept_bytes(ino, &inode).checked_add(length).filter(|&kept| kept <= MOST_FILE_BYTES);
        let kept = kept.ok_or(Errno::FBIG)?;
        let (partition, now) = (self.ensure_level(ino, kept)?, self.now());
        let page = |number: u64| Vpn(partition.first.0 + number);
        let mut transaction = self.store.begin();
        transaction
            .insert(page(bytes.start / PAGE_BYTES), page(kept.div_ceil(PAGE_BYTES)), length / PAGE_BYTES)
            .map_err(of_shift)?;
        set_size(&mut transaction, ino, size, now)?;
        commit_pages(transaction, &mut self.page_counts, ino)?;
        if let Some(end) = self.preallocated.get_mut(&ino) {
            *end += length;
        }
        Ok(())
    }

    /// An inode whose pages may move.
    fn shiftable(&self, ino: Ino, bytes: &Range<u64>) -> Result<Inode> {
        let inode = self.inode(ino)?;
        if !inode.is(kind::FILE) {
            return Err(Errno::NODEV);
        }
        let is_aligned = bytes.start.is_multiple_of(PAGE_BYTES) && bytes.end.is_multiple_of(PAGE_BYTES);
        if bytes.is_empty() || !is_aligned {
            return Err(Errno::INVAL);
        }
        if self.is_pinned(ino) { Err(Errno::BUSY) } else { Ok(inode) }
    }
}

fn of_shift(error: pagewalk_vm::file::StoreError) -> Errno {
    match error {
        pagewalk_vm::file::StoreError::LogFull(_) => Errno::FBIG,
        error => of_store(error),
    }
}

fn set_size<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    size: u64,
    now: u64,
) -> Result<()> {
    [(Field::Size, size), (Field::Modified, now), (Field::Changed, now)]
        .into_iter()
        .try_for_each(|(field, word)| transaction.set_field(ino, field, word))
}
