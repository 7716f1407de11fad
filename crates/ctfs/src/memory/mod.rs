//! The memory of a store: its file mapped into a process, what persists of it and when, and the words that processes share in it.
//!
//! ```text
//!   mapped      a store's file as persistent memory: stores, flushes, checkpoints
//!   view        files' pages once more, each file in one contiguous range
//!   gate        keeps clients out of the memory while the owner moves pages; mailbox carries their requests
//! ```
//!
//! Nothing here knows inodes, names or files.

pub(crate) mod clock;
pub mod faults;
pub(crate) mod gate;
pub(crate) mod lines;
pub(crate) mod mailbox;
pub(crate) mod mapped;
pub(crate) mod measure;
pub(crate) mod medium;
pub mod missing;
pub(crate) mod reserved;
pub(crate) mod room;
pub(crate) mod sharing;
pub mod single_threaded;
pub(crate) mod survives;
pub(crate) mod translations;
pub(crate) mod turns;
pub(crate) mod view;

pub use clock::coarse_now;
pub use mailbox::Sleep;
pub use mapped::Mapped;
pub use sharing::SharedMemory;
pub use survives::{Blocks, Survives};
