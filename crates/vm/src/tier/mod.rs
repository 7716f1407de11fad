//! DRAM as a hardware-managed cache over flash: one memory controller's share.
//!
//! A [`Tier`] is the state of a frontside and a backside controller without their timing. The frontside looks pages up
//! ([`Tier::lookup`]); what misses goes to the backside, which is told what happened ([`Event`]) and answers what is to be
//! done, in this order ([`Effect`]). A simulator performs effects in simulated time, a runtime with real copies and
//! reads.
//!
//! ```text
//!             lookup                 Miss                            Read
//!   cores  ------------>  tags  -------------->  queue, miss status  ------>  flash
//!     ^                    | ^                                                 |  ^
//!     |  Wake              | '------------------- Install <------- Arrived ----'  |
//!     |             victim |  ^                                                   |
//!     '--                  v  | Restore                                           |
//!                     evict buffer  -------------- Write ------------------------>'
//!                          ^------------- Written --------------------------------
//! ```
//!
//! A page is in one of these places, or in none and on flash: resident in a frame; pending, with a frame reserved for it;
//! in the evict buffer, where only the backside sees it. A resident page may also still be on its way to flash.
//!
//! The flat partition of memory ([`Partition`]) is never given to a tier.
//!
//! Source: Gupta et al., "AstriFlash: A Flash-Based System for Online Services", HPCA 2023, sections on the DRAM cache, its
//! controllers and the Miss Status Row. Where that is silent, the item's documentation says what is done.

mod check;
mod controller;
mod design;
mod events;
mod evict_buffer;
mod miss_status;
mod partition;
mod tags;

pub use controller::Tier;
pub use design::{DesignError, MissStatusShape, Replacement, TierDesign};
pub use events::{Blocked, Effect, Event, EventError, TierCounts, Touch, Victim};
pub use evict_buffer::SlotIndex;
pub use miss_status::Completion;
pub use partition::Partition;
pub use tags::{FlashPage, FrameIndex, Resident, TagArray};

#[cfg(test)]
mod tests;
