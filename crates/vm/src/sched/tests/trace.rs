//! Random traces of submissions, misses, arrivals and time, against the [`Model`].

use super::model::{Choice, Job, Model};
use super::*;
use crate::random::SplitMix64;

/// Every decision, the pending jobs' number and the average are those of the model. Tells how often which happened.
fn trace(seed: u64, steps: u64) -> [u64; 6] {
    let mut random = SplitMix64::of_item(seed, 0);
    let mut below = |bound| random.below(bound);
    let design = SchedulerDesign {
        new_capacity: 1 + below(6) as u32,
        pending_capacity: [1, 2, 3, 8][below(4) as usize],
        policy: [Policy::Priority, Policy::Fifo][below(2) as usize],
        notification: [Notification::Arrival, Notification::Age][below(2) as usize],
        response: [Response::Constant(40), Response::Measured { start: 60 }][below(2) as usize],
    };
    let (pace, misses) = (5 + below(40), 1 + below(7));
    let mut scheduler = Scheduler::new(design).unwrap();
    let mut model = Model::new(design);
    let (mut now, mut next_job) = (0, 0);
    // The running job; when it missed, and in which run, if its page is still to come.
    let mut running: Option<(u32, Option<(u64, Ticket)>)> = None;
    let mut stale: Vec<Ticket> = Vec::new();
    let mut tickets: Vec<(u32, Ticket)> = Vec::new();
    let mut seen = [0; 6];
    for _ in 0..steps {
        now += below(pace);
        let submitted = below(3) == 0;
        if submitted {
            let full = model.new.len() == design.new_capacity as usize;
            assert_eq!(scheduler.submit(next_job).is_err(), full);
            if !full {
                model.new.push(next_job);
            }
            next_job += 1;
        }
        // A page arrives for any job that waits for one.
        let mut waiting: Vec<&mut Job> = model.pending.iter_mut().chain(&mut model.outside).collect();
        waiting.retain(|job| !job.there);
        let at = below(waiting.len() as u64 + 3) as usize;
        let ticket = |job| tickets.iter().find(|(other, _)| *other == job).unwrap().1;
        if let Some(job) = waiting.get_mut(at) {
            job.there = true;
            scheduler.arrived(now, ticket(job.job));
            let response = now - job.missed_at;
            model.responses.push(response);
        }
        let (mut occasion, mut missed) = (Occasion::Idle, None);
        if let Some((job, resumed_early)) = running {
            if let Some((missed_at, of_miss)) = resumed_early {
                if below(4) > 0 {
                    // Its core waits for the page.
                    scheduler.arrived(now, of_miss);
                    model.responses.push(now - missed_at);
                } else {
                    // It found the page by itself. The notice comes when it has gone on.
                    stale.push(of_miss);
                }
            }
            if below(8) < misses {
                // One of eight pages is found on the way.
                let there = below(8) == 0;
                if there {
                    scheduler.arrived(now, ticket(job));
                }
                (occasion, missed) = (Occasion::Missed, Some(Job { job, missed_at: now, there }));
                seen[0] += 1;
            } else {
                tickets.retain(|(other, _)| *other != job);
                occasion = Occasion::Finished;
            }
        }
        let decision = scheduler.decide(now, occasion);
        let choice = model.choose(now, missed);
        running = match (decision, choice) {
            (Decision::Run { job, ticket, resumed: false }, Choice::New(expected)) => {
                assert_eq!(job, expected);
                assert!(ticket.place <= design.pending_capacity);
                assert!(tickets.iter().all(|(_, other)| other.place != ticket.place));
                tickets.push((job, ticket));
                seen[1] += 1;
                Some((job, None))
            }
            (Decision::Run { job, ticket, resumed: true }, Choice::Pending(expected)) => {
                let of_job = &mut tickets.iter_mut().find(|(other, _)| *other == job).unwrap().1;
                let of_miss = std::mem::replace(of_job, ticket);
                assert_eq!((job, ticket.place), (expected.job, of_miss.place));
                assert_ne!(ticket, of_miss);
                seen[2] += 1;
                seen[3] += u64::from(!expected.there);
                Some((job, (!expected.there).then_some((expected.missed_at, of_miss))))
            }
            (Decision::Wait { until }, Choice::Wait(expected)) => {
                assert_eq!(until, expected);
                seen[4] += 1;
                seen[5] += u64::from(model.outside.is_some());
                None
            }
            _ => panic!("{decision:?} instead of {choice:?}"),
        };
        if below(4) == 0 {
            stale.drain(..).for_each(|ticket| scheduler.arrived(now, ticket));
        }
        assert_eq!(scheduler.pending_jobs(), model.pending.len());
        assert!(model.pending.len() <= design.pending_capacity as usize);
        assert_eq!(scheduler.average_response(), model.average());
    }
    let counts = scheduler.counts();
    assert_eq!([counts.missed, counts.started, counts.resumed, counts.resumed_early], seen[..4]);
    seen
}

#[test]
fn a_million_decisions_are_those_of_the_rules() {
    let mut sums = [0; 6];
    for seed in 0..2000 {
        let seen = trace(seed, 500);
        sums.iter_mut().zip(seen).for_each(|(sum, count)| *sum += count);
    }
    assert!(sums.iter().all(|&sum| sum > 10_000), "too few of something: {sums:?}");
}
