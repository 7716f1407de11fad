//! The requests of a client, as messages.

use super::page::{PagePart, Part};
use super::word::Word;
use super::{Defect, MAX_MESSAGE_BYTES, Malformed, REQUEST_HEADER_BYTES, VERSION, u64_at};

/// A request as a message carries it.
///
/// ```text
///  0         1    2      3          4      8           16
/// +---------+----+------+----------+------+-----------+---------+
/// | version | op | part | reserved | txid | page_num  | payload |
/// +---------+----+------+----------+------+-----------+---------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The number of the transaction, which answers carry. A client must not have two requests under way with the
    /// same one.
    pub txid: u32,
    /// The page's number on the blade.
    pub page: u64,
    /// The command that the blade is to do with the page.
    pub command: Command<'a>,
}

/// A command that a blade is to do with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command<'a> {
    /// Send its content, in three parts.
    ReadPage,
    /// Keep this part of its new content; the write is done when all three have arrived.
    WritePage(PagePart<'a>),
    /// Send back a word of the page.
    ReadWord(Word),
    /// Set a word of the page.
    WriteWord(Word, u64),
    /// Add to a word, modulo its size, and send what it was.
    Add(Word, u64),
    /// Set a word if it is what the client expects, and send 1 if it was, else 0.
    CompareAndSwap {
        /// The word that is compared and set.
        word: Word,
        /// The value that the word is set to.
        new: u64,
        /// The value that the word must have.
        expected: u64,
    },
}

impl<'a> Request<'a> {
    /// Reads one message, which must be nothing else than a request.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let Some((header, payload)) = message.split_first_chunk::<REQUEST_HEADER_BYTES>() else {
            return Err(Malformed { txid: None, defect: Defect::Short(message.len()) });
        };
        let [version, op, part, _, a, b, c, d, page @ ..] = header;
        let txid = u32::from_le_bytes([*a, *b, *c, *d]);
        let command = if *version == VERSION {
            Command::parse(*op, *part, payload)
        } else {
            Err(Defect::Version(*version))
        };
        let command = command.map_err(|defect| Malformed { txid: Some(txid), defect })?;
        Ok(Self { txid, page: u64_at(page), command })
    }

    /// Writes the message to the front of `buffer`, and answers it.
    pub fn emit<'b>(&self, buffer: &'b mut [u8; MAX_MESSAGE_BYTES]) -> &'b [u8] {
        let (header, payload) = buffer.split_at_mut(REQUEST_HEADER_BYTES);
        let (op, part, bytes) = self.command.emit(payload);
        header[..4].copy_from_slice(&[VERSION, op, part, 0]);
        header[4..8].copy_from_slice(&self.txid.to_le_bytes());
        header[8..].copy_from_slice(&self.page.to_le_bytes());
        &buffer[..REQUEST_HEADER_BYTES + bytes]
    }

    /// Returns the length of the message that these bytes begin with: a short one comes out of an Ethernet frame with
    /// padding behind.
    pub fn message_bytes(message: &[u8]) -> Option<usize> {
        let payload = match message.get(1)? {
            0 => 0,
            1 => Part::new(*message.get(2)?)?.bytes(),
            2 => 8,
            3 | 4 => 16,
            5 => 24,
            _ => return None,
        };
        Some(REQUEST_HEADER_BYTES + payload)
    }
}

impl<'a> Command<'a> {
    fn parse(op: u8, part: u8, payload: &'a [u8]) -> Result<Self, Defect> {
        Ok(match op {
            0 => {
                let [] = exactly(payload)?;
                Self::ReadPage
            }
            1 => {
                let part = Part::new(part).ok_or(Defect::Part(part))?;
                let wrong = Defect::Length { needed: part.bytes(), found: payload.len() };
                Self::WritePage(PagePart::new(part, payload).ok_or(wrong)?)
            }
            2 => Self::ReadWord(Word::parse(&exactly(payload)?)?),
            3 | 4 => {
                let [word, value] = eights(&exactly::<16>(payload)?);
                let (word, value) = (Word::parse(&word)?, u64_at(&value));
                if op == 3 { Self::WriteWord(word, value) } else { Self::Add(word, value) }
            }
            5 => {
                let [word, new, expected] = eights(&exactly::<24>(payload)?);
                let word = Word::parse(&word)?;
                Self::CompareAndSwap { word, new: u64_at(&new), expected: u64_at(&expected) }
            }
            _ => return Err(Defect::Code(op)),
        })
    }

    /// Writes the payload; answers op, part and how long the payload is.
    fn emit(&self, payload: &mut [u8]) -> (u8, u8, usize) {
        let mut put = |at: usize, bytes: [u8; 8]| payload[at..at + 8].copy_from_slice(&bytes);
        match *self {
            Self::ReadPage => (0, 0, 0),
            Self::WritePage(part) => {
                payload[..part.bytes().len()].copy_from_slice(part.bytes());
                (1, part.part().number(), part.bytes().len())
            }
            Self::ReadWord(word) => {
                put(0, word.emit());
                (2, 0, 8)
            }
            Self::WriteWord(word, value) | Self::Add(word, value) => {
                put(0, word.emit());
                put(8, value.to_le_bytes());
                (if matches!(self, Self::Add(..)) { 4 } else { 3 }, 0, 16)
            }
            Self::CompareAndSwap { word, new, expected } => {
                put(0, word.emit());
                put(8, new.to_le_bytes());
                put(16, expected.to_le_bytes());
                (5, 0, 24)
            }
        }
    }
}

fn exactly<const N: usize>(payload: &[u8]) -> Result<[u8; N], Defect> {
    payload.try_into().map_err(|_| Defect::Length { needed: N, found: payload.len() })
}

fn eights<const BYTES: usize, const WORDS: usize>(payload: &[u8; BYTES]) -> [[u8; 8]; WORDS] {
    const { assert!(BYTES == 8 * WORDS) };
    std::array::from_fn(|at| std::array::from_fn(|byte| payload[8 * at + byte]))
}
