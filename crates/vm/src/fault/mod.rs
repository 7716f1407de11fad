//! The Page Fault Accelerator: remote pages come back without the operating system.
//!
//! A page that leaves for remote memory has a [`RemotePte`]. A walker that meets one asks the [`Accelerator`], which has
//! free frames ready, reads the page into the oldest of them and gives the entry that is to be written; the program goes
//! on without a trap. The system hears of it later and in batches: [`FrameFifo`] is its side of the device's queues,
//! and [`BookkeepingTimer`] decides when a daemon looks after them in the background. Only an empty queue of free frames or
//! a full one of new pages is a page fault.
//!
//! ```text
//!           system                       device                          walker
//!   frames  -------->  free queue  ----->  fetch: begin ... finish  ---->  local entry
//!   records <--------  new queue   <-----------------------------'
//!   pages   -------->  evict queue ----->  eviction: next ... finish
//! ```
//!
//! Neither time nor network is known here: a fetch and an eviction begin and finish when the caller says so, in any order
//! among themselves. Source: Pemberton, "Enabling Efficient and Transparent Remote Memory Access in Disaggregated
//! Datacenters", UCB/EECS-2019-154, chapter 3 and Appendix B. Where that is silent or disagrees with itself,
//! `docs/models.md` says what is done.

mod accelerator;
mod bookkeeping;
mod daemon;
mod design;
mod registers;
mod remote_pte;

pub use accelerator::{Accelerator, Eviction, Fetch, FetchHandle, NewId, NotUnderWay, RefusedFetch};
pub use bookkeeping::{BookError, FrameFifo, NewPage, Served, ServiceRequest};
pub use daemon::{BookkeepingTimer, TimerDesign};
pub use design::{AcceleratorDesign, Depths, DesignError};
pub use registers::{Illegal, Register};
pub use remote_pte::{PageId, RemotePte};

#[cfg(test)]
mod tests;
