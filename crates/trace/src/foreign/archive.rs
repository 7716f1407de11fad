//! The members of a zip archive, read in order and while the archive stays open.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use super::records::{Origin, Part};
use super::salvage;
use crate::error::{Place, TraceError};

/// Compressed bytes that are taken from the file at a time.
const BUFFER_BYTES: usize = 1 << 15;
/// The most members of an archive.
pub(super) const MAX_MEMBERS: usize = 1 << 20;

/// An open archive.
pub(super) struct Archive {
    file: Rc<File>,
    /// The archive's name for messages.
    pub(super) name: String,
    members: Vec<Member>,
    /// The archive's length, and what is wrong with its directory.
    damage: Option<(u64, String)>,
}

pub(super) struct Member {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) packed_bytes: u64,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
    pub(super) deflated: bool,
}

impl Archive {
    /// Reads the directory of the archive in `file`. Of an archive without a whole directory, which stands at the end, it takes
    /// the members that are found from the beginning on; [`Archive::whole`] then is the error.
    ///
    /// # Errors
    ///
    /// It cannot be read, no member is found, or it is compressed in a way that is not read.
    pub(super) fn open(file: File, name: &str) -> Result<Self, TraceError> {
        let file = Rc::new(file);
        let unreadable = |error| TraceError::Io { what: format!("cannot read {name}"), error };
        let bytes = file.metadata().map_err(unreadable)?.len();
        let (mut members, damage) = match Self::directory(&file, bytes, name) {
            Ok(members) => (members, None),
            Err(TraceError::Malformed { what, .. }) => {
                (salvage::members(&file, bytes).map_err(unreadable)?, Some((bytes, what)))
            }
            Err(error) => return Err(error),
        };
        members.sort_by(|one, other| one.name.cmp(&other.name));
        let archive = Self { file, name: name.to_owned(), members, damage };
        if archive.members.is_empty() {
            archive.whole()?;
        }
        Ok(archive)
    }

    /// Whether its directory is whole. Without one, members may be missing at its end.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub(super) fn whole(&self) -> Result<(), TraceError> {
        let Some((bytes, what)) = &self.damage else { return Ok(()) };
        Err(TraceError::Malformed { file: self.name.clone(), place: Place::Byte(*bytes), what: what.clone() })
    }

    /// The members as the directory has them. [`TraceError::Malformed`] if it is not whole.
    fn directory(file: &File, bytes: u64, name: &str) -> Result<Vec<Member>, TraceError> {
        let damaged = |error: zip::result::ZipError| match error {
            zip::result::ZipError::Io(error) if error.raw_os_error().is_some() => {
                TraceError::Io { what: format!("cannot read {name}"), error }
            }
            error => TraceError::Malformed {
                file: name.to_owned(),
                place: Place::Byte(bytes),
                what: format!("the zip archive is damaged or cut short: {error}"),
            },
        };
        let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
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
        Ok(members)
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
pub(super) struct Extent {
    pub(super) file: Rc<File>,
    pub(super) at: u64,
    pub(super) end: u64,
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
