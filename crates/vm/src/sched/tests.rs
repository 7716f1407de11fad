//! One test for each rule, bounds on waiting, and random traces against an independent restatement of the rules (`trace.rs`).

mod bounds;
mod model;
mod registers;
mod rules;
mod trace;

use super::*;

/// Room for 8 new jobs; a constant response of 50.
fn design(pending: u32, policy: Policy, notification: Notification) -> SchedulerDesign {
    SchedulerDesign {
        new_capacity: 8,
        pending_capacity: pending,
        policy,
        notification,
        response: Response::Constant(50),
    }
}

/// With the jobs 0, 1, 2 ... as new ones.
fn with_jobs(design: SchedulerDesign, jobs: u32) -> Scheduler<u32> {
    let mut scheduler = Scheduler::new(design).unwrap();
    (0..jobs).for_each(|job| scheduler.submit(job).unwrap());
    scheduler
}

/// The job that runs from now on, and whether it is resumed.
fn run(scheduler: &mut Scheduler<u32>, now: u64, occasion: Occasion) -> (u32, bool) {
    match scheduler.decide(now, occasion) {
        Decision::Run { job, resumed, .. } => (job, resumed),
        wait => panic!("{wait:?}"),
    }
}

const WAIT: Decision<u32> = Decision::Wait { until: None };
