//! The final traces of DynamoRIO's drmemtrace: a file of one thread or one core, or a folder of such files.
//!
//! ```text
//! 0      2      4                            12
//! +------+------+-----------------------------+
//! | type | size | address, pc, id, value      |    trace_entry_t, little-endian, packed
//! +------+------+-----------------------------+
//! ```
//!
//! A file begins with a header, its version and its type, and ends with a footer; in between, each instruction fetch is followed by
//! its data references. It is a plain stream (possibly compressed), or a zip archive whose members `chunk.00000000`,
//! `chunk.00000001`, ... are the parts of one stream. A file of a core has the records of several threads, whose headers and footers
//! may come in its middle. Layout and numbers: DynamoRIO, `clients/drcachesim/common/trace_entry.h`.
//!
//! A marker with a physical address, and one with its virtual address behind it, say which frame a page has from then on; the
//! page's size is that of the last page-size marker.
//!
//! A trace of x86-64 with encodings, which stand in front of an instruction's fetch where that may not have been seen, gives executed blocks.
//! The source says so if the file, or the first file of the folder, does by its type.
//!
//! Left out and counted: encodings of other traces, markers, flushes, prefetches, and iterations of a repeated string instruction that were not
//! fetched (as instructions; their accesses count). Parts of the kernel (system calls and context switches between two
//! markers) are left out and counted, or taken in if the reader is asked for them. Refused: filtered traces, whose
//! accesses are incomplete, and those without any data access.

mod folder;
mod place;
mod schedule;
mod shard;
pub(super) mod v2p;

pub(super) use folder::files as folder_files;
pub(super) use shard::has_bytes;

use shard::{ENTRY_BYTES, Entry, Ids, Shard};

use super::archive::Archive;
use super::input::Content;
use super::output::Output;
use super::records::BUFFER_BYTES;
use crate::error::TraceError;

/// The types of entries.
mod entry {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    /// An instruction that is no branch.
    pub(super) const INSTRUCTION: u16 = 10;
    pub(super) const BUNDLE: u16 = 17;
    pub(super) const THREAD: u16 = 22;
    pub(super) const THREAD_EXIT: u16 = 23;
    pub(super) const PROCESS: u16 = 24;
    pub(super) const HEADER: u16 = 25;
    pub(super) const FOOTER: u16 = 26;
    pub(super) const MARKER: u16 = 28;
    pub(super) const ENCODING: u16 = 47;
    /// The last known type but for the invalid one.
    pub(super) const LAST: u16 = 49;
}

/// Marker sub-types, in the size field.
mod marker {
    pub(super) const TIMESTAMP: u16 = 2;
    pub(super) const FILE_TYPE: u16 = 9;
    pub(super) const VERSION: u16 = 12;
    pub(super) const PHYSICAL_ADDRESS: u16 = 15;
    pub(super) const VIRTUAL_ADDRESS: u16 = 17;
    pub(super) const PAGE_BYTES: u16 = 18;
    pub(super) const SYSTEM_CALL_BEGIN: u16 = 27;
    pub(super) const SYSTEM_CALL_END: u16 = 28;
    pub(super) const CONTEXT_SWITCH_BEGIN: u16 = 34;
    pub(super) const CONTEXT_SWITCH_END: u16 = 35;
}

/// Whether an archive can be such a trace: it has a chunk.
pub(super) fn has_chunks(archive: &Archive) -> bool {
    (0..archive.len()).any(|number| shard::is_chunk(archive.member_name(number)))
}

/// Reads a file, an archive or a folder.
pub(super) fn parse(content: Content, output: &mut Output<'_>) -> Result<(), TraceError> {
    if let Content::Folder(path, unpacked) = content {
        let result = folder::parse(&path, output);
        // That an archive is damaged explains whatever is missing in its folder.
        return unpacked.and_then(|unpacked| unpacked.damage).map_or(result, Err);
    }
    let mut shard = Shard::new(content, BUFFER_BYTES, output)?;
    let mut ids = Ids::default();
    while output.flow().is_continue() && shard.step(&mut ids, output)? {}
    Ok(())
}

/// Whether the start of a file can be such a trace: a header, then a marker with its version.
pub(super) fn plausible(start: &[u8]) -> bool {
    let mut entries = start.as_chunks::<ENTRY_BYTES>().0.iter().map(Entry::parse);
    let header = entries.next().is_some_and(|entry| entry.kind == entry::HEADER && entry.value <= 0xff);
    header && entries.next().is_none_or(|entry| matches!(entry.kind, entry::MARKER | entry::THREAD))
}
