//! Which job a core runs next: new ones first, pending ones as soon as their page has come or they have waited long.
//!
//! A core runs one job at a time, to completion except on a miss. A job that misses in the cache over flash
//! ([`tier`](crate::tier)) becomes *pending* until it is resumed. [`Scheduler`] keeps the new and the pending jobs of one core
//! and decides; time is passed in, in any unit.
//!
//! ```text
//!   submit ---> new jobs ---> running ---> finished
//!                              |  ^
//!                         miss v  | resume
//!                          pending jobs <--- arrived
//! ```
//!
//! Source: Gupta et al., "AstriFlash: A Flash-Based System for Online Services", HPCA 2023, the section on the user-level
//! scheduler. Where that is silent, the item's documentation says what is done.

mod design;
mod registers;
mod response;
mod scheduler;

pub use design::{DesignError, Notification, Policy, Response, SchedulerDesign};
pub use registers::{MissRegisters, NotPrivileged, Privilege, Resume};
pub use scheduler::{Decision, NewQueueFull, Occasion, Scheduler, SchedulerCounts, Ticket};

#[cfg(test)]
mod tests;
