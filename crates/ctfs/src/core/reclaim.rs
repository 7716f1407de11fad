//! Frames and inodes that are given back: behind a file's end, in holes, and with a file that goes.

use std::ops::{ControlFlow, Range};

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{LARGE_ORDER, Level, Partition, PersistentMemory, StoreError, Transaction};
use rustix::io::Errno;

use crate::core::error::{Result, of_store};
use crate::core::frames::{commit_pages, set_place};
use crate::core::inode::{Field, Ino, Inode, Inodes, kind};
use crate::core::orphans;
use crate::core::system::FileSystem;

impl<M: PersistentMemory> FileSystem<M> {
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

    /// Unmaps a range of pages of a file.
    pub(crate) fn unmap_whole(&mut self, ino: Ino, from: Vpn, last: Vpn) -> Result<()> {
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

    /// Gives back frames that a file has behind its end and before a page, but for those that `fallocate` gave it: what becomes a part of the
    /// file there without being written is a hole.
    pub(crate) fn give_back_skipped(&mut self, ino: Ino, end: u64) -> Result<()> {
        let inode = self.inode(ino)?;
        let Some(partition) = inode.partition().filter(|_| !self.is_pinned(ino)) else { return Ok(()) };
        let from = Vpn(partition.first.0 + self.kept_bytes(ino, &inode).div_ceil(PAGE_BYTES));
        let last = Vpn(partition.first.0 + end).min(partition.end());
        if from >= last || self.store.find(from).is_none() {
            return Ok(());
        }
        self.unmap_whole(ino, from, last)
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
            orphans::remove(&mut transaction, ino)?;
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
        orphans::remove(&mut transaction, ino)?;
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
