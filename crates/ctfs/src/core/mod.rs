//! The file system proper: inodes, directories, bytes of files, transactions over them, and their check and repair.
//!
//! ```text
//!   volume                                         a file system that threads share
//!   mount  attributes  users  shift  check  repair
//!   acl -> extended -> names -> file -> frames     operations of a file system, each layer on the ones to its right
//!   system                                         the mounted file system: the store, indices, open files
//!   directory  bytes  orphans  inode  root         what lies in the store, and where
//! ```
//!
//! Everything is by inode. Paths and permissions are the business of the clients and of the owner.

pub(crate) mod acl;
pub(crate) mod attributes;
pub(crate) mod bytes;
pub(crate) mod check;
pub(crate) mod directory;
pub(crate) mod error;
pub(crate) mod extended;
pub(crate) mod file;
pub(crate) mod frames;
pub(crate) mod grow;
pub(crate) mod inode;
pub(crate) mod mount;
pub(crate) mod names;
pub(crate) mod orphans;
pub(crate) mod reclaim;
pub(crate) mod rename;
pub(crate) mod repair;
pub(crate) mod retry;
pub(crate) mod root;
pub(crate) mod shift;
pub(crate) mod strict;
pub(crate) mod system;
pub(crate) mod types;
pub(crate) mod usage;
pub(crate) mod users;
pub(crate) mod volume;

pub use check::{check, partition_counts};
pub use directory::MOST_NAME_BYTES;
pub use error::{Error, Result};
pub use extended::SetExtended;
pub use file::{MOST_FILE_BYTES, Seek};
pub use grow::GrowError;
pub use inode::Ino;
pub use repair::repair;
pub use strict::MOST_WHOLE_BYTES;
pub use system::FileSystem;
pub use types::{
    Attributes, Clock, Counts, MOST_LINKS, MountError, Overwrites, Owner, Place, Replace, SetAttributes,
    Space, Visit,
};
pub use volume::{Opened, Volume};
