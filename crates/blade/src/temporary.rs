//! Files that get their names when they are whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// A file without a name of its own yet, beside the path that it is to have; only its owner may use it.
///
/// # Errors
///
/// The system's alone: the name that the file would have meanwhile is no part of it, since no user knows that one.
pub(crate) fn beside(path: &Path) -> io::Result<NamedTempFile<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    tempfile::Builder::new().make_in(folder_of(path), |path| options.open(path))
}

/// The folder that a path leads into.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}
