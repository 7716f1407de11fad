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

use std::collections::VecDeque;

use pagewalk_trace::{Access, Batch, Event, Mapping, Mark};
use pagewalk_vm::addr::{Pfn, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::random::SplitMix64;
use pagewalk_vm::sched::{Decision, MissRegisters, Occasion, Privilege, Scheduler, Ticket};
use pagewalk_vm::table::{PageTable, WalkEnd, WalkOutcome};
use pagewalk_vm::tier::FlashPage;

use super::latency::Latencies;
use super::step::Refused;
use super::{Machine, MachineError, accesses_of_segment};
use crate::metrics::KernelStep;
use crate::spec::settings::{MachineSpec, ThreadsSpec};
use crate::time::{Clock, MissKind, Missed, Requester, Waiter, Woken};

/// Where threads' stacks are: where no program has anything.
const STACKS: VirtAddr = VirtAddr(0x2000_0000_0000);
/// Where a job's program hears of a miss; nothing is there in a trace.
const HANDLER: u64 = 0x1000_0000_0000;
/// Pages that preparation remembers the frames of.
const RECENT: usize = 1 << 14;

/// Jobs, and the threads that run them.
pub(super) struct Serving {
    threads: ThreadsSpec,
    cores: Vec<Server>,
    /// By number; reused.
    jobs: Vec<Job>,
    free: Vec<u32>,
    /// Read, and not arrived.
    backlog: VecDeque<u32>,
    /// Being read.
    open: Option<u32>,
    /// Phases that begin with the next job.
    phases: Vec<String>,
    /// The source's stack, of which every thread gets one.
    stack: Option<VirtRange>,
    /// Which core gets the next job.
    placement: SplitMix64,
    /// Whether no more jobs come.
    has_ended: bool,
    recent: Vec<(Vpn, Pfn)>,
    pub(super) latencies: Latencies,
}

/// A core and what it is at.
struct Server {
    scheduler: Scheduler<u32>,
    /// Instructions are the accesses of the job that runs, by their place.
    registers: MissRegisters,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// It has to choose.
    Decides(Occasion),
    Runs(Running),
    /// It runs a job and can do nothing but wait for memory.
    Waits(Running, MissKind),
    /// It has nothing to do, until then at the latest.
    Idles {
        until_ps: u64,
    },
}

#[derive(Clone, Copy)]
struct Running {
    job: u32,
    ticket: Ticket,
    granted: Option<FlashPage>,
    /// Whether its next access has been dispatched, and whether it was made before.
    is_dispatched: bool,
    repeats: bool,
}

#[derive(Default)]
struct Job {
    accesses: Vec<Access>,
    /// From which access on, how many instructions contain how many accesses.
    segments: Vec<(usize, u64, u64)>,
    /// What comes next.
    access: usize,
    segment: usize,
    arrival_ps: Option<u64>,
    started_ps: u64,
    /// Phases that begin with it.
    phases: Vec<String>,
    /// The phase that it began in.
    phase: usize,
}

impl Serving {
    pub(super) fn new(spec: &MachineSpec, threads: &ThreadsSpec, seed: u64) -> Self {
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
            cores: (0..spec.core.count).map(server).collect(),
            jobs: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            open: None,
            phases: Vec::new(),
            stack: None,
            placement: SplitMix64::of_item(seed, u64::from_be_bytes(*b"arrivals")),
            has_ended: false,
            recent: vec![(Vpn(u64::MAX), Pfn(0)); RECENT],
            latencies: Latencies::default(),
        }
    }

    /// A job to read into.
    fn open_job(&mut self, arrival_ps: Option<u64>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(Job::default());
            self.jobs.len() as u32 - 1
        });
        let phases = std::mem::take(&mut self.phases);
        let job = &mut self.jobs[number as usize];
        job.accesses.clear();
        job.segments.clear();
        (job.access, job.segment, job.arrival_ps, job.phases) = (0, 0, arrival_ps, phases);
        self.open = Some(number);
    }

    /// The next arrival of a job that has a time; the end of time if the next one has none.
    fn next_arrival_ps(&self) -> u64 {
        let next = self.backlog.front().and_then(|&job| self.jobs[job as usize].arrival_ps);
        next.unwrap_or(u64::MAX)
    }

    /// A job comes to a core.
    fn submit(&mut self, core: usize, job: u32, at_ps: u64) {
        self.jobs[job as usize].arrival_ps = Some(at_ps);
        if self.cores[core].scheduler.submit(job).is_err() {
            self.latencies.refused += 1;
            // Its phases begin all the same.
            self.phases.append(&mut self.jobs[job as usize].phases);
            self.free.push(job);
        }
    }

    fn requester(&self, core: usize, running: Running) -> Requester {
        let waiter = Waiter { core: core as u32, ticket: running.ticket };
        let at = self.jobs[running.job as usize].access as u64;
        let must_complete = self.cores[core].registers.completes(at);
        Requester { waiter, must_complete, granted: running.granted }
    }

    /// An access of a thread's stack is to its own.
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

impl<T: PageTable, C: Clock> Machine<T, C> {
    /// The jobs of a machine that serves them.
    fn serving(&mut self) -> &mut Serving {
        self.serving.as_mut().expect("a machine with threads")
    }

    /// Takes a batch's jobs in, prepares what is outside of them, and serves as far as that goes.
    pub(super) fn batch_of_jobs(&mut self, batch: &Batch) -> Result<(), MachineError> {
        let mut done = 0;
        for (number, Mark { at, event }) in batch.marks.iter().enumerate() {
            self.take_accesses(&batch.accesses[done..*at as usize])?;
            done = *at as usize;
            let serving = self.serving();
            match event {
                Event::JobBegin { arrival_ps } => serving.open_job(*arrival_ps),
                Event::JobEnd => serving.backlog.extend(serving.open.take()),
                Event::Instructions(count) => {
                    if let Some(job) = serving.open {
                        let job = &mut serving.jobs[job as usize];
                        job.segments.push((job.accesses.len(), *count, accesses_of_segment(batch, number)));
                    }
                }
                Event::Phase(name) => serving.phases.push(name.clone()),
                Event::ThreadStack(range) => self.give_stacks(*range)?,
                event => {
                    self.serving().recent.fill((Vpn(u64::MAX), Pfn(0)));
                    self.event(event)?;
                }
            }
        }
        self.take_accesses(&batch.accesses[done..])?;
        self.serve_jobs()
    }

    /// No more jobs come: those that there are end.
    pub(super) fn serve_the_rest(&mut self) -> Result<(), MachineError> {
        if self.serving().jobs.is_empty() {
            return Err(MachineError::NoJobs { machine: self.spec.name.clone() });
        }
        self.serving().has_ended = true;
        // From here on, cores run out of work.
        self.begin_phase("drain");
        self.serve_jobs()
    }

    /// Every thread gets a stack.
    fn give_stacks(&mut self, stack: VirtRange) -> Result<(), MachineError> {
        let serving = self.serving();
        let threads = serving.cores.len() as u64 * u64::from(serving.threads.per_core);
        serving.stack = (stack.bytes() > 0).then_some(stack);
        match stack.bytes() {
            0 => Ok(()),
            bytes => self.map(Mapping::anonymous(VirtRange::sized(STACKS, threads * bytes))),
        }
    }

    fn take_accesses(&mut self, accesses: &[Access]) -> Result<(), MachineError> {
        let serving = self.serving();
        match serving.open {
            Some(job) => {
                serving.jobs[job as usize].accesses.extend_from_slice(accesses);
                Ok(())
            }
            None => accesses.iter().try_for_each(|&access| self.prepare(access)),
        }
    }

    /// A page is used without time.
    fn prepare(&mut self, access: Access) -> Result<(), MachineError> {
        let (page, write) = (access.addr().page(), access.is_write());
        self.serving().latencies.prepared += 1;
        let slot = page.0 as usize % RECENT;
        let (known, mut frame) = self.serving().recent[slot];
        if known != page {
            loop {
                let process = &self.processes[self.process];
                let walk = process.table.walk(&self.tables.memory, process.asid, page, None);
                if let WalkEnd::Leaf { leaf, .. } = walk.end() {
                    frame = leaf.frame;
                    break;
                }
                match self.fault(access.addr(), write) {
                    Ok(()) => {}
                    Err(Refused::Machine(error)) => return Err(error),
                    // A signal: nothing to prepare.
                    Err(_) => return Ok(()),
                }
            }
            self.serving().recent[slot] = (page, frame);
        }
        self.clock.touch(FlashPage(frame.0), write);
        Ok(())
    }

    /// Serves until a job is needed that has not been read, or nothing is left to do.
    fn serve_jobs(&mut self) -> Result<(), MachineError> {
        loop {
            let (core, core_ps, others_ps) = self.next_server();
            let arrival_ps = self.serving().next_arrival_ps();
            let memory_ps = self.clock.memory_next_ps();
            let (timer_ps, idle_core) = self.next_timer();
            let event_ps = arrival_ps.min(memory_ps).min(timer_ps);
            if event_ps <= core_ps && event_ps < u64::MAX {
                if memory_ps == event_ps {
                    if let Some((at_ps, woken)) = self.clock.memory_advance(event_ps) {
                        self.woken(at_ps, woken);
                    }
                    if self.tier_by_kernel {
                        self.pages_left();
                    }
                } else if arrival_ps == event_ps {
                    self.arrive(event_ps);
                } else {
                    self.end_idling(idle_core, event_ps);
                }
                continue;
            }
            let Some(core) = core else { return Ok(()) };
            self.core = core;
            let may_go_on = match self.serving().cores[core].state {
                State::Decides(occasion) => self.decide(core, occasion)?,
                State::Runs(running) => {
                    // What happens at the same time, happens before.
                    let until_ps = others_ps.min(event_ps.saturating_sub(1));
                    self.run_job(core, running, until_ps)?;
                    true
                }
                State::Waits(..) | State::Idles { .. } => unreachable!("it was chosen because it can go on"),
            };
            if !may_go_on {
                return Ok(());
            }
        }
    }

    /// The earliest core that can go on, its time, and that of the next.
    fn next_server(&self) -> (Option<usize>, u64, u64) {
        let serving = self.serving.as_ref().expect("a machine with threads");
        let (mut first, mut first_ps, mut second_ps) = (None, u64::MAX, u64::MAX);
        for (core, server) in serving.cores.iter().enumerate() {
            if matches!(server.state, State::Waits(..) | State::Idles { .. }) {
                continue;
            }
            let ps = self.clock.time(core);
            if ps < first_ps {
                (first, first_ps, second_ps) = (Some(core), ps, first_ps);
            } else {
                second_ps = second_ps.min(ps);
            }
        }
        (first, first_ps, second_ps)
    }

    /// The earliest core that stops idling by itself.
    fn next_timer(&self) -> (u64, usize) {
        let serving = self.serving.as_ref().expect("a machine with threads");
        let timers = serving.cores.iter().enumerate().filter_map(|(core, server)| match server.state {
            State::Idles { until_ps } => Some((until_ps, core)),
            _ => None,
        });
        timers.min().unwrap_or((u64::MAX, 0))
    }

    /// The next job arrives, at a core that chance chooses.
    fn arrive(&mut self, at_ps: u64) {
        let serving = self.serving();
        let core = serving.placement.below(serving.cores.len() as u64) as usize;
        let job = serving.backlog.pop_front().expect("it was looked at");
        serving.submit(core, job, at_ps);
        self.end_idling(core, at_ps);
    }

    /// A core that has nothing to do looks again.
    fn end_idling(&mut self, core: usize, at_ps: u64) {
        if matches!(self.serving().cores[core].state, State::Idles { .. }) {
            self.clock.wait(core, KernelStep::Idle, at_ps);
            self.serving().cores[core].state = State::Decides(Occasion::Idle);
        }
    }

    /// A page is there for a job, or for a core that waits.
    pub(super) fn woken(&mut self, at_ps: u64, woken: Woken) {
        let Some(serving) = &mut self.serving else { return };
        let Waiter { core, ticket } = woken.waiter;
        let core = core as usize;
        let server = &mut serving.cores[core];
        match server.state {
            State::Waits(running, kind)
                if running.ticket == ticket && (woken.is_synchronous || kind == MissKind::Fault) =>
            {
                let granted = (kind == MissKind::Synchronous).then_some(woken.page);
                let running = Running { granted, repeats: true, is_dispatched: true, ..running };
                server.state = State::Runs(running);
                let who = serving.requester(core, running);
                self.clock.request_as(core, who);
                let step = if kind == MissKind::Stalled { KernelStep::Stall } else { KernelStep::Read };
                self.clock.wait(core, step, at_ps);
                if kind == MissKind::Fault {
                    self.core = core;
                    self.end_page_in();
                }
            }
            _ => {
                server.scheduler.arrived(at_ps, ticket);
                self.end_idling(core, at_ps);
            }
        }
    }

    /// A core chooses what to do; not if it needs a job that has not been read.
    fn decide(&mut self, core: usize, occasion: Occasion) -> Result<bool, MachineError> {
        let now_ps = self.clock.time(core);
        let serving = self.serving();
        if serving.cores[core].scheduler.new_jobs() == 0 {
            match serving.backlog.front().map(|&job| serving.jobs[job as usize].arrival_ps) {
                // There is always another one waiting.
                Some(None) => {
                    let job = serving.backlog.pop_front().expect("it was looked at");
                    serving.submit(core, job, now_ps);
                }
                Some(Some(_)) => {}
                None if serving.has_ended => {}
                None => return Ok(false),
            }
        }
        let decision = serving.cores[core].scheduler.decide(now_ps, occasion);
        let (job, ticket, resumed) = match decision {
            Decision::Run { job, ticket, resumed } => (job, ticket, resumed),
            Decision::Wait { until } => {
                serving.cores[core].state = State::Idles { until_ps: until.unwrap_or(u64::MAX) };
                return Ok(true);
            }
        };
        #[cfg(test)]
        crate::witness::note(1, core as u64, u64::from(job) * 2 + u64::from(resumed), now_ps);
        let running = Running { job, ticket, granted: None, is_dispatched: resumed, repeats: resumed };
        serving.cores[core].state = State::Runs(running);
        if resumed {
            let at = serving.jobs[job as usize].access as u64;
            serving.cores[core].registers.resume_at(at);
        }
        let who = serving.requester(core, running);
        let switch_ps = self.switch_ps();
        if resumed {
            if occasion != Occasion::Missed {
                self.clock.kernel(core, KernelStep::Switch, switch_ps);
            }
            if self.tier_by_kernel {
                self.end_page_in();
            }
            self.begin_job_segment(core, job);
        } else {
            self.begin_job(job, now_ps);
        }
        self.clock.request_as(core, who);
        Ok(true)
    }

    /// From a thread to another: the threads' own, or the kernel's.
    fn switch_ps(&mut self) -> u64 {
        match self.tier_by_kernel {
            true => self.spec.kernel.paging.switch_ps,
            false => self.serving().threads.switch_ps,
        }
    }

    fn begin_job(&mut self, job: u32, now_ps: u64) {
        let phases = std::mem::take(&mut self.serving().jobs[job as usize].phases);
        for name in phases {
            self.begin_phase(&name);
        }
        let phase = self.phases.len();
        let job = &mut self.serving().jobs[job as usize];
        (job.started_ps, job.phase) = (now_ps, phase);
    }

    /// A job that goes on does so at its own pace.
    fn begin_job_segment(&mut self, core: usize, job: u32) {
        let job = &self.serving().jobs[job as usize];
        let current = job.segment.checked_sub(1).and_then(|at| job.segments.get(at));
        if let Some(&(_, instructions, accesses @ 1..)) = current {
            self.clock.segment(core, Some(instructions), accesses);
        }
    }

    /// Runs a job until it misses, is done, or something else is earlier.
    fn run_job(&mut self, core: usize, mut running: Running, until_ps: u64) -> Result<(), MachineError> {
        let number = running.job as usize;
        loop {
            if !running.is_dispatched {
                if !self.dispatch(core, number, until_ps)? {
                    return Ok(());
                }
                running.is_dispatched = true;
            }
            // Dispatching took time.
            if self.clock.time(core) > until_ps {
                self.serving().cores[core].state = State::Runs(running);
                return Ok(());
            }
            let serving = self.serving.as_mut().expect("a machine with threads");
            let job = &serving.jobs[number];
            let access = job.accesses[job.access];
            let addr = serving.placed(core, running.ticket, access.addr());
            let write = access.is_write();
            if running.repeats {
                self.clock.begin_again(core);
            }
            if self.clock.is_due(core, self.paging.due_ps()) {
                self.run_due()?;
            }
            self.cores[core].accesses += 1;
            if let Some(missed) = self.attempt(addr, write)? {
                self.counts.repeated += 1;
                self.miss(core, running, missed);
                return Ok(());
            }
            self.counts.stores += u64::from(write);
            let serving = self.serving.as_mut().expect("a machine with threads");
            let at = serving.jobs[number].access as u64;
            serving.jobs[number].access += 1;
            running.is_dispatched = false;
            if running.repeats {
                // It has retired: the bit is clear.
                running = Running { granted: None, repeats: false, ..running };
                serving.cores[core].registers.retire(at);
                let who = serving.requester(core, running);
                self.clock.request_as(core, who);
            }
            self.serving().cores[core].state = State::Runs(running);
        }
    }

    /// Dispatches a job's next access, unless others are earlier; if there is none, the job is done. Whether it did.
    fn dispatch(&mut self, core: usize, number: usize, until_ps: u64) -> Result<bool, MachineError> {
        loop {
            if self.clock.time(core) > until_ps {
                return Ok(false);
            }
            self.notice_interrupts();
            let serving = self.serving.as_mut().expect("a machine with threads");
            let job = &mut serving.jobs[number];
            if let Some(&(at, instructions, accesses)) = job.segments.get(job.segment)
                && at <= job.access
            {
                job.segment += 1;
                self.counts.instructions += instructions;
                self.clock.segment(core, Some(instructions), accesses);
                continue;
            }
            if job.access == job.accesses.len() {
                self.finish_job(core, number);
                return Ok(false);
            }
            self.clock.begin(core);
            return Ok(true);
        }
    }

    /// A job's page is not in DRAM.
    #[cold]
    fn miss(&mut self, core: usize, running: Running, Missed { page, signal_ps, kind }: Missed) {
        let serving = self.serving();
        let waiter = serving.requester(core, running).waiter;
        let flush_ps = serving.threads.flush_ps;
        match kind {
            MissKind::Stalled | MissKind::Synchronous => {
                self.clock.wait(core, KernelStep::Miss, signal_ps);
                self.serving().cores[core].state = State::Waits(running, kind);
                return;
            }
            MissKind::Fault => self.begin_page_in(page, waiter),
            MissKind::Away => {
                self.clock.wait(core, KernelStep::Miss, signal_ps);
                self.clock.kernel(core, KernelStep::Flush, flush_ps);
            }
        }
        let serving = self.serving();
        serving.latencies.misses += 1;
        let at = serving.jobs[running.job as usize].access as u64;
        if serving.cores[core].registers.miss(at).is_none() {
            self.serving().cores[core].state = State::Waits(running, kind);
            return;
        }
        let switch_ps = self.switch_ps();
        self.clock.kernel(core, KernelStep::Switch, switch_ps);
        self.serving().cores[core].state = State::Decides(Occasion::Missed);
    }

    fn finish_job(&mut self, core: usize, number: usize) {
        let finished_ps = self.clock.retired(core);
        let serving = self.serving();
        let Job { arrival_ps, started_ps, phase, .. } = serving.jobs[number];
        let arrival_ps = arrival_ps.expect("it has arrived");
        serving.latencies.record(phase, finished_ps - started_ps, finished_ps - arrival_ps);
        serving.free.push(number as u32);
        serving.cores[core].state = State::Decides(Occasion::Finished);
    }
}
