//! From what happened to how long it took.
//!
//! The machine reports each stage of a reference to a [`Clock`]: what its cores do ([`CoreTime`]), what the swap device
//! does ([`Devices`]), and what DRAM does as a cache over flash ([`TierTime`]). A counts run has [`NoClock`], which compiles
//! to nothing; a timed run has [`IntervalClock`].

mod arrivals;
mod bandwidth;
mod cache;
mod calendar;
mod clock;
mod dataflow;
pub(crate) mod device;
mod dram;
mod fetched;
mod filling;
mod followed;
mod interval;
mod memory;
mod mesh;
mod missed;
mod none;
mod pool;
mod prefetch;
mod queue;
mod reference;
mod refresh;
#[cfg(test)]
mod tests;
mod tiered;

pub use cache::{Cache, CacheCounts, MemoryHierarchy};
pub use clock::{Clock, CoreTime, Devices, TierTime, WalkBegin};
pub use device::{Flash, FlashCounts, Transfer};
pub use dram::{Dram, DramCounts, DramRequest};
pub use interval::IntervalClock;
pub use mesh::Mesh;
pub use missed::{MissKind, Missed};
pub use none::NoClock;
pub use queue::EventQueue;
pub use reference::MemoryReference;
pub use tiered::{Requester, Waiter, Woken};
