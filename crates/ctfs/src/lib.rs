//! A file system whose index is the page table: every file lies in one contiguous range of the store's address space.
//!
//! ```text
//!   names, attributes      FileSystem: inodes, directories, transactions
//!   bytes of files         partition + offset -> persistent page table -> frames
//!   mechanisms             pagewalk_vm::file
//! ```
//!
//! The feature `fuse` adds mounts. Without it a process uses a store by itself ([`Files`], [`Volume`]), or is a [`Client`] of a mount that
//! another process has.
//!
//! Source: Li et al., "ctFS: Replacing File Indexing with Hardware Memory Translation through Contiguous File Allocation for
//! Persistent Memory", ;login: 2022.

// One file has both sides of the gate, the mailbox and the requests; without mounts the owner's sides have no user.
#![cfg_attr(not(feature = "fuse"), allow(dead_code))]

mod acl;
pub mod alone;
mod apart;
mod bytes;
mod check;
mod client;
mod directory;
mod error;
mod extended;
pub mod faults;
mod file;
mod gate;
mod grow;
mod inode;
mod lines;
mod mailbox;
mod mapped;
mod mapping;
pub mod measure;
mod medium;
pub mod missing;
mod names;
mod orphans;
#[cfg(feature = "fuse")]
mod owner;
mod paths;
mod protocol;
mod repair;
mod requests;
mod reserved;
mod room;
mod sharing;
mod shift;
mod strict;
mod system;
#[cfg(test)]
mod tests;
mod translations;
mod turns;
mod usage;
mod view;
mod volume;

pub use check::{check, partition_counts};
pub use client::{Ask, Change, Client, Lease, OpenedBeside, ReadDone, Written};
pub use directory::MOST_NAME_BYTES;
pub use error::{Error, Result};
pub use extended::SetExtended;
pub use file::{MOST_FILE_BYTES, Seek};
pub use grow::{GrowError, grow_on_mount};
pub use inode::Ino;
pub use mailbox::Sleep;
pub use mapped::{Blocks, Mapped, Survives, coarse_now};
pub use mapping::{Keeper, MappedFile};
#[cfg(feature = "fuse")]
pub use owner::{Mount, MountRules, mount};
pub use paths::{AsPath, DirectoryEntry, File, Files, OpenOptions};
pub use repair::repair;
pub use requests::{BY_HANDLE, Base, Caller, Refused, SetTime};
pub use sharing::SharedMemory;
pub use shift::{collapse_on_mount, insert_on_mount};
pub use strict::MOST_WHOLE_BYTES;
pub use system::{
    Attributes, Clock, Counts, FileSystem, MOST_LINKS, MountError, Overwrites, Owner, Replace, SetAttributes,
    Space, Visit,
};
pub use volume::{Opened, Place, Volume};
