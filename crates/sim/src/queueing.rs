//! Servers as queues: formulas, and the same in simulated time.
//!
//! Gupta et al., "AstriFlash: A Flash-Based System for Online Services", HPCA 2023, section III-A, compares systems before
//! anything of them is built: jobs arrive at random, and every so much of work takes an access to flash. A core that waits
//! for flash is one server, M/M/1; a core that does something else meanwhile is as many servers as it takes to cover
//! the access, M/M/k. Times are in any unit.

use pagewalk_vm::random::SplitMix64;
use pagewalk_vm::sched::{Decision, Occasion, Scheduler, SchedulerDesign, Ticket};

use crate::time::EventQueue;

/// Equal servers with one queue: arrivals are a Poisson process, service times exponential (M/M/k).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Servers {
    /// The number of servers.
    pub count: u32,
    /// The mean time of a job on one of them.
    pub service: f64,
}

impl Servers {
    /// Returns the most jobs a unit of time that the servers can do.
    pub fn capacity(&self) -> f64 {
        f64::from(self.count) / self.service
    }

    /// Returns the probability that a job has to wait: Erlang's C formula. `rate` is below the capacity.
    pub fn waits(&self, rate: f64) -> f64 {
        let offered = rate * self.service;
        // Erlang's B formula by its recurrence, from which C follows.
        let blocked = (1..=self.count)
            .fold(1.0, |blocked, servers| offered * blocked / (f64::from(servers) + offered * blocked));
        let load = offered / f64::from(self.count);
        blocked / (1.0 - load * (1.0 - blocked))
    }

    /// Returns the probability that a job is not done `time` after its arrival.
    pub fn is_later_than(&self, rate: f64, time: f64) -> f64 {
        let (waits, done) = (self.waits(rate), 1.0 / self.service);
        // Once it waits, jobs before it leave at this rate, in excess of those that arrive.
        let drain = self.capacity() - rate;
        let (alone, queued) = ((-done * time).exp(), (-drain * time).exp());
        match (drain - done).abs() < 1e-9 * done {
            // Waiting time and service time have the same law.
            true => alone * (1.0 + waits * done * time),
            false => alone + waits * done * (alone - queued) / (drain - done),
        }
    }

    /// Returns the time by which a share of jobs is done; infinite at and above the capacity.
    pub fn percentile(&self, rate: f64, share: f64) -> f64 {
        if rate >= self.capacity() {
            return f64::INFINITY;
        }
        let (mut low, mut high) = (0.0, self.service);
        while self.is_later_than(rate, high) > 1.0 - share {
            (low, high) = (high, 2.0 * high);
        }
        bisect(low, high, |time| self.is_later_than(rate, time) > 1.0 - share)
    }

    /// Returns the highest rate at which a share of jobs is done within `limit`; 0 if that is never so.
    pub fn rate_within(&self, share: f64, limit: f64) -> f64 {
        match self.percentile(0.0, share) <= limit {
            true => bisect(0.0, self.capacity(), |rate| self.percentile(rate, share) <= limit),
            false => 0.0,
        }
    }
}

/// Returns the number between two numbers at which `holds` stops to hold.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        let middle = low.midpoint(high);
        *if holds(middle) { &mut low } else { &mut high } = middle;
    }
    low
}

/// One core that serves jobs from flash, with the scheduler of [`pagewalk_vm::sched`].
///
/// Jobs arrive at random and take an exponential time. A job accesses flash once for every `interval` of its work, and at
/// least once; its work is split evenly in between.
#[derive(Clone, Debug)]
pub struct CoreOverFlash {
    /// The mean work of a job.
    pub work: u64,
    /// The work between two accesses.
    pub interval: u64,
    /// The time of an access; 0 if all is in memory, and then jobs are not split.
    pub access: u64,
    /// The time of a switch from a job to another.
    pub switch: u64,
    /// Whether the core waits, and does nothing else meanwhile.
    pub waits: bool,
    /// The design of its scheduler.
    pub scheduler: SchedulerDesign,
}

/// The response times of a simulation's jobs.
#[derive(Clone, Debug)]
pub struct Served {
    /// The time of each job from its arrival to its end, shortest first.
    pub responses: Vec<u64>,
    /// The time at which the last job was done.
    pub end: u64,
}

impl Served {
    /// Returns the time by which a share of jobs was done.
    pub fn percentile(&self, share: f64) -> u64 {
        let at = (share * self.responses.len() as f64).ceil() as usize;
        self.responses[at.clamp(1, self.responses.len()) - 1]
    }
}

struct SimulatedJob {
    arrival: u64,
    part: u64,
    parts_left: u64,
}

enum Happens {
    Arrival,
    Page(Ticket),
}

impl CoreOverFlash {
    /// Serves `count` jobs that arrive at `rate`, or as fast as they are taken if it is infinite.
    pub fn serve(&self, rate: f64, count: usize, seed: u64) -> Served {
        let (mut arrivals, mut sizes) = (SplitMix64::of_item(seed, 0), SplitMix64::of_item(seed, 1));
        let exponential = |random: &mut SplitMix64, mean: f64| -mean * (1.0 - random.unit()).ln();
        let mut clock = 0.0;
        let mut jobs: Vec<SimulatedJob> = Vec::with_capacity(count);
        for _ in 0..count {
            clock += if rate.is_finite() { exponential(&mut arrivals, 1.0 / rate) } else { 0.0 };
            let work = exponential(&mut sizes, self.work as f64) as u64;
            let accesses = match self.access {
                0 => 0,
                _ => ((work + self.interval / 2) / self.interval).max(1),
            };
            jobs.push(SimulatedJob {
                arrival: clock as u64,
                part: work / (accesses + 1),
                parts_left: accesses + 1,
            });
        }
        let mut scheduler = Scheduler::new(self.scheduler).expect("a design that can be");
        let mut happens = EventQueue::new();
        jobs.iter().for_each(|job| happens.push(job.arrival, Happens::Arrival));
        let (mut next, mut now, mut occasion) = (0u32, 0, Occasion::Idle);
        let mut responses = Vec::with_capacity(count);
        loop {
            while let Some((at, what)) = happens.pop_by(now) {
                match what {
                    Happens::Arrival => {
                        scheduler.submit(next).expect("room for all jobs");
                        next += 1;
                    }
                    Happens::Page(ticket) => scheduler.arrived(at, ticket),
                }
            }
            match scheduler.decide(now, occasion) {
                Decision::Run { job, ticket, resumed } => {
                    let job = &mut jobs[job as usize];
                    now += job.part + if resumed { self.switch } else { 0 };
                    job.parts_left -= 1;
                    while self.waits && job.parts_left > 0 {
                        now += self.access + job.part;
                        job.parts_left -= 1;
                    }
                    occasion = match job.parts_left {
                        0 => {
                            responses.push(now - job.arrival);
                            Occasion::Finished
                        }
                        _ => {
                            happens.push(now + self.access, Happens::Page(ticket));
                            Occasion::Missed
                        }
                    };
                }
                Decision::Wait { until } => {
                    let next = happens.next_ps().min(until.unwrap_or(u64::MAX));
                    if next == u64::MAX {
                        break;
                    }
                    (now, occasion) = (now.max(next), Occasion::Idle);
                }
            }
        }
        responses.sort_unstable();
        Served { responses, end: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_is_as_late_as_its_formula_says() {
        let server = Servers { count: 1, service: 10.0 };
        for load in [0.1, 0.5, 0.9] {
            // M/M/1: the response is exponential, with mean service / (1 - load).
            let expected = 10.0 / (1.0 - load) * 100f64.ln();
            assert!((server.percentile(load / 10.0, 0.99) / expected - 1.0).abs() < 1e-9, "at {load}");
        }
        assert_eq!(server.percentile(0.1, 0.99), f64::INFINITY);
        assert!((server.waits(0.07) - 0.7).abs() < 1e-12, "as often as it is busy");
    }

    /// Erlang C for 2 servers: 2 load^2 / (1 + load).
    #[test]
    fn two_servers_make_wait_as_erlang_says() {
        let servers = Servers { count: 2, service: 1.0 };
        for load in [0.2, 0.7, 0.95] {
            assert!((servers.waits(2.0 * load) - 2.0 * load * load / (1.0 + load)).abs() < 1e-12);
        }
    }

    /// The table of highest loads that was worked out from the paper's setting by another program: work of 10 us, an access of
    /// 50 us, limits in multiples of the work.
    #[test]
    fn highest_loads_are_those_of_an_independent_computation() {
        let one = Servers { count: 1, service: 10.0 };
        let astriflash = Servers { count: 6, service: 60.0 };
        let os_swap = Servers { count: 4, service: 80.0 };
        let sync = Servers { count: 1, service: 60.0 };
        for (limit, expected) in [
            (30.0, [0.846, 0.713, 0.0, 0.013]),
            (40.0, [0.885, 0.856, 0.30, 0.052]),
            (60.0, [0.923, 0.916, 0.41, 0.09]),
            (100.0, [0.954, 0.952, 0.45, 0.12]),
        ] {
            for (servers, expected) in [one, astriflash, os_swap, sync].iter().zip(expected) {
                let load = servers.rate_within(0.99, 10.0 * limit) * 10.0;
                assert!((load - expected).abs() < 0.01, "{servers:?} at {limit}x: {load}, not {expected}");
            }
        }
    }

    fn core(access: u64, waits: bool) -> CoreOverFlash {
        let mut scheduler = SchedulerDesign::of_threads(65, 50_000);
        scheduler.new_capacity = 1 << 20;
        CoreOverFlash { work: 10_000, interval: 10_000, access, switch: 0, waits, scheduler }
    }

    #[test]
    fn a_simulated_core_without_flash_is_the_formula_for_one_server() {
        let server = Servers { count: 1, service: 10_000.0 };
        for load in [0.3, 0.7] {
            let rate = load / 10_000.0;
            let served = core(0, false).serve(rate, 300_000, 5);
            let (ours, expected) = (served.percentile(0.99) as f64, server.percentile(rate, 0.99));
            assert!((ours / expected - 1.0).abs() < 0.05, "at {load}: {ours}, not {expected}");
        }
    }

    #[test]
    fn a_core_that_does_something_else_meanwhile_loses_nothing_and_one_that_waits_most() {
        let busy = |core: &CoreOverFlash| {
            let served = core.serve(f64::INFINITY, 20_000, 1);
            10_000.0 * 20_000.0 / served.end as f64
        };
        assert!((busy(&core(50_000, false)) - 1.0).abs() < 0.02);
        // Jobs have at least one access, and 1.27 on average for an exponential work: 10 / (10 + 1.27 * 50).
        let waiting = busy(&core(50_000, true));
        assert!((0.12..0.15).contains(&waiting), "{waiting}");
    }
}
