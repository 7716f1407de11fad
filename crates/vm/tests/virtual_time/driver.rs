//! A machine of cores, schedulers, tiers and a device of constant latency, in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pagewalk_vm::random::{SplitMix64, mix};
use pagewalk_vm::sched::{Decision, Occasion, Scheduler, SchedulerDesign, Ticket};
use pagewalk_vm::tier::{Completion, Effect, Event, FlashPage, Tier, TierDesign};

/// What is run on what. Times are nanoseconds.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) cores: usize,
    pub(crate) tier: TierDesign,
    pub(crate) scheduler: SchedulerDesign,
    pub(crate) read_ns: u64,
    pub(crate) write_ns: u64,
    /// Between a job's accesses, and after its last.
    pub(crate) work_ns: u64,
    /// Of one core, one after the other; so many wait or are in flight at any time.
    pub(crate) jobs: u32,
    pub(crate) clients: u32,
    pub(crate) accesses: u32,
    /// The page of access `n` of all, in the order of the jobs, and whether it writes. Its random numbers are its own.
    pub(crate) access: fn(&mut SplitMix64, u64) -> (u64, bool),
    pub(crate) seed: u64,
}

/// What came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) end_ns: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) stalls: u64,
    pub(crate) reads: u64,
    pub(crate) finished: u64,
    /// Of every hit, eviction, arrival and decision, with its time, in order.
    pub(crate) sequence: u64,
}

/// The job that waits for a page: core and ticket.
type Waiter = (u32, Ticket);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Arrived(usize, FlashPage),
    Written(usize, FlashPage),
    /// A core goes on, unless something has made it go on before: then its count of turns is another.
    Core(u32, u64),
}

#[derive(Clone, Copy)]
struct Job {
    left: u32,
    /// The access that it makes, or was refused.
    access: Option<(FlashPage, bool)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Idle,
    /// Is to make its next access.
    Runs,
    /// Waits within an access.
    Blocked,
}

struct Core {
    scheduler: Scheduler<usize>,
    state: State,
    running: Option<(usize, Ticket)>,
    forced: bool,
    turn: u64,
    submitted: u32,
}

pub(crate) struct Machine {
    setup: Setup,
    tiers: Vec<Tier<Waiter>>,
    cores: Vec<Core>,
    jobs: Vec<Job>,
    /// Cores whose frontside stalls, by controller.
    stalled: Vec<VecDeque<u32>>,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    issued: u64,
    now: u64,
    outcome: Outcome,
    log: Vec<[u64; 4]>,
}

impl Machine {
    pub(crate) fn new(setup: Setup) -> Self {
        let controllers = 1 << setup.tier.index_shift;
        let core = |_| Core {
            scheduler: Scheduler::new(setup.scheduler).unwrap(),
            state: State::Idle,
            running: None,
            forced: false,
            turn: 0,
            submitted: 0,
        };
        Self {
            tiers: (0..controllers).map(|_| Tier::new(setup.tier.clone()).unwrap()).collect(),
            cores: (0..setup.cores).map(core).collect(),
            jobs: Vec::new(),
            stalled: vec![VecDeque::new(); controllers],
            due: BinaryHeap::new(),
            issued: 0,
            now: 0,
            outcome: Outcome { end_ns: 0, hits: 0, misses: 0, stalls: 0, reads: 0, finished: 0, sequence: 0 },
            log: Vec::new(),
            setup,
        }
    }

    /// Uses pages without time, before anything runs.
    #[allow(dead_code)] // Not every test does.
    pub(crate) fn warm(&mut self, pages: impl Iterator<Item = u64>) {
        for page in pages.map(FlashPage) {
            self.tiers[self.setup.tier.controller_of(page)].touch(page, false);
        }
    }

    /// Runs all jobs; what came out, and every hit, eviction, arrival and decision. Panics if something waits for what never
    /// comes.
    pub(crate) fn run(mut self) -> (Outcome, Vec<[u64; 4]>) {
        for core in 0..self.setup.cores as u32 {
            (0..self.setup.clients).for_each(|_| self.submit(core));
            self.wake_core(core, 0);
        }
        while let Some(Reverse((time, _, due))) = self.due.pop() {
            assert!(time >= self.now);
            self.now = time;
            match due {
                Due::Arrived(controller, page) => self.step(controller, Event::Arrived { page }),
                Due::Written(controller, page) => self.step(controller, Event::Written { page }),
                Due::Core(core, turn) if self.cores[core as usize].turn == turn => self.turn(core),
                Due::Core(..) => {}
            }
        }
        let wanted = self.setup.cores as u64 * u64::from(self.setup.jobs);
        assert_eq!(
            self.outcome.finished,
            wanted,
            "deadlock: {} jobs are left",
            wanted - self.outcome.finished
        );
        for tier in &self.tiers {
            tier.check();
            assert!(tier.is_idle());
            self.outcome.reads += tier.counts().reads;
        }
        (self.outcome, self.log)
    }

    fn note(&mut self, what: u64, a: u64, b: u64) {
        self.log.push([what, a, b, self.now]);
        for word in [what, a, b, self.now] {
            self.outcome.sequence = mix(self.outcome.sequence ^ word).wrapping_add(what);
        }
    }

    fn at(&mut self, delay: u64, due: Due) {
        self.issued += 1;
        self.due.push(Reverse((self.now + delay, self.issued, due)));
    }

    fn wake_core(&mut self, core: u32, delay: u64) {
        let turns = &mut self.cores[core as usize].turn;
        *turns += 1;
        let turn = *turns;
        self.at(delay, Due::Core(core, turn));
    }

    fn submit(&mut self, core: u32) {
        let at = &mut self.cores[core as usize];
        if at.submitted < self.setup.jobs {
            at.submitted += 1;
            at.scheduler.submit(self.jobs.len()).unwrap();
            self.jobs.push(Job { left: self.setup.accesses, access: None });
        }
    }

    fn turn(&mut self, core: u32) {
        match self.cores[core as usize].state {
            State::Idle => self.decide(core, Occasion::Idle),
            State::Runs => self.access(core),
            State::Blocked => {}
        }
    }

    fn decide(&mut self, core: u32, occasion: Occasion) {
        let now = self.now;
        let at = &mut self.cores[core as usize];
        match at.scheduler.decide(now, occasion) {
            Decision::Run { job, ticket, resumed } => {
                (at.state, at.running, at.forced) = (State::Runs, Some((job, ticket)), resumed);
                self.note(1, core.into(), job as u64 * 2 + u64::from(resumed));
                self.wake_core(core, 0);
            }
            Decision::Wait { until } => {
                (at.state, at.running) = (State::Idle, None);
                if let Some(time) = until {
                    self.wake_core(core, time.saturating_sub(now));
                }
            }
        }
    }

    /// The running job's next access, or the one that was refused.
    fn access(&mut self, core: u32) {
        let (job, ticket) = self.cores[core as usize].running.expect("it runs");
        if self.jobs[job].left == 0 {
            self.outcome.finished += 1;
            self.outcome.end_ns = self.now;
            self.submit(core);
            return self.decide(core, Occasion::Finished);
        }
        let made = self.setup.accesses - self.jobs[job].left;
        let number = job as u64 * u64::from(self.setup.accesses) + u64::from(made);
        let (page, write) = *self.jobs[job].access.get_or_insert_with(|| {
            let mut random = SplitMix64::of_item(self.setup.seed, number);
            let (page, write) = (self.setup.access)(&mut random, number);
            (FlashPage(page), write)
        });
        let controller = self.setup.tier.controller_of(page);
        let tier = &mut self.tiers[controller];
        if let Some(frame) = tier.lookup(page, write) {
            self.outcome.hits += 1;
            self.note(2, page.0, frame.0.into());
            return self.complete(core);
        }
        if !tier.accepts() {
            self.outcome.stalls += 1;
            self.cores[core as usize].state = State::Blocked;
            self.stalled[controller].push_back(core);
            return;
        }
        self.outcome.misses += 1;
        self.note(5, page.0, core.into());
        let forced = self.cores[core as usize].forced;
        let completes = if forced { Completion::Now { write } } else { Completion::Later };
        if forced {
            self.cores[core as usize].state = State::Blocked;
        }
        self.step(controller, Event::Miss { page, waiter: (core, ticket), completes });
        if !forced {
            self.decide(core, Occasion::Missed);
        }
    }

    /// The running job's access is made.
    fn complete(&mut self, core: u32) {
        let at = &mut self.cores[core as usize];
        (at.state, at.forced) = (State::Runs, false);
        let (job, _) = at.running.expect("it runs");
        self.jobs[job].access = None;
        self.jobs[job].left -= 1;
        self.wake_core(core, self.setup.work_ns);
    }

    fn step(&mut self, controller: usize, event: Event<Waiter>) {
        let mut effects = Vec::new();
        self.tiers[controller].step(event, &mut effects).unwrap();
        for effect in effects {
            match effect {
                Effect::Read { page, .. } => self.at(self.setup.read_ns, Due::Arrived(controller, page)),
                Effect::Write { page, .. } => self.at(self.setup.write_ns, Due::Written(controller, page)),
                Effect::Wake { waiter: (core, ticket), completes: Completion::Later, .. } => {
                    let now = self.now;
                    let at = &mut self.cores[core as usize];
                    at.scheduler.arrived(now, ticket);
                    if at.state == State::Idle {
                        self.wake_core(core, 0);
                    }
                }
                Effect::Wake { waiter: (core, _), .. } => self.complete(core),
                Effect::Copy { page, frame, .. } | Effect::Discard { page, frame } => {
                    self.note(3, page.0, frame.0.into());
                }
                Effect::Install { page, frame } | Effect::Restore { page, frame, .. } => {
                    self.note(4, page.0, frame.0.into());
                }
            }
        }
        if self.tiers[controller].accepts() {
            for core in std::mem::take(&mut self.stalled[controller]) {
                self.cores[core as usize].state = State::Runs;
                self.wake_core(core, 0);
            }
        }
    }
}
