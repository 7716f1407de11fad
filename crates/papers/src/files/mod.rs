//! Operations on files in persistent memory: what a file system does for each, and the time that takes.
//!
//! ```text
//!   pattern (append, random reads, ...)
//!     -> extent tree and journal in a kernel   |   page table: partitions, swaps, TLBs, faults
//!       -> media: caches, DRAM, modules of persistent memory; where the time went
//! ```
//!
//! Every operation is carried out, line by line, with the mechanisms of `pagewalk_vm`; only the bytes themselves are not kept.
//! The six patterns and what is measured of them: Li et al., ";login: 2022", Table 1 and Figure 1.

mod contiguous;
mod extents;
mod media;
mod pattern;
#[cfg(test)]
mod tests;

pub(crate) use media::Part;
pub(crate) use pattern::{Pattern, PatternRun, run};
