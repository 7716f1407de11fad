//! Cutting a byte stream into records or lines, with their places.

use std::io::{self, Read};
use std::ops::ControlFlow;

use crate::error::{Place, TraceError};

const BUFFER_BYTES: usize = 192 << 10;
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
    /// The file itself.
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
    fn unreadable(&self, offset: u64, error: io::Error) -> TraceError {
        let from_system = error.raw_os_error().is_some();
        if from_system || matches!(self.part, Part::Plain) {
            return TraceError::Io { what: format!("cannot read {}", self.file), source: error };
        }
        let what = format!("the compressed content is damaged or cut short: {error}");
        self.malformed(self.at(offset), what)
    }
}

/// Hands over every record of `N` bytes with its offset until `each` breaks; answers whether it did. A rest that
/// is no whole record is an error.
pub(super) fn for_each_record<const N: usize>(
    reader: &mut dyn Read,
    origin: &Origin,
    mut each: impl FnMut(&[u8; N], u64) -> Result<ControlFlow<()>, TraceError>,
) -> Result<ControlFlow<()>, TraceError> {
    let mut buffer = vec![0; BUFFER_BYTES / N * N];
    let mut offset = 0;
    loop {
        let filled = fill(reader, &mut buffer, 0).map_err(|error| origin.unreadable(offset, error))?;
        let (records, rest) = buffer[..filled].as_chunks::<N>();
        for record in records {
            if each(record, offset)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            offset += N as u64;
        }
        if !rest.is_empty() {
            let what = format!("the file ends inside a record: {} of {N} bytes", rest.len());
            return Err(origin.malformed(origin.at(offset), what));
        }
        if filled < buffer.len() {
            return Ok(ControlFlow::Continue(()));
        }
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
        let filled = fill(reader, &mut buffer, kept).map_err(|error| origin.unreadable(offset, error))?;
        offset += (filled - kept) as u64;
        let mut rest = &buffer[..filled];
        while let Some(length) = rest.iter().position(|&byte| byte == b'\n') {
            number += 1;
            if each(&rest[..length], number, true)?.is_break() {
                return Ok(());
            }
            rest = &rest[length + 1..];
        }
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

/// Reads until `buffer` is full or the input ends; answers how much of it is filled, `start` included.
fn fill(reader: &mut dyn Read, buffer: &mut [u8], start: usize) -> io::Result<usize> {
    let mut filled = start;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
