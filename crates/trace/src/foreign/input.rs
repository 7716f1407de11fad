//! Opening what a path names: a file, a pipe, standard input or a folder. Everything is opened once; what it holds is told from a
//! beginning that is kept and read again with the rest.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Cursor, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::archive::Archive;
use super::compression::{self, Compression};
use super::records::{Origin, Part, fill};
use crate::error::{Place, TraceError};

/// How much of the content is looked at.
const START_BYTES: usize = 48 << 10;
/// The same of one file of many.
const SHARD_START_BYTES: usize = 4 << 10;
/// The most bytes that go through a temporary file.
const SPOOL_BYTES: u64 = 16 << 30;
/// The most files of a tar archive.
const MAX_TAR_FILES: usize = 65_536;

/// An opened trace, nothing of which has been consumed.
pub(super) struct Input {
    /// What its user called it.
    pub(super) name: String,
    pub(super) content: Content,
    /// The first bytes of the decompressed content; empty for archives and folders.
    pub(super) start: Vec<u8>,
    pub(super) compression: Compression,
    /// Whether a second opening finds the same content.
    pub(super) again: bool,
    pub(super) size: Size,
}

/// The content of an input that was opened.
pub(super) enum Content {
    /// A stream of bytes, decompressed.
    Stream(Stream),
    /// The input is a zip archive.
    Zip(Archive),
    /// A folder of files; the archive that it came as, if it did.
    Folder(PathBuf, Option<Unpacked>),
}

/// The files of a tar archive.
pub(super) struct Unpacked {
    /// The temporary folder that they lie in.
    folder: tempfile::TempDir,
    /// Why the archive could not be unpacked to its end.
    pub(super) damage: Option<TraceError>,
}

impl Content {
    /// The stream of bytes, for formats that are nothing else.
    pub(super) fn into_stream(self) -> Result<Stream, TraceError> {
        let (name, what) = match self {
            Self::Stream(stream) => return Ok(stream),
            Self::Zip(archive) => (archive.name, "a zip archive"),
            Self::Folder(folder, _) => (folder.display().to_string(), "a folder"),
        };
        Err(TraceError::Refused(format!(
            "{name} is {what}; only drmemtrace is read from one\n  = help: name one trace file in it"
        )))
    }
}

/// A stream of bytes with its name.
pub(super) struct Stream {
    pub(super) reader: Box<dyn Read>,
    pub(super) origin: Origin,
    /// The file itself, if it is one that can be read anywhere and is not compressed.
    file: Option<File>,
}

impl Stream {
    /// A stream that is read from its beginning to its end.
    pub(super) fn new(reader: Box<dyn Read>, origin: Origin) -> Self {
        Self { reader, origin, file: None }
    }

    /// The content as a file that can be read at any place: the file itself, or a temporary copy without a name.
    pub(super) fn into_file(self, why: &str) -> Result<File, TraceError> {
        match self.file {
            Some(mut file) => {
                file.seek(SeekFrom::Start(0)).map_err(|error| unreadable(&self.origin.file, error))?;
                Ok(file)
            }
            None => spool(self.reader, &self.origin.file, why, SPOOL_BYTES),
        }
    }
}

/// How many bytes a trace has on its disk, or how many came through its pipe so far.
#[derive(Clone)]
pub(super) enum Size {
    Known(u64),
    Counted(Rc<Cell<u64>>),
}

impl Size {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Known(bytes) => *bytes,
            Self::Counted(bytes) => bytes.get(),
        }
    }
}

impl Input {
    /// Opens what `path` names; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        if path == Path::new("-") {
            if io::stdin().is_terminal() {
                let what = "standard input is a terminal\n  = help: send a trace to it, as in `zcat t.gz | pagewalk trace info -`";
                return Err(TraceError::Refused(what.to_owned()));
            }
            let standard = io::stdin().as_fd().try_clone_to_owned();
            let file = standard.map_err(TraceError::io("read", Path::new("standard input")))?;
            return Self::of_file(File::from(file), "standard input", true, START_BYTES);
        }
        let metadata = std::fs::metadata(path).map_err(TraceError::io("open", path))?;
        if metadata.is_dir() {
            return Ok(Self {
                name: path.display().to_string(),
                content: Content::Folder(path.to_path_buf(), None),
                start: Vec::new(),
                compression: Compression::None,
                again: true,
                size: Size::Known(0),
            });
        }
        let file = File::open(path).map_err(TraceError::io("open", path))?;
        Self::of_file(file, &path.display().to_string(), false, START_BYTES)
    }

    /// Opens one of the many files of a folder, of which little is kept in memory.
    pub(super) fn open_shard(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(TraceError::io("open", path))?;
        Self::of_file(file, &path.display().to_string(), false, SHARD_START_BYTES)
    }

    fn of_file(mut file: File, name: &str, standard: bool, start_bytes: usize) -> Result<Self, TraceError> {
        let failed = |error| unreadable(name, error);
        let metadata = file.metadata().map_err(failed)?;
        let regular = metadata.is_file() && (!standard || file.stream_position().map_err(failed)? == 0);
        let size =
            if metadata.is_file() { Size::Known(metadata.len()) } else { Size::Counted(Rc::default()) };
        let clone = if regular { Some(file.try_clone().map_err(failed)?) } else { None };
        let raw = Counted { inner: file, size: size.clone() };
        Self::of_reader(raw, name, clone, regular && !standard, size, start_bytes)
    }

    fn of_reader(
        raw: impl Read + 'static,
        name: &str,
        file: Option<File>,
        again: bool,
        size: Size,
        start_bytes: usize,
    ) -> Result<Self, TraceError> {
        let mut reader = Peeked::new(Box::new(raw), start_bytes);
        let compression = Compression::sniff(&reader.start);
        check_name(name, compression)?;
        let packed = compression != Compression::None;
        if packed {
            let unpacked =
                compression::unpack(reader, compression).map_err(|error| unreadable(name, error))?;
            reader = Peeked::new(unpacked, start_bytes);
        }
        let start = reader.start.clone();
        let part = if packed { Part::Unpacked } else { Part::Plain };
        let origin = Origin { file: name.to_owned(), part };
        let file = file.filter(|_| !packed);
        let mut stream = Stream { reader: Box::new(reader), origin, file };
        let content = if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            Content::Zip(Archive::open(stream.into_file("a zip archive is read from its end")?, name)?)
        } else if is_tar(&start) {
            let unpacked = unpack_tar(&mut stream.reader, name)?;
            Content::Folder(unpacked.folder.path().to_path_buf(), Some(unpacked))
        } else {
            Content::Stream(stream)
        };
        let start = if matches!(content, Content::Stream(_)) { start } else { Vec::new() };
        Ok(Self { name: name.to_owned(), content, start, compression, again, size })
    }
}

/// Refuses a file whose name promises a compression that its content does not have.
fn check_name(name: &str, compression: Compression) -> Result<(), TraceError> {
    let (promised, _) = Compression::of_name(name);
    if promised == Compression::None || promised == compression {
        return Ok(());
    }
    Err(TraceError::Refused(format!(
        "{name} is named {} but does not begin like such a file\n  = help: rename it or download it again",
        promised.suffix()
    )))
}

pub(super) fn unreadable(name: &str, error: io::Error) -> TraceError {
    TraceError::Io { what: format!("cannot read {name}"), error }
}

/// Copies everything into a temporary file without a name, which can be read at any place.
fn spool(reader: impl Read, name: &str, why: &str, most: u64) -> Result<File, TraceError> {
    let folder = std::env::temp_dir();
    let failed = |error| {
        let what = format!("cannot copy {name} to a temporary file in {}", folder.display());
        TraceError::Io { what, error }
    };
    let mut file = tempfile::tempfile().map_err(failed)?;
    let bytes = io::copy(&mut reader.take(most + 1), &mut file).map_err(failed)?;
    if bytes > most {
        return Err(too_large(name, why, most));
    }
    file.flush().and_then(|()| file.seek(SeekFrom::Start(0))).map_err(failed)?;
    Ok(file)
}

fn too_large(name: &str, why: &str, most: u64) -> TraceError {
    TraceError::Refused(format!(
        "{name}: {why}, so it goes through a temporary place, which takes at most {most} bytes\n  = help: put it on a disk \
         (unpacked, if it is compressed) and name it there"
    ))
}

/// The magic of the archives that POSIX and GNU tar write.
fn is_tar(start: &[u8]) -> bool {
    start.get(257..262) == Some(b"ustar")
}

/// Unpacks the regular files of a tar archive into a temporary folder, of a damaged one those before the damage.
fn unpack_tar(reader: &mut dyn Read, name: &str) -> Result<Unpacked, TraceError> {
    let folder = tempfile::tempdir().map_err(TraceError::io("write to", &std::env::temp_dir()))?;
    // Where the last file of the archive begins.
    let place = Cell::new(0);
    let failed = |error: io::Error| {
        if error.raw_os_error().is_some() {
            let what = format!("cannot unpack {name} into {}", folder.path().display());
            return TraceError::Io { what, error };
        }
        TraceError::Malformed {
            file: name.to_owned(),
            place: Place::Unpacked(place.get()),
            what: format!("the tar archive is damaged or cut short: {error}"),
        }
    };
    let (mut left, mut begun, mut damage) = (SPOOL_BYTES, 0, None);
    let mut archive = tar::Archive::new(reader);
    for (number, entry) in archive.entries().map_err(failed)?.enumerate() {
        let mut entry = match entry.map_err(failed) {
            Ok(entry) => entry,
            Err(error @ TraceError::Malformed { .. }) if begun > 0 => {
                damage = Some(error);
                break;
            }
            Err(error) => return Err(error),
        };
        if number >= MAX_TAR_FILES {
            let what = format!("{name}: a tar archive of more than {MAX_TAR_FILES} files");
            return Err(TraceError::Refused(what));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        left = left
            .checked_sub(entry.size())
            .ok_or_else(|| too_large(name, "a tar archive is unpacked", SPOOL_BYTES))?;
        begun += 1;
        place.set(entry.raw_file_position());
        let unpacked = match entry.unpack_in(folder.path()).map_err(failed) {
            Ok(unpacked) => unpacked,
            Err(error @ TraceError::Malformed { .. }) => {
                damage = Some(error);
                break;
            }
            Err(error) => return Err(error),
        };
        if !unpacked {
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let what = format!("{name}: the tar archive has a file `{path}`, which lies outside of it");
            return Err(TraceError::Refused(what));
        }
    }
    Ok(Unpacked { folder, damage })
}

/// Counts the bytes that come from a pipe.
struct Counted {
    inner: File,
    size: Size,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        if let Size::Counted(sum) = &self.size {
            sum.set(sum.get() + bytes as u64);
        }
        Ok(bytes)
    }
}

/// A reader whose first bytes were looked at.
struct Peeked {
    start: Vec<u8>,
    at: usize,
    /// What ended the look, to be reported at its place.
    error: Option<io::Error>,
    rest: Box<dyn Read>,
}

impl Peeked {
    fn new(mut rest: Box<dyn Read>, bytes: usize) -> Self {
        let mut start = vec![0; bytes];
        let (filled, result) = fill(&mut rest, &mut start, 0);
        start.truncate(filled);
        Self { start, at: 0, error: result.err(), rest }
    }
}

impl Read for Peeked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at < self.start.len() {
            let bytes = Cursor::new(&self.start[self.at..]).read(buffer)?;
            self.at += bytes;
            if self.at == self.start.len() {
                (self.start, self.at) = (Vec::new(), 0);
            }
            return Ok(bytes);
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => self.rest.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_needs_a_temporary_file_has_a_limit() {
        let spooled = spool(&b"0123456789"[..], "p", "a zip archive is read from its end", 10).unwrap();
        assert_eq!(spooled.metadata().unwrap().len(), 10);
        let error =
            spool(&b"0123456789"[..], "p", "a zip archive is read from its end", 9).unwrap_err().to_string();
        assert!(
            error.starts_with("p: a zip archive is read from its end") && error.contains("at most 9 bytes"),
            "{error}"
        );
    }
}
