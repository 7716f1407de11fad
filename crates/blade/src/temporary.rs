//! Files that get their names when they are whole.

use std::error::Error;
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

/// A file without a name of its own yet, beside the path that it is to have.
///
/// # Errors
///
/// The system's. The name that the file has meanwhile is no part of it: no user knows that one.
pub(crate) fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = folder_of(path);
    NamedTempFile::new_in(folder).map_err(|error| {
        let number =
            error.source().and_then(|source| source.downcast_ref()).and_then(io::Error::raw_os_error);
        number.map_or(error, io::Error::from_raw_os_error)
    })
}

/// The folder that a path leads into.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}
