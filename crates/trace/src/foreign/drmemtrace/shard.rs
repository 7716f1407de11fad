//! One file of a trace: the records of a thread or of a core.

use std::collections::BTreeMap;
use std::io::Read;

use arrayvec::ArrayVec;
use pagewalk_vm::addr::PAGE_BYTES;
use rustc_hash::FxHashMap;

use super::super::archive::Archive;
use super::super::input::{Content, Input};
use super::super::output::Output;
use super::super::records::Records;
use super::super::tally::Kind;
use super::v2p::{PAGE_SIZES, Translation};
use super::{entry, marker};
use crate::error::TraceError;
use crate::event::{Event, ProcessId, ThreadId};

pub(super) const ENTRY_BYTES: usize = 12;
/// The versions that are known: 2 is the first that names itself in a marker, 7 has retired instructions only.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=7;
/// The most threads or processes of one trace.
const MAX_IDS: usize = 1 << 20;
/// The bit of the file type of a core's file.
const CORE_SHARDED: u64 = 0x10000;
/// The bit of the file type of a trace with instructions, but without data accesses, of the kernel.
const KERNEL_INSTRUCTIONS_ONLY: u64 = 0x8000;

/// The bits of the file type of which the first must be set, and the second must not, in a trace with the bytes of x86-64 instructions: the
/// instruction set, and encodings; a synthetic instruction set.
const BYTES_TYPES: (u64, u64) = (0x40 | 0x200, 0x20000);
/// The records at the beginning of a file in which its type is looked for.
const TYPE_WITHIN: usize = 16;
/// The longest encoding in bytes.
const MOST_BYTES: usize = 16;

/// Bits of the file type that make a trace unusable here, with the reason.
const REFUSED_TYPES: [(u64, &str); 6] = [
    (0x01, "it is filtered (old style), so its accesses are incomplete"),
    (0x80, "its instructions are filtered, so its counts are incomplete"),
    (0x100, "its data accesses are filtered, so they are incomplete"),
    (0x2000, "it is filtered in part, so its accesses are incomplete"),
    (0x04, "it has instructions only, no data access"),
    (0x4000, "it is a file of system-call templates, not of a program's run"),
];

/// One record of a shard.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) kind: u16,
    pub(super) size: u16,
    pub(super) value: u64,
}

impl Entry {
    pub(super) fn parse(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let (kind, rest) = bytes.split_first_chunk().expect("12 bytes");
        let (size, value) = rest.split_first_chunk().expect("10 bytes");
        let value = value.first_chunk().expect("8 bytes");
        Self {
            kind: u16::from_le_bytes(*kind),
            size: u16::from_le_bytes(*size),
            value: u64::from_le_bytes(*value),
        }
    }

    /// The time of a timestamp marker.
    pub(super) fn timestamp(self) -> Option<u64> {
        (self.kind == entry::MARKER && self.size == marker::TIMESTAMP).then_some(self.value)
    }

    /// Whether it is an instruction fetch. Types 29 (not fetched) and 30 (perhaps) do not count as instructions.
    fn is_fetch(self) -> bool {
        matches!(self.kind, 10..=16 | 31 | 48 | 49)
    }

    /// Whether it can stand before the first timestamp of a file: headers, ids, markers.
    pub(super) fn is_prelude(self) -> bool {
        self.timestamp().is_none()
            && matches!(
                self.kind,
                entry::HEADER | entry::MARKER | entry::THREAD | entry::PROCESS | entry::ENCODING
            )
    }
}

/// Whether a member of an archive is a part of a trace.
pub(super) fn is_chunk(name: &str) -> bool {
    name.starts_with("chunk.")
}

/// An open file of a trace, read record by record.
pub(super) struct Shard {
    records: Records<ENTRY_BYTES>,
    /// The archive that the records come from, and its chunk after them.
    chunks: Option<(Archive, usize)>,
    buffer_bytes: usize,
    stage: Stage,
    file_type: u64,
    /// The current thread and process, as the trace names them and as events do.
    pub(super) thread: Option<u64>,
    thread_number: u32,
    process_number: u32,
    /// Instructions so far, those of the kernel included.
    pub(super) instructions: u64,
    in_system_call: bool,
    in_context_switch: bool,
    /// The size of pages, and the physical address whose virtual one comes next.
    page_bytes: u64,
    physical_address: Option<u64>,
    /// The bytes of instructions, by process and address, and those of the instruction that comes next.
    encodings: FxHashMap<(u32, u64), Encoding>,
    encoding: Encoding,
}

/// The bytes of an instruction.
type Encoding = ArrayVec<u8, MOST_BYTES>;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Start,
    Body,
    Footer,
}

impl Shard {
    /// A stream or an archive; `buffer_bytes` are read at a time.
    pub(super) fn new(
        content: Content,
        buffer_bytes: usize,
        output: &mut Output<'_>,
    ) -> Result<Self, TraceError> {
        let (reader, origin, chunks) = match content {
            Content::Zip(archive) => {
                let others =
                    (0..archive.len()).filter(|&number| !is_chunk(archive.member_name(number))).count();
                output.tally.add(Kind::OtherFiles, others as u64);
                let Some(first) = next_chunk(&archive, 0) else {
                    return Err(TraceError::Refused(format!(
                        "{}: the zip archive has no member `chunk.00000000`; a drmemtrace file has",
                        archive.name
                    )));
                };
                let (reader, origin) = archive.member(first);
                (reader, origin, Some((archive, first + 1)))
            }
            other => {
                let stream = other.into_stream()?;
                (stream.reader, stream.origin, None)
            }
        };
        Ok(Self {
            records: Records::new(reader, origin, buffer_bytes),
            chunks,
            buffer_bytes,
            stage: Stage::Start,
            file_type: 0,
            thread: None,
            thread_number: 0,
            process_number: 0,
            instructions: 0,
            in_system_call: false,
            in_context_switch: false,
            page_bytes: PAGE_BYTES,
            physical_address: None,
            encodings: FxHashMap::default(),
            encoding: Encoding::new(),
        })
    }

    /// The file's name for messages.
    pub(super) fn name(&self) -> &str {
        &self.records.origin.file
    }

    /// Whether it is the file of a core, in which threads come and go.
    pub(super) fn of_core(&self) -> bool {
        self.file_type & CORE_SHARDED != 0
    }

    /// The record that [`Self::step`] will read; none at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<Entry>, TraceError> {
        loop {
            if let Some(bytes) = self.records.peek()? {
                return Ok(Some(Entry::parse(&bytes)));
            }
            if !self.next_part() {
                return Ok(None);
            }
        }
    }

    /// Goes on to the next chunk of the archive, if there is one.
    fn next_part(&mut self) -> bool {
        let Some((archive, next)) = &mut self.chunks else { return false };
        let Some(number) = next_chunk(archive, *next) else { return false };
        *next = number + 1;
        let (reader, origin) = archive.member(number);
        self.records = Records::new(reader, origin, self.buffer_bytes);
        true
    }

    /// Reads one record; false at the end of the file.
    #[inline]
    pub(super) fn step(&mut self, ids: &mut Ids, output: &mut Output<'_>) -> Result<bool, TraceError> {
        let Some(entry) = self.peek()? else { return self.end() };
        let (_, offset) = self.records.next()?.expect("just seen");
        self.entry(entry, ids, output).map_err(|what| self.records.malformed(offset, what))?;
        Ok(true)
    }

    fn end(&self) -> Result<bool, TraceError> {
        if let Some((archive, _)) = &self.chunks {
            archive.whole()?;
        }
        let what = match self.stage {
            Stage::Footer => return Ok(false),
            Stage::Start => "the trace is empty",
            Stage::Body => "the trace ends without a footer: it was cut short",
        };
        Err(self.records.malformed(self.records.offset, what))
    }

    fn entry(&mut self, entry: Entry, ids: &mut Ids, output: &mut Output<'_>) -> Result<(), String> {
        match self.stage {
            Stage::Body => self.body(entry, ids, output),
            Stage::Start if entry.kind == entry::HEADER => self.header(entry.value),
            Stage::Start => Err(format!(
                "the first record has type {}, not the header's {}; this is no final drmemtrace trace (raw files \
                 need raw2trace first)",
                entry.kind,
                entry::HEADER
            )),
            Stage::Footer if self.of_core() => {
                self.stage = Stage::Body;
                self.body(entry, ids, output)
            }
            Stage::Footer => Err("there are records behind the footer".to_owned()),
        }
    }

    fn header(&mut self, version: u64) -> Result<(), String> {
        self.stage = Stage::Body;
        check_version(version)
    }

    fn body(&mut self, entry: Entry, ids: &mut Ids, output: &mut Output<'_>) -> Result<(), String> {
        let Entry { kind, size, value } = entry;
        match kind {
            entry::READ | entry::WRITE => {
                self.switch(ids, output);
                output.access(value, size.into(), kind == entry::WRITE)?;
            }
            _ if entry.is_fetch() => {
                self.switch(ids, output);
                self.instructions += 1;
                if self.has_bytes(output) {
                    self.fetch(entry, output);
                } else {
                    output.instructions(1);
                }
            }
            entry::BUNDLE if (1..=8).contains(&size) => {
                self.switch(ids, output);
                output.end_block();
                self.instructions += u64::from(size);
                output.instructions(size.into());
            }
            entry::BUNDLE => return Err(format!("a bundle of {size} instructions; 1 to 8 are allowed")),
            29 | 30 => output.tally.count(Kind::UnfetchedInstructions),
            2..=9 | 27 | 32..=46 => output.tally.count(Kind::Prefetches),
            18..=21 => output.tally.count(Kind::Flushes),
            entry::THREAD => {
                self.thread = Some(value);
                self.thread_number = ids.threads.number(value, "threads")?;
            }
            entry::PROCESS => self.process_number = ids.processes.number(value, "processes")?,
            entry::THREAD_EXIT => {
                self.thread_number = ids.threads.number(value, "threads")?;
                self.switch(ids, output);
                output.switch(Event::ThreadEnd(ThreadId(self.thread_number + 1)));
            }
            entry::MARKER => self.marker(size, value, ids, output)?,
            entry::ENCODING if size > 8 => {
                return Err(format!("an encoding of {size} bytes in a record; at most 8 are allowed"));
            }
            entry::ENCODING if self.has_bytes(output) => {
                let room = self.encoding.remaining_capacity().min(size.into());
                self.encoding.extend(value.to_le_bytes().into_iter().take(room));
            }
            entry::ENCODING => output.tally.count(Kind::Encodings),
            entry::HEADER if self.of_core() => self.header(value)?,
            entry::HEADER => {
                let core = format!("only the files of cores (file type {CORE_SHARDED:#x}) have several");
                return Err(format!("a second header; {core}"));
            }
            entry::FOOTER => {
                self.stage = Stage::Footer;
                (self.in_system_call, self.in_context_switch) = (false, false);
                self.privilege(output);
                self.drop_physical_address(output);
            }
            _ => return Err(format!("a record of type {kind}; at most {} is known", entry::LAST)),
        }
        Ok(())
    }

    /// Whether blocks are made of the file's instructions.
    fn has_bytes(&self, output: &Output<'_>) -> bool {
        output.gives_blocks && has_bytes_by_type(self.file_type)
    }

    /// Adds an instruction to the block.
    fn fetch(&mut self, entry: Entry, output: &mut Output<'_>) {
        let Entry { kind, size, value } = entry;
        if !self.encoding.is_empty() {
            self.encodings.insert((self.process_number, value), std::mem::take(&mut self.encoding));
        }
        let bytes = self
            .encodings
            .get(&(self.process_number, value))
            .filter(|bytes| bytes.len() == usize::from(size));
        output.fetch(value, bytes.map(|bytes| &bytes[..]), kind != entry::INSTRUCTION);
    }

    fn marker(
        &mut self,
        kind: u16,
        value: u64,
        ids: &mut Ids,
        output: &mut Output<'_>,
    ) -> Result<(), String> {
        if kind == marker::VIRTUAL_ADDRESS
            && let Some(physical_address) = self.physical_address.take()
        {
            self.enter_process(ids, output);
            let page_bytes = self.page_bytes;
            return output.frame(Translation { page_bytes, virtual_address: value, physical_address });
        }
        self.drop_physical_address(output);
        match kind {
            marker::PHYSICAL_ADDRESS => self.physical_address = Some(value),
            marker::VERSION => check_version(value)?,
            marker::FILE_TYPE => {
                self.file_type = value;
                check_file_type(value)?;
                if value & KERNEL_INSTRUCTIONS_ONLY != 0 {
                    output.tally.note("the kernel parts have instructions, but no data accesses");
                }
            }
            marker::PAGE_BYTES => {
                output.tally.fact("page size", format!("{value} bytes"));
                if value.is_power_of_two() && PAGE_SIZES.contains(&value) {
                    self.page_bytes = value;
                }
            }
            marker::SYSTEM_CALL_BEGIN | marker::CONTEXT_SWITCH_BEGIN => {
                output.tally.count(Kind::KernelParts);
                self.part(kind == marker::SYSTEM_CALL_BEGIN, true, output);
            }
            marker::SYSTEM_CALL_END | marker::CONTEXT_SWITCH_END => {
                self.part(kind == marker::SYSTEM_CALL_END, false, output);
            }
            _ => output.tally.count(Kind::Markers),
        }
        Ok(())
    }

    /// A physical address that no virtual one follows says nothing.
    fn drop_physical_address(&mut self, output: &mut Output<'_>) {
        if self.physical_address.take().is_some() {
            output.tally.count(Kind::Markers);
        }
    }

    /// A part of the kernel begins or ends.
    fn part(&mut self, system_call: bool, begins: bool, output: &mut Output<'_>) {
        let part = if system_call { &mut self.in_system_call } else { &mut self.in_context_switch };
        *part = begins;
        self.privilege(output);
    }

    /// Tells the output whether what follows in this file is the kernel's.
    pub(super) fn privilege(&self, output: &mut Output<'_>) {
        output.enter_kernel(self.in_system_call || self.in_context_switch);
    }

    /// Announces a change of process or thread before what follows.
    #[inline]
    fn switch(&mut self, ids: &mut Ids, output: &mut Output<'_>) {
        self.enter_process(ids, output);
        if ids.threads.announce(self.thread_number) {
            output.switch(Event::Thread(ThreadId(self.thread_number + 1)));
        }
    }

    #[inline]
    fn enter_process(&self, ids: &mut Ids, output: &mut Output<'_>) {
        if ids.processes.announce(self.process_number) {
            output.switch(Event::Process(ProcessId(self.process_number)));
        }
    }
}

/// Whether a file of this type has the bytes of x86-64 instructions.
fn has_bytes_by_type(file_type: u64) -> bool {
    let (set, clear) = BYTES_TYPES;
    file_type & set == set && file_type & clear == 0
}

/// Whether a trace says by its type that it has the bytes of x86-64 instructions: the file whose beginning is `start`, or the first one of
/// an archive or a folder.
pub(in super::super) fn has_bytes(content: &Content, start: &[u8]) -> bool {
    match content {
        Content::Stream(_) => has_bytes_by_start(start),
        Content::Zip(archive) => next_chunk(archive, 0).is_some_and(|first| {
            let mut start = Vec::new();
            let mut beginning = archive.member(first).0.take((TYPE_WITHIN * ENTRY_BYTES) as u64);
            // What cannot be read shows when the trace is.
            let _ = beginning.read_to_end(&mut start);
            has_bytes_by_start(&start)
        }),
        Content::Folder(folder, _) => super::folder::files(folder).is_ok_and(|files| {
            let inputs = files.shards().iter().filter_map(|path| Input::open_shard(path).ok());
            let mut shards = inputs.filter(|input| match &input.content {
                Content::Zip(archive) => super::has_chunks(archive),
                _ => super::plausible(&input.start),
            });
            shards.next().is_some_and(|input| has_bytes(&input.content, &input.start))
        }),
    }
}

fn has_bytes_by_start(start: &[u8]) -> bool {
    let entries = start.as_chunks().0.iter().take(TYPE_WITHIN).map(Entry::parse);
    let mut types = entries.filter(|entry| entry.kind == entry::MARKER && entry.size == marker::FILE_TYPE);
    types.next().is_some_and(|entry| has_bytes_by_type(entry.value))
}

/// The first chunk of the archive from member `number` on.
fn next_chunk(archive: &Archive, number: usize) -> Option<usize> {
    (number..archive.len()).find(|&number| is_chunk(archive.member_name(number)))
}

fn check_version(version: u64) -> Result<(), String> {
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    let (first, last) = (VERSIONS.start(), VERSIONS.end());
    Err(format!("drmemtrace version {version}; versions {first} to {last} are known"))
}

fn check_file_type(value: u64) -> Result<(), String> {
    match REFUSED_TYPES.iter().find(|(bit, _)| value & bit != 0) {
        Some((bit, why)) => Err(format!(
            "the trace cannot be used: {why} (file type {value:#x}, bit {bit:#x}); trace again without filters"
        )),
        None => Ok(()),
    }
}

/// The threads and processes of a trace.
#[derive(Default)]
pub(super) struct Ids {
    threads: Numbers,
    processes: Numbers,
}

/// Numbers the operating system's ids from 0 in order of appearance.
#[derive(Default)]
struct Numbers {
    numbers: BTreeMap<u64, u32>,
    /// The number that the events name now.
    announced: u32,
}

impl Numbers {
    fn number(&mut self, id: u64, what: &str) -> Result<u32, String> {
        let next = self.numbers.len();
        let number = *self.numbers.entry(id).or_insert(next as u32);
        if next < MAX_IDS { Ok(number) } else { Err(format!("more than {MAX_IDS} {what}")) }
    }

    /// Whether `number` is another one than before.
    #[inline]
    fn announce(&mut self, number: u32) -> bool {
        std::mem::replace(&mut self.announced, number) != number
    }
}
