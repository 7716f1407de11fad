//! The page tables of all kinds and what they share.
//!
//! Every table is a [`PageTable`], whatever it is made like.
//!
//! A table's entries live at physical addresses, in a memory the table is handed ([`TableMemory`]): the
//! simulator's sparse store, a simulated machine's DRAM, a persistent file. A walk names every address it reads
//! ([`WalkOutcome::reads`]), so that the simulator, which knows the time, can charge for each.
//!
//! **Levels are numbered from the leaf to the root**: level 0 maps base pages, level 1 maps 2 MiB pages or
//! points to level 0, and so on; the root is level `LEVELS - 1`.

mod arena;
pub mod classic;
mod contents;
pub mod cuckoo;
mod geometry;
pub mod hashed;
mod l2p;
mod memory;
mod nested;
mod page_table;
mod radix;
mod walk_cache;

pub use arena::TableArena;
pub use contents::{Contents, ContentsWalk};
pub use geometry::{Arm16K, Arm64K, Entry, Geometry, Leaf, Levels, MOST_LEVELS, RiscV, X86_64, X86_64Toc};
pub use l2p::{Chunked, ContiguousMemory, L2p, OnePiece, ROWS};
pub use memory::{RunMemory, SparseMemory, TableMemory, TableWords};
pub use nested::{Giving, GuestWalk, Host, HostCounts, HostDesign, HostFault, HostFrame, RadixHost};
pub use page_table::{
    MapError, PageTable, TableStore, Upkeep, Waits, WalkCaching, WalkEnd, WalkOutcome, WalkRead,
};
pub use radix::{Radix, Walk, WalkReference};
pub use walk_cache::{WalkCache, WalkStart};

use crate::addr::Vpn;

/// The first page beyond addresses of 48 bits, which hashed tables map.
const HASHED_END: Vpn = Vpn(1 << 36);

#[cfg(test)]
mod tests;
