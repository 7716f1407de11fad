//! The members of a zip archive, read in order and while the archive stays open.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use super::records::{Origin, Part};
use crate::error::TraceError;

/// Compressed bytes that are taken from the file at a time.
const BUFFER_BYTES: usize = 1 << 15;
/// The most members of an archive.
const MAX_MEMBERS: usize = 1 << 20;

/// An open archive.
pub(super) struct Archive {
    file: Rc<File>,
    /// The archive's name for messages.
    pub(super) name: String,
    members: Vec<Member>,
}

struct Member {
    name: String,
    start: u64,
    packed_bytes: u64,
    bytes: u64,
    checksum: u32,
    deflated: bool,
}

impl Archive {
    /// Reads the directory of the archive in `file`.
    pub(super) fn open(file: File, name: &str) -> Result<Self, TraceError> {
        let damaged = |error: zip::result::ZipError| match error {
            zip::result::ZipError::Io(source) if source.raw_os_error().is_some() => {
                TraceError::Io { what: format!("cannot read {name}"), source }
            }
            error => TraceError::Refused(format!("{name}: the zip archive is damaged or cut short: {error}")),
        };
        let file = Rc::new(file);
        let mut archive = zip::ZipArchive::new(BufReader::new(&*file)).map_err(damaged)?;
        if archive.len() > MAX_MEMBERS {
            let what =
                format!("{name}: a zip archive of {} members; at most {MAX_MEMBERS} are read", archive.len());
            return Err(TraceError::Refused(what));
        }
        let mut members = Vec::new();
        for number in 0..archive.len() {
            let member = archive.by_index_raw(number).map_err(damaged)?;
            let deflated = match member.compression() {
                zip::CompressionMethod::Stored => false,
                zip::CompressionMethod::Deflated => true,
                other => {
                    let what =
                        format!("{name}: a zip archive compressed by {other}; deflate and stored are read");
                    return Err(TraceError::Refused(what));
                }
            };
            let member_name = String::from_utf8_lossy(member.name_raw()).into_owned();
            let Some(start) = member.data_start() else {
                return Err(TraceError::Refused(format!(
                    "{name}: the zip archive is damaged: `{member_name}` has no data"
                )));
            };
            members.push(Member {
                name: member_name,
                start,
                packed_bytes: member.compressed_size(),
                bytes: member.size(),
                checksum: member.crc32(),
                deflated,
            });
        }
        drop(archive);
        members.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { file, name: name.to_owned(), members })
    }

    /// How many members there are.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The name of a member.
    pub(super) fn member_name(&self, number: usize) -> &str {
        &self.members[number].name
    }

    /// A reader of a member, with its origin for messages.
    pub(super) fn member(&self, number: usize) -> (Box<dyn Read>, Origin) {
        let Member { name, start, packed_bytes, bytes, checksum, deflated } = &self.members[number];
        let packed =
            Extent { file: Rc::clone(&self.file), at: *start, end: start.saturating_add(*packed_bytes) };
        let packed = BufReader::with_capacity(BUFFER_BYTES, packed);
        let inner: Box<dyn Read> =
            if *deflated { Box::new(flate2::bufread::DeflateDecoder::new(packed)) } else { Box::new(packed) };
        let checked = Checked { inner, left: *bytes, checksum: *checksum, sum: flate2::Crc::new() };
        let origin = Origin { file: self.name.clone(), part: Part::Member(name.clone()) };
        (Box::new(checked), origin)
    }
}

/// A part of a file, read without a place of its own in the file.
struct Extent {
    file: Rc<File>,
    at: u64,
    end: u64,
}

impl Read for Extent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
        let bytes = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

/// Checks length and checksum of a member when its end is reached.
struct Checked {
    inner: Box<dyn Read>,
    left: u64,
    checksum: u32,
    sum: flate2::Crc,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.sum.update(&buffer[..bytes]);
        let damaged = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        match self.left.checked_sub(bytes as u64) {
            None => return damaged("longer than the archive says"),
            Some(left) => self.left = left,
        }
        if bytes == 0 && !buffer.is_empty() {
            if self.left > 0 {
                return damaged("shorter than the archive says");
            }
            if self.sum.sum() != self.checksum {
                return damaged("its checksum is wrong");
            }
        }
        Ok(bytes)
    }
}
