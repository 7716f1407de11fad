//! A file system whose index is the page table: every file lies in one contiguous range of the store's address space.
//!
//! ```text
//!   names, attributes      FileSystem: inodes, directories, transactions
//!   bytes of files         partition + offset -> persistent page table -> frames
//!   mechanisms             pagewalk_vm::file
//! ```
//!
//! The feature `fuse` adds mounts. Without it a process uses a store by itself ([`Files`], [`Volume`]), or is a [`LeaseClient`] of a mount that
//! another process has.
//!
//! Source: Li et al., "ctFS: Replacing File Indexing with Hardware Memory Translation through Contiguous File Allocation for
//! Persistent Memory", ;login: 2022.

// One file has both sides of the gate, the mailbox and the requests; without mounts the owner's sides have no user.
#![cfg_attr(not(feature = "fuse"), allow(dead_code))]

mod client;
mod core;
mod memory;
#[cfg(feature = "fuse")]
mod owner;
mod protocol;
#[cfg(test)]
mod tests;

pub use client::{
    AsPath, Ask, Change, DirectoryEntry, File, Files, Keeper, Lease, LeaseClient, MappedFile, OpenOptions,
    OpenedBeside, ReadDone, Written, collapse_on_mount, grow_on_mount, insert_on_mount,
};
pub use core::{
    Attributes, Clock, Counts, Error, FileSystem, GrowError, Ino, MOST_FILE_BYTES, MOST_LINKS,
    MOST_NAME_BYTES, MOST_WHOLE_BYTES, MountError, Opened, Overwrites, Owner, Place, Replace, Result, Seek,
    SetAttributes, SetExtended, Space, Visit, Volume, check, partition_counts, repair,
};
pub use memory::{
    Blocks, Mapped, SharedMemory, Sleep, Survives, coarse_now, faults, missing, single_threaded,
};
#[cfg(feature = "fuse")]
pub use owner::{Mount, MountRules, mount};
pub use protocol::{BY_HANDLE, Base, Caller, Refused, SetTime};

#[doc(hidden)]
pub use memory::single_threaded as alone;

/// Measurements of what swapping and copying take on this machine.
pub mod measure {
    pub use crate::client::timed::{Look, Timed};
    pub use crate::memory::measure::*;
}
