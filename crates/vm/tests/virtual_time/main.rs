//! Schedulers and tiers together: cores that share a cache over a flash device, in virtual time.

mod driver;

use driver::{Machine, Outcome, Setup};
use pagewalk_vm::random::SplitMix64;
use pagewalk_vm::sched::{Notification, Policy, Response, SchedulerDesign};
use pagewalk_vm::tier::{MissStatusShape, TierDesign};

const POLICIES: [(Policy, Notification); 4] = [
    (Policy::Priority, Notification::Arrival),
    (Policy::Priority, Notification::Age),
    (Policy::Fifo, Notification::Arrival),
    (Policy::Fifo, Notification::Age),
];

fn scheduler(threads: u32, (policy, notification): (Policy, Notification)) -> SchedulerDesign {
    SchedulerDesign { policy, notification, ..SchedulerDesign::of_threads(threads, 50_000) }
}

/// Four cores with 16 threads each and two controllers, 256 pages in memory of 1024; a quarter of the accesses write.
fn mixed(policy: (Policy, Notification), seed: u64) -> Setup {
    Setup {
        cores: 4,
        tier: TierDesign {
            sets: 32,
            index_shift: 1,
            miss_status: MissStatusShape { sets: 4, ways: 4 },
            evict_buffer: 4,
            queue: 4,
            ..TierDesign::default()
        },
        scheduler: scheduler(16, policy),
        read_ns: 50_000,
        write_ns: 100_000,
        work_ns: 2_000,
        jobs: 200,
        clients: 24,
        accesses: 10,
        access: |random, _| {
            // Three of four to the first eighth.
            let near = random.below(4) > 0;
            (random.below(if near { 128 } else { 1024 }), random.below(4) == 0)
        },
        seed,
    }
}

fn run(setup: Setup) -> Outcome {
    Machine::new(setup).run().0
}

#[test]
fn every_job_finishes_under_every_policy() {
    for policy in POLICIES {
        for seed in 0..5 {
            let setup = mixed(policy, seed);
            let accesses = 4 * 200 * 10;
            let outcome = run(setup);
            let Outcome { hits, misses, reads, .. } = outcome;
            assert!(
                hits > accesses / 3 && misses > accesses / 20 && reads <= misses,
                "{policy:?}: {outcome:?}"
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_sequence() {
    for policy in POLICIES {
        let outcome = run(mixed(policy, 7));
        assert_eq!(run(mixed(policy, 7)), outcome);
        assert_ne!(run(mixed(policy, 8)).sequence, outcome.sequence);
    }
}

/// Every core with all of its threads in one set, and everything as small as can be.
#[test]
fn cores_that_thrash_one_set_do_not_block_each_other_for_good() {
    for policy in POLICIES {
        for (ways, miss_ways, evict_buffer, queue) in
            [(1, 1, 1, 1), (1, 4, 1, 2), (2, 1, 1, 1), (4, 2, 2, 16)]
        {
            for response in [Response::Constant(50_000), Response::Measured { start: 1 }] {
                let base = mixed(policy, 3);
                let outcome = run(Setup {
                    tier: TierDesign {
                        sets: 1,
                        ways,
                        index_shift: 0,
                        miss_status: MissStatusShape { sets: 1, ways: miss_ways },
                        evict_buffer,
                        queue,
                        ..TierDesign::default()
                    },
                    scheduler: SchedulerDesign { response, ..base.scheduler },
                    access: |random, _| (random.below(64), random.below(2) == 0),
                    jobs: 50,
                    ..base
                });
                assert!(outcome.stalls > 0 || queue == 16, "{outcome:?}");
            }
        }
    }
}

/// One core that makes 50 accesses a job, all to pages that were never seen, and 10 us of work after each, on a device that
/// takes 50 us. Gives the time it took, relative to the work.
fn cold(threads: u32) -> f64 {
    let base = mixed(POLICIES[0], 0);
    let (jobs, accesses) = (4 * threads, 50);
    let outcome = run(Setup {
        cores: 1,
        tier: TierDesign { sets: 1024, index_shift: 0, ..TierDesign::default() },
        scheduler: scheduler(threads, POLICIES[0]),
        work_ns: 10_000,
        jobs,
        clients: jobs,
        accesses,
        access: |_: &mut SplitMix64, number| (number, false),
        ..base
    });
    outcome.end_ns as f64 / f64::from(jobs * accesses * 10_000)
}

/// The setting of the paper's Fig. 3: 10 us of execution, then an access of 50 us; six in flight cover the device's latency.
/// Equal jobs that are resumed before new ones finish together, so the device is waited for once per round of jobs.
#[test]
fn enough_threads_keep_the_core_busy_and_too_few_do_not() {
    for threads in [7, 16, 64] {
        let relative = cold(threads);
        assert!((1.0..1.02).contains(&relative), "{threads} threads: {relative}");
    }
    let relative = cold(2);
    assert!((2.9..3.1).contains(&relative), "two accesses per 60 us: {relative}");
}
