//! The users of a store: the library that has one to itself, and the clients of a mount that another process has.
//!
//! ```text
//!   paths         the library: files by path, as `std::fs` has them
//!   connection    a client: bytes of leased files in the store's memory; ask: names and attributes; mapping: `mmap`
//!   on_mount      requests that any program may make of a mount
//! ```

mod apart;
mod ask;
pub(crate) mod connection;
mod mapping;
mod on_mount;
mod paths;
pub(crate) mod timed;

pub use ask::{Ask, Change, OpenedBeside};
pub use connection::{Lease, LeaseClient, ReadDone, Written};
pub use mapping::{Keeper, MappedFile};
pub use on_mount::{collapse_on_mount, grow_on_mount, insert_on_mount};
pub use paths::{AsPath, DirectoryEntry, File, Files, OpenOptions};
