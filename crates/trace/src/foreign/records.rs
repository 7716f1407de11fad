//! Cutting a byte stream into records or lines, with their places.

use std::io::{self, Read};
use std::ops::ControlFlow;

use crate::error::{Place, TraceError};

/// What the reader of one file takes at a time; a multiple of every record's length.
pub(super) const BUFFER_BYTES: usize = 192 << 10;
/// The longest line that is accepted; a trace's lines have 30 characters, its comments a few hundred.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Where bytes come from: the file's name, and what its offsets count.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) file: String,
    pub(super) part: Part,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    /// The part is the file itself.
    Plain,
    /// What a compressed file contains.
    Unpacked,
    /// A member of an archive.
    Member(String),
}

impl Origin {
    pub(super) fn at(&self, offset: u64) -> Place {
        match &self.part {
            Part::Plain => Place::Byte(offset),
            Part::Unpacked => Place::Unpacked(offset),
            Part::Member(name) => Place::Member(name.clone(), offset),
        }
    }

    pub(super) fn malformed(&self, place: Place, what: impl Into<String>) -> TraceError {
        TraceError::Malformed { file: self.file.clone(), place, what: what.into() }
    }

    /// An error of the reader at `offset`: the decoder's complaint about the content, or the system's.
    pub(super) fn unreadable(&self, offset: u64, error: io::Error) -> TraceError {
        let from_system = error.raw_os_error().is_some();
        if from_system || matches!(self.part, Part::Plain) {
            return TraceError::Io { what: format!("cannot read {}", self.file), error };
        }
        let what = format!("the compressed content is damaged or cut short: {error}");
        self.malformed(self.at(offset), what)
    }
}

/// The records of `N` bytes of a stream, one after the other, with their offsets.
pub(super) struct Records<const N: usize> {
    reader: Box<dyn Read>,
    pub(super) origin: Origin,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    /// The offset of the next record.
    pub(super) offset: u64,
    ended: bool,
    /// What ended the stream, to be reported behind the records before it.
    error: Option<io::Error>,
}

impl<const N: usize> Records<N> {
    /// The records of `reader`, of which about `buffer_bytes` bytes are read at a time.
    pub(super) fn new(reader: Box<dyn Read>, origin: Origin, buffer_bytes: usize) -> Self {
        let buffer = vec![0; buffer_bytes / N * N];
        Self { reader, origin, buffer, at: 0, filled: 0, offset: 0, ended: false, error: None }
    }

    /// The next record with its offset, or none at the end. A rest that is no whole record is an error.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<([u8; N], u64)>, TraceError> {
        let Some(record) = self.peek()? else { return Ok(None) };
        let offset = self.offset;
        self.at += N;
        self.offset += N as u64;
        Ok(Some((record, offset)))
    }

    /// An error about the record at `offset`.
    pub(super) fn malformed(&self, offset: u64, what: impl Into<String>) -> TraceError {
        self.origin.malformed(self.origin.at(offset), what)
    }

    /// The record that [`Self::next`] will answer.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<[u8; N]>, TraceError> {
        if let Some(record) = self.buffer[self.at..self.filled].first_chunk() {
            return Ok(Some(*record));
        }
        self.refill()
    }

    #[cold]
    fn refill(&mut self) -> Result<Option<[u8; N]>, TraceError> {
        if !self.ended && self.at == self.filled {
            let (filled, result) = fill(&mut *self.reader, &mut self.buffer, 0);
            (self.at, self.filled, self.ended) = (0, filled, filled < self.buffer.len());
            // What came before an error is handed over first.
            self.error = result.err();
        }
        let rest = &self.buffer[self.at..self.filled];
        if let Some(record) = rest.first_chunk() {
            return Ok(Some(*record));
        }
        if let Some(error) = self.error.take() {
            return Err(self.origin.unreadable(self.offset, error));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let what = format!("the file ends inside a record: {} of {N} bytes", rest.len());
        Err(self.origin.malformed(self.origin.at(self.offset), what))
    }
}

/// Hands over every line, without its end, with its number until `each` breaks. The last line must have an end
/// too, or `each` is told that it has none (its third argument is false).
pub(super) fn for_each_line(
    reader: &mut dyn Read,
    origin: &Origin,
    mut each: impl FnMut(&[u8], u64, bool) -> Result<ControlFlow<()>, TraceError>,
) -> Result<(), TraceError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut kept, mut offset, mut number) = (0, 0_u64, 0);
    loop {
        let (filled, result) = fill(reader, &mut buffer, kept);
        offset += (filled - kept) as u64;
        let mut rest = &buffer[..filled];
        while let Some(length) = rest.iter().position(|&byte| byte == b'\n') {
            number += 1;
            if each(&rest[..length], number, true)?.is_break() {
                return Ok(());
            }
            rest = &rest[length + 1..];
        }
        result.map_err(|error| origin.unreadable(offset, error))?;
        if filled < buffer.len() {
            if !rest.is_empty() {
                let _ = each(rest, number + 1, false)?;
            }
            return Ok(());
        }
        if rest.len() > MAX_LINE_BYTES {
            let what = format!("a line of more than {MAX_LINE_BYTES} bytes; this is no such text");
            return Err(origin.malformed(Place::Line(number + 1), what));
        }
        kept = rest.len();
        buffer.copy_within(filled - kept.., 0);
    }
}

/// The beginning of a line, for messages.
pub(super) fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(60)]).escape_debug().to_string()
}

/// Reads until `buffer` is full, the input ends or fails; answers how much of it is filled, `start` included.
pub(super) fn fill(reader: &mut dyn Read, buffer: &mut [u8], start: usize) -> (usize, io::Result<()>) {
    let mut filled = start;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(()))
}
