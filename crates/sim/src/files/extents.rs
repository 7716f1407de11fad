//! A kernel's file system: an extent tree, a bitmap, a journal, and no page cache.
//!
//! What an operation does is what ext4 does with DAX in Linux 5.7 (`fs/ext4/inode.c`, `file.c`): a write is mapped in pieces of at
//! most 16 MiB; frames for new bytes are taken, zeroed and entered while it is mapped (commit 12735f88, "ext4: pre-zero allocated
//! blocks for DAX IO"); a write that makes the file longer enters it into the list of files to be cut after a crash, and takes it out
//! again with the new size. Each of these steps begins and ends a handle of the journal, a write of bytes that have frames, too (until
//! commit 9faac62d in 5.10), and each block of metadata that changes joins its transaction. When that is written is another
//! thread's time, and not counted. DEVIATION: the index is walked at each operation; Linux keeps extents in a tree in DRAM, too.

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, PhysAddr};
use pagewalk_vm::file::{Extent, ExtentTree, MOST_EXTENT_PAGES};
use pagewalk_vm::frame::{BuddyAllocator, OutOfFrames};

use super::file::{FileError, IndexCounts, IndexedFile, Part, Parts};
use super::media::Media;
use crate::spec::settings::FileRequest;

/// Blocks that a write is mapped in at most (`DIO_MAX_BLOCKS`).
const MOST_MAPPED_PAGES: u64 = 4_096;
/// Frames before the first one of files: 64 MiB of metadata.
const METADATA_FRAMES: u64 = 1 << 14;
/// Frames that one block of the bitmap has bits for.
const GROUP_FRAMES: u64 = 8 * PAGE_BYTES;
const SUPERBLOCK: PhysAddr = PhysAddr(PAGE_BYTES);
const DESCRIPTORS: PhysAddr = PhysAddr(2 * PAGE_BYTES);
const BITMAPS: PhysAddr = PhysAddr(16 * PAGE_BYTES);
const INODE: PhysAddr = PhysAddr((METADATA_FRAMES - 1) * PAGE_BYTES);

/// One file in such a system.
#[derive(Debug)]
pub(crate) struct ExtentFile {
    media: Media,
    tree: ExtentTree,
    frames: BuddyAllocator,
    /// The frame at which the next new byte should lie.
    goal: Pfn,
    bytes: u64,
    call_ps: u64,
    map_ps: u64,
    journal_ps: u64,
}

impl ExtentFile {
    /// Creates a file; `map_ps` is the time from a range to an address, `journal_ps` that of a step of the journal.
    pub(crate) fn new(request: &FileRequest<'_>, map_ps: u64, journal_ps: u64) -> Self {
        let FileRequest { spec, persistent, call_ps, .. } = *request;
        let media = Media::new(spec, persistent);
        let mut frames = BuddyAllocator::new(media.dram().0).expect("the machine file was checked");
        let taken = (1..METADATA_FRAMES).all(|frame| frames.alloc_at(Pfn(frame), 0));
        assert!(taken, "nothing was taken before");
        let tree = ExtentTree::new(INODE);
        Self { media, tree, frames, goal: Pfn(METADATA_FRAMES), bytes: 0, call_ps, map_ps, journal_ps }
    }

    /// Adds a block of metadata to the transaction and changes the block.
    fn buffer(&mut self, block: PhysAddr) {
        self.media.load(block);
        self.media.spend(self.journal_ps);
        self.media.store(block);
    }

    /// As many frames in one run as there are from the goal on, or from wherever there are some.
    fn take(&mut self, pages: u64) -> Result<(Pfn, u64), OutOfFrames> {
        let Self { frames, goal, .. } = self;
        let takes =
            |frames: &mut BuddyAllocator, at: Pfn| at.0 < frames.total_frames() && frames.alloc_at(at, 0);
        let first = if takes(frames, *goal) { *goal } else { frames.alloc(0)? };
        let more = (1..pages).take_while(|&at| takes(frames, first.add(at))).count() as u64;
        self.goal = first.add(1 + more);
        Ok((first, 1 + more))
    }

    /// Returns the run of frames that a page of the file begins, of at most so many.
    fn map(&mut self, page: u64, pages: u64, writes: bool) -> Result<(Pfn, u64), OutOfFrames> {
        self.media.part(Part::Find);
        self.media.spend(self.map_ps);
        let Self { tree, media, .. } = self;
        let found = tree.find(page, |at| media.load(at));
        if writes {
            self.media.part(if found.is_some() { Part::Upkeep } else { Part::Build });
            self.media.spend(self.journal_ps);
        }
        if let Some(extent) = found {
            let inside = page - extent.page;
            return Ok((extent.frame.add(inside), pages.min(extent.pages - inside)));
        }
        assert!(writes, "page {page} was never written");
        self.build(page, pages)
    }

    fn build(&mut self, page: u64, pages: u64) -> Result<(Pfn, u64), OutOfFrames> {
        let (frame, pages) = self.take(pages.min(MOST_EXTENT_PAGES))?;
        let group = frame.0 / GROUP_FRAMES;
        self.buffer(BITMAPS.add(group * PAGE_BYTES + frame.0 % GROUP_FRAMES / 8));
        self.buffer(DESCRIPTORS.add(group * 64));
        let mut changed = Vec::new();
        let extent = Extent { page, pages, frame };
        let Self { tree, frames, .. } = self;
        tree.insert(extent, || frames.alloc(0), |node| changed.push(node))?;
        // The inode counts its blocks, whatever else changes in it.
        changed.retain(|&node| node != INODE);
        changed.push(INODE);
        changed.into_iter().for_each(|node| self.buffer(node));
        self.media.part(Part::Zero);
        self.media.write_data(frame.addr(), pages * PAGE_BYTES, None);
        self.media.fence();
        Ok((frame, pages))
    }

    /// Changes the inode, and the list of files to be cut, which begins in the superblock.
    fn change_inode(&mut self) {
        self.media.part(Part::Upkeep);
        self.media.spend(self.journal_ps);
        self.buffer(SUPERBLOCK);
        self.buffer(INODE);
    }
}

impl IndexedFile for ExtentFile {
    fn write(&mut self, offset: u64, bytes: u64, from: PhysAddr) -> Result<(), FileError> {
        self.media.part(Part::Call);
        self.media.spend(self.call_ps);
        let grows = offset + bytes > self.bytes;
        if grows {
            self.change_inode();
        }
        let end = (offset + bytes) / PAGE_BYTES;
        let mut page = offset / PAGE_BYTES;
        while page < end {
            let (frame, pages) = self.map(page, (end - page).min(MOST_MAPPED_PAGES), true)?;
            self.media.part(Part::Data);
            let done = page * PAGE_BYTES - offset;
            self.media.write_data(frame.addr(), pages * PAGE_BYTES, Some(from.add(done)));
            page += pages;
        }
        self.media.part(Part::Data);
        self.media.fence();
        if grows {
            self.bytes = offset + bytes;
            self.change_inode();
        }
        Ok(())
    }

    fn read(&mut self, offset: u64, bytes: u64, into: PhysAddr) -> Result<(), FileError> {
        self.media.part(Part::Call);
        self.media.spend(self.call_ps);
        let end = (offset + bytes) / PAGE_BYTES;
        let mut page = offset / PAGE_BYTES;
        while page < end {
            let (frame, pages) = self.map(page, end - page, false)?;
            self.media.part(Part::Data);
            let done = page * PAGE_BYTES - offset;
            self.media.read_data(frame.addr(), pages * PAGE_BYTES, into.add(done));
            page += pages;
        }
        Ok(())
    }

    fn set_free(&mut self, is_free: bool) {
        self.media.set_free(is_free);
    }

    fn parts(&self) -> Parts {
        self.media.parts()
    }

    fn counts(&self) -> IndexCounts {
        let (extents, depth) = (self.tree.extents() as u64, u64::from(self.tree.depth()));
        IndexCounts { extents, depth, ..IndexCounts::default() }
    }
}
