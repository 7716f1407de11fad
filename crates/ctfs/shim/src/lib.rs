//! Preloaded into a program, this lets it read and write files of mounted stores in its own memory.
//!
//! ```text
//!   program -> open, close, stat, rename, ...            -> kernel -> the mount's owner
//!           -> read, write, pread, lseek, fsync, ...     -> the store's memory, as long as the file is leased
//!           -> mmap to read                              -> the store's memory, as long as it is mapped
//! ```
//!
//! Every descriptor is one that the kernel gave: what is not handled here works all the same, through the kernel. A file is handed
//! back to the kernel for good before it is used in a way that cannot be seen from here: mapped to write it, inherited, sent, or made
//! a stream of the C library. How leases are kept apart from what others do says `pagewalk_ctfs`.

#![allow(unsafe_code)]

mod answers;
mod buffers;
pub mod calls;
pub mod cancelled;
mod connection;
mod description;
mod dispatch;
mod files;
mod forks;
mod kept;
mod kernel;
mod limits;
mod mappings;
mod mounts;
mod names;
mod offsets;
mod own;
mod process;
mod real;
pub mod signals;
mod stand_in;
mod threads;
mod user;
