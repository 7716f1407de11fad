//! The contents of a trace, for `pagewalk trace info`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use pagewalk_vm::addr::PAGE_BYTES;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::{Access, Batch, Event, ProcessId, ThreadId};
use crate::foreign::{self, Kind, ReadOptions, Remarks, Translations};
use crate::partial::Partial;
use crate::source::{Sink, SourceError};

/// The contents of one trace file, found by reading all of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceSummary {
    /// The name of the file.
    pub file: String,
    /// The name of the file's format.
    pub format: String,
    /// The version of the `.pwt` format in which the file is written.
    pub version: Option<u32>,
    /// The source that was recorded.
    pub source: String,
    /// Whether it has the mappings.
    pub announces_mappings: bool,
    /// Whether it has instruction counts.
    pub counts_instructions: bool,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Bytes of the file per access; none without accesses.
    pub bytes_per_access: Option<f64>,
    /// Accesses, records that stand for none excluded.
    pub accesses: u64,
    /// Loads by size in bytes.
    pub loads: BTreeMap<u64, u64>,
    /// Stores by size in bytes.
    pub stores: BTreeMap<u64, u64>,
    /// Instructions; none if they are not counted.
    pub instructions: Option<u64>,
    /// Executions of blocks of instructions; none if the trace does not say which blocks are executed.
    pub executed_blocks: Option<u64>,
    /// Blocks whose instructions the trace has; none likewise.
    pub code_blocks: Option<u64>,
    /// Bytes of the instructions of all these blocks; none likewise.
    pub code_bytes: Option<u64>,
    /// The number of batches.
    pub batches: u64,
    /// Threads with an access.
    pub threads: u64,
    /// Processes with an access.
    pub processes: u64,
    /// Marks by kind, instruction counts excluded.
    pub marks: BTreeMap<&'static str, u64>,
    /// Phases in order, each once.
    pub phases: Vec<String>,
    /// Distinct 4 KiB pages touched, of all processes together.
    pub pages: u64,
    /// The same in bytes.
    pub footprint_bytes: u64,
    /// Accesses to the kernel's half, left out.
    pub skipped_kernel_accesses: u64,
    /// The number of prefetches, which were left out.
    pub skipped_prefetches: u64,
    /// The records that were left out or had to be assumed, by kind.
    pub remarks: Remarks,
    /// The reason why the recording holds a part of its source only, if it does.
    pub partial: Option<Partial>,
    /// The reason why only a part of the trace could be read: it is damaged or cut short there.
    pub damage: Option<String>,
    /// The number of pages of each size in bytes that the trace gives a frame, if it does.
    pub translations: Option<BTreeMap<u64, u64>>,
}

/// The most phase names that a summary lists.
const MAX_PHASES: usize = 1_000;

/// Reads the whole trace at `path` and says what it holds; of a damaged one what it holds before the damage.
///
/// # Errors
///
/// What is wrong with the file, if there is no access before that.
pub fn info(path: &Path, options: impl Into<ReadOptions>) -> Result<TraceSummary, SourceError> {
    let mut source = foreign::open(path, options)?;
    let source_info = source.info();
    let mut counter = Counter::default();
    let ended = source.run(&mut counter);
    let (remarks, file_bytes) = (source.remarks(), source.file_bytes());
    let (loads, stores) = (sizes(&counter.kinds[..8]), sizes(&counter.kinds[8..]));
    let accesses = loads.values().chain(stores.values()).sum();
    let damage = match ended {
        Err(error) if accesses == 0 => return Err(error),
        ended => ended.err().map(|error| error.to_string()),
    };
    let pages = counter.pages.count();
    Ok(TraceSummary {
        file: path.display().to_string(),
        format: source.format().to_string(),
        version: source.version(),
        source: source_info.name,
        announces_mappings: source_info.announces_mappings,
        counts_instructions: source_info.counts_instructions,
        file_bytes,
        bytes_per_access: (accesses > 0).then(|| file_bytes as f64 / accesses as f64),
        accesses,
        loads,
        stores,
        instructions: source_info.counts_instructions.then_some(counter.instructions),
        executed_blocks: source_info.gives_blocks.then_some(counter.executed_blocks),
        code_blocks: source_info.gives_blocks.then_some(counter.code_blocks),
        code_bytes: source_info.gives_blocks.then_some(counter.code_bytes),
        batches: counter.batches,
        threads: counter.threads.len() as u64,
        processes: counter.processes.len() as u64,
        marks: counter.marks,
        phases: counter.phases,
        pages,
        footprint_bytes: pages * PAGE_BYTES,
        skipped_kernel_accesses: remarks.left_out(Kind::KernelAddresses),
        skipped_prefetches: remarks.left_out(Kind::Prefetches),
        remarks,
        partial: source.partial().cloned(),
        damage,
        translations: source.translations().map(Translations::sizes),
    })
}

/// The nonzero counts by size.
fn sizes(counts: &[u64]) -> BTreeMap<u64, u64> {
    (0..).zip(counts).filter(|&(_, &count)| count > 0).map(|(log2, &count)| (1 << log2, count)).collect()
}

struct Counter {
    /// By bits 48 to 51 of the record: store bit and log2 of the size.
    kinds: [u64; 16],
    instructions: u64,
    executed_blocks: u64,
    code_blocks: u64,
    code_bytes: u64,
    batches: u64,
    threads: BTreeSet<ThreadId>,
    processes: BTreeSet<ProcessId>,
    thread: ThreadId,
    process: ProcessId,
    marks: BTreeMap<&'static str, u64>,
    phases: Vec<String>,
    pages: PageSet,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            kinds: [0; 16],
            instructions: 0,
            executed_blocks: 0,
            code_blocks: 0,
            code_bytes: 0,
            batches: 0,
            threads: BTreeSet::new(),
            processes: BTreeSet::new(),
            thread: ThreadId(1),
            process: ProcessId(0),
            marks: BTreeMap::new(),
            phases: Vec::new(),
            pages: PageSet::default(),
        }
    }
}

impl Sink for Counter {
    fn batch(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        self.batches += 1;
        self.executed_blocks += batch.blocks.len() as u64;
        let mut start = 0;
        for mark in &batch.marks {
            self.accesses(&batch.accesses[start..mark.at as usize]);
            start = mark.at as usize;
            self.event(&mark.event);
        }
        self.accesses(&batch.accesses[start..]);
        ControlFlow::Continue(())
    }
}

impl Counter {
    fn accesses(&mut self, accesses: &[Access]) {
        let mut any = false;
        for access in accesses.iter().filter(|access| access.is_some()) {
            any = true;
            self.kinds[usize::from(access.is_write()) << 3 | access.size_log2() as usize] += 1;
            let first = access.addr().page().0;
            self.pages.insert(self.process, first);
            let last = access.addr().add(access.bytes() - 1).page().0;
            if last != first {
                self.pages.insert(self.process, last);
            }
        }
        if any {
            self.threads.insert(self.thread);
            self.processes.insert(self.process);
        }
    }

    fn event(&mut self, event: &Event) {
        let name = match event {
            Event::Instructions(count) => {
                self.instructions = self.instructions.saturating_add(*count);
                return;
            }
            Event::Code(code) => {
                self.code_blocks += 1;
                self.code_bytes += code.bytes.len() as u64;
                return;
            }
            Event::Thread(thread) => {
                self.thread = *thread;
                "thread"
            }
            Event::Process(process) => {
                self.process = *process;
                "process"
            }
            Event::Phase(name) => {
                if self.phases.len() < MAX_PHASES && !self.phases.contains(name) {
                    self.phases.push(name.clone());
                }
                "phase"
            }
            Event::ThreadEnd(_) => "thread-end",
            Event::Fork { .. } => "fork",
            Event::Exec => "exec",
            Event::ProcessEnd => "process-end",
            Event::Unobserved(_) => "unobserved",
            Event::Map(_) => "map",
            Event::Unmap(_) => "unmap",
            Event::Protect(..) => "protect",
            Event::Advise(..) => "advise",
            Event::Remap { .. } => "remap",
            Event::Break(_) => "break",
            Event::KernelWrite(_) => "kernel-write",
            Event::Frame(_) => "frame",
            // One of each pair is enough.
            Event::JobEnd => return,
            Event::JobBegin { .. } => "job",
            Event::ThreadStack(_) => "thread-stack",
        };
        *self.marks.entry(name).or_default() += 1;
    }
}

/// A set of pages of processes: a bit each, in blocks of 512 pages (2 MiB).
#[derive(Default)]
struct PageSet {
    blocks: FxHashMap<(ProcessId, u64), [u64; 8]>,
    last: Option<(ProcessId, u64)>,
}

impl PageSet {
    fn insert(&mut self, process: ProcessId, page: u64) {
        // Most accesses are to the page before.
        if self.last != Some((process, page)) {
            self.last = Some((process, page));
            let block = self.blocks.entry((process, page >> 9)).or_default();
            block[(page >> 6 & 7) as usize] |= 1 << (page & 63);
        }
    }

    fn count(&self) -> u64 {
        self.blocks.values().flatten().map(|bits| u64::from(bits.count_ones())).sum()
    }
}
