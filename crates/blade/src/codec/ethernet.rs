//! The Ethernet header in front of a message.

use std::fmt;
use std::str::FromStr;

use super::{Request, Response};

/// The tag protocol identifier of 802.1Q.
const VLAN: u16 = 0x8100;
/// Bytes of the longest frame: two of padding, the header with a tag, and 1500 of payload.
pub const ETHERNET_MAX_BYTES: usize = 2 + 18 + 1500;
/// The shortest payload that Ethernet carries; shorter ones are padded on the way.
pub const MIN_PAYLOAD_BYTES: usize = 46;

/// The hardware address of an Ethernet card.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The address that every card listens to.
    pub const BROADCAST: Self = Self([0xff; 6]);
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let byte = |digits: &str| {
            let wanted = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            wanted.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or_else(|| {
            format!(
                "`{text}` is no hardware address; one is six pairs of hexadecimal digits: 02:00:00:00:00:01"
            )
        })
    }
}

/// The kind of message that a frame carries: on the wire 0x0804 and 0x0805.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum EtherType {
    /// The frame carries a request of a client.
    Request = 0x0804,
    /// The frame carries a response of a blade.
    Response = 0x0805,
}

/// Bytes before the Ethernet header. The thesis' network card has two, which align what follows; on the wire there are none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Pad {
    /// The frame has no pad: the form in which the thesis prints it, and on the wire.
    None,
    /// The frame has a pad of two bytes, as software sees it through the authors' network card.
    #[default]
    Two,
}

/// The header of an Ethernet frame.
///
/// ```text
///  0     2             8        14       18            20 (16 without a tag)
/// +-----+-------------+--------+--------+-------------+---------+
/// | pad | destination | source | 802.1Q | 0x0804 / 05 | message |      pad and 802.1Q may be absent
/// +-----+-------------+--------+--------+-------------+---------+
/// ```
///
/// DEVIATION: the thesis lists the source first; on every wire the destination is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetHeader {
    /// The card that receives the frame.
    pub destination: MacAddress,
    /// The card that sends the frame.
    pub source: MacAddress,
    /// Priority and number of the virtual network, if it is tagged with one.
    pub vlan: Option<u16>,
    /// The kind of message in the frame.
    pub kind: EtherType,
}

/// The reason why a frame carries no message of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameDefect {
    /// The frame ends within its header.
    #[error("{0} bytes are no Ethernet header")]
    Short(usize),
    /// The frame carries no message of a blade or client.
    #[error("Ethernet type {0:#06x}; a blade's are 0x0804 and 0x0805")]
    Type(u16),
}

impl EthernetHeader {
    /// Reads the header, and answers the message behind it without what Ethernet appended to a short one.
    pub fn parse(frame: &[u8], pad: Pad) -> Result<(Self, &[u8]), FrameDefect> {
        let short = || FrameDefect::Short(frame.len());
        let rest = frame.get(pad.bytes()..).ok_or_else(short)?;
        let (destination, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (source, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (mut number, mut rest) = rest.split_first_chunk().ok_or_else(short)?;
        let mut vlan = None;
        if u16::from_be_bytes(*number) == VLAN {
            let (tag, tagged) = rest.split_first_chunk().ok_or_else(short)?;
            vlan = Some(u16::from_be_bytes(*tag));
            (number, rest) = tagged.split_first_chunk().ok_or_else(short)?;
        }
        let (kind, bytes) = match u16::from_be_bytes(*number) {
            0x0804 => (EtherType::Request, Request::message_bytes(rest)),
            0x0805 => (EtherType::Response, Response::message_bytes(rest)),
            other => return Err(FrameDefect::Type(other)),
        };
        let message = match bytes {
            Some(bytes) if bytes < rest.len() && rest.len() <= MIN_PAYLOAD_BYTES => &rest[..bytes],
            _ => rest,
        };
        let (destination, source) = (MacAddress(*destination), MacAddress(*source));
        Ok((Self { destination, source, vlan, kind }, message))
    }

    /// Writes the header to the front of `buffer`; answers how long it is. The message goes behind it.
    pub fn emit(&self, pad: Pad, buffer: &mut [u8; ETHERNET_MAX_BYTES]) -> usize {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&[0; 2][..pad.bytes()]);
        put(&self.destination.0);
        put(&self.source.0);
        if let Some(tag) = self.vlan {
            put(&VLAN.to_be_bytes());
            put(&tag.to_be_bytes());
        }
        put(&(self.kind as u16).to_be_bytes());
        at
    }
}

impl Pad {
    /// Returns the length of the pad in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Two => 2,
        }
    }
}
