//! Bytes of files: where they are, growth and shrinking without copying, reads and writes.
//!
//! What lies behind a file's end in a frame that it has is whatever was there: nobody can read it. It is made zero when the
//! end moves over it, and what becomes readable in a fresh frame without being written is made zero first.

use std::ops::{ControlFlow, Range};

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, Vpn};
use pagewalk_vm::file::{LARGE_ORDER, Level, Partition, PersistentMemory, StoreError, Transaction};
use rustix::io::Errno;

use crate::bytes::{self, Bytes};
use crate::error::{Result, of_store};
use crate::inode::{Field, Ino, Inode, Inodes, kind, place_words};
use crate::system::{FileSystem, Overwrites};
use crate::usage::PageCounts;

/// What a large page holds.
pub(crate) const LARGE_BYTES: u64 = PAGE_BYTES << LARGE_ORDER;
/// A file's bytes at most: one partition of the largest size.
pub const MOST_FILE_BYTES: u64 = 512 << 30;
/// Small pages that get their frames at once, so that these lie together: 256 KiB.
const MOST_RUN_ORDER: u32 = 6;
/// Words that mapping a large page or a run of small ones changes at most: of tables, bits and entries.
const WORDS_OF_A_RUN: u64 = 64 + (1 << MOST_RUN_ORDER);

/// What is looked for in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// Bytes that have a frame.
    Data,
    /// Bytes that have none, and read as zero.
    Hole,
}

impl<M: PersistentMemory> FileSystem<M> {
    /// Reads at an offset, up to the file's end; how much that was.
    pub(crate) fn read_bytes(&self, inode: &Inode, offset: u64, into: &mut [u8]) -> usize {
        let end = inode.size().min(offset.saturating_add(into.len() as u64));
        let Some(partition) = inode.partition().filter(|_| offset < end) else { return 0 };
        bytes::read(self.store.memory(), partition, offset, &mut into[..(end - offset) as usize]);
        (end - offset) as usize
    }

    fn bytes(&self, ino: Ino) -> Result<Bytes<'_, M>> {
        Ok(Bytes::new(self.store.memory(), crate::inode::address(&self.store, ino).ok_or(Errno::IO)?))
    }

    /// Writes at an offset; how much of it was written, if there was not room for all.
    pub(crate) fn write_bytes(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        let Some(end) = offset.checked_add(data.len() as u64).filter(|&end| end <= MOST_FILE_BYTES) else {
            return Err(Errno::FBIG);
        };
        if data.is_empty() {
            return Ok(0);
        }
        let reached = self.reserve(ino, offset..end)?;
        let data = &data[..(reached - offset) as usize];
        if self.is_logged(ino, offset)? {
            return crate::strict::overwrite(self, ino, offset, data);
        }
        self.store.settle();
        let now = self.now();
        if self.bytes(ino)?.write(offset, data, now) { Ok(data.len()) } else { Err(Errno::IO) }
    }

    /// Whether a write there needs the log: it overwrites bytes, and all or none of it is to be done.
    pub(crate) fn is_logged(&self, ino: Ino, offset: u64) -> Result<bool> {
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

    /// Stores words of an inode without the log, each by itself.
    pub(crate) fn store_fields<const WORDS: usize>(
        &mut self,
        ino: Ino,
        words: [(Field, u64); WORDS],
    ) -> Result<()> {
        self.may_change()?;
        self.store.settle();
        self.bytes(ino)?.store(words);
        self.sure(Ok(()))
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
        // What lies behind the end is nobody's to read from now on.
        self.store_fields(ino, words)?;
        if bytes < size && self.is_pinned(ino) {
            // Whoever maps what was there sees zeroes from now on.
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
        // The last page goes, too, if the file ends in it. Frames that somebody maps stay.
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

    /// Gives back frames that a file has behind its end and before a page, but for those that `fallocate` gave it: what becomes a part of the
    /// file there without being written is a hole.
    fn give_back_skipped(&mut self, ino: Ino, end: u64) -> Result<()> {
        let inode = self.inode(ino)?;
        let Some(partition) = inode.partition().filter(|_| !self.is_pinned(ino)) else { return Ok(()) };
        let from = Vpn(partition.first.0 + self.kept_bytes(ino, &inode).div_ceil(PAGE_BYTES));
        let last = Vpn(partition.first.0 + end).min(partition.end());
        if from >= last || self.store.find(from).is_none() {
            return Ok(());
        }
        self.unmap_whole(ino, from, last)
    }

    /// Unmaps a range of pages of a file.
    fn unmap_whole(&mut self, ino: Ino, from: Vpn, last: Vpn) -> Result<()> {
        let mut from = from;
        if from < last {
            self.split(from)?;
            self.split(last)?;
        }
        while from < last {
            from = self.unmap(ino, from, last)?;
        }
        Ok(())
    }

    /// Where data is next from an offset on, or where a hole is; its end is the last hole. What has a frame is data.
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

    /// Lets a page of 2 MiB fall apart into small ones, if one begins before this page and ends behind the page: then either part can
    /// go by itself. Without a frame for the table of the small ones the large page stays as it is.
    fn split(&mut self, page: Vpn) -> Result<()> {
        let is_inside = !page.0.is_multiple_of(1 << LARGE_ORDER);
        if !is_inside || !self.store.find(page).is_some_and(|mapped| mapped.large) {
            return Ok(());
        }
        let mut transaction = self.store.begin();
        match transaction.split(page) {
            Ok(()) => transaction.commit().map_err(of_store),
            Err(StoreError::NoFrames) => Ok(()),
            Err(error) => Err(of_store(error)),
        }
    }

    /// Unmaps pages of a file in one transaction, as many as there is room for in the log; where it stopped.
    fn unmap(&mut self, ino: Ino, from: Vpn, end: Vpn) -> Result<Vpn> {
        let mut transaction = self.store.begin();
        let reached = transaction.unmap(from, end);
        commit_pages(transaction, &mut self.page_counts, ino)?;
        Ok(reached)
    }

    /// Whether a file has frames behind its end that go when the file is closed.
    pub(crate) fn has_slack(&self, ino: Ino) -> bool {
        let Ok(inode) = self.inode(ino) else { return false };
        inode.is(kind::FILE)
            && inode.partition().is_some_and(|partition| {
                let behind = self.behind_kept(ino, &inode, partition);
                !behind.is_empty() && self.store.find(behind.start).is_some()
            })
    }

    /// Pages of a file's partition behind those whose frames it keeps when it is closed.
    fn behind_kept(&self, ino: Ino, inode: &Inode, partition: Partition) -> Range<Vpn> {
        let kept = self.kept_bytes(ino, inode).div_ceil(PAGE_BYTES);
        Vpn(partition.first.0 + kept).min(partition.end())..partition.end()
    }

    /// Gives back the frames behind the ends of all files that are open; whether there were any.
    pub(crate) fn reclaim_slack(&mut self) -> Result<bool> {
        let free = self.space().free;
        let mut open: Vec<Ino> = self.users.keys().copied().filter(|ino| self.has_slack(*ino)).collect();
        open.sort();
        open.into_iter().try_for_each(|ino| self.shrink(ino))?;
        Ok(self.space().free > free)
    }

    /// Bytes whose frames a file keeps when it is closed.
    pub(crate) fn kept_bytes(&self, ino: Ino, inode: &Inode) -> u64 {
        inode.size().max(self.preallocated.get(&ino).copied().unwrap_or(0))
    }

    /// Gives back frames behind a file's end, but for those that `fallocate` gave it there, and lets it have the smallest partition
    /// that holds it; later, if a process maps the file now.
    pub(crate) fn shrink(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        if self.is_pinned(ino) || self.is_read_only() {
            return Ok(());
        }
        let Some(old) = inode.partition() else { return Ok(()) };
        let kept = self.kept_bytes(ino, &inode);
        let mut from = Vpn(old.first.0 + kept.div_ceil(PAGE_BYTES)).min(old.end());
        // Where the end lies in a large page, the pages before the end are kept.
        let mut transaction = self.store.begin();
        transaction.cut_large(from).map_err(of_store)?;
        commit_pages(transaction, &mut self.page_counts, ino)?;
        while from < old.end() {
            from = self.unmap(ino, from, old.end())?;
        }
        let level = Level::of_bytes(kept).filter(|_| kept > 0);
        if level == Some(old.level) {
            return Ok(());
        }
        let mut transaction = self.store.begin();
        let new = level.map(|level| transaction.allocate(level)).transpose();
        // Without room for another partition it keeps the one that it has.
        let new = match new {
            Err(StoreError::NoFrames | StoreError::NoPartition) => return Ok(()),
            new => new.map_err(of_store)?,
        };
        if let Some(new) = new {
            match transaction.swap(new.first, old.first, new.level.pages()) {
                Ok(_) => {}
                Err(StoreError::NoFrames) => return Ok(()),
                Err(error) => return Err(of_store(error)),
            }
            // The rest of a large page, of which a part was kept.
            if transaction.unmap(old.first, old.end()) < old.end() {
                return Err(Errno::IO);
            }
        }
        transaction.free_partition(old).map_err(of_store)?;
        set_place(&mut transaction, ino, inode.mode(), new)?;
        commit_pages(transaction, &mut self.page_counts, ino)?;
        self.counts.moves += u64::from(new.is_some());
        Ok(())
    }

    /// An inode that has neither a name nor a user goes, with all it has.
    pub(crate) fn reclaim(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        if is_little(&inode) {
            let mut transaction = self.store.begin();
            crate::orphans::remove(&mut transaction, ino)?;
            give_back(&mut transaction, ino, &inode)?;
            transaction.commit().map_err(of_store)?;
            self.has_gone(ino);
            return Ok(());
        }
        let attributes = Ino(inode.get(Field::Attributes));
        for ino in [attributes, ino] {
            self.preallocated.remove(&ino);
            if ino != Ino::NONE {
                self.store_fields(ino, [(Field::Size, 0)])?;
                self.shrink(ino)?;
            }
        }
        let mut transaction = self.store.begin();
        crate::orphans::remove(&mut transaction, ino)?;
        for ino in [attributes, ino] {
            if ino != Ino::NONE {
                transaction.mark_inode(ino, false)?;
            }
        }
        transaction.commit().map_err(of_store)?;
        for ino in [attributes, ino] {
            if ino != Ino::NONE {
                self.has_gone(ino);
            }
        }
        Ok(())
    }

    /// A number is no file's any more.
    pub(crate) fn has_gone(&mut self, ino: Ino) {
        self.preallocated.remove(&ino);
        self.directories.remove(&ino);
        self.page_counts.forget(ino);
        self.freed_inode(ino);
    }

    /// Bytes of frames that a file has, without those that the owner takes back when it is closed: a program that closes a file and looks
    /// at it may be faster than the owner.
    pub(crate) fn mapped_bytes(&self, ino: Ino, inode: &Inode) -> u64 {
        let Some(partition) = inode.partition() else { return 0 };
        let behind = self.behind_kept(ino, inode, partition);
        let pages = if partition.level > Level::L3 {
            let all = self.page_counts.get(ino, || self.count_pages(partition.first..partition.end()));
            all.saturating_sub(self.count_pages(behind))
        } else {
            self.count_pages(partition.first..behind.start)
        };
        pages * PAGE_BYTES
    }

    fn count_pages(&self, range: Range<Vpn>) -> u64 {
        let mut sum = 0;
        let counted = self.store.pages().scan(range, &mut |part, frame| {
            sum += frame.map_or(0, |_| part.end.0 - part.start.0);
            ControlFlow::<()>::Continue(())
        });
        debug_assert!(counted.is_continue());
        sum
    }
}

/// Commits what a transaction changed of a file's pages, if anything, and keeps the count of its pages true.
pub(crate) fn commit_pages<M: PersistentMemory>(
    transaction: Transaction<'_, M>,
    counts: &mut PageCounts,
    ino: Ino,
) -> Result<()> {
    let net_pages = transaction.net_pages();
    if transaction.changed() > 0 {
        transaction.commit().map_err(of_store)?;
    }
    counts.add(ino, net_pages);
    Ok(())
}

pub(crate) fn set_place<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    mode: u32,
    partition: Option<Partition>,
) -> Result<()> {
    transaction.set_fields(ino, place_words(mode, partition))
}

/// Whether all that an inode has can go in one transaction, with room in the log for others.
pub(crate) fn is_little(inode: &Inode) -> bool {
    let has_attributes = inode.get(Field::Attributes) != Ino::NONE.0;
    !has_attributes && inode.partition().is_none_or(|partition| partition.level < Level::L3)
}

/// Gives back what an inode has that [is little](is_little), and the inode.
pub(crate) fn give_back<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    inode: &Inode,
) -> Result<()> {
    if let Some(partition) = inode.partition() {
        if transaction.unmap(partition.first, partition.end()) < partition.end() {
            return Err(Errno::IO);
        }
        transaction.free_partition(partition).map_err(of_store)?;
    }
    transaction.mark_inode(ino, false)
}

/// Gives a fresh file a partition for so many bytes, and its frames. They lie behind its end, where no program can read them.
pub(crate) fn give_first_frames<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    mode: u32,
    bytes: u64,
) -> Result<()> {
    let partition = transaction.allocate(Level::of_bytes(bytes).ok_or(Errno::FBIG)?).map_err(of_store)?;
    set_place(transaction, ino, mode, Some(partition))?;
    let mut at = 0;
    while at < bytes {
        at = map_next(transaction, partition, at, (&(0..bytes), &(0..bytes)), bytes).map_err(of_store)?;
    }
    Ok(())
}

/// Maps what lies at a byte of a file, if nothing does; the byte behind it. A large page is for what is written from its
/// beginning on and follows what is mapped, or to half of it at least at the file's end: little that is written here and there takes little.
fn map_next<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    partition: Partition,
    at: u64,
    (wanted, written): (&Range<u64>, &Range<u64>),
    readable: u64,
) -> std::result::Result<u64, StoreError> {
    let page = Vpn(partition.first.0 + at / PAGE_BYTES);
    let chunk = at / LARGE_BYTES * LARGE_BYTES;
    match transaction.find_or_gap(page) {
        Ok(mapped) => {
            let reach = if mapped.large { LARGE_BYTES } else { PAGE_BYTES };
            return Ok((at / reach + 1) * reach);
        }
        Err(gap) if gap >= 1 << LARGE_ORDER && partition.level >= Level::L3 => {
            let covered = wanted.end.min(chunk + LARGE_BYTES) - wanted.start.max(chunk);
            let from_its_beginning = wanted.start <= chunk
                && chunk > 0
                && transaction.find(Vpn(partition.first.0 + chunk / PAGE_BYTES - 1)).is_some();
            // Where bytes behind what is wanted can be read they are a hole, which stays one.
            let is_last = readable <= wanted.end;
            if from_its_beginning || covered == LARGE_BYTES || covered >= LARGE_BYTES / 2 && is_last {
                match transaction.take_frames(LARGE_ORDER) {
                    Ok(frame) => {
                        let first = Vpn(partition.first.0 + chunk / PAGE_BYTES);
                        clear(transaction, frame.addr().0, chunk..chunk + LARGE_BYTES, written, readable);
                        map_or_give(transaction, first, frame, true)?;
                        return Ok(chunk + LARGE_BYTES);
                    }
                    // Frames are scattered: small pages do.
                    Err(StoreError::NoFrames) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Err(_) => {}
    }
    let start = at / PAGE_BYTES * PAGE_BYTES;
    // The next large page begins with nothing before it.
    let most = (wanted.end.min(chunk + LARGE_BYTES) - start).div_ceil(PAGE_BYTES).min(1 << MOST_RUN_ORDER);
    let is_free = |&number: &u64| transaction.find(Vpn(page.0 + number)).is_none();
    let pages = 1 + (1..most).take_while(is_free).count() as u64;
    let before = Vpn(page.0.wrapping_sub(1));
    let next = transaction.find(before).filter(|_| page > partition.first).map(|mapped| mapped.frame.add(1));
    let (frame, order) = take_run(transaction, next, pages.ilog2().min(MOST_RUN_ORDER))?;
    let run = start..start + (PAGE_BYTES << order);
    clear(transaction, frame.addr().0, run.clone(), written, readable);
    for number in 0..1 << order {
        if let Err(error) = map_or_give(transaction, Vpn(page.0 + number), frame.add(number), false) {
            // The rest of the run.
            transaction.give_frames(frame.add(number + 1), (1 << order) - number - 1);
            return if number == 0 { Err(error) } else { Ok(start + number * PAGE_BYTES) };
        }
    }
    Ok(run.end)
}

/// Takes frames in one piece, no more than so many and at least one, where the file's last ones end if that can be.
fn take_run<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    next: Option<Pfn>,
    most: u32,
) -> std::result::Result<(Pfn, u32), StoreError> {
    for order in (0..=most).rev() {
        if let Some(next) = next.filter(|&next| transaction.take_frames_at(next, order)) {
            return Ok((next, order));
        }
        match transaction.take_frames(order) {
            Err(StoreError::NoFrames) if order > 0 => {}
            taken => return taken.map(|frame| (frame, order)),
        }
    }
    Err(StoreError::NoFrames)
}

/// A frame that cannot be mapped is nobody's again, as the rest of the transaction is good.
fn map_or_give<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    page: Vpn,
    frame: Pfn,
    large: bool,
) -> std::result::Result<(), StoreError> {
    let mapped = transaction.map(page, frame, large);
    if mapped.is_err() {
        transaction.give_frames(frame, if large { 1 << LARGE_ORDER } else { 1 });
    }
    mapped
}

/// Zeroes what can be read of fresh frames and is not written.
fn clear<M: PersistentMemory>(
    transaction: &Transaction<'_, M>,
    place: u64,
    bytes: Range<u64>,
    written: &Range<u64>,
    readable: u64,
) {
    let end = bytes.end.min(readable);
    let before = bytes.start..written.start.clamp(bytes.start, end.max(bytes.start));
    let behind = written.end.clamp(bytes.start, end.max(bytes.start))..end;
    for range in [before, behind] {
        if range.start < range.end {
            let at = place + (range.start - bytes.start);
            transaction.memory().zero(at, range.end - range.start);
            transaction.memory().flush(at, range.end - range.start);
        }
    }
}
