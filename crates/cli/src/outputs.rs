//! Files that a command is going to write, checked against each other and against what it reads before it starts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::bail;

/// The inputs and outputs of one command.
#[derive(Default)]
pub(crate) struct Files {
    known: Vec<Known>,
}

struct Known {
    path: PathBuf,
    identity: Identity,
    use_: Use,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Written,
}

/// The identity of a file, by which two paths are the same file.
#[derive(PartialEq, Eq)]
enum Identity {
    /// A file that is there, by device and inode: links and detours lead to the same.
    There(u64, u64),
    /// A file that is not there yet, by the folder that it will be in.
    New(PathBuf),
    /// A terminal, a pipe or `/dev/null`: any number of writers may share it.
    Shared,
}

impl Identity {
    fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(found) if found.is_file() || found.is_dir() => Self::There(found.dev(), found.ino()),
            Ok(_) => Self::Shared,
            Err(_) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")));
                let name = path.file_name().unwrap_or_default();
                Self::New(folder.map_or_else(|_| path.to_owned(), |folder| folder.join(name)))
            }
        }
    }
}

impl Files {
    /// Adds files that the command reads.
    #[must_use]
    pub(crate) fn reads<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        for path in paths {
            let path = path.as_ref().to_owned();
            let identity = Identity::of(&path);
            self.known.push(Known { path, identity, use_: Use::Read });
        }
        self
    }

    /// Adds a file that the command writes.
    ///
    /// # Errors
    ///
    /// It is an input as well, or is written already.
    pub(crate) fn writes(mut self, path: impl AsRef<Path>) -> anyhow::Result<Self> {
        let path = path.as_ref().to_owned();
        let identity = Identity::of(&path);
        let same = |known: &&Known| known.identity == identity && identity != Identity::Shared;
        match self.known.iter().find(same) {
            Some(Known { path: other, use_: Use::Written, .. }) => bail!(
                "two results would be written to the same file, {}{}; nothing was written\n  = help: name other \
                 outputs, or run the command once for each",
                path.display(),
                if *other == path { String::new() } else { format!(" and {}", other.display()) },
            ),
            Some(Known { path: other, use_: Use::Read, .. }) => bail!(
                "{} would be overwritten while it is read{}; nothing was written\n  = help: name another output",
                other.display(),
                if *other == path { String::new() } else { format!(", as {}", path.display()) },
            ),
            None => self.known.push(Known { path, identity, use_: Use::Written }),
        }
        Ok(self)
    }

    /// Adds the files that `--out` writes into a folder.
    ///
    /// # Errors
    ///
    /// As [`Files::writes`].
    pub(crate) fn writes_report(self, folder: Option<&Path>) -> anyhow::Result<Self> {
        let Some(folder) = folder else { return Ok(self) };
        self.writes(folder.join(RESULTS))?.writes(folder.join(REPORT))
    }
}

/// The names of what `--out` writes.
pub(crate) const RESULTS: &str = "results.json";
/// The page beside it.
pub(crate) const REPORT: &str = "report.html";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_under_two_names_is_a_collision() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("input"), "x").unwrap();
        std::os::unix::fs::symlink(path("input"), path("link")).unwrap();
        fs::hard_link(path("input"), path("hard")).unwrap();
        fs::create_dir(path("d")).unwrap();
        let reads = || Files::default().reads([path("input")]);
        for same in ["input", "link", "hard", "d/../input"] {
            let error = reads().writes(path(same)).err().unwrap().to_string();
            assert!(error.contains("while it is read"), "{same}: {error}");
        }
        let twice = reads().writes(path("new")).unwrap().writes(path("d/../new"));
        assert!(twice.err().unwrap().to_string().contains("the same file"));
        let two = reads().writes(path("new")).unwrap().writes(path("d/new")).unwrap();
        assert!(two.writes("/dev/null").unwrap().writes("/dev/null").is_ok(), "a device is shared");
    }
}
