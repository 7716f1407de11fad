//! The dataflow core model: an out-of-order core that executes a program's instructions.
//!
//! Where the source says which blocks of instructions are executed, each instruction passes through the pipeline in program order,
//! and each waits for the instructions that it depends on, for a unit and for memory. In equations, for instruction `i`, in cycles:
//!
//! ```text
//! fetch(l)    = max(fetch(l-1) + 1, redirect, dispatch of what follows line l - ahead); the line is there after its translation and
//!               what it takes beyond a hit in the first cache for instructions
//! take(b)     = max(take(b-1) + instructions/fetch-width, or what decoding them takes, dispatch(b-1) - queue/width); + 1 and bubbles behind a taken branch
//! dispatch(i) = max(dispatch(i-1) + slots/width, retire(i - window), drain(store i - store buffer), redirect, take and lines of the block,
//!               the first cycle in which fewer instructions than the scheduler has places are dispatched and have not begun),
//!               of which at most `dispatched-operations` are operations, and `dispatched-accesses` load or store
//! address(i)  = max(dispatch(i) + 1, base register, index register); + complex-address
//! load(i)     = first cycle >= address(i) with a load unit; + translation + latency of the cache, of DRAM; + vector-load, to a vector
//!             = max(that cycle + latency of forwarding, store's data) if a store to the same bytes is in flight
//! done(i)     = first cycle >= max(dispatch(i) + 1, source registers, load(i)) with a unit; + latency of the operation
//! retire(i)   = max(retire(i-1), done(i)), at most `retire-width` a cycle
//! redirect    = done(branch) + misprediction, after a branch that was predicted wrongly
//! ```
//!
//! Until `redirect` the core is on a wrong way, and may come to instructions of the right one there ([`speculation`]).
//!
//! Where schedulers have units of their own ([`own_units`]), an instruction waits for the units of one scheduler, which it enters at dispatch.
//!
//! Registers are renamed, so only true dependences count. A copy of a register and a register that is set to zero take a slot and no
//! unit; a conditional jump that fuses with the comparison before it takes none. The front end takes
//! the instructions of a block from a cycle on, a taken branch ends the cycle, and a queue stands between it and dispatch. A store is done when
//! its address is translated and its data is there; it leaves the store buffer in order, when its line is in the first cache, which the core
//! asks for as soon as it has the address, and again if others of its set have driven it out: one a cycle, or some to the same line.
//!
//! The time by which retirement advances is charged to the instruction that retires: to walks and memory, if a load made it late, in
//! proportion to what the load waited for either; to memory, if the store buffer was full; to branches, if it could not be dispatched
//! because of a misprediction; to fetch, if its line was not there; and otherwise to computing.
//!
//! Cycles of the front end are counted so that a line which hits is dispatched in the cycle in which it is asked for: the stages in
//! between are a part of `misprediction`.
//!
//! On an in-order core an instruction takes a unit no earlier than the one before it, but is done whenever it is: a load that misses
//! stops the first instruction that needs it, and with it all behind.
//!
//! Repetitions of a string instruction are executed together, so many bytes at once: the first of them stands for all, unless another one waits.
//!
//! An access to a line that is on its way waits until it arrives. Prefetchers (`time/prefetch`) hear of each access.
//!
//! Left out: lines that only wrong ways ask for, bank conflicts, memory ordering. Operations of microcode
//! have assumed latencies.

mod buffer;
mod charges;
mod decoded;
mod foresight;
mod forwarding;
mod order;
mod own_units;
mod owned;
mod pipeline;
mod plain;
mod plan;
mod predictor;
mod ready;
mod references;
mod renaming;
mod scheduler;
mod slots;
mod speculation;
mod state;
mod taken;
mod targets;
mod units;

use pagewalk_code::{Block, Instruction};
use pagewalk_trace::{BlockId, Code, Isa};

use self::pipeline::Pipeline;
use self::plan::Plan;
use self::renaming::Files;
use self::speculation::Blocks;
pub(super) use self::state::Charged;
use self::state::Design;
use self::units::{latency_back, work};
use crate::metrics::Rows;
use crate::metrics::names::time;
use crate::spec::settings::{DataflowSpec, MachineSpec};
use crate::time::cache::MemoryHierarchy;

/// The pipelines of all cores, and the blocks of the program.
#[derive(Debug)]
pub(super) struct Dataflow {
    blocks: Blocks,
    cores: Vec<Pipeline>,
    cycle_ps: u64,
    fetches: bool,
    /// Whether memory says how long it hands over other lines.
    queues: bool,
    /// The number of caches.
    caches: usize,
    /// The cycles that the front end takes to bring instructions from another place.
    refill: u64,
    planner: Planner,
}

/// What instructions take on a machine's cores.
#[derive(Debug)]
struct Planner {
    spec: DataflowSpec,
    /// The cycles of an instruction that the kernel executes.
    system: u32,
}

impl Planner {
    fn plan(&self, block: &Block, isa: Isa) -> Plan {
        let files = Files::new(isa, &self.spec);
        let work = |instruction: &Instruction| {
            let mut work = work(instruction.class, &self.spec.latencies, self.system);
            if !files.have_vectors(instruction.writes) {
                work.latency = latency_back(instruction.class, &self.spec.latencies).unwrap_or(work.latency);
            }
            work
        };
        let plan = Plan::of(block, &self.spec.slots, &files, work);
        if self.spec.are_dependences_followed { plan } else { plan.without_dependences() }
    }
}

/// What became of a reference: when it had its translation, and when its data is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    /// The physical address.
    pub(super) addr: u64,
    /// Whether it is a store.
    pub(super) write: bool,
    /// The place where it was found: 0 for the nearest cache, the number of caches for memory.
    pub(super) level: usize,
    /// The time from there of an access that nothing else is in the way of.
    pub(super) alone_ps: u64,
    /// When the address was translated.
    pub(super) translated_ps: u64,
    /// When the data of a load is there, and how long of this memory handed over other lines.
    pub(super) done_ps: u64,
    pub(super) queued_ps: u64,
}

impl Dataflow {
    /// Creates the pipelines of a machine's cores, which load from its memory.
    pub(super) fn new(machine: &MachineSpec, spec: &DataflowSpec, memory: &MemoryHierarchy) -> Self {
        let core = &machine.core;
        let fetch = machine.translation.fetch.as_ref();
        let design =
            Design::new(core, spec, fetch, memory.nearest_latency_ps(), machine.hierarchy.caches.first());
        Self {
            fetches: fetch.is_some(),
            queues: memory.queues(),
            caches: machine.hierarchy.caches.len(),
            refill: spec.misprediction.into(),
            planner: Planner {
                spec: spec.clone(),
                system: u32::try_from(machine.kernel.system_call_ps / core.cycle_ps).unwrap_or(u32::MAX),
            },
            blocks: Blocks::default(),
            cores: (0..core.count).map(|_| Pipeline::new(design.clone())).collect(),
            cycle_ps: core.cycle_ps,
        }
    }

    /// Takes the instructions of a block. Those of instruction sets that are not described have no dependences; nor have those of a
    /// number out of order, which no front-end gives and for which there may be no memory.
    pub(super) fn code(&mut self, code: &Code) {
        let block = match code.isa {
            Isa::X86_64 => Some(Block::of_x86_64(code.addr.0, &code.bytes)),
            Isa::Model => Some(Block::of_model(code.addr.0, &code.bytes)),
            Isa::Riscv64 => Some(Block::of_riscv64(code.addr.0, &code.bytes)),
            Isa::Outline => Some(Block::of_outlines(code.addr.0, &code.bytes)),
            Isa::Aarch64 => Some(Block::of_aarch64(code.addr.0, &code.bytes)),
            Isa::LoongArch64 => None,
        };
        self.blocks
            .take(code.block.0 as usize, block.map(|block| Box::new(self.planner.plan(&block, code.isa))));
    }

    /// Begins the execution of a block that makes so many accesses, of which so many have been made; what is left of the block before it is
    /// completed.
    #[inline(never)]
    pub(super) fn execute(&mut self, core: usize, block: BlockId, accesses: usize, made: usize) {
        let pipeline = &mut self.cores[core];
        let ended = pipeline.place.block;
        let before = ended.and_then(|number| self.blocks.get(number));
        if let Some(before) = before {
            pipeline.finish(before);
        }
        let number = block.0 as usize;
        let plan = self.blocks.get(number);
        pipeline.begin((plan.map(|plan| (number, plan)), before), accesses, made);
        if pipeline.speculation.is_on() {
            pipeline.speculation.arrive(plan, &pipeline.execution.ready, &self.blocks);
        }
        if let (Some(ended), Some(plan)) = (ended, plan) {
            let next = plan.addr;
            self.blocks.follow(ended, next);
        }
    }

    /// Lets a core leave its block.
    pub(super) fn abandon(&mut self, core: usize) {
        self.cores[core].abandon();
    }

    /// Returns the time that the front end takes to bring instructions from another place.
    pub(super) fn refill_ps(&self) -> u64 {
        self.refill * self.cycle_ps
    }

    /// Adds the time that only cores have which execute instructions to the rows. All cores' walks took so long.
    pub(super) fn rows(&self, rows: &mut Rows, walk_ps: u64) {
        let total =
            |part: fn(Charged) -> u64| (0..self.cores.len()).map(|core| part(self.charged(core))).sum();
        rows.sum(time::BRANCH, total(|charged| charged.branch_ps));
        if self.fetches {
            let fetch_ps = total(|charged| charged.fetch_ps);
            let translation_ps = total(|charged| charged.finer.translation);
            rows.sum(time::FETCH, fetch_ps);
            rows.sum(time::FETCH_TRANSLATION, translation_ps);
            rows.sum(time::FETCH_LINES, fetch_ps - translation_ps);
        }
        let tlb_ps = total(|charged| charged.finer.tlb);
        rows.sum(time::WALK_TLB, tlb_ps);
        rows.sum(time::WALK_TABLES, walk_ps - tlb_ps);
        let width_ps = total(|charged| charged.width_ps);
        rows.sum(time::COMPUTE_WIDTH, width_ps);
        rows.sum(time::COMPUTE_DEPENDENCES, total(|charged| charged.compute_ps) - width_ps);
        let mut stores_ps = total(|charged| charged.memory_ps);
        let mut of_level = |level: usize| {
            let ps = (0..self.cores.len()).map(|core| self.charged(core).finer.levels[level]).sum::<u64>();
            stores_ps -= ps;
            ps
        };
        for level in 0..self.caches {
            rows.sum(time::memory_of_cache(level + 1), of_level(level));
        }
        let (dram_ps, queue_ps) = (of_level(self.caches), total(|charged| charged.finer.queue));
        rows.sum(time::MEMORY_DRAM, dram_ps - queue_ps);
        if self.queues {
            rows.sum(time::MEMORY_BANDWIDTH, queue_ps);
        }
        rows.sum(time::MEMORY_STORES, stores_ps);
    }

    /// Goes on to the next line that a core fetches; returns when the front end asks for it.
    #[inline]
    pub(super) fn fetch_ps(&mut self, core: usize) -> u64 {
        let pipeline = &mut self.cores[core];
        // The front end's accesses are not an instruction's.
        pipeline.place.making = None;
        pipeline.front.fetch() * self.cycle_ps
    }

    /// Notes when the address of the line that a core fetched last had been translated, and when the line is there.
    #[inline]
    pub(super) fn fetched(&mut self, core: usize, translated_ps: u64, at_ps: u64) {
        let front = &mut self.cores[core].front;
        let asked = front.lines.asked;
        let asked_ps = asked * self.cycle_ps;
        // The usual case needs no division.
        let cycles = |ps: u64| if ps == asked_ps { asked } else { ps.div_ceil(self.cycle_ps) };
        let (translated, there) = (cycles(translated_ps), cycles(at_ps));
        front.fetched(translated, there);
    }

    /// Notes how long a farther level of the TLB takes to translate the address of the access that a core issued last.
    pub(super) fn translated_by_tlb(&mut self, core: usize, ps: u64) {
        self.cores[core].place.tlb = ps.div_ceil(self.cycle_ps);
    }

    /// Goes on to the instruction that makes the next access; returns when the access is issued, and when the instruction was dispatched.
    #[inline]
    pub(super) fn issue_ps(&mut self, core: usize) -> (u64, u64) {
        let pipeline = &mut self.cores[core];
        let plan = pipeline.place.block.and_then(|number| self.blocks.get(number));
        let issued = pipeline.issue(plan);
        (issued * self.cycle_ps, pipeline.front.dispatch.cycle() * self.cycle_ps)
    }

    /// Returns whether what a core did last is the load of an instruction that stores to the same place; a fetch is none.
    pub(super) fn modifies(&self, core: usize) -> bool {
        self.cores[core].place.making.is_some_and(|making| making.modifies)
    }

    /// Returns whether what a core did last is a load.
    #[inline]
    pub(super) fn loads(&self, core: usize) -> bool {
        self.cores[core].place.making.is_some_and(|making| !making.store)
    }

    /// Issues a further part of the access that was issued last; returns when.
    pub(super) fn issue_part_ps(&mut self, core: usize) -> u64 {
        self.cores[core].issue_part() * self.cycle_ps
    }

    /// Completes the access that was issued last; `reference` says what became of it, given the address of its instruction and when it was
    /// issued.
    #[inline(always)]
    pub(super) fn complete(&mut self, core: usize, reference: impl FnOnce(u64, u64) -> Reference) {
        let pipeline = &mut self.cores[core];
        let reference = reference(pipeline.instruction(), pipeline.place.issued * self.cycle_ps);
        pipeline.complete(&reference);
    }

    /// Returns when all instructions of a core so far have retired.
    pub(super) fn retired_ps(&self, core: usize) -> u64 {
        self.cores[core].back.retire.cycle() * self.cycle_ps
    }

    /// Lets everything of a core retire but the instruction that is under execution; returns when that is.
    pub(super) fn drain_ps(&mut self, core: usize) -> u64 {
        self.cores[core].drain() * self.cycle_ps
    }

    /// Lets a core go on with nothing in flight, from a time on; returns the beginning of its next cycle.
    pub(super) fn resume(&mut self, core: usize, from_ps: u64) -> u64 {
        let cycle = from_ps.div_ceil(self.cycle_ps);
        self.cores[core].resume(cycle);
        cycle * self.cycle_ps
    }

    /// Returns what the time of a core so far went into.
    pub(super) fn charged(&self, core: usize) -> Charged {
        let Pipeline { charges, design, .. } = &self.cores[core];
        charges.charged(self.cycle_ps, design.width)
    }
}
