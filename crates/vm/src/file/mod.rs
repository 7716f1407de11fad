//! Files in virtual memory: each lies in one contiguous range of pages, its partition, so that the page table is its index.
//!
//! ```text
//!   file -> partition -> pages -> persistent page table -> frames
//!           (contiguous)          (in the memory itself)   (anywhere)
//! ```
//!
//! A partition has one of ten sizes, eight times as large as the last ([`Level`]). A file that grows out of its own swaps its
//! pages into a larger one ([`Store::swap`]): at most 64 entries of the page table change, whatever its size, and nothing is
//! copied. Everything that changes together goes through a redo log ([`Transaction`]). Nothing here knows what a file is
//! called or which users may read it.
//!
//! Source: Li et al., "ctFS: Replacing File Indexing with Hardware Memory Translation through Contiguous File Allocation for
//! Persistent Memory", ;login: 2022.

mod check;
mod checkpoint;
mod error;
mod extent;
mod journal;
mod mapping;
mod memory;
mod partition;
mod recording;
mod repair;
mod shift;
mod store;
#[cfg(test)]
mod tests;
mod translation_cache;

pub use check::Damage;
pub use checkpoint::{Checkpoints, NotPersistent, checkpoint_frames};
pub use error::StoreError;
pub use extent::{Extent, ExtentTree, MOST_EXTENT_PAGES};
pub use journal::{LogFull, Recovered};
pub use mapping::{MappedPage, Pages, Persistent, SPACE_END, SwapCounts};
pub use memory::{PersistentMemory, Remapped};
pub use partition::{Level, Part, Partition};
pub use recording::{Grain, Image, Recording, Snapshot};
pub use repair::Places;
pub use store::{
    GROWN_VERSION, GrowError, LARGE_ORDER, LEAST_FRAMES, LOG_FRAMES, MOST_FRAMES, OpenError, ROOT_WORDS,
    STORE_MAGIC, Store, Transaction, VERSION, damaged_superblocks, frames_of_store,
};
