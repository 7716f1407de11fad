//! The new jobs and the pending ones of a core.

use std::collections::VecDeque;

use super::response::Average;
use super::{DesignError, Notification, Policy, SchedulerDesign};

/// A job that has been started, by its place among those: below the capacity for pending ones plus 1. Free for another once
/// the job has finished.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u32);

/// Why a decision is due.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Occasion {
    /// The running job is done.
    Finished,
    /// The running job missed, was refused, and becomes pending.
    Missed,
    /// Nothing runs: a job was submitted, a page arrived, or the time has come.
    Idle,
}

/// What the core does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision<J> {
    /// It runs this job.
    Run {
        /// The job.
        job: J,
        /// Its ticket.
        ticket: Ticket,
        /// Whether it was pending. Its forward-progress bit is set then: the access that it missed with is completed even
        /// if the page is not there.
        resumed: bool,
    },
    /// It waits until something is submitted or arrives, and no longer than this.
    Wait {
        /// When the oldest pending job is due, if only time is waited for.
        until: Option<u64>,
    },
}

/// There is no room for another new job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{capacity} new jobs wait already, as many as may")]
pub struct NewQueueFull {
    /// The limit.
    pub capacity: u32,
}

/// What happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SchedulerCounts {
    /// New jobs that were begun.
    pub started: u64,
    /// Jobs that were done.
    pub finished: u64,
    /// Misses: times that a job became pending.
    pub missed: u64,
    /// Times that a pending job was resumed.
    pub resumed: u64,
    /// Of these, before its page was there.
    pub resumed_early: u64,
    /// Misses that found as many jobs pending as may be.
    pub found_full: u64,
    /// The longest that a job was pending, from its miss until it was resumed.
    pub longest_pending: u64,
}

/// What a started job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    /// Nothing.
    None,
    /// A page that has not arrived.
    Coming,
    /// Nothing more: it has arrived.
    There,
}

#[derive(Clone, Copy, Debug)]
struct Started<J> {
    /// `None` if the place is free.
    job: Option<J>,
    page: Page,
    missed_at: u64,
}

/// The scheduler of one core.
///
/// # Decisions
///
/// With [`Policy::Priority`], whatever the occasion: the pending job that is ready; else a new one; else wait. Ready is, with
/// [`Notification::Arrival`], the oldest whose page has arrived; with [`Notification::Age`], the oldest, once its age exceeds
/// the average response.
///
/// With [`Policy::Fifo`]: after a miss, the oldest pending job if it is ready; else a new one; else the oldest pending job if it
/// is ready; else wait. Only the oldest is looked at.
///
/// A job that misses while as many are pending as may be is not pending yet, and the core does nothing else until the
/// oldest can go on; then that runs and the other takes its place. DEVIATION in the wording only: with [`Notification::Age`]
/// the scheduler does not know arrivals, so the oldest is resumed at once, and its core waits within its access.
///
/// # How long a job is pending
///
/// With [`Policy::Priority`], new jobs cannot starve it. From when it is ready (its page has arrived, or its age exceeds the
/// average response) every decision is for it or for one that is older and ready, too; and of these there are at most
/// `pending_capacity - 1`. So it is resumed within as many decisions as jobs may be pending, and one more if the core was busy.
#[derive(Clone, Debug)]
pub struct Scheduler<J> {
    design: SchedulerDesign,
    new: VecDeque<J>,
    /// By ticket.
    started: Vec<Started<J>>,
    free: Vec<Ticket>,
    /// In the order of their misses.
    pending: VecDeque<Ticket>,
    /// Pending jobs whose page is there.
    there: u32,
    running: Option<Ticket>,
    /// The job that missed and found the pending ones full.
    refused: Option<Ticket>,
    average: Average,
    counts: SchedulerCounts,
}

impl<J: Copy> Scheduler<J> {
    /// Without jobs.
    ///
    /// # Errors
    ///
    /// The design cannot be.
    pub fn new(design: SchedulerDesign) -> Result<Self, DesignError> {
        design.check()?;
        let places = design.pending_capacity + 1;
        Ok(Self {
            design,
            new: VecDeque::new(),
            started: vec![Started { job: None, page: Page::None, missed_at: 0 }; places as usize],
            free: (0..places).rev().map(Ticket).collect(),
            pending: VecDeque::with_capacity(places as usize),
            there: 0,
            running: None,
            refused: None,
            average: Average::new(design.response),
            counts: SchedulerCounts::default(),
        })
    }

    /// What it is made like.
    #[inline]
    pub fn design(&self) -> &SchedulerDesign {
        &self.design
    }

    /// What happened so far.
    #[inline]
    pub fn counts(&self) -> &SchedulerCounts {
        &self.counts
    }

    /// One new job more. If the core waits, a decision is due.
    ///
    /// # Errors
    ///
    /// There is no room for it.
    pub fn submit(&mut self, job: J) -> Result<(), NewQueueFull> {
        if self.new.len() == self.design.new_capacity as usize {
            return Err(NewQueueFull { capacity: self.design.new_capacity });
        }
        self.new.push_back(job);
        Ok(())
    }

    /// The page of this job has arrived. If the core waits, a decision is due.
    ///
    /// It may come before the miss is reported with [`Occasion::Missed`], if the page was found on the way; then flash has
    /// not responded, and nothing is measured. It may also come while the job runs again, if that was resumed early.
    ///
    /// # Panics
    ///
    /// In a debug build, if the job waits for nothing.
    pub fn arrived(&mut self, now: u64, ticket: Ticket) {
        let running = self.running == Some(ticket);
        let started = &mut self.started[ticket.0 as usize];
        debug_assert!(started.job.is_some(), "a page arrived for {ticket:?}, which is no job's");
        debug_assert!(started.page != Page::There, "two pages arrived for {ticket:?}, which waits for one");
        if started.page == Page::Coming {
            self.average.measure(now - started.missed_at);
        }
        if running && started.page == Page::Coming {
            started.page = Page::None;
            return;
        }
        started.page = Page::There;
        if !running && self.refused != Some(ticket) {
            self.there += 1;
        }
    }

    /// What the core does from now on.
    ///
    /// # Panics
    ///
    /// If the occasion cannot be: a job runs while the core is idle, or none finishes or misses.
    pub fn decide(&mut self, now: u64, occasion: Occasion) -> Decision<J> {
        let running = self.running.take();
        match (occasion, running) {
            (Occasion::Finished, Some(ticket)) => {
                let finished = &mut self.started[ticket.0 as usize];
                debug_assert!(
                    finished.page == Page::None,
                    "{ticket:?} has finished, but waits: {:?}",
                    finished.page
                );
                finished.job = None;
                self.free.push(ticket);
                self.counts.finished += 1;
            }
            (Occasion::Missed, Some(ticket)) => self.miss(now, ticket),
            (Occasion::Idle, None) => {}
            _ => panic!("{occasion:?} while {running:?} runs"),
        }
        if let Some(refused) = self.refused {
            return self.make_room(now, refused);
        }
        let next = match self.design.policy {
            Policy::Priority => self.ready(now),
            Policy::Fifo if occasion == Occasion::Missed || self.new.is_empty() => self.ready(now),
            Policy::Fifo => None,
        };
        match next {
            Some(place) => self.resume(now, place),
            None => self.start(),
        }
    }

    fn miss(&mut self, now: u64, ticket: Ticket) {
        let started = &mut self.started[ticket.0 as usize];
        assert!(started.page != Page::Coming, "{ticket:?} missed again before its forward progress");
        if started.page == Page::None {
            started.page = Page::Coming;
        }
        started.missed_at = now;
        self.counts.missed += 1;
        if self.pending.len() == self.design.pending_capacity as usize {
            self.counts.found_full += 1;
            self.refused = Some(ticket);
        } else {
            self.append(ticket);
        }
    }

    fn append(&mut self, ticket: Ticket) {
        self.pending.push_back(ticket);
        self.there += u32::from(self.page_of(ticket) == Page::There);
    }

    /// The oldest runs and the refused job takes its place, as soon as that can be.
    fn make_room(&mut self, now: u64, refused: Ticket) -> Decision<J> {
        let knows = self.design.notification == Notification::Arrival;
        if knows && self.page_of(self.pending[0]) != Page::There {
            return Decision::Wait { until: None };
        }
        let decision = self.resume(now, 0);
        self.refused = None;
        self.append(refused);
        decision
    }

    /// Which pending job can go on.
    fn ready(&self, now: u64) -> Option<usize> {
        let &oldest = self.pending.front()?;
        match self.design.notification {
            Notification::Age => (now >= self.due(oldest)).then_some(0),
            Notification::Arrival if self.there == 0 => None,
            Notification::Arrival if self.design.policy == Policy::Fifo => {
                (self.page_of(oldest) == Page::There).then_some(0)
            }
            Notification::Arrival => {
                self.pending.iter().position(|&ticket| self.page_of(ticket) == Page::There)
            }
        }
    }

    /// When the job's age exceeds the average response.
    fn due(&self, ticket: Ticket) -> u64 {
        self.started[ticket.0 as usize].missed_at + self.average.value() + 1
    }

    fn page_of(&self, ticket: Ticket) -> Page {
        self.started[ticket.0 as usize].page
    }

    fn resume(&mut self, now: u64, place: usize) -> Decision<J> {
        let ticket = self.pending.remove(place).expect("it was found there");
        let started = &mut self.started[ticket.0 as usize];
        let age = now - started.missed_at;
        self.counts.resumed += 1;
        self.counts.longest_pending = self.counts.longest_pending.max(age);
        if started.page == Page::There {
            started.page = Page::None;
            self.there -= 1;
        } else {
            self.counts.resumed_early += 1;
        }
        self.running = Some(ticket);
        let job = started.job.expect("a pending job is started");
        Decision::Run { job, ticket, resumed: true }
    }

    fn start(&mut self) -> Decision<J> {
        let Some(job) = self.new.pop_front() else {
            let by_age = self.design.notification == Notification::Age;
            let oldest = self.pending.front().filter(|_| by_age);
            return Decision::Wait { until: oldest.map(|&ticket| self.due(ticket)) };
        };
        let ticket = self.free.pop().expect("fewer are pending than may be, and none runs");
        self.started[ticket.0 as usize] = Started { job: Some(job), page: Page::None, missed_at: 0 };
        self.running = Some(ticket);
        self.counts.started += 1;
        Decision::Run { job, ticket, resumed: false }
    }

    /// New jobs that wait.
    #[inline]
    pub fn new_jobs(&self) -> usize {
        self.new.len()
    }

    /// Pending jobs; never more than their capacity. One that found them full is not among them.
    #[inline]
    pub fn pending_jobs(&self) -> usize {
        self.pending.len()
    }

    /// The job that runs.
    #[inline]
    pub fn running(&self) -> Option<Ticket> {
        self.running
    }

    /// The average response of flash, as far as it is known.
    #[inline]
    pub fn average_response(&self) -> u64 {
        self.average.value()
    }
}
