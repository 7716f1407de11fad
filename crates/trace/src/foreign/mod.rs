//! Readers of other tools' traces, each a [`Source`](crate::Source).
//!
//! | format | access sizes | threads | processes | instruction counts |
//! |---|---|---|---|---|
//! | ChampSim, 64-byte records | unknown, see below | no | no | one per record |
//! | CloudSuite, 96-byte records | unknown | no | by address-space id | one per record |
//! | drmemtrace | yes | yes | yes | one per fetched instruction |
//! | lackey text | yes | no | no | one per `I` line |
//!
//! None of them announces mappings. A file may be compressed with gzip, xz, zstd or bzip2; that is told by its
//! content, and a name that promises compression must keep the promise.
//!
//! **Addresses.** An access holds 48 address bits. Addresses from `0xffff_0000_0000_0000` on belong to the kernel
//! (x86-64 and AArch64): such accesses are left out and counted ([`TraceSource::skipped`]). Other addresses of
//! 2^48 and above are an error with their place, because every program that such a trace can come from has none:
//! the file is damaged or of another format.
//!
//! **Sizes.** Where a format has no sizes, an access is as large as its address is aligned, at most 8 bytes, so
//! that it never crosses a page. Sizes that are no power of two are rounded up; if the rounded access would cross
//! into a page that the real one does not touch, they are rounded down. An access above 64 bytes becomes one
//! access per 64 bytes. More than 16,384 bytes (the x86 save area is the largest) are an error.
//!
//! **Batches.** Every batch begins with the count of the instructions of its accesses. A change of thread or
//! process inside a batch begins a new count.

mod champsim;
mod compression;
mod detect;
mod drmemtrace;
mod format;
mod lackey;
mod output;
mod records;
mod source;

pub use detect::open;
pub use format::{Format, UnknownFormat};
pub use source::{ForeignSource, Skipped, TraceSource};
