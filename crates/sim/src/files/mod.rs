//! Files in persistent memory: what a file system does for each operation, and the time that takes.
//!
//! ```text
//!   extent tree and journal in a kernel   |   page table: partitions, swaps, TLBs, faults
//!     -> media: caches, DRAM, modules of persistent memory; where the time went
//! ```
//!
//! Every operation is carried out, line by line, with the mechanisms of `pagewalk_vm`; only the bytes themselves are not kept. A
//! machine file names the index of its file system in `[files]`.

pub(crate) mod contiguous;
pub(crate) mod extents;
pub(crate) mod file;
mod media;
#[cfg(test)]
mod tests;

pub use file::{FileError, IndexCounts, IndexedFile, Part, Parts};
