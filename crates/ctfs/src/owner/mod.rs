//! The owner of a mounted store: what it answers to the kernel and to clients, and the threads that do so.
//!
//! ```text
//!   the kernel --- fuse: FUSE's requests as this project's ---> kernel, mounted ---+
//!                                                    asked (ioctl) ----------------+--> Volume
//!   clients --- mailbox ---> service ----------------------------------------------+
//! ```
//!
//! Only `fuse` knows the library that speaks FUSE.

mod asked;
mod ends;
mod fuse;
mod kernel;
mod known;
mod leases;
mod mount;
mod mounted;
mod room;
mod service;
mod syncer;

pub use mount::{Mount, MountRules, mount};
