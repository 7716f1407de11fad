//! The vocabulary of a file system's operations: attributes, owners, ways to write and to rename.

use pagewalk_vm::file::OpenError;

use crate::core::inode::Ino;

/// Names of a file at most, and links that are reported of a directory at most, as ext4 has it.
pub const MOST_LINKS: u64 = 65_000;

/// The reason why a file system cannot be mounted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A store with nothing in it that is ours.
    #[error("the store holds no file system")]
    NoFileSystem,
    /// A part of the store is not what it must be.
    #[error("damaged: {0}; `pagewalk fs fsck` says what is wrong, with --repair it repairs it")]
    Damaged(String),
}

/// When something happened, in nanoseconds since 1970.
pub type Clock = fn() -> i64;

/// The callback for a directory's entries: name, inode, kind (the highest four bits of the mode), and where the listing goes on
/// behind it. It ends when the answer is false.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], Ino, u8, u64) -> bool;

/// The owner of a new file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The number of the user.
    pub uid: u32,
    /// Group; that of the directory instead, if its set-group bit is on.
    pub gid: u32,
}

/// The attributes of a file, without its name and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Attributes {
    /// The number of the inode.
    pub ino: Ino,
    /// The number of times that the inode number was used.
    pub generation: u64,
    /// The kind and the permissions.
    pub mode: u32,
    /// Names that a file has; of a directory, 2 and one for each directory in it, or 1 if these are [`MOST_LINKS`] or more.
    pub links: u64,
    /// The number of the owner.
    pub uid: u32,
    /// The number of the group.
    pub gid: u32,
    /// The number of a device file's device.
    pub device: u64,
    /// The size in bytes.
    pub size: u64,
    /// Blocks of 512 bytes that it takes.
    pub blocks: u64,
    /// Nanoseconds since 1970: access.
    pub accessed: i128,
    /// Change of its bytes.
    pub modified: i128,
    /// The last change of anything.
    pub changed: i128,
}

/// Changes of attributes; what is `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttributes {
    /// The new permission bits.
    pub mode: Option<u32>,
    /// The new owner's number.
    pub uid: Option<u32>,
    /// The new group's number.
    pub gid: Option<u32>,
    /// The new size in bytes.
    pub size: Option<u64>,
    /// The new time of access.
    pub accessed: Option<i128>,
    /// Change of its bytes.
    pub modified: Option<i128>,
    /// Change of anything; `None` is now.
    pub changed: Option<i128>,
}

/// The rule by which a rename treats a name that is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replace {
    /// The file that has it loses it.
    #[default]
    Yes,
    /// The rename is refused.
    No,
    /// Both files swap their names.
    Exchange,
}

/// The state that a crash leaves of a write that it interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Overwrites {
    /// Each byte is old or new. The article's sync mode.
    #[default]
    InPlace,
    /// All bytes are old, or all are new; of a write of more than [`MOST_WHOLE_BYTES`](crate::MOST_WHOLE_BYTES) a part is done,
    /// and its length answered. The article's strict mode.
    Whole,
}

/// The counts of what a file system did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Moves of a file to a partition of another size.
    pub moves: u64,
    /// Entries of the page table that one of them exchanged at most.
    pub most_entries_moved: u64,
}

/// Room in a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Space {
    /// Frames of 4 KiB.
    pub frames: u64,
    /// The frames that are free.
    pub free: u64,
    /// The number of inodes at most.
    pub inodes: u64,
    /// The inodes that are used.
    pub used_inodes: u64,
}

/// The place that a write goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The write goes to an offset.
    At(u64),
    /// Behind the last byte, wherever that is by then.
    End,
}
