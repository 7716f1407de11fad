//! The responses of a blade, as messages.

use super::page::{PagePart, Part};
use super::{Defect, MAX_MESSAGE_BYTES, Malformed, RESPONSE_HEADER_BYTES, VERSION};

/// A response as a message carries it.
///
/// ```text
///  0         1      2      3          4      8
/// +---------+------+------+----------+------+---------+
/// | version | code | part | reserved | txid | payload |
/// +---------+------+------+----------+------+---------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// The number of the request's transaction.
    pub txid: u32,
    /// The answer to the request.
    pub answer: Answer<'a>,
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<'a> {
    /// 0x80: the blade sends a part of the page.
    Page(PagePart<'a>),
    /// 0x81: the blade has done the command.
    Done,
    /// 0x82: the blade has done the command, with this result.
    Word(u64),
    /// 0x83: the blade has not done the command.
    Refused,
}

impl<'a> Response<'a> {
    /// Reads one message, which must be nothing else than a response.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let Some((header, payload)) = message.split_first_chunk::<RESPONSE_HEADER_BYTES>() else {
            return Err(Malformed { txid: None, defect: Defect::Short(message.len()) });
        };
        let [version, code, part, _, txid @ ..] = *header;
        let txid = u32::from_le_bytes(txid);
        let answer = if version == VERSION {
            Answer::parse(code, part, payload)
        } else {
            Err(Defect::Version(version))
        };
        let answer = answer.map_err(|defect| Malformed { txid: Some(txid), defect })?;
        Ok(Self { txid, answer })
    }

    /// Writes the message to the front of `buffer`, and answers it.
    pub fn emit<'b>(&self, buffer: &'b mut [u8; MAX_MESSAGE_BYTES]) -> &'b [u8] {
        let (code, part, number);
        let payload: &[u8] = match self.answer {
            Answer::Page(page) => {
                (code, part) = (0x80, page.part().number());
                page.bytes()
            }
            Answer::Word(value) => {
                (code, part, number) = (0x82, 0, value.to_le_bytes());
                &number
            }
            Answer::Done => {
                (code, part) = (0x81, 0);
                &[]
            }
            Answer::Refused => {
                (code, part) = (0x83, 0);
                &[]
            }
        };
        buffer[..4].copy_from_slice(&[VERSION, code, part, 0]);
        buffer[4..8].copy_from_slice(&self.txid.to_le_bytes());
        let end = RESPONSE_HEADER_BYTES + payload.len();
        buffer[RESPONSE_HEADER_BYTES..end].copy_from_slice(payload);
        &buffer[..end]
    }

    /// Returns the length of the message that these bytes begin with: a short one comes out of an Ethernet frame with
    /// padding behind.
    pub fn message_bytes(message: &[u8]) -> Option<usize> {
        let payload = match message.get(1)? {
            0x80 => Part::new(*message.get(2)?)?.bytes(),
            0x82 => 8,
            0x81 | 0x83 => 0,
            _ => return None,
        };
        Some(RESPONSE_HEADER_BYTES + payload)
    }
}

impl<'a> Answer<'a> {
    fn parse(code: u8, part: u8, payload: &'a [u8]) -> Result<Self, Defect> {
        let length = |needed| Defect::Length { needed, found: payload.len() };
        match code {
            0x80 => {
                let part = Part::new(part).ok_or(Defect::Part(part))?;
                PagePart::new(part, payload).map(Self::Page).ok_or(length(part.bytes()))
            }
            0x82 => {
                let value = payload.try_into().map_err(|_| length(8))?;
                Ok(Self::Word(u64::from_le_bytes(value)))
            }
            0x81 | 0x83 if !payload.is_empty() => Err(length(0)),
            0x81 => Ok(Self::Done),
            0x83 => Ok(Self::Refused),
            _ => Err(Defect::Code(code)),
        }
    }
}
