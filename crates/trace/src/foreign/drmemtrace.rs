//! The final traces of DynamoRIO's drmemtrace: one thread's file, or one core's.
//!
//! ```text
//! 0      2      4                            12
//! +------+------+-----------------------------+
//! | type | size | address, pc, id, value      |    trace_entry_t, little-endian, packed
//! +------+------+-----------------------------+
//! ```
//!
//! A file begins with a header, its version and its type, and ends with a footer; in between, each instruction
//! fetch is followed by its data references. It is a plain stream (possibly compressed), or a zip archive whose
//! members `chunk.00000000`, `chunk.00000001`, ... are the parts of one stream. Layout and numbers: DynamoRIO,
//! `clients/drcachesim/common/trace_entry.h`.
//!
//! Left out: encodings, markers, flushes, iterations of a repeated string instruction that were not fetched (as
//! instructions; their accesses count), and prefetches (counted). Refused: filtered traces, whose accesses are
//! incomplete, and those without any data access.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use super::output::Output;
use super::records::{Origin, Part, for_each_record};
use crate::error::TraceError;
use crate::event::{Event, ProcessId, ThreadId};

const ENTRY_BYTES: usize = 12;
/// The versions that are known: 2 is the first with a version, 7 has retired instructions only.
const VERSIONS: std::ops::RangeInclusive<u64> = 2..=7;
/// The most threads or processes of one trace.
const MAX_IDS: usize = 1 << 20;

/// Entry types.
mod entry {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
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
    pub(super) const FILE_TYPE: u16 = 9;
    pub(super) const VERSION: u16 = 12;
}

/// Bits of the file type that make a trace unusable here, with the reason.
const REFUSED_TYPES: [(u64, &str); 7] = [
    (0x01, "it is filtered (old style), so its accesses are incomplete"),
    (0x80, "its instructions are filtered, so its counts are incomplete"),
    (0x100, "its data accesses are filtered, so they are incomplete"),
    (0x2000, "it is filtered in part, so its accesses are incomplete"),
    (0x04, "it has instructions only, no data access"),
    (0x8000, "it has kernel instructions only, no user access"),
    (0x4000, "it is a file of system-call templates, not of a program's run"),
];

/// One record.
#[derive(Clone, Copy)]
struct Entry {
    kind: u16,
    size: u16,
    value: u64,
}

impl Entry {
    fn parse(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let (kind, rest) = bytes.split_first_chunk().expect("12 bytes");
        let (size, value) = rest.split_first_chunk().expect("10 bytes");
        let value = value.first_chunk().expect("8 bytes");
        Self {
            kind: u16::from_le_bytes(*kind),
            size: u16::from_le_bytes(*size),
            value: u64::from_le_bytes(*value),
        }
    }
}

/// Reads one stream of records.
pub(super) fn parse(
    reader: &mut dyn Read,
    origin: &Origin,
    output: &mut Output<'_>,
) -> Result<(), TraceError> {
    let mut parser = Parser::default();
    let flow = parser.feed(reader, origin, output)?;
    if flow.is_continue() { parser.finish(origin) } else { Ok(()) }
}

/// Reads the members of a zip archive as one stream.
pub(super) fn parse_archive(path: &Path, output: &mut Output<'_>) -> Result<(), TraceError> {
    let file = path.display().to_string();
    let damaged = |error: zip::result::ZipError| match error {
        zip::result::ZipError::Io(source) if source.raw_os_error().is_some() => {
            TraceError::Io { what: format!("cannot read {file}"), source }
        }
        error => TraceError::Refused(format!("{file}: the zip archive is damaged or cut short: {error}")),
    };
    let inner = std::fs::File::open(path).map_err(TraceError::io("open", path))?;
    let mut archive = zip::ZipArchive::new(std::io::BufReader::new(inner)).map_err(damaged)?;
    let mut members = Vec::new();
    for name in archive.file_names() {
        let name = name.map_err(damaged)?;
        if name.starts_with("chunk.") {
            members.push(name.into_owned());
        }
    }
    members.sort_unstable();
    if members.is_empty() {
        return Err(TraceError::Refused(format!(
            "{file}: the zip archive has no member `chunk.00000000`; a drmemtrace file has"
        )));
    }
    let mut parser = Parser::default();
    let mut origin = Origin { file: file.clone(), part: Part::Plain };
    for name in members {
        let mut member = archive.by_name(&name).map_err(damaged)?;
        origin.part = Part::Member(name);
        if parser.feed(&mut member, &origin, output)?.is_break() {
            return Ok(());
        }
    }
    parser.finish(&origin)
}

/// What has been seen of a trace.
#[derive(Default)]
struct Parser {
    stage: Stage,
    /// The offset behind the last record, in its member.
    end: u64,
    processes: Ids,
    threads: Ids,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Start,
    Body,
    Footer,
}

impl Parser {
    fn feed(
        &mut self,
        reader: &mut dyn Read,
        origin: &Origin,
        output: &mut Output<'_>,
    ) -> Result<ControlFlow<()>, TraceError> {
        for_each_record::<ENTRY_BYTES>(reader, origin, |bytes, offset| {
            self.end = offset + ENTRY_BYTES as u64;
            let entry = Entry::parse(bytes);
            self.entry(entry, output).map_err(|what| origin.malformed(origin.at(offset), what))?;
            Ok(output.flow())
        })
    }

    fn finish(&self, origin: &Origin) -> Result<(), TraceError> {
        let what = match self.stage {
            Stage::Footer => return Ok(()),
            Stage::Start => "the trace is empty",
            Stage::Body => "the trace ends without a footer: it was cut short",
        };
        Err(origin.malformed(origin.at(self.end), what))
    }

    fn entry(&mut self, entry: Entry, output: &mut Output<'_>) -> Result<(), String> {
        match self.stage {
            Stage::Body => self.body(entry, output),
            Stage::Start if entry.kind == entry::HEADER => {
                self.stage = Stage::Body;
                check_version(entry.value)
            }
            Stage::Start => Err(format!(
                "the first record has type {}, not the header's {}; this is no final drmemtrace trace (raw files \
                 need raw2trace first)",
                entry.kind,
                entry::HEADER
            )),
            Stage::Footer => Err("there are records behind the footer".to_owned()),
        }
    }

    fn body(&mut self, entry: Entry, output: &mut Output<'_>) -> Result<(), String> {
        let Entry { kind, size, value } = entry;
        match kind {
            entry::READ | entry::WRITE => {
                self.switch(output);
                output.access(value, size.into(), kind == entry::WRITE)?;
            }
            // Fetches; 29 (not fetched) and 30 (perhaps) do not count as instructions.
            10..=16 | 31 | 48 | 49 => {
                self.switch(output);
                output.instructions(1);
            }
            entry::BUNDLE if (1..=8).contains(&size) => {
                self.switch(output);
                output.instructions(size.into());
            }
            entry::BUNDLE => return Err(format!("a bundle of {size} instructions; 1 to 8 are allowed")),
            2..=9 | 27 | 32..=46 => output.skipped.prefetches += 1,
            entry::THREAD => self.threads.name(value, "threads")?,
            entry::PROCESS => self.processes.name(value, "processes")?,
            entry::THREAD_EXIT => {
                self.threads.name(value, "threads")?;
                self.switch(output);
                output.switch(Event::ThreadEnd(ThreadId(self.threads.current + 1)));
            }
            entry::MARKER => check_marker(size, value)?,
            entry::ENCODING if size > 8 => {
                return Err(format!("an encoding of {size} bytes in a record; at most 8 are allowed"));
            }
            entry::HEADER => return Err("a second header".to_owned()),
            entry::FOOTER => self.stage = Stage::Footer,
            0..=entry::LAST => {}
            _ => return Err(format!("a record of type {kind}; at most {} is known", entry::LAST)),
        }
        Ok(())
    }

    /// Announces a change of process or thread before what follows.
    fn switch(&mut self, output: &mut Output<'_>) {
        if let Some(process) = self.processes.changed() {
            output.switch(Event::Process(ProcessId(process)));
        }
        if let Some(thread) = self.threads.changed() {
            output.switch(Event::Thread(ThreadId(thread + 1)));
        }
    }
}

fn check_version(version: u64) -> Result<(), String> {
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    let (first, last) = (VERSIONS.start(), VERSIONS.end());
    Err(format!("drmemtrace version {version}; versions {first} to {last} are known"))
}

fn check_marker(kind: u16, value: u64) -> Result<(), String> {
    match kind {
        marker::VERSION => check_version(value),
        marker::FILE_TYPE => match REFUSED_TYPES.iter().find(|(bit, _)| value & bit != 0) {
            Some((bit, why)) => Err(format!(
                "the trace cannot be used: {why} (file type {value:#x}, bit {bit:#x}); trace again without filters"
            )),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Numbers the operating system's ids from 0 in order of appearance.
#[derive(Default)]
struct Ids {
    numbers: BTreeMap<u64, u32>,
    current: u32,
    announced: u32,
}

impl Ids {
    /// `id` is current from now on.
    fn name(&mut self, id: u64, what: &str) -> Result<(), String> {
        let next = self.numbers.len();
        self.current = *self.numbers.entry(id).or_insert(next as u32);
        if next < MAX_IDS { Ok(()) } else { Err(format!("more than {MAX_IDS} {what}")) }
    }

    /// The current number, if it is not the one that was announced last.
    fn changed(&mut self) -> Option<u32> {
        let changed = self.current != self.announced;
        self.announced = self.current;
        changed.then_some(self.current)
    }
}

/// Whether the start of a file can be such a trace: a header, then a marker with its version.
pub(super) fn plausible(start: &[u8]) -> bool {
    let mut entries = start.as_chunks().0.iter().map(Entry::parse);
    let header = entries.next().is_some_and(|entry| entry.kind == entry::HEADER && entry.value <= 0xff);
    header && entries.next().is_none_or(|entry| matches!(entry.kind, entry::MARKER | entry::THREAD))
}
