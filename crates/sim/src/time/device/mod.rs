//! Where pages go that leave memory, and how long that takes.
//!
//! A device is a few stations that requests pass in the order in which they are made: servers, of which each has one
//! request at a time, and links, of which a byte takes so long. Nothing else delays a request, so that latency,
//! throughput and waiting times have closed forms; tests compare with them.

pub(crate) mod block;
mod flash;
mod link;
pub(crate) mod remote;
pub(crate) mod store;
#[cfg(test)]
mod tests;

pub use self::flash::{Flash, FlashCounts};
pub use self::store::Transfer;
