//! The new jobs and the pending ones of a core.

use std::collections::VecDeque;

use super::response::Average;
use super::{DesignError, Notification, Policy, SchedulerDesign};

/// A run of a job, from its start or resumption until it finishes or misses. A page is waited for under the ticket of
/// the run that missed; a page that comes when the job has gone on without it belongs to no run, and is ignored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket {
    /// The job's place among those that were started: below the capacity for pending ones plus 1. Another's once it has
    /// finished.
    pub place: u32,
    /// The number of the run among the runs of the place's jobs; the number wraps.
    pub run: u32,
}

/// The reason why a decision is due.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Occasion {
    /// The running job is done.
    Finished,
    /// The running job missed, was refused, and becomes pending.
    Missed,
    /// The core runs no job: a job was submitted, a page arrived, or the time has come.
    Idle,
}

/// The next action of the core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision<J> {
    /// The core runs this job.
    Run {
        /// The job that the core runs.
        job: J,
        /// The run's ticket, under which its miss is to be made.
        ticket: Ticket,
        /// Whether it was pending. Its forward-progress bit is set then: the access that it missed with is completed even
        /// if the page is not there.
        resumed: bool,
    },
    /// The core waits until a job is submitted or a page arrives, and no longer than this.
    Wait {
        /// The time at which the oldest pending job is due, if only time is waited for.
        until: Option<u64>,
    },
}

/// The error that there is no room for another new job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{capacity} new jobs wait already, as many as may")]
pub struct NewQueueFull {
    /// The number of jobs that the queue can hold.
    pub capacity: u32,
}

/// The counts of a scheduler's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SchedulerCounts {
    /// New jobs that were begun.
    pub started: u64,
    /// Jobs that were done.
    pub finished: u64,
    /// Misses: times that a job became pending.
    pub missed: u64,
    /// Times that a pending job was resumed.
    pub resumed: u64,
    /// The number of times that a job was resumed before its page was there.
    pub resumed_early: u64,
    /// Misses that found as many jobs pending as may be.
    pub found_full: u64,
    /// The longest that a job was pending, from its miss until it was resumed.
    pub longest_pending: u64,
}

/// The state of the page that a started job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    /// The job waits for no page.
    None,
    /// A page that has not arrived. While the job runs: it was resumed early.
    Coming,
    /// The page has arrived. While the job runs: it is about to report a miss.
    There,
}

#[derive(Clone, Copy, Debug)]
struct Started<J> {
    /// `None` if the place is free.
    job: Option<J>,
    /// The last run, and the last one that missed.
    run: u32,
    missed_in: u32,
    missed_at: u64,
    page: Page,
}

/// The place of a job in the scheduler's table.
type Place = u32;

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
    /// The started jobs, by place.
    started: Vec<Started<J>>,
    free: Vec<Place>,
    /// The pending jobs, in the order of their misses.
    pending: VecDeque<Place>,
    /// Pending jobs whose page is there.
    there: u32,
    running: Option<Place>,
    /// The job that missed and found the pending ones full.
    refused: Option<Place>,
    average: Average,
    counts: SchedulerCounts,
}

impl<J: Copy> Scheduler<J> {
    /// Creates a scheduler without jobs.
    ///
    /// # Errors
    ///
    /// The design cannot be.
    pub fn new(design: SchedulerDesign) -> Result<Self, DesignError> {
        design.check()?;
        let places = design.pending_capacity + 1;
        let unused = Started { job: None, run: 0, missed_in: 0, missed_at: 0, page: Page::None };
        Ok(Self {
            design,
            new: VecDeque::new(),
            started: vec![unused; places as usize],
            free: (0..places).rev().collect(),
            pending: VecDeque::with_capacity(places as usize),
            there: 0,
            running: None,
            refused: None,
            average: Average::new(design.response),
            counts: SchedulerCounts::default(),
        })
    }

    /// Returns the design that the scheduler was made with.
    #[inline]
    pub fn design(&self) -> &SchedulerDesign {
        &self.design
    }

    /// Returns the counts of what happened so far.
    #[inline]
    pub fn counts(&self) -> &SchedulerCounts {
        &self.counts
    }

    /// Adds one new job to the queue. If the core waits, a decision is due.
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

    /// Takes note that the page of this run's miss has arrived. If the core waits, a decision is due. Not for
    /// accesses that complete on arrival: these never make a job pending.
    ///
    /// It may come before the miss is reported with [`Occasion::Missed`], if the page was found on the way; then flash has
    /// not responded, and nothing is measured. It may also come while the job runs again, if that was resumed early, or
    /// even later, if that found the page by itself.
    pub fn arrived(&mut self, now: u64, ticket: Ticket) {
        let is_running = self.running == Some(ticket.place);
        let started = &mut self.started[ticket.place as usize];
        if is_running && ticket.run == started.run {
            started.page = Page::There;
        } else if ticket.run == started.missed_in && started.page == Page::Coming {
            self.average.measure(now - started.missed_at);
            started.page = if is_running { Page::None } else { Page::There };
            self.there += u32::from(!is_running && self.refused != Some(ticket.place));
        }
    }

    /// Decides what the core does from now on.
    ///
    /// # Panics
    ///
    /// If the occasion cannot be: a job runs while the core is idle, or none finishes or misses.
    pub fn decide(&mut self, now: u64, occasion: Occasion) -> Decision<J> {
        let running = self.running.take();
        match (occasion, running) {
            (Occasion::Finished, Some(place)) => {
                let finished = &mut self.started[place as usize];
                (finished.job, finished.page) = (None, Page::None);
                self.free.push(place);
                self.counts.finished += 1;
            }
            (Occasion::Missed, Some(place)) => self.miss(now, place),
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

    fn miss(&mut self, now: u64, place: Place) {
        let started = &mut self.started[place as usize];
        if started.page != Page::There {
            started.page = Page::Coming;
        }
        (started.missed_in, started.missed_at) = (started.run, now);
        self.counts.missed += 1;
        if self.pending.len() == self.design.pending_capacity as usize {
            self.counts.found_full += 1;
            self.refused = Some(place);
        } else {
            self.append(place);
        }
    }

    fn append(&mut self, place: Place) {
        self.pending.push_back(place);
        self.there += u32::from(self.is_there(place));
    }

    /// The oldest runs and the refused job takes its place, as soon as that can be.
    fn make_room(&mut self, now: u64, refused: Place) -> Decision<J> {
        let knows = self.design.notification == Notification::Arrival;
        if knows && !self.is_there(self.pending[0]) {
            return Decision::Wait { until: None };
        }
        let decision = self.resume(now, 0);
        self.refused = None;
        self.append(refused);
        decision
    }

    /// Returns the pending job that can go on, by its place in their order.
    fn ready(&self, now: u64) -> Option<usize> {
        let there = self.pending.iter().filter(|&&place| self.is_there(place));
        debug_assert_eq!(there.count(), self.there as usize, "pending jobs whose page is there");
        let &oldest = self.pending.front()?;
        match self.design.notification {
            Notification::Age => (now >= self.due(oldest)).then_some(0),
            Notification::Arrival if self.there == 0 => None,
            Notification::Arrival if self.design.policy == Policy::Fifo => self.is_there(oldest).then_some(0),
            Notification::Arrival => self.pending.iter().position(|&place| self.is_there(place)),
        }
    }

    /// Returns the time at which the job's age exceeds the average response.
    fn due(&self, place: Place) -> u64 {
        self.started[place as usize].missed_at + self.average.value() + 1
    }

    fn is_there(&self, place: Place) -> bool {
        self.started[place as usize].page == Page::There
    }

    fn resume(&mut self, now: u64, at: usize) -> Decision<J> {
        let place = self.pending.remove(at).expect("it was found there");
        let started = &mut self.started[place as usize];
        let age = now - started.missed_at;
        self.counts.resumed += 1;
        self.counts.longest_pending = self.counts.longest_pending.max(age);
        if started.page == Page::There {
            started.page = Page::None;
            self.there -= 1;
        } else {
            self.counts.resumed_early += 1;
        }
        self.run(place, true)
    }

    fn start(&mut self) -> Decision<J> {
        let Some(job) = self.new.pop_front() else {
            let by_age = self.design.notification == Notification::Age;
            let oldest = self.pending.front().filter(|_| by_age);
            return Decision::Wait { until: oldest.map(|&place| self.due(place)) };
        };
        let place = self.free.pop().expect("fewer are pending than may be, and none runs");
        self.started[place as usize].job = Some(job);
        self.counts.started += 1;
        self.run(place, false)
    }

    fn run(&mut self, place: Place, resumed: bool) -> Decision<J> {
        let started = &mut self.started[place as usize];
        started.run = started.run.wrapping_add(1);
        self.running = Some(place);
        let job = started.job.expect("only started jobs run");
        Decision::Run { job, ticket: Ticket { place, run: started.run }, resumed }
    }

    /// Returns the number of new jobs that wait.
    #[inline]
    pub fn new_jobs(&self) -> usize {
        self.new.len()
    }

    /// Returns the number of pending jobs, which is never more than their capacity. One that found them full is not
    /// among them.
    #[inline]
    pub fn pending_jobs(&self) -> usize {
        self.pending.len()
    }

    /// Returns the run that is under way.
    #[inline]
    pub fn running(&self) -> Option<Ticket> {
        let place = self.running?;
        Some(Ticket { place, run: self.started[place as usize].run })
    }

    /// Returns the average response of flash, as far as it is known.
    #[inline]
    pub fn average_response(&self) -> u64 {
        self.average.value()
    }
}
