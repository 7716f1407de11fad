//! What a file in persistent memory can do, and what is measured of it.

use pagewalk_vm::addr::PhysAddr;
use pagewalk_vm::file::StoreError;
use pagewalk_vm::frame::OutOfFrames;

/// A part of the work of a file system, to which time goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Into the file system and back.
    Call,
    /// Finding where bytes lie.
    Find,
    /// Frames for new bytes, and entering them into the index.
    Build,
    /// Zeroes in frames before they are entered.
    Zero,
    /// The inode and what else is written beside the bytes.
    Upkeep,
    /// The bytes of the program.
    Data,
}

/// Time by what it went to, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts([u64; Part::Data as usize + 1]);

impl Parts {
    /// Adds time to a part.
    pub(super) fn add(&mut self, part: Part, ps: u64) {
        self.0[part as usize] += ps;
    }

    /// Returns the time of one part.
    pub fn of(&self, part: Part) -> u64 {
        self.0[part as usize]
    }

    /// Returns the time of all parts.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the time of the index: to find, to build and, where a kernel does that while it builds, to zero.
    pub fn index(&self) -> u64 {
        [Part::Find, Part::Build, Part::Zero].into_iter().map(|part| self.of(part)).sum()
    }
}

/// The counts of what an index did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexCounts {
    /// Pages that were looked up in the TLBs.
    pub translations: u64,
    /// Walks for those that no TLB had.
    pub walks: u64,
    /// The walks that ended in a fault; another walk follows each.
    pub faults: u64,
    /// Moves into a larger partition.
    pub moves: u64,
    /// Entries that the moves swapped.
    pub entries: u64,
    /// The most entries that one move swapped.
    pub most_entries: u64,
    /// Extents of the file, if its index has extents.
    pub extents: u64,
    /// Levels of the tree of extents below its root.
    pub depth: u64,
}

/// The reason why a file cannot be created or written: persistent memory is too small.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FileError {
    /// The store of partitions has no room.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No frame is free.
    #[error(transparent)]
    Frames(#[from] OutOfFrames),
}

/// One file in persistent memory, with the index by which the file system finds its bytes.
///
/// # Contract
///
/// Ranges are whole pages, and what is read was written before. The bytes themselves are not kept, only where they lie and
/// the time that the operations take.
pub trait IndexedFile {
    /// Writes a range from a buffer in DRAM; the range may lie beyond the end of the file.
    ///
    /// # Errors
    ///
    /// [`FileError`]: persistent memory is full.
    fn write(&mut self, offset: u64, bytes: u64, from: PhysAddr) -> Result<(), FileError>;

    /// Reads a range into a buffer in DRAM.
    ///
    /// # Errors
    ///
    /// [`FileError`]: the index needs memory, and persistent memory is full.
    fn read(&mut self, offset: u64, bytes: u64, into: PhysAddr) -> Result<(), FileError>;

    /// Lets operations take no time from now on, or time again; parts and counts begin anew.
    fn set_free(&mut self, is_free: bool);

    /// Lets another process open the file, which has nothing of it mapped.
    fn reopen(&mut self) {}

    /// Returns the time so far, by its parts.
    fn parts(&self) -> Parts;

    /// Returns the counts so far.
    fn counts(&self) -> IndexCounts;
}
