//! Cores serve jobs, in order of time.

use pagewalk_vm::sched::{Decision, Occasion};
use pagewalk_vm::table::PageTable;

use super::Jobs;
use super::job::{Job, JobBlock};
use super::server::{Running, State};
use crate::engine::{Engine, NotMade, begin_block};
use crate::error::MachineError;
use crate::metrics::{Boundary, KernelStep, Phases};
use crate::time::{Clock, MissKind, Missed, Waiter, Woken};

/// Jobs that an engine's cores serve.
pub(super) struct Serving<'a, T: PageTable, C> {
    pub(super) jobs: &'a mut Jobs,
    pub(super) engine: &'a mut Engine<T, C>,
    pub(super) phases: &'a mut Phases,
}

impl<T: PageTable, C: Clock> Serving<'_, T, C> {
    /// Serves until a job is needed that has not been read, or nothing is left to do.
    pub(super) fn serve(&mut self) -> Result<(), MachineError> {
        loop {
            let (core, core_ps, others_ps) = self.next_server();
            let arrival_ps = self.jobs.list.next_arrival_ps();
            let memory_ps = self.engine.clock.memory_next_ps();
            let (timer_ps, idle_core) = self.next_timer();
            let event_ps = arrival_ps.min(memory_ps).min(timer_ps);
            if event_ps <= core_ps && event_ps < u64::MAX {
                if memory_ps == event_ps {
                    if let Some((at_ps, woken)) = self.engine.clock.memory_advance(event_ps) {
                        self.woken(at_ps, woken);
                    }
                    self.engine.forget_left();
                } else if arrival_ps == event_ps {
                    self.arrive(event_ps);
                } else {
                    self.end_idling(idle_core, event_ps);
                }
                continue;
            }
            let Some(core) = core else { return Ok(()) };
            self.engine.core = core;
            let may_go_on = match self.jobs.servers[core].state {
                State::Decides(occasion) => self.decide(core, occasion),
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

    /// Returns the earliest core that can go on, its time, and that of the next.
    fn next_server(&self) -> (Option<usize>, u64, u64) {
        let (mut first, mut first_ps, mut second_ps) = (None, u64::MAX, u64::MAX);
        for (core, server) in self.jobs.servers.iter().enumerate() {
            if !server.can_go_on() {
                continue;
            }
            let ps = self.engine.clock.time(core);
            if ps < first_ps {
                (first, first_ps, second_ps) = (Some(core), ps, first_ps);
            } else {
                second_ps = second_ps.min(ps);
            }
        }
        (first, first_ps, second_ps)
    }

    /// Returns the earliest core that stops idling by itself, and when it does.
    fn next_timer(&self) -> (u64, usize) {
        let servers = self.jobs.servers.iter().enumerate();
        let timers = servers.filter_map(|(core, server)| Some((server.timer_ps()?, core)));
        timers.min_by_key(|&(ps, _)| ps).unwrap_or((u64::MAX, 0))
    }

    /// Lets the next job arrive, at a core that chance chooses.
    fn arrive(&mut self, at_ps: u64) {
        let core = self.jobs.placement.below(self.jobs.servers.len() as u64) as usize;
        self.submit(core, at_ps);
        self.end_idling(core, at_ps);
    }

    /// Submits the next job to a core.
    fn submit(&mut self, core: usize, at_ps: u64) {
        let job = self.jobs.list.arrive(at_ps);
        if self.jobs.servers[core].scheduler.submit(job).is_err() {
            self.jobs.latencies.refused += 1;
            self.jobs.list.refuse(job);
        }
    }

    /// Lets a core that has nothing to do look again.
    fn end_idling(&mut self, core: usize, at_ps: u64) {
        if matches!(self.jobs.servers[core].state, State::Idles { .. }) {
            self.engine.clock.wait(core, KernelStep::Idle, at_ps);
            self.jobs.servers[core].state = State::Decides(Occasion::Idle);
        }
    }

    /// Makes the accesses of a core those of a running job from now on.
    fn request_as(&mut self, core: usize, running: Running) {
        let place = self.jobs.list.place(running.job);
        let who = self.jobs.servers[core].requester(core, running, place);
        self.engine.clock.request_as(core, who);
    }

    /// Wakes a job, or a core that waits, for which a page is there.
    fn woken(&mut self, at_ps: u64, woken: Woken) {
        let Waiter { core, ticket } = woken.waiter;
        let core = core as usize;
        let server = &mut self.jobs.servers[core];
        match server.state {
            State::Waits(running, kind)
                if running.ticket == ticket && (woken.is_synchronous || kind == MissKind::Fault) =>
            {
                let granted = (kind == MissKind::Synchronous).then_some(woken.page);
                let running = Running { granted, repeats: true, is_dispatched: true, ..running };
                server.state = State::Runs(running);
                self.request_as(core, running);
                self.engine.core = core;
                self.engine.end_wait(kind, at_ps);
            }
            _ => {
                server.scheduler.arrived(at_ps, ticket);
                self.end_idling(core, at_ps);
            }
        }
    }

    /// Lets a core choose what to do. Returns whether it could: it cannot if it needs a job that has not been read.
    fn decide(&mut self, core: usize, occasion: Occasion) -> bool {
        let now_ps = self.engine.clock.time(core);
        if self.jobs.servers[core].scheduler.new_jobs() == 0 {
            match self.jobs.list.next() {
                // There is always another one waiting.
                Some(None) => self.submit(core, now_ps),
                Some(Some(_)) => {}
                None if self.jobs.has_ended => {}
                None => return false,
            }
        }
        let server = &mut self.jobs.servers[core];
        let (job, ticket, resumed) = match server.scheduler.decide(now_ps, occasion) {
            Decision::Run { job, ticket, resumed } => (job, ticket, resumed),
            Decision::Wait { until } => {
                server.state = State::Idles { until_ps: until.unwrap_or(u64::MAX) };
                return true;
            }
        };
        #[cfg(test)]
        crate::witness::note(1, core as u64, u64::from(job) * 2 + u64::from(resumed), now_ps);
        let running = Running { job, ticket, granted: None, is_dispatched: resumed, repeats: resumed };
        server.state = State::Runs(running);
        if resumed {
            server.registers.resume_at(self.jobs.list.place(job));
        }
        let who = server.requester(core, running, self.jobs.list.place(job));
        if resumed {
            self.resume(core, job, occasion);
        } else {
            self.begin_job(job, now_ps);
        }
        self.engine.clock.request_as(core, who);
        true
    }

    /// Resumes a job whose page is there, at its own pace.
    fn resume(&mut self, core: usize, job: u32, occasion: Occasion) {
        if occasion != Occasion::Missed {
            let switch_ps = self.switch_ps();
            self.engine.clock.kernel(core, KernelStep::Switch, switch_ps);
        }
        if self.engine.kernel.manages_tier() {
            self.engine.end_page_in();
        }
        if let Some((instructions, accesses @ 1..)) = self.jobs.list.job(job).current_segment() {
            self.engine.clock.segment(core, Some(instructions), accesses);
        }
        if let Some(JobBlock { block, accesses, made }) = self.jobs.list.job(job).current_block() {
            self.engine.clock.execute_from(core, block, accesses, made);
        }
    }

    /// Returns the time to go from a thread to another: the threads' own, or the kernel's.
    fn switch_ps(&self) -> u64 {
        match self.engine.kernel.manages_tier() {
            true => self.engine.kernel.state.spec.kernel.paging.switch_ps,
            false => self.jobs.threads.switch_ps,
        }
    }

    fn begin_job(&mut self, job: u32, now_ps: u64) {
        for boundary in std::mem::take(&mut self.jobs.list.job(job).boundaries) {
            self.cross(&boundary);
        }
        let job = self.jobs.list.job(job);
        (job.started_ps, job.part) = (now_ps, self.phases.part());
    }

    /// Crosses a boundary now.
    pub(super) fn cross(&mut self, boundary: &Boundary) {
        // Otherwise a wait that this snapshot counts could still be hidden by what comes after it.
        self.engine.clock.settle();
        let rows = self.engine.rows(|rows| self.jobs.latencies.rows(rows));
        self.phases.begin(boundary, rows);
    }

    /// Runs a job until it misses, is done, or something else is earlier.
    fn run_job(&mut self, core: usize, mut running: Running, until_ps: u64) -> Result<(), MachineError> {
        loop {
            if !running.is_dispatched {
                if !self.dispatch(core, running.job, until_ps)? {
                    return Ok(());
                }
                running.is_dispatched = true;
            }
            // Dispatching took time.
            if self.engine.clock.time(core) > until_ps {
                self.jobs.servers[core].state = State::Runs(running);
                return Ok(());
            }
            let job = self.jobs.list.job(running.job);
            let access = job.accesses[job.access];
            let addr = self.jobs.placed(core, running.ticket, access.addr());
            let write = access.is_write();
            if running.repeats {
                self.engine.clock.begin_again(core);
            }
            self.engine.mmu.count_accesses(core, 1);
            match self.engine.access(addr, write).map_err(|not_made| *not_made) {
                Ok(()) => {}
                Err(NotMade::Missed(missed)) => {
                    self.engine.counts.repeated += 1;
                    self.miss(core, running, missed);
                    return Ok(());
                }
                Err(NotMade::Failed(error)) => return Err(error),
            }
            self.engine.counts.stores += u64::from(write);
            let at = self.jobs.list.place(running.job);
            self.jobs.list.job(running.job).access += 1;
            running.is_dispatched = false;
            if running.repeats {
                // It has retired: the bit is clear.
                running = Running { granted: None, repeats: false, ..running };
                self.jobs.servers[core].registers.retire(at);
                self.request_as(core, running);
            }
            self.jobs.servers[core].state = State::Runs(running);
        }
    }

    /// Dispatches a job's next access, unless others are earlier; if there is none, the job is done. Returns whether it did.
    fn dispatch(&mut self, core: usize, number: u32, until_ps: u64) -> Result<bool, MachineError> {
        loop {
            if self.engine.clock.time(core) > until_ps {
                return Ok(false);
            }
            self.engine.notice_interrupts();
            let job = self.jobs.list.job(number);
            if let Some((instructions, accesses)) = job.next_segment() {
                self.engine.counts.instructions += instructions;
                self.engine.clock.segment(core, Some(instructions), accesses);
                continue;
            }
            if let Some(JobBlock { block, accesses, .. }) = job.next_block() {
                begin_block(self.engine, block, accesses)?;
                continue;
            }
            if job.access == job.accesses.len() {
                self.finish_job(core, number);
                return Ok(false);
            }
            self.engine.clock.begin(core);
            return Ok(true);
        }
    }

    /// Handles an access of a job whose page is not in DRAM.
    #[cold]
    fn miss(&mut self, core: usize, running: Running, Missed { page, signal_ps, kind }: Missed) {
        let place = self.jobs.list.place(running.job);
        match kind {
            MissKind::Stalled | MissKind::Synchronous => {
                self.engine.clock.wait(core, KernelStep::Miss, signal_ps);
                self.jobs.servers[core].state = State::Waits(running, kind);
                return;
            }
            MissKind::Fault => {
                let waiter = Waiter { core: core as u32, ticket: running.ticket };
                self.engine.begin_page_in(page, waiter);
            }
            MissKind::Away => {
                self.engine.clock.wait(core, KernelStep::Miss, signal_ps);
                let flush_ps = self.engine.clock.refill_ps().unwrap_or(self.jobs.threads.flush_ps);
                self.engine.clock.kernel(core, KernelStep::Flush, flush_ps);
            }
        }
        self.jobs.latencies.misses += 1;
        if self.jobs.servers[core].registers.miss(place).is_none() {
            self.jobs.servers[core].state = State::Waits(running, kind);
            return;
        }
        self.engine.clock.abandon(core);
        let switch_ps = self.switch_ps();
        self.engine.clock.kernel(core, KernelStep::Switch, switch_ps);
        self.jobs.servers[core].state = State::Decides(Occasion::Missed);
    }

    fn finish_job(&mut self, core: usize, number: u32) {
        let finished_ps = self.engine.clock.retired(core);
        let Job { arrival_ps, started_ps, part, .. } = *self.jobs.list.job(number);
        let arrival_ps = arrival_ps.expect("it has arrived");
        self.jobs.latencies.record(part, finished_ps - started_ps, finished_ps - arrival_ps);
        self.jobs.list.finish(number);
        self.jobs.servers[core].state = State::Decides(Occasion::Finished);
    }
}
