//! Files of the host for programs, if their user gives them a folder: nothing outside of it can be reached.

use std::io::{self, Read, Seek, SeekFrom, Write};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};

/// Descriptors below are the standard streams.
const FIRST: u64 = 3;
/// Files that a program may have open.
const MOST_OPEN: usize = 64;

/// Flags of `openat`, as RISC-V Linux has them.
mod flag {
    pub(super) const WRITE_ONLY: u64 = 0o1;
    pub(super) const READ_WRITE: u64 = 0o2;
    pub(super) const ACCESS: u64 = 0o3;
    pub(super) const CREATE: u64 = 0o100;
    pub(super) const EXCLUSIVE: u64 = 0o200;
    pub(super) const TRUNCATE: u64 = 0o1000;
    pub(super) const APPEND: u64 = 0o2000;
}

/// Error numbers of Linux, as results.
pub(crate) mod error {
    pub(crate) const IO: u64 = -5i64 as u64;
    pub(crate) const BAD_DESCRIPTOR: u64 = -9i64 as u64;
    pub(crate) const FAULT: u64 = -14i64 as u64;
    pub(super) const INVALID: u64 = -22i64 as u64;
    pub(super) const TOO_MANY_OPEN: u64 = -24i64 as u64;
    pub(crate) const NO_SUCH_CALL: u64 = -38i64 as u64;
}

/// A folder and the files that are open in it.
#[derive(Debug)]
pub(crate) struct Files {
    folder: Dir,
    open: Vec<Option<File>>,
}

/// A result, or a negative error number.
type Answer = Result<u64, u64>;

/// Linux has the same numbers everywhere for what can happen here.
fn number(error: &io::Error) -> u64 {
    match error.raw_os_error() {
        Some(number) => -i64::from(number) as u64,
        // The folder's own refusals have none: a path that leads out of it.
        None if error.kind() == io::ErrorKind::PermissionDenied => -13i64 as u64,
        None => error::IO,
    }
}

impl Files {
    pub(crate) fn new(folder: &std::path::Path) -> io::Result<Self> {
        Ok(Self { folder: Dir::open_ambient_dir(folder, ambient_authority())?, open: Vec::new() })
    }

    fn file(&mut self, descriptor: u64) -> Result<&mut File, u64> {
        let at = descriptor.checked_sub(FIRST).map(|at| at as usize);
        at.and_then(|at| self.open.get_mut(at)?.as_mut()).ok_or(error::BAD_DESCRIPTOR)
    }

    /// Opens the file at a path, which is relative to the folder.
    pub(crate) fn open(&mut self, path: &[u8], flags: u64) -> Answer {
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        let path = str::from_utf8(path).map_err(|_| error::INVALID)?;
        let at = match self.open.iter().position(Option::is_none) {
            Some(at) => at,
            None if self.open.len() < MOST_OPEN => {
                self.open.push(None);
                self.open.len() - 1
            }
            None => return Err(error::TOO_MANY_OPEN),
        };
        let (writes, reads) = match flags & flag::ACCESS {
            flag::READ_WRITE => (true, true),
            flag::WRITE_ONLY => (true, false),
            _ => (false, true),
        };
        let has = |flag: u64| flags & flag != 0;
        let mut options = OpenOptions::new();
        options.read(reads).write(writes && !has(flag::APPEND)).append(writes && has(flag::APPEND));
        options.create(writes && has(flag::CREATE)).truncate(writes && has(flag::TRUNCATE));
        options.create_new(writes && has(flag::CREATE) && has(flag::EXCLUSIVE));
        let file = self.folder.open_with(path, &options).map_err(|error| number(&error))?;
        self.open[at] = Some(file);
        Ok(at as u64 + FIRST)
    }

    pub(crate) fn close(&mut self, descriptor: u64) -> Answer {
        self.file(descriptor)?;
        self.open[(descriptor - FIRST) as usize] = None;
        Ok(0)
    }

    pub(crate) fn seek(&mut self, descriptor: u64, offset: u64, whence: u64) -> Answer {
        let file = self.file(descriptor)?;
        let place = match whence {
            0 => SeekFrom::Start(offset),
            1 => SeekFrom::Current(offset as i64),
            2 => SeekFrom::End(offset as i64),
            _ => return Err(error::INVALID),
        };
        file.seek(place).map_err(|error| number(&error))
    }

    /// Reads at most so many bytes; fewer is no error.
    pub(crate) fn read(&mut self, descriptor: u64, bytes: u64) -> Result<Vec<u8>, u64> {
        let mut data = vec![0; bytes as usize];
        let read = self.file(descriptor)?.read(&mut data).map_err(|error| number(&error))?;
        data.truncate(read);
        Ok(data)
    }

    pub(crate) fn write(&mut self, descriptor: u64, data: &[u8]) -> Answer {
        let written = self.file(descriptor)?.write(data).map_err(|error| number(&error))?;
        Ok(written as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_read_and_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::new(folder.path()).unwrap();
        let written = files.open(b"a.txt\0", flag::WRITE_ONLY | flag::CREATE).unwrap();
        assert_eq!((written, files.write(written, b"hello")), (3, Ok(5)));
        assert!(files.read(written, 1).is_err(), "it was opened for writing");
        assert_eq!(files.close(written), Ok(0));
        assert_eq!(files.close(written), Err(error::BAD_DESCRIPTOR));
        let appended = files.open(b"a.txt", flag::WRITE_ONLY | flag::APPEND).unwrap();
        files.write(appended, b" world").unwrap();
        let read = files.open(b"a.txt", 0).unwrap();
        assert_eq!((read, files.seek(read, -5i64 as u64, 2)), (4, Ok(6)));
        assert_eq!(files.read(read, 100).unwrap(), b"world");
        assert_eq!(files.read(read, 100).unwrap(), b"");
        assert_eq!(files.seek(read, 0, 9), Err(error::INVALID));
        let exclusive = flag::WRITE_ONLY | flag::CREATE | flag::EXCLUSIVE;
        assert_eq!(files.open(b"a.txt", exclusive), Err(-17i64 as u64), "it exists");
        files.open(b"a.txt", flag::READ_WRITE | flag::TRUNCATE).unwrap();
        assert_eq!(std::fs::read(folder.path().join("a.txt")).unwrap(), b"");
    }

    #[test]
    fn nothing_outside_of_the_folder_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "x").unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::os::unix::fs::symlink("../secret", inner.join("link")).unwrap();
        let mut files = Files::new(&inner).unwrap();
        let absolute = folder.path().join("secret");
        for path in [
            &b"../secret"[..],
            b"link",
            absolute.to_str().unwrap().as_bytes(),
            b"/etc/passwd",
            b"missing",
            b"\xff",
        ] {
            assert!(files.open(path, 0).is_err(), "{}", String::from_utf8_lossy(path));
        }
        std::fs::write(inner.join("own"), "x").unwrap();
        for number in 0..MOST_OPEN as u64 {
            assert_eq!(files.open(b"own", 0), Ok(FIRST + number));
        }
        assert_eq!(files.open(b"own", 0), Err(error::TOO_MANY_OPEN));
        files.close(10).unwrap();
        assert_eq!(files.open(b"own", 0), Ok(10), "the lowest that is free");
    }
}
