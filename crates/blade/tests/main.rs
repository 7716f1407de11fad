//! Tests of the protocol, over networks that lose messages and over raw Ethernet. One program, so that the libraries are linked once.

mod common;
mod ethernet;
#[cfg(feature = "secure")]
mod network;
