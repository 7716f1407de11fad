//! Bytes of files: where they are, growth and shrinking without copying, reads and writes.
//!
//! What lies behind a file's end in a frame that it has is whatever was there: no program can read it. It is made zero when the
//! end moves over it, and what becomes readable in a fresh frame without being written is made zero first.

use std::ops::{ControlFlow, Range};

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{Level, Partition, PersistentMemory, StoreError};
use rustix::io::Errno;

use crate::core::bytes::{self, LARGE_BYTES};
use crate::core::error::{Result, of_store};
use crate::core::frames::{WORDS_OF_A_RUN, commit_pages, map_next, set_place};
use crate::core::inode::{Field, Ino, kind};
use crate::core::strict;
use crate::core::system::FileSystem;
use crate::core::types::Overwrites;

/// A file's bytes at most: one partition of the largest size.
pub const MOST_FILE_BYTES: u64 = 512 << 30;

/// The target of a search in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// Bytes that have a frame.
    Data,
    /// Bytes that have none, and read as zero.
    Hole,
}

/// The state of a write after its first step, [`FileSystem::begin_write`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begun {
    /// So many of the write's bytes have frames. The caller writes them in place next.
    Reserved(usize),
    /// So many of the write's bytes were written through the log ([`strict`]). The write is done.
    Logged(usize),
}

impl<M: PersistentMemory> FileSystem<M> {
    /// Reads a file's bytes at an offset; how many there were.
    ///
    /// # Errors
    ///
    /// It is a directory.
    pub fn read(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize> {
        let read = self.inode(ino).and_then(|inode| match inode.is(kind::DIRECTORY) {
            true => Err(Errno::ISDIR),
            false => Ok(self.read_bytes(&inode, offset, into)),
        });
        self.sure(read)
    }

    /// Writes a file's bytes at an offset; they persist before it returns. How many there was room for.
    ///
    /// # Errors
    ///
    /// There is no room at all, or the file would be too large.
    pub fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        if !self.inode(ino)?.is(kind::FILE) {
            return Err(Errno::INVAL);
        }
        self.write_bytes(ino, offset, data)
    }

    /// Returns a symbolic link's target.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        let target = self.inode(ino).and_then(|inode| {
            if !inode.is(kind::SYMLINK) {
                return Err(Errno::INVAL);
            }
            let mut target = vec![0; inode.size().min(4_096) as usize];
            self.read_bytes(&inode, 0, &mut target);
            Ok(target)
        });
        self.sure(target)
    }

    /// Writes at an offset; how much of it was written, if there was not room for all.
    pub(crate) fn write_bytes(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        let data = match self.begin_write(ino, offset, data)? {
            Begun::Reserved(0) => return Ok(0),
            Begun::Reserved(bytes) => &data[..bytes],
            Begun::Logged(bytes) => return Ok(bytes),
        };
        self.store.settle();
        let now = self.now();
        if self.bytes(ino)?.write(offset, data, now) { Ok(data.len()) } else { Err(Errno::IO) }
    }

    /// Does what a write needs before its bytes are copied: gets frames, as far as some are free. A write that must be done whole or not at
    /// all is done here.
    ///
    /// # Errors
    ///
    /// `EFBIG`: the file would be too large; `ENOSPC`: no frame is free for the first byte, or too few are free for a write through the log;
    /// `EROFS`: the store is only read.
    pub(crate) fn begin_write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<Begun> {
        let Some(end) = offset.checked_add(data.len() as u64).filter(|&end| end <= MOST_FILE_BYTES) else {
            return Err(Errno::FBIG);
        };
        if data.is_empty() {
            return Ok(Begun::Reserved(0));
        }
        let reached = self.reserve(ino, offset..end)?;
        let data = &data[..(reached - offset) as usize];
        if self.is_logged(ino, offset)? {
            return strict::overwrite(self, ino, offset, data).map(Begun::Logged);
        }
        Ok(Begun::Reserved(data.len()))
    }

    /// Whether a write there needs the log: it overwrites bytes, and all or none of it is to be done.
    fn is_logged(&self, ino: Ino, offset: u64) -> Result<bool> {
        Ok(self.overwrites == Overwrites::Whole && offset < self.inode(ino)?.size())
    }

    /// Lets a range have frames to write it; up to where there are some, which is behind its beginning.
    pub(crate) fn reserve(&mut self, ino: Ino, bytes: Range<u64>) -> Result<u64> {
        self.may_change()?;
        if bytes.end > MOST_FILE_BYTES {
            return Err(Errno::FBIG);
        }
        let size = self.inode(ino)?.size();
        if bytes.start > size {
            self.give_back_skipped(ino, bytes.start / PAGE_BYTES)?;
        }
        let partition = self.ensure_level(ino, bytes.end)?;
        // What can be read already is zero until it is written: a hole must not show what a frame held.
        let unseen = bytes.start.max(size)..bytes.end.max(size);
        let reached = self.map_range((ino, partition), bytes.clone(), &unseen, size.max(bytes.end))?;
        if reached > bytes.start { Ok(reached) } else { Err(Errno::NOSPC) }
    }

    /// Lets a file have a partition of at least so many bytes: its pages move into a larger one.
    pub(crate) fn ensure_level(&mut self, ino: Ino, bytes: u64) -> Result<Partition> {
        let inode = self.inode(ino)?;
        let level = Level::of_bytes(bytes).ok_or(Errno::FBIG)?;
        match inode.partition() {
            Some(partition) if partition.level >= level => Ok(partition),
            old => {
                let mut transaction = self.store.begin();
                let new = transaction.allocate(level).map_err(of_store)?;
                if let Some(old) = old {
                    let moved =
                        transaction.swap(new.first, old.first, old.level.pages()).map_err(of_store)?;
                    transaction.free_partition(old).map_err(of_store)?;
                    self.counts.moves += 1;
                    self.counts.most_entries_moved = self.counts.most_entries_moved.max(moved.total());
                }
                set_place(&mut transaction, ino, inode.mode(), Some(new))?;
                transaction.commit().map_err(of_store)?;
                Ok(new)
            }
        }
    }

    /// Lets a range have frames, as far as there are some; up to where. What of fresh frames is `readable` and will not be
    /// `written` is zero.
    fn map_range(
        &mut self,
        (ino, partition): (Ino, Partition),
        bytes: Range<u64>,
        written: &Range<u64>,
        readable: u64,
    ) -> Result<u64> {
        let mut at = bytes.start;
        while at < bytes.end {
            // What is mapped already is passed over without a transaction.
            let page = Vpn(partition.first.0 + at / PAGE_BYTES);
            if let Some(mapped) = self.store.find(page) {
                let reach = if mapped.large { LARGE_BYTES } else { PAGE_BYTES };
                at = (at / reach + 1) * reach;
                continue;
            }
            let mut transaction = self.store.begin();
            let begin = at;
            let mut is_full = false;
            while at < bytes.end && transaction.room() > WORDS_OF_A_RUN {
                match map_next(&mut transaction, partition, at, (&bytes, written), readable) {
                    Ok(next) => at = next,
                    Err(StoreError::NoFrames) => {
                        is_full = true;
                        break;
                    }
                    Err(error) => return Err(of_store(error)),
                }
            }
            // What was mapped before there was no more is the file's.
            if at > begin {
                commit_pages(transaction, &mut self.page_counts, ino)?;
            }
            if is_full {
                break;
            }
        }
        Ok(at.min(bytes.end))
    }

    /// Sets a file's size.
    pub(crate) fn set_size(&mut self, ino: Ino, bytes: u64) -> Result<()> {
        if bytes > MOST_FILE_BYTES {
            return Err(Errno::FBIG);
        }
        let inode = self.inode(ino)?;
        let (size, now) = (inode.size(), self.now());
        let words = [(Field::Size, bytes), (Field::Modified, now), (Field::Changed, now)];
        if bytes > size {
            self.give_back_skipped(ino, bytes.div_ceil(PAGE_BYTES))?;
            let partition = self.ensure_level(ino, bytes)?;
            bytes::zero(self.store.memory(), partition, size..bytes);
            self.store.memory().fence();
            return self.store_fields(ino, words);
        }
        self.preallocated.remove(&ino);
        // No program reads what lies behind the end from now on.
        self.store_fields(ino, words)?;
        if bytes < size && self.is_pinned(ino) {
            // A program that maps what was there sees zeroes from now on.
            if let Some(partition) = inode.partition() {
                bytes::zero(self.store.memory(), partition, bytes..size);
                self.store.memory().fence();
            }
        }
        if bytes < size { self.shrink(ino) } else { Ok(()) }
    }

    /// Lets a range of a file have frames, so that writes there find room; what was not written is zero. The file becomes so
    /// long, unless it is to keep its size.
    ///
    /// # Errors
    ///
    /// It is no file, or there is not room for all of it; what there was room for stays.
    pub fn allocate(&mut self, ino: Ino, bytes: Range<u64>, keeps_size: bool) -> Result<()> {
        let inode = self.inode(ino)?;
        if !inode.is(kind::FILE) {
            return Err(Errno::NODEV);
        }
        if bytes.is_empty() {
            return Err(Errno::INVAL);
        }
        if bytes.end > MOST_FILE_BYTES {
            return Err(Errno::FBIG);
        }
        let size = inode.size();
        let new_size = if keeps_size { size } else { size.max(bytes.end) };
        let partition = self.ensure_level(ino, bytes.end)?;
        // Behind the end nothing can be read.
        if self.map_range((ino, partition), bytes.clone(), &(u64::MAX..u64::MAX), new_size)? < bytes.end {
            return Err(Errno::NOSPC);
        }
        if keeps_size && bytes.end > size {
            let end = self.preallocated.entry(ino).or_default();
            *end = bytes.end.max(*end);
        }
        if new_size > size {
            self.set_size(ino, new_size)?;
        }
        let now = self.now();
        self.store_fields(ino, [(Field::Changed, now)])
    }

    /// Makes a range of a file zero, and gives back the frames that lie in it whole.
    ///
    /// # Errors
    ///
    /// It is no file.
    pub fn punch(&mut self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        let inode = self.inode(ino)?;
        if !inode.is(kind::FILE) {
            return Err(Errno::NODEV);
        }
        if bytes.is_empty() {
            return Err(Errno::INVAL);
        }
        let now = self.now();
        let Some(partition) = inode.partition() else { return Ok(()) };
        let end = bytes.end.min(partition.level.bytes());
        bytes::zero(self.store.memory(), partition, bytes.start..end.min(inode.size()));
        self.store.memory().fence();
        let from = Vpn(partition.first.0 + bytes.start.div_ceil(PAGE_BYTES));
        // The last page goes, too, if the file ends in it. Frames that a program maps stay.
        let last = if self.is_pinned(ino) {
            0
        } else if end >= inode.size() {
            end.div_ceil(PAGE_BYTES)
        } else {
            end / PAGE_BYTES
        };
        let last = Vpn(partition.first.0 + last).min(partition.end());
        self.unmap_whole(ino, from, last)?;
        self.store_fields(ino, [(Field::Modified, now), (Field::Changed, now)])
    }

    /// Returns where data is next from an offset on, or where a hole is; its end is the last hole. What has a frame is data.
    ///
    /// # Errors
    ///
    /// It is no file, or there is no more of it there.
    pub fn seek(&self, ino: Ino, offset: u64, to: Seek) -> Result<u64> {
        self.sure(self.seek_present(ino, offset, to))
    }

    fn seek_present(&self, ino: Ino, offset: u64, to: Seek) -> Result<u64> {
        let inode = self.inode(ino)?;
        let size = inode.size();
        if !inode.is(kind::FILE) {
            return Err(Errno::INVAL);
        }
        if offset >= size {
            return Err(Errno::NXIO);
        }
        let Some(partition) = inode.partition() else {
            return if to == Seek::Hole { Ok(offset) } else { Err(Errno::NXIO) };
        };
        let page = |byte: u64| Vpn(partition.first.0 + byte);
        let pages = page(offset / PAGE_BYTES)..page(size.div_ceil(PAGE_BYTES)).min(partition.end());
        let found = self.store.pages().scan(pages, &mut |part, frame| {
            let is_it = frame.is_some() == (to == Seek::Data);
            if is_it {
                ControlFlow::Break((part.start.0 - partition.first.0) * PAGE_BYTES)
            } else {
                ControlFlow::Continue(())
            }
        });
        match (found, to) {
            (ControlFlow::Break(at), _) => Ok(at.max(offset)),
            (ControlFlow::Continue(()), Seek::Hole) => Ok(size),
            (ControlFlow::Continue(()), Seek::Data) => Err(Errno::NXIO),
        }
    }
}
