//! gem5's packet traces: what a communication monitor saw pass, and what a traffic generator replays.
//!
//! ```text
//! 67 65 6d 35                 magic, "gem5"
//! length, PacketHeader        lengths are varints, messages are protobuf
//! length, Packet
//! ...
//! ```
//!
//! A packet has a tick, a command, an address and a size. Read requests (command 1) and write requests (4) are accesses; these two
//! numbers are the same in every version of gem5. Other packets are counted: which is a read on behalf of a program depends
//! on where the monitor sits. Addresses are taken as they are: physical ones, if the monitor sits behind the MMU. Messages:
//! gem5, `src/proto/packet.proto`; commands: `src/mem/packet.hh`.

use std::io::Read;

use prost::Message;

use super::input::Content;
use super::output::Output;
use super::records::{Origin, fill};
use super::tally::Kind;
use crate::error::TraceError;

const MAGIC: &[u8] = b"gem5";
/// The longest message; a packet has some 50 bytes, a header as many as its names.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;
const READ_REQUEST: u32 = 1;
const WRITE_REQUEST: u32 = 4;

/// The first message of a trace. Its other fields (requestor ids and names) are not used.
#[derive(Clone, PartialEq, Message)]
struct PacketHeader {
    /// The object that recorded the trace.
    #[prost(string, tag = "1")]
    object: String,
    /// The number of ticks in a second.
    #[prost(uint64, tag = "3")]
    ticks_per_second: u64,
}

/// A message for each packet. Its other fields (flags, packet id) are not used.
#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, tag = "1")]
    tick: u64,
    #[prost(uint32, tag = "2")]
    command: u32,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(uint32, tag = "4")]
    bytes: u32,
}

/// Whether the start of some content is such a trace's.
pub(super) fn plausible(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// Reads a packet trace.
pub(super) fn parse(content: Content, output: &mut Output<'_>) -> Result<(), TraceError> {
    let stream = content.into_stream()?;
    let mut messages =
        Messages { reader: stream.reader, origin: stream.origin, offset: 0, buffer: Vec::new() };
    let mut magic = [0; MAGIC.len()];
    if messages.fill(&mut magic)? < magic.len() || magic != MAGIC {
        return Err(messages.malformed(0, "no gem5 trace: it does not begin with `gem5`"));
    }
    let Some(header) = messages.next::<PacketHeader>()? else {
        return Err(messages.malformed(messages.offset, "the trace is empty: it has no header"));
    };
    output.tally.note(format!(
        "packets that `{}` recorded, with {} ticks a second; their addresses are physical if it sits behind the MMU",
        header.object, header.ticks_per_second
    ));
    loop {
        let place = messages.offset;
        let Some(packet) = messages.next::<Packet>()? else { return Ok(()) };
        match packet.command {
            READ_REQUEST | WRITE_REQUEST => output
                .access(packet.address, packet.bytes.into(), packet.command == WRITE_REQUEST)
                .map_err(|what| messages.malformed(place, what))?,
            _ => output.tally.count(Kind::OtherPackets),
        }
        output.record();
        if output.flow().is_break() {
            return Ok(());
        }
    }
}

/// Messages behind their lengths.
struct Messages {
    reader: Box<dyn Read>,
    origin: Origin,
    /// The offset of what comes next.
    offset: u64,
    buffer: Vec<u8>,
}

impl Messages {
    fn malformed(&self, offset: u64, what: impl Into<String>) -> TraceError {
        self.origin.malformed(self.origin.at(offset), what)
    }

    /// Fills `bytes` as far as the input goes.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, TraceError> {
        let (filled, result) = fill(&mut *self.reader, bytes, 0);
        result.map_err(|error| self.origin.unreadable(self.offset, error))?;
        self.offset += filled as u64;
        Ok(filled)
    }

    /// The next message; none at the end of the input.
    fn next<M: Message + Default>(&mut self) -> Result<Option<M>, TraceError> {
        let place = self.offset;
        let Some(bytes) = self.length()? else { return Ok(None) };
        if bytes > MAX_MESSAGE_BYTES {
            let what = format!("a message of {bytes} bytes; at most {MAX_MESSAGE_BYTES} are allowed");
            return Err(self.malformed(place, what));
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(bytes as usize, 0);
        let filled = self.fill(&mut buffer)?;
        if filled < buffer.len() {
            let what = format!("the file ends inside a message: {filled} of {bytes} bytes");
            return Err(self.malformed(place, what));
        }
        let message = M::decode(&buffer[..])
            .map_err(|error| self.malformed(place, format!("no gem5 message: {error}")))?;
        self.buffer = buffer;
        Ok(Some(message))
    }

    /// A length: groups of seven bits, the lowest first, the top bit set in all bytes but the last.
    fn length(&mut self) -> Result<Option<u64>, TraceError> {
        let place = self.offset;
        let (mut length, mut shift) = (0_u64, 0);
        loop {
            let mut byte = [0];
            if self.fill(&mut byte)? == 0 {
                if shift == 0 {
                    return Ok(None);
                }
                return Err(self.malformed(place, "the file ends inside a message's length"));
            }
            length |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(Some(length));
            }
            shift += 7;
            if shift > 56 {
                return Err(self.malformed(place, "a message's length of more than nine bytes"));
            }
        }
    }
}
