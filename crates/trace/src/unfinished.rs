//! A file without a name until it is complete.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use tempfile::{Builder, NamedTempFile};

/// A new file on its way to becoming `target`.
///
/// Where the file system allows it, the file has no name at all, so that nothing is left behind even if the process
/// is killed. Elsewhere it is a temporary file (`.NAME.*.partial`) beside the target, removed when it is dropped.
pub struct Unfinished {
    target: PathBuf,
    state: State,
}

enum State {
    Unnamed(File),
    Named(NamedTempFile),
}

impl Unfinished {
    /// Begins a file that will be `target`, or what `target` points to if it is a symbolic link. The caller makes sure that
    /// `target` is a regular file, or new: the name would take the place of a device.
    ///
    /// # Errors
    ///
    /// Nothing can be created in the folder.
    pub fn create(target: &Path) -> io::Result<Self> {
        let target = target.canonicalize().unwrap_or_else(|_| target.to_path_buf());
        let state = match unnamed(&target) {
            Some(file) => State::Unnamed(file),
            None => State::Named(beside(&target, |path| File::create_new(path))?),
        };
        Ok(Self { target, state })
    }

    /// Returns the name that the file will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Replaces the first bytes.
    pub(crate) fn rewrite_start(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file().write_all_at(bytes, 0)
    }

    fn file(&mut self) -> &mut File {
        match &mut self.state {
            State::Unnamed(file) => file,
            State::Named(file) => file.as_file_mut(),
        }
    }

    /// Gives it its name, in place of an older file of that name.
    ///
    /// # Errors
    ///
    /// The system refuses that; nothing is left behind.
    pub fn finish(self) -> io::Result<()> {
        let named = match self.state {
            State::Named(file) => file.into_temp_path(),
            // A link cannot replace a file, a rename can.
            State::Unnamed(file) => beside(&self.target, |path| {
                linkat(CWD, descriptor(&file), CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
            })?
            .into_temp_path(),
        };
        named.persist(&self.target).map_err(|error| error.error)
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// A file without a name, if the file system has them and there is a way to name it later.
fn unnamed(target: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(open(folder(target), flags, Mode::from_raw_mode(0o666)).ok()?);
    descriptor(&file).symlink_metadata().is_ok().then_some(file)
}

/// The name by which procfs knows an open file.
fn descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes something under a temporary name beside the target.
fn beside<R>(target: &Path, make: impl FnMut(&Path) -> io::Result<R>) -> io::Result<NamedTempFile<R>> {
    let mut prefix = OsString::from(".");
    prefix.push(target.file_name().unwrap_or_default());
    prefix.push(".");
    Builder::new().prefix(&prefix).suffix(".partial").make_in(folder(target), make)
}

impl std::fmt::Debug for Unfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unfinished").field("target", &self.target).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    /// Both kinds: what stands in the folder before, while and after.
    #[test]
    fn the_target_appears_whole_and_replaces_the_older_file() {
        for named in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join("a.pwt");
            std::fs::write(&target, b"old").unwrap();
            let mut file = Unfinished::create(&target).unwrap();
            if named {
                file.state = State::Named(beside(&target, |path| File::create_new(path)).unwrap());
            }
            file.write_all(b"new").unwrap();
            assert_eq!(std::fs::read(&target).unwrap(), b"old");
            if matches!(file.state, State::Unnamed(_)) {
                assert_eq!(listing(folder.path()), ["a.pwt"], "a killed process would leave nothing");
            }
            file.finish().unwrap();
            assert_eq!(std::fs::read(&target).unwrap(), b"new");
            assert_eq!(listing(folder.path()), ["a.pwt"]);
            drop(Unfinished::create(&target).unwrap());
            assert_eq!(listing(folder.path()), ["a.pwt"]);
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = Unfinished::create(&folder.path().join("none/a.pwt")).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
