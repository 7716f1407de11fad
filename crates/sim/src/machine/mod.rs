//! A memory system, built from its machine file.
//!
//! [`Simulate::batch`] consumes events. An access goes the way of a reference (`step.rs`): *translate*,
//! then *access*; everything else changes the address space (`kernel.rs`).

mod accelerator;
mod advice;
mod build;
mod core;
mod counts;
mod given;
mod kernel;
mod latency;
mod paging;
mod serve;
mod sharing;
mod step;
mod tables;
#[cfg(test)]
mod tests;
mod tier;
mod turns;

use pagewalk_trace::{Batch, Event, Mark, ProcessId};
use pagewalk_vm::addr::{Asid, VirtAddr};
use pagewalk_vm::frame::OutOfFrames;
use pagewalk_vm::reclaim::{PagePool, SwapFull, SwapSpace, Uses};
use pagewalk_vm::space::AddressSpace;
use pagewalk_vm::table::{PageTable, Radix, Upkeep, X86_64};

use self::accelerator::Accelerated;
use self::core::Core;
use self::counts::EventCounts;
use self::paging::Paging;
use self::serve::Serving;
use self::tables::TableSpace;
use self::tier::TierBooks;
use crate::metrics::{Rows, RunResult};
use crate::spec::settings::MachineSpec;
use crate::time::Clock;

pub(crate) use build::tlbs;
pub use build::{Detail, build};

/// A machine that consumes events: any geometry, with or without time.
///
/// # Contract
///
/// Batches come in order. After an error the machine takes no more batches. `finish` may be called at any batch
/// boundary and changes nothing.
pub trait Simulate: Send {
    /// The machine's name.
    fn name(&self) -> &str;

    /// Consumes a batch.
    ///
    /// # Errors
    ///
    /// The machine cannot run this program.
    fn batch(&mut self, batch: &Batch) -> Result<(), MachineError>;

    /// The source has ended: what is under way is finished.
    ///
    /// # Errors
    ///
    /// As for a batch.
    fn end(&mut self) -> Result<(), MachineError>;

    /// What was measured.
    fn finish(&self, source: &str) -> RunResult;
}

/// Why a machine cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MachineError {
    /// Its memory is full.
    #[error(
        "machine `{machine}`: its memory of {memory_bytes} bytes is too small for this program: {reason}\n  = help: \
         raise the memory under [frames] in the machine file, let pages leave with a [reclaim] section, or give the \
         program a smaller input"
    )]
    OutOfFrames {
        /// The machine.
        machine: String,
        /// Its memory.
        memory_bytes: u64,
        /// What the allocator said: in the text already, and therefore no source.
        reason: OutOfFrames,
    },
    /// Its page table needs more memory in one piece than there is.
    #[error(
        "machine `{machine}`: out of contiguous memory: its page table needs {wanted_kib} KiB in one piece; {free_mib} MiB \
         are free, {fragmented_percent} % of them in blocks smaller than 2 MiB\n  = help: lower `fragmentation` under \
         [frames.buddy] in the machine file, raise its memory, or give the table `chunks`"
    )]
    OutOfContiguousMemory {
        /// The machine.
        machine: String,
        /// What it asked for.
        wanted_kib: u64,
        /// What is free, in all.
        free_mib: u64,
        /// The share of that in blocks smaller than 2 MiB.
        fragmented_percent: u64,
    },
    /// Its swap device is full.
    #[error(
        "machine `{machine}`: {reason}\n  = help: raise `size` under [swap] in the machine file, or give the program a \
         smaller input"
    )]
    SwapFull {
        /// The machine.
        machine: String,
        /// What the device said: in the text already, and therefore no source.
        reason: SwapFull,
    },
    /// It serves jobs, and there were none.
    #[error(
        "machine `{machine}` serves jobs, and the source has none: nothing would take any time\n  = help: choose a workload that is \
         a server (`pagewalk workloads`), or a machine without [threads]"
    )]
    NoJobs {
        /// The machine.
        machine: String,
    },
    /// More processes than address-space identifiers.
    #[error("machine `{machine}`: more than {limit} processes at once; observe fewer")]
    TooManyProcesses {
        /// The machine.
        machine: String,
        /// How many there may be.
        limit: usize,
    },
}

/// A machine with page tables `T` and the clock `C`.
pub struct Machine<T: PageTable, C> {
    spec: MachineSpec,
    /// What its page tables are made like, and seeded with.
    design: T::Design,
    seed: u64,
    tables: TableSpace,
    frames: PagePool,
    /// Which uses of pages `frames` wants to hear of.
    uses: Uses,
    swap: SwapSpace,
    paging: Paging,
    accelerated: Option<Accelerated>,
    daemon: Option<Daemon>,
    processes: Vec<Process<T>>,
    cores: Vec<Core<T::Caches>>,
    clock: C,
    counts: EventCounts,
    /// Index of the current process, and of the core that its current thread runs on.
    process: usize,
    core: usize,
    /// Instructions and accesses of the current segment.
    segment: Option<(u64, u64)>,
    announces_mappings: bool,
    serving: Option<Serving>,
    /// Whether DRAM is a cache over flash that the kernel manages.
    tier_by_kernel: bool,
    tier_books: TierBooks,
    /// Pieces of shared memory whose sources do not tell which they are, so far.
    objects: u64,
    /// Counts at the beginning of each phase, by its name.
    phases: Vec<(String, Rows)>,
}

/// A process: its address space, as the kernel and as the hardware see it.
struct Process<T> {
    id: ProcessId,
    asid: Asid,
    space: AddressSpace,
    table: T,
    /// The part of the table's upkeep that was charged.
    paid: Upkeep,
    /// Beside a table of compressed frame numbers: the pages that have ordinary frames.
    ordinary: Option<Radix<X86_64>>,
}

/// When the timestamp daemon runs, in accesses.
#[derive(Clone, Copy)]
struct Daemon {
    interval: u64,
    left: u64,
}

impl<T: PageTable, C: Clock> Simulate for Machine<T, C> {
    fn name(&self) -> &str {
        &self.spec.name
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), MachineError> {
        if C::TIMED && self.serving.is_some() {
            return self.batch_of_jobs(batch);
        }
        if C::TIMED && self.cores.len() > 1 {
            return self.batch_by_time(batch);
        }
        let mut done = 0;
        for (number, Mark { at, event }) in batch.marks.iter().enumerate() {
            self.accesses(&batch.accesses[done..*at as usize])?;
            done = *at as usize;
            if let Event::Instructions(count) = event {
                self.begin_segment(*count, accesses_of_segment(batch, number));
            } else {
                self.event(event)?;
            }
        }
        self.accesses(&batch.accesses[done..])
    }

    fn end(&mut self) -> Result<(), MachineError> {
        if C::TIMED && self.serving.is_some() { self.serve_the_rest() } else { Ok(()) }
    }

    fn finish(&self, source: &str) -> RunResult {
        self.result(source)
    }
}

/// Accesses that the instruction count at a mark reaches to: up to the next one.
fn accesses_of_segment(batch: &Batch, mark: usize) -> u64 {
    let next = batch.marks[mark + 1..].iter().find(|mark| matches!(mark.event, Event::Instructions(_)));
    let end = next.map_or(batch.accesses.len(), |mark| mark.at as usize);
    (end - batch.marks[mark].at as usize) as u64
}

impl<T: PageTable, C: Clock> Machine<T, C> {
    fn event(&mut self, event: &Event) -> Result<(), MachineError> {
        match event {
            Event::Instructions(_)
            | Event::ThreadEnd(_)
            | Event::Unobserved(_)
            | Event::JobBegin { .. }
            | Event::JobEnd
            | Event::ThreadStack(_) => {}
            Event::Thread(thread) => self.switch_thread(thread.0 as usize),
            Event::Process(id) => self.switch_process(*id)?,
            Event::Fork { child } => self.fork(*child)?,
            Event::Exec => self.exec()?,
            Event::ProcessEnd => self.end_process()?,
            Event::Map(mapping) => self.map(*mapping)?,
            Event::Unmap(range) => self.unmap(*range)?,
            Event::Protect(range, protection) => self.protect(*range, *protection)?,
            Event::Advise(range, advice) => self.advise(*range, *advice)?,
            Event::Remap { from, to } => self.remap(*from, *to)?,
            Event::Break(heap) => self.set_break(*heap)?,
            Event::Frame(given) => self.learn_frame(*given)?,
            Event::Phase(name) => self.begin_phase(name),
        }
        Ok(())
    }

    /// So many instructions hold the next accesses.
    fn begin_segment(&mut self, instructions: u64, accesses: u64) {
        self.counts.instructions += instructions;
        self.segment = Some((instructions, accesses));
        self.clock.segment(self.core, Some(instructions), accesses);
    }

    /// Threads are placed on cores round-robin by their number.
    fn switch_thread(&mut self, thread: usize) {
        self.core = thread % self.cores.len();
        if let Some((instructions, accesses @ 1..)) = self.segment {
            self.clock.segment(self.core, Some(instructions), accesses);
        }
    }

    fn out_of_frames(&self, reason: OutOfFrames) -> MachineError {
        MachineError::OutOfFrames {
            machine: self.spec.name.clone(),
            memory_bytes: self.spec.frames.memory_bytes(),
            reason,
        }
    }
}

/// The first address above any that an event names; for whole address spaces.
const END: VirtAddr = VirtAddr(u64::MAX >> 1);
