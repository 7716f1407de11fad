//! Messages and frames as bytes: no input or output, no copies, no state.
//!
//! The protocol is that of N. Pemberton, "Enabling Efficient and Transparent Remote Memory Access in Disaggregated
//! Datacenters", UCB/EECS-2019-154, Appendix C, version 1. Fields are little-endian; reserved ones are sent as 0 and ignored
//! on receipt, and so is the part number of a message that has only one part.

mod ethernet;
mod page;
mod request;
mod response;
mod word;

#[cfg(test)]
mod tests;

pub use ethernet::{
    ETHERNET_MAX_BYTES, EtherType, EthernetHeader, FrameDefect, MIN_PAYLOAD_BYTES, MacAddress, Pad,
};
pub use page::{PAGE_BYTES, Page, PagePart, Part};
pub use request::{Command, Request};
pub use response::{Answer, Response};
pub use word::{Word, WordSize};

/// The version of the protocol.
pub const VERSION: u8 = 1;
/// Bytes of a request before its payload.
pub const REQUEST_HEADER_BYTES: usize = 16;
/// Bytes of a response before its payload.
pub const RESPONSE_HEADER_BYTES: usize = 8;
/// Bytes of the longest message: a part of a page to write.
pub const MAX_MESSAGE_BYTES: usize = REQUEST_HEADER_BYTES + Part::MAX_BYTES;

/// A message that says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{defect}")]
pub struct Malformed {
    /// The transaction it names, where its header is whole: an error can be answered.
    pub txid: Option<u32>,
    /// The defect of the message.
    pub defect: Defect,
}

/// The defect of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// The message ends within its header.
    #[error("{0} bytes are no header")]
    Short(usize),
    /// Another version of the protocol.
    #[error("version {0}; this is version 1")]
    Version(u8),
    /// No such operation, or no such response.
    #[error("code {0:#04x} is not one of the protocol's")]
    Code(u8),
    /// A page has three parts.
    #[error("part {0}; a page has parts 0, 1 and 2")]
    Part(u8),
    /// The payload is longer or shorter than the operation's.
    #[error("a payload of {found} bytes where there must be {needed}")]
    Length {
        /// The payload's length that the operation has, in bytes.
        needed: usize,
        /// The length of the payload that came, in bytes.
        found: usize,
    },
    /// The word is not within the page.
    #[error("{bytes} bytes at {offset} cross the end of the page")]
    Crossing {
        /// The offset in the page at which the word begins.
        offset: u16,
        /// The length of the word in bytes.
        bytes: usize,
    },
}

fn u64_at(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes)
}
