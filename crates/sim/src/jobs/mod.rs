//! Serving jobs: they arrive, threads run them, and a core goes over to another when a page is not in DRAM.
//!
//! A job is what a source marks as one. Jobs come in the source's order: at their arrival times, each on a core that
//! chance chooses, or, where they have none, to whatever core has nothing new to do. Which of a core's jobs runs is the
//! [`Scheduler`]'s decision. Cores go on in order of time, access by access, and so does memory behind them.
//!
//! What a source does outside of jobs (it fills tables, warms caches) takes no time: every page of it is used once in the
//! tier and has an entry, and that is all. Page tables without DRAM of their own are on flash then.
//!
//! DEVIATION: a job's accesses are those of the order in which the source made them; what it reads does not depend on when
//! it runs. Changes of the address space between jobs happen when they are read.

mod job;
mod latency;
mod serve;
mod server;

use pagewalk_trace::{Access, Batch, Event, Mapping};
use pagewalk_vm::addr::{Pfn, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::random::SplitMix64;
use pagewalk_vm::sched::{MissRegisters, Occasion, Privilege, Scheduler, Ticket};
use pagewalk_vm::table::PageTable;
use pagewalk_vm::tier::FlashPage;

use self::job::JobList;
pub(crate) use self::latency::Latencies;
use self::serve::Serving;
use self::server::{Server, State};
use crate::engine::{Accesses, Engine, Then, follows_blocks, pieces};
use crate::error::MachineError;
use crate::metrics::{Boundary, Phases};
use crate::spec::settings::{MachineSpec, ThreadsSpec};
use crate::time::Clock;

/// The address of the threads' stacks, where no program has anything.
const STACKS: VirtAddr = VirtAddr(0x2000_0000_0000);
/// The address of the handler by which a job's program hears of a miss; nothing is there in a trace.
const HANDLER: u64 = 0x1000_0000_0000;
/// Pages that preparation remembers the frames of.
const RECENT: usize = 1 << 14;

/// Jobs, and the threads that run them.
pub(crate) struct Jobs {
    threads: ThreadsSpec,
    servers: Vec<Server>,
    list: JobList,
    /// The source's stack, of which every thread gets one.
    stack: Option<VirtRange>,
    /// Chance, which chooses the core that gets the next job.
    placement: SplitMix64,
    /// Whether no more jobs come.
    has_ended: bool,
    recent: Vec<(Vpn, Pfn)>,
    pub(crate) latencies: Latencies,
}

impl Jobs {
    pub(crate) fn new(spec: &MachineSpec, threads: &ThreadsSpec, seed: u64) -> Self {
        let mut registers = MissRegisters::default();
        let switches = spec.tier.as_ref().is_some_and(|tier| tier.switches);
        registers.set_handler(Privilege::Supervisor, switches.then_some(HANDLER)).expect("it is the kernel");
        let server = |_| Server {
            scheduler: Scheduler::new(threads.design).expect("the machine file was checked"),
            registers,
            state: State::Decides(Occasion::Idle),
        };
        Self {
            threads: threads.clone(),
            servers: (0..spec.core.count).map(server).collect(),
            list: JobList::default(),
            stack: None,
            placement: SplitMix64::of_item(seed, u64::from_be_bytes(*b"arrivals")),
            has_ended: false,
            recent: vec![(Vpn(u64::MAX), Pfn(0)); RECENT],
            latencies: Latencies::default(),
        }
    }

    /// Takes a batch's jobs in, prepares what is outside of them, and serves as far as that goes.
    pub(crate) fn batch<T: PageTable, C: Clock>(
        &mut self,
        engine: &mut Engine<T, C>,
        phases: &mut Phases,
        batch: &Batch,
    ) -> Result<(), MachineError> {
        for piece in pieces(batch) {
            self.take_accesses(engine, piece.accesses)?;
            match piece.then {
                Then::Segment { instructions, accesses } => self.list.read_segment(instructions, accesses),
                Then::Event(Event::JobBegin { arrival_ps }) => self.list.open(*arrival_ps),
                Then::Event(Event::JobEnd) => self.list.close(),
                Then::Event(Event::Phase(name)) => {
                    self.list.read_boundary(Boundary::Phase(name.clone()));
                }
                Then::Event(Event::ThreadStack(range)) => self.give_stacks(engine, *range)?,
                Then::Event(event) => {
                    self.recent.fill((Vpn(u64::MAX), Pfn(0)));
                    engine.event(event)?;
                }
                Then::End => {}
            }
        }
        Serving { jobs: self, engine, phases }.serve()
    }

    /// Begins to measure with the next job.
    pub(crate) fn measure(&mut self) {
        self.list.read_boundary(Boundary::Measuring);
    }

    /// Ends the source: no more jobs come, and those that there are end.
    pub(crate) fn end<T: PageTable, C: Clock>(
        &mut self,
        engine: &mut Engine<T, C>,
        phases: &mut Phases,
        machine: &str,
    ) -> Result<(), MachineError> {
        if self.list.is_untouched() {
            return Err(MachineError::NoJobs { machine: machine.to_owned() });
        }
        self.has_ended = true;
        let mut serving = Serving { jobs: self, engine, phases };
        // From here on, cores run out of work.
        serving.cross(&Boundary::Phase("drain".to_owned()));
        serving.serve()
    }

    /// Gives every thread a stack.
    fn give_stacks<T: PageTable, C: Clock>(
        &mut self,
        engine: &mut Engine<T, C>,
        stack: VirtRange,
    ) -> Result<(), MachineError> {
        let threads = self.servers.len() as u64 * u64::from(self.threads.per_core);
        self.stack = (stack.bytes() > 0).then_some(stack);
        match stack.bytes() {
            0 => Ok(()),
            bytes => {
                let stacks = VirtRange::sized(STACKS, threads * bytes);
                engine.event(&Event::Map(Mapping::anonymous(stacks)))
            }
        }
    }

    fn take_accesses<T: PageTable, C: Clock>(
        &mut self,
        engine: &mut Engine<T, C>,
        accesses: Accesses<'_>,
    ) -> Result<(), MachineError> {
        match self.list.being_read() {
            Some(job) => {
                job.read(accesses, follows_blocks(engine));
                Ok(())
            }
            None => accesses.list.iter().try_for_each(|&access| self.prepare(engine, access)),
        }
    }

    /// Uses a page without time.
    fn prepare<T: PageTable, C: Clock>(
        &mut self,
        engine: &mut Engine<T, C>,
        access: Access,
    ) -> Result<(), MachineError> {
        let (page, write) = (access.addr().page(), access.is_write());
        self.latencies.prepared += 1;
        let recent = &mut self.recent[page.0 as usize % RECENT];
        if recent.0 != page {
            // A signal: nothing to prepare.
            let Some(frame) = engine.frame_without_time(access.addr(), write)? else { return Ok(()) };
            *recent = (page, frame);
        }
        engine.clock.touch(FlashPage(recent.1.0), write);
        Ok(())
    }

    /// Returns where an access of a thread is: one of the source's stack is to the thread's own.
    #[inline]
    fn placed(&self, core: usize, ticket: Ticket, addr: VirtAddr) -> VirtAddr {
        match self.stack {
            Some(stack) if addr >= stack.start && addr < stack.end => {
                let thread = core as u64 * u64::from(self.threads.per_core) + u64::from(ticket.place);
                STACKS.add(thread * stack.bytes() + (addr.0 - stack.start.0))
            }
            _ => addr,
        }
    }
}
