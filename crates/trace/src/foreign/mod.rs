//! Readers of other tools' traces, each a [`Source`](crate::Source).
//!
//! | format | access sizes | threads | processes | instruction counts |
//! |---|---|---|---|---|
//! | ChampSim, 64-byte records | unknown, see below | no | no | one per record |
//! | CloudSuite, 96-byte records | unknown | no | by address-space id | one per record |
//! | drmemtrace | yes | yes | yes | one per fetched instruction |
//! | lackey text | yes | no | no | one per `I` line |
//! | gem5 packets | yes | no | no | no |
//! | pinatrace text | in some variants | no | no | no |
//!
//! None of them announces mappings. A file may be compressed with gzip, xz, zstd, bzip2, lz4 or snappy; that is told by its
//! content, and a name that promises compression must keep the promise. Everything is opened once, so pipes are read like files;
//! what has to be read from its end (zip archives, `.pwt` files) goes from a pipe through a temporary file.
//!
//! **Blocks.** ChampSim's records say which registers an instruction uses and where control goes, so its reader gives executed blocks, whose
//! instructions are described by their outlines. drmemtrace's does where the trace has the bytes of x86-64 instructions.
//!
//! **What is left out** is counted ([`TraceSource::remarks`]).
//!
//! **Addresses.** An access holds 48 address bits. Addresses from `0xffff_0000_0000_0000` on belong to the kernel
//! (x86-64 and AArch64): such accesses are left out and counted, unless [`ReadOptions::kernel`] asks for them; then they are in the
//! upper half of the 48 bits. Other addresses of 2^48 and above are an error with their place, because every program that
//! such a trace can come from has none: the file is damaged or of another format.
//!
//! **Sizes.** Where a format has no sizes, or a record has size 0, an access is as large as its address is aligned, at most 8 bytes, so
//! that it never crosses a page. Sizes that are no power of two are rounded up; if the rounded access would cross
//! into a page that the real one does not touch, they are rounded down. An access above 64 bytes becomes one
//! access per 64 bytes. More than 16,384 bytes (the x86 save area is the largest) are an error.
//!
//! **Batches.** Every batch begins with the count of the instructions of its accesses. A change of thread or
//! process inside a batch begins a new count.

mod archive;
mod blocks;
mod champsim;
mod compression;
mod detect;
mod drmemtrace;
mod format;
mod gem5;
mod input;
mod lackey;
mod output;
mod pinatrace;
mod records;
mod salvage;
mod source;
mod tally;

pub use detect::{ReadOptions, open};
pub use drmemtrace::v2p::{Translation, Translations, parse as parse_translations};
pub use format::{Format, UnknownFormat};
pub use source::{ForeignSource, TraceSource};
pub use tally::{Kind, Remarks};
