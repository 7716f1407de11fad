//! The errors of a trace file, with the place in the file.

use std::fmt;
use std::io;
use std::path::Path;

use crate::source::SourceError;

/// The reason why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused something.
    #[error("{what}: {error}")]
    Io {
        /// The operation that was being done, with the path.
        what: String,
        /// The system's answer, in the text already, and therefore no source: a chain of errors would say it twice.
        error: io::Error,
    },
    /// The file's content is wrong.
    #[error("{file}: {place}: {what}")]
    Malformed {
        /// The file, as its user named it.
        file: String,
        /// The place of the defect in the file.
        place: Place,
        /// The defect, what is allowed, and what would help.
        what: String,
    },
    /// The file may be sound, but it is not one to read or write here. The text names it and says what to do.
    #[error("{0}")]
    Refused(String),
}

/// A place in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A byte offset in the file.
    Byte(u64),
    /// A byte offset in what a compressed file contains.
    Unpacked(u64),
    /// A byte offset in a member of an archive.
    Member(String, u64),
    /// A line, counted from 1.
    Line(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(offset) => write!(f, "byte {offset}"),
            Self::Unpacked(offset) => write!(f, "byte {offset} of the decompressed content"),
            Self::Member(name, offset) => write!(f, "member `{name}`, byte {offset}"),
            Self::Line(number) => write!(f, "line {number}"),
        }
    }
}

impl TraceError {
    /// For `map_err`: an operating-system error while doing `verb` to `path`.
    pub(crate) fn io(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("cannot {verb} {}", path.display());
        move |error| Self::Io { what, error }
    }
}

impl From<TraceError> for SourceError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Io { what, error } => Self::Io { what, error },
            other => Self::Input(other.to_string()),
        }
    }
}
