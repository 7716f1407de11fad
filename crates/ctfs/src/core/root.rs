//! The store's root frame: what says that the store is a file system, and the head of the list of inodes without a name.

/// Word of the root frame that holds [`MAGIC`].
pub(crate) const MAGIC_WORD: u64 = 0;
/// Word of the root frame that holds the first inode without a name, which a program still has open; 0 for none.
pub(crate) const ORPHANS: u64 = 1;
/// "pwfiles1": the store has been made a file system.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"pwfiles1");
