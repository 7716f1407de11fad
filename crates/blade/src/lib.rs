//! Remote memory by the page: the memory-blade protocol, a server and a client.
//!
//! A blade is a server that keeps pages of 4 KiB for its clients. They read and write whole pages, and read, write, add to or
//! compare and swap single words. The protocol is that of N. Pemberton, "Enabling Efficient and Transparent Remote Memory
//! Access in Disaggregated Datacenters", UCB/EECS-2019-154, Appendix C; `docs/blade.md` says what was added to it.
//!
//! The [`codec`] is bytes alone, the [`Server`] a state machine; [`serve`] and [`Client`] join them with a [`Transport`].

mod address;
mod client;
pub mod codec;
mod endpoint;
pub mod reassembly;
pub mod secure;
mod server;
mod store;
mod temporary;
pub mod transport;

pub use address::Address;
pub use client::{
    Client, ClientCounts, ClientDesign, ClientError, Completion, Failure, Operation, Outcome, Use,
};
pub use endpoint::{Endpoint, EndpointError, Open};
pub use server::{Counts, Replies, Server, ServerDesign, serve};
pub use store::{MAX_CAPACITY_PAGES, OpenError, PAGE_NUMBERS, PageStore, StoreDesign, StoreError};
pub use transport::Transport;

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
