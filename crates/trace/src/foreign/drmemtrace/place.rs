//! The place of a trace's files.

use std::path::{Path, PathBuf};

use crate::error::TraceError;

/// The folder with the trace's files: `folder`, its folder `trace`, or the same of the only folder in it, as archives have it.
pub(super) fn within(folder: &Path) -> Result<PathBuf, TraceError> {
    let mut folder = folder.to_path_buf();
    for _ in 0..4 {
        let trace = folder.join("trace");
        if trace.is_dir() {
            return Ok(trace);
        }
        match &sorted(&folder)?[..] {
            [only] if only.is_dir() => folder.clone_from(only),
            _ => break,
        }
    }
    Ok(folder)
}

/// Returns what is in a folder, sorted by name.
pub(super) fn sorted(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let list =
        || std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut paths = list().map_err(TraceError::io("list", folder))?;
    paths.sort();
    Ok(paths)
}
