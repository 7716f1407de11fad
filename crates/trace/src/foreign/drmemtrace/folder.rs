//! A trace in a folder: a file a thread or a file a core, merged into one stream.
//!
//! All files are open at once, and of each a few KiB are in memory. Files of threads are merged by the trace's schedule, if it has one
//! that names their threads; otherwise, and for files of cores, by the timestamps in them. Equal timestamps go by the files' names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::path::{Path, PathBuf};

use super::super::input::{Content, Input};
use super::super::output::Output;
use super::super::tally::Kind;
use super::has_chunks;
use super::place::{sorted, within};
use super::plausible;
use super::schedule::Schedule;
use super::shard::{Ids, Shard};
use crate::error::TraceError;

/// What is read of a file at a time.
const BUFFER_BYTES: usize = 12 << 10;
/// The most files of a folder that are open at once.
const MAX_FILES: usize = 65_536;
/// Descriptors for everything else.
const OTHER_DESCRIPTORS: u64 = 64;
/// The beginnings of the names of schedules, the better one first.
const SCHEDULES: [&str; 2] = ["serial_schedule", "cpu_schedule"];
/// Beginnings of the names of further companion files.
const COMPANIONS: [&str; 7] = [
    "v2p.textproto",
    "info.textproto",
    "modules.log",
    "funclist.log",
    "encodings.bin",
    "syscalls.",
    "README",
];

/// The files of a folder.
#[derive(Default)]
pub(in super::super) struct Files {
    /// Those that may be parts of the trace, by name.
    shards: Vec<PathBuf>,
    /// Schedules, the better one first.
    schedules: Vec<PathBuf>,
}

impl Files {
    /// Those that may be parts of the trace, by name.
    pub(super) fn shards(&self) -> &[PathBuf] {
        &self.shards
    }

    /// The length of all files together in bytes.
    pub(in super::super) fn bytes(&self) -> u64 {
        let paths = self.shards.iter().chain(&self.schedules);
        paths.filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum()
    }
}

/// Lists the files of the trace in `folder`, or in a folder `trace` in it.
pub(in super::super) fn files(folder: &Path) -> Result<Files, TraceError> {
    let folder = within(folder)?;
    let mut files = Files::default();
    for path in sorted(&folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !path.is_file() || name.starts_with('.') || COMPANIONS.iter().any(|start| name.starts_with(start))
        {
            continue;
        }
        let schedule = SCHEDULES.iter().any(|start| name.starts_with(start));
        if schedule { files.schedules.push(path) } else { files.shards.push(path) }
    }
    files.schedules.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (SCHEDULES.iter().position(|start| name.starts_with(start)), name)
    });
    if files.shards.is_empty() {
        let raw = if folder.join("raw").is_dir() {
            "; its folder `raw` has raw files, which raw2trace turns into a trace"
        } else {
            ""
        };
        return Err(TraceError::Refused(format!(
            "{}: a folder without a trace: of folders, drmemtrace's are read{raw}\n  = help: name the folder with the files \
             drmemtrace.*.trace.zip (or .gz .lz4 .sz), or the one that has it as `trace`",
            folder.display()
        )));
    }
    if files.shards.len() > MAX_FILES {
        let what =
            format!("{}: {} files; at most {MAX_FILES} are merged", folder.display(), files.shards.len());
        return Err(TraceError::Refused(what));
    }
    Ok(files)
}

/// Reads the trace in a folder.
pub(super) fn parse(folder: &Path, output: &mut Output<'_>) -> Result<(), TraceError> {
    let files = files(folder)?;
    let mut ids = Ids::default();
    let mut shards = open(folder, &files, &mut ids, output)?;
    output.tally.fact("files", shards.len().to_string());
    if !shards.iter().any(Shard::of_core) && shards.len() > 1 {
        for path in &files.schedules {
            let Some(schedule) = Schedule::open(path)? else {
                output.tally.note(format!("{} is too long to be used", path.display()));
                continue;
            };
            if let Some(places) = places(&shards, &schedule) {
                output.tally.fact("merged by", schedule.name.clone());
                return by_schedule(&mut shards, &schedule, &places, &mut ids, output);
            }
            output
                .tally
                .note(format!("{} names other threads than the files, and is not used", schedule.name));
        }
    }
    if shards.len() > 1 {
        output.tally.fact("merged by", "timestamps");
    }
    by_timestamps(&mut shards, &mut ids, output)
}

/// Opens all files, and reads each up to its first timestamp.
fn open(
    folder: &Path,
    files: &Files,
    ids: &mut Ids,
    output: &mut Output<'_>,
) -> Result<Vec<Shard>, TraceError> {
    allow_descriptors(files.shards.len() as u64 + OTHER_DESCRIPTORS);
    let mut shards = Vec::new();
    for path in &files.shards {
        let input = Input::open_shard(path)?;
        let is_shard = match &input.content {
            Content::Zip(archive) => has_chunks(archive),
            _ => plausible(&input.start),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !is_shard {
            if name.contains("trace.") || name.ends_with("trace") {
                return Err(TraceError::Refused(format!(
                    "{}: named like a file of a drmemtrace trace, but it does not begin like one: it is empty, cut short or \
                     damaged\n  = help: copy it again, or take it out of the folder to read the others",
                    path.display()
                )));
            }
            output.tally.count(Kind::OtherFiles);
            continue;
        }
        let mut shard = Shard::new(input.content, BUFFER_BYTES, output)?;
        while shard.peek()?.is_some_and(|entry| entry.is_prelude()) {
            shard.step(ids, output)?;
        }
        shards.push(shard);
    }
    if shards.is_empty() {
        return Err(TraceError::Refused(format!(
            "{}: none of its {} files begins like a drmemtrace trace\n  = help: name one file, if it is a trace of another format",
            folder.display(),
            files.shards.len()
        )));
    }
    Ok(shards)
}

/// Raises the number of files that this process may have open at once, as far as it is allowed to.
fn allow_descriptors(wanted: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |most| wanted.min(most)));
        // What is not allowed shows when the files are opened.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
    }
}

/// The place of each thread's file, if the schedule and the files name the same threads, each once.
fn places(shards: &[Shard], schedule: &Schedule) -> Option<BTreeMap<u64, usize>> {
    let mut places = BTreeMap::new();
    for (place, shard) in shards.iter().enumerate() {
        if places.insert(shard.thread?, place).is_some() {
            return None;
        }
    }
    let mut unnamed: BTreeSet<u64> = places.keys().copied().collect();
    for slice in &schedule.slices {
        if !places.contains_key(&slice.thread) {
            return None;
        }
        unnamed.remove(&slice.thread);
    }
    unnamed.is_empty().then_some(places)
}

/// Reads slice after slice.
fn by_schedule(
    shards: &mut [Shard],
    schedule: &Schedule,
    places: &BTreeMap<u64, usize>,
    ids: &mut Ids,
    output: &mut Output<'_>,
) -> Result<(), TraceError> {
    let successors = schedule.successors();
    for (number, slice) in schedule.slices.iter().enumerate() {
        let shard = &mut shards[places[&slice.thread]];
        let next = successors[number].map(|next| schedule.slices[next as usize]);
        shard.privilege(output);
        loop {
            if output.flow().is_break() {
                return Ok(());
            }
            let timestamp = shard.peek()?.and_then(|entry| entry.timestamp());
            if let (Some(next), Some(timestamp)) = (next, timestamp)
                && timestamp >= next.timestamp
                && shard.instructions >= next.instructions
            {
                break;
            }
            if shard.step(ids, output)? {
                continue;
            }
            if let Some(next) = next {
                return Err(TraceError::Refused(format!(
                    "{}: slice {number} of thread {} does not fit {}: the thread's next slice begins behind its {} instructions, \
                     at instruction {}\n  = help: take {} out of the folder, and the files are merged by their timestamps",
                    schedule.name,
                    slice.thread,
                    shard.name(),
                    shard.instructions,
                    next.instructions,
                    schedule.name,
                )));
            }
            break;
        }
    }
    Ok(())
}

/// Reads the file with the earliest timestamp until another one has an earlier one.
fn by_timestamps(shards: &mut [Shard], ids: &mut Ids, output: &mut Output<'_>) -> Result<(), TraceError> {
    let mut queue = BinaryHeap::with_capacity(shards.len());
    for (place, shard) in shards.iter_mut().enumerate() {
        let first = shard.peek()?.and_then(|entry| entry.timestamp()).unwrap_or(0);
        queue.push(Reverse((first, place)));
    }
    while let Some(Reverse((_, place))) = queue.pop() {
        let shard = &mut shards[place];
        shard.privilege(output);
        loop {
            if output.flow().is_break() {
                return Ok(());
            }
            if !shard.step(ids, output)? {
                break;
            }
            let Some(timestamp) = shard.peek()?.and_then(|entry| entry.timestamp()) else { continue };
            let own = Reverse((timestamp, place));
            if queue.peek().is_some_and(|first| own < *first) {
                queue.push(own);
                break;
            }
        }
    }
    Ok(())
}
