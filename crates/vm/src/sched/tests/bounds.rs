//! Tests of how long a job can be pending.

use super::*;
use crate::random::SplitMix64;

const CAPACITY: u32 = 8;
/// The longest that a job runs until it misses or finishes, or waits within its access.
const LONGEST_RUN: u64 = 100;
const LONGEST_RESPONSE: u64 = 120;

/// A core that always has new jobs. Gives the longest time that a job was pending.
fn longest_pending(policy: Policy, notification: Notification, misses: u64, steps: u64, seed: u64) -> u64 {
    let mut random = SplitMix64::of_item(seed, misses);
    let mut scheduler = with_jobs(design(CAPACITY, policy, notification), 8);
    let mut now = 0;
    let mut flash: Vec<(u64, Ticket)> = Vec::new();
    let mut decision = scheduler.decide(now, Occasion::Idle);
    for step in 0..steps {
        let occasion = match decision {
            Decision::Run { ticket, resumed, .. } => {
                let _ = scheduler.submit(0);
                now += 1 + random.below(LONGEST_RUN);
                if let Some(at) =
                    flash.iter().position(|(_, waiter)| waiter.place == ticket.place).filter(|_| resumed)
                {
                    // Resumed early: it waits for its page.
                    now = now.max(flash[at].0);
                }
                if random.below(1000) < misses || step == 0 {
                    flash.push((now + 1 + random.below(LONGEST_RESPONSE), ticket));
                    Occasion::Missed
                } else {
                    Occasion::Finished
                }
            }
            Decision::Wait { until } => {
                let arrival = flash.iter().map(|(time, _)| *time).min();
                now = until.into_iter().chain(arrival).min().expect("something is waited for").max(now);
                Occasion::Idle
            }
        };
        // The running job's new page is later than now.
        flash.sort_by_key(|(time, _)| *time);
        let arrived = flash.partition_point(|(time, _)| *time <= now);
        flash.drain(..arrived).for_each(|(time, ticket)| scheduler.arrived(time, ticket));
        decision = scheduler.decide(now, occasion);
    }
    // Jobs that still wait count, too.
    let resumed = scheduler.counts().longest_pending;
    if scheduler.counts().resumed == 0 { now } else { resumed }
}

/// Everything that is older and ready goes first, one a decision; decisions are as far apart as the longest run with its wait.
#[test]
fn with_priority_no_job_is_pending_for_longer_than_the_bound() {
    for (notification, ready) in [(Notification::Arrival, LONGEST_RESPONSE), (Notification::Age, 50 + 1)] {
        let bound = ready + u64::from(CAPACITY + 1) * (LONGEST_RUN + LONGEST_RESPONSE);
        for seed in 0..20 {
            for misses in [1, 100, 500, 900] {
                let longest = longest_pending(Policy::Priority, notification, misses, 20_000, seed);
                assert!(longest <= bound, "{notification:?}, {misses} misses: {longest}, bound {bound}");
            }
        }
    }
}

/// The first job misses and no other does; new ones always wait. Its page has been there all the time.
#[test]
fn without_it_new_jobs_starve_a_pending_one() {
    for notification in [Notification::Arrival, Notification::Age] {
        let longest = longest_pending(Policy::Fifo, notification, 0, 100_000, 1);
        assert!(longest > 1_000_000, "{notification:?}: {longest}");
        let longest = longest_pending(Policy::Priority, notification, 0, 100_000, 1);
        assert!(longest < 500, "{notification:?}: {longest}");
    }
}
