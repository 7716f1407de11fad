//! One test for each rule. Places are given lowest first, so those of the first jobs are their numbers.

use super::Notification::{Age, Arrival};
use super::Occasion::{Finished, Idle, Missed};
use super::Policy::{Fifo, Priority};
use super::*;

fn ticket(place: u32, run: u32) -> Ticket {
    Ticket { place, run }
}

#[test]
fn new_jobs_run_in_their_order_to_completion() {
    let mut scheduler = with_jobs(design(4, Priority, Arrival), 2);
    assert_eq!(run(&mut scheduler, 0, Idle), (0, false));
    assert_eq!(run(&mut scheduler, 10, Finished), (1, false));
    assert_eq!(scheduler.decide(20, Finished), WAIT);
    scheduler.submit(7).unwrap();
    assert_eq!(run(&mut scheduler, 30, Idle), (7, false));
}

#[test]
fn a_full_queue_of_new_jobs_refuses_more() {
    let mut scheduler = with_jobs(design(4, Priority, Arrival), 8);
    let refused = scheduler.submit(8);
    assert_eq!(refused, Err(NewQueueFull { capacity: 8 }));
    assert_eq!(refused.unwrap_err().to_string(), "8 new jobs wait already, as many as may");
    scheduler.decide(0, Idle);
    scheduler.submit(8).unwrap();
}

#[test]
fn by_arrival_the_oldest_that_can_go_on_is_resumed_before_new_jobs() {
    let mut scheduler = with_jobs(design(4, Priority, Arrival), 5);
    scheduler.decide(0, Idle);
    (1..=3).for_each(|time| assert!(!run(&mut scheduler, time, Missed).1));
    scheduler.arrived(20, ticket(2, 1));
    scheduler.arrived(21, ticket(1, 1));
    assert_eq!(run(&mut scheduler, 22, Finished), (1, true), "the one that missed first");
    assert_eq!(run(&mut scheduler, 23, Finished), (2, true));
    assert_eq!(run(&mut scheduler, 500, Finished), (4, false), "0 is old, but its page is not there");
    assert_eq!(scheduler.decide(600, Finished), WAIT);
    scheduler.arrived(700, ticket(0, 1));
    assert_eq!(run(&mut scheduler, 700, Idle), (0, true));
    assert_eq!((scheduler.counts().longest_pending, scheduler.counts().resumed_early), (699, 0));
}

#[test]
fn by_age_the_oldest_is_resumed_once_it_is_older_than_the_average_response() {
    let mut scheduler = with_jobs(design(4, Priority, Age), 4);
    scheduler.decide(0, Idle);
    assert_eq!(run(&mut scheduler, 10, Missed), (1, false));
    assert_eq!(run(&mut scheduler, 60, Finished), (2, false), "as old as the average, not older");
    assert_eq!(run(&mut scheduler, 61, Finished), (0, true));
    assert_eq!(scheduler.counts().resumed_early, 1, "its page is not known to be there");
    scheduler.arrived(70, ticket(0, 1));
    assert_eq!(run(&mut scheduler, 80, Finished), (3, false));
    assert_eq!(scheduler.decide(100, Missed), Decision::Wait { until: Some(151) });
    assert_eq!(scheduler.decide(150, Idle), Decision::Wait { until: Some(151) });
    assert_eq!(run(&mut scheduler, 151, Idle), (3, true));
}

#[test]
fn an_arrival_does_not_change_what_is_decided_by_age() {
    let mut scheduler = with_jobs(design(4, Priority, Age), 1);
    scheduler.decide(0, Idle);
    scheduler.decide(10, Missed);
    scheduler.arrived(20, ticket(0, 1));
    assert_eq!(scheduler.decide(20, Idle), Decision::Wait { until: Some(61) });
    assert_eq!(run(&mut scheduler, 61, Idle), (0, true));
    assert_eq!(scheduler.counts().resumed_early, 0);
}

#[test]
fn a_miss_that_finds_the_pending_jobs_full_waits_for_the_oldest() {
    let mut scheduler = with_jobs(design(2, Priority, Arrival), 5);
    scheduler.decide(0, Idle);
    scheduler.decide(1, Missed);
    scheduler.decide(2, Missed);
    assert_eq!(scheduler.decide(3, Missed), WAIT, "there are new jobs, but no room for another miss");
    scheduler.arrived(4, ticket(2, 1));
    scheduler.arrived(5, ticket(1, 1));
    assert_eq!(scheduler.decide(5, Idle), WAIT, "neither the refused job nor the second is the oldest");
    assert_eq!(scheduler.pending_jobs(), 2);
    scheduler.arrived(6, ticket(0, 1));
    assert_eq!(run(&mut scheduler, 6, Idle), (0, true));
    assert_eq!(scheduler.pending_jobs(), 2, "the refused job took its place");
    assert_eq!(run(&mut scheduler, 7, Finished), (1, true));
    assert_eq!(run(&mut scheduler, 8, Finished), (2, true), "its arrival was not forgotten");
    assert_eq!((scheduler.counts().found_full, scheduler.counts().missed), (1, 3));
}

#[test]
fn by_age_the_oldest_of_full_pending_jobs_is_resumed_at_once() {
    let mut scheduler = with_jobs(design(1, Priority, Age), 3);
    scheduler.decide(0, Idle);
    assert_eq!(run(&mut scheduler, 1, Missed), (1, false));
    assert_eq!(run(&mut scheduler, 2, Missed), (0, true));
    assert_eq!(scheduler.pending_jobs(), 1);
}

#[test]
fn fifo_looks_at_pending_jobs_only_after_a_miss_or_without_new_ones() {
    let mut scheduler = with_jobs(design(4, Fifo, Arrival), 5);
    scheduler.decide(0, Idle);
    assert_eq!(run(&mut scheduler, 1, Missed), (1, false));
    scheduler.arrived(2, ticket(0, 1));
    assert_eq!(run(&mut scheduler, 3, Finished), (2, false), "its page has arrived, but nothing missed");
    assert_eq!(run(&mut scheduler, 4, Missed), (0, true));
    scheduler.submit(9).unwrap();
    assert_eq!(run(&mut scheduler, 5, Missed), (3, false), "the oldest is not there");
    scheduler.arrived(6, ticket(0, 2));
    assert_eq!(run(&mut scheduler, 6, Missed), (4, false), "the second is, the oldest is not");
    assert_eq!(run(&mut scheduler, 7, Finished), (9, false));
    assert_eq!(scheduler.decide(8, Finished), WAIT, "only the oldest is looked at");
    scheduler.arrived(9, ticket(1, 2)); // Job 2 has the place of job 1, which had finished.
    assert_eq!(run(&mut scheduler, 9, Idle), (2, true));
}

#[test]
fn the_average_response_is_measured_with_weight_one_eighth() {
    let response = Response::Measured { start: 800 };
    let mut scheduler = with_jobs(SchedulerDesign { response, ..design(4, Priority, Age) }, 1);
    scheduler.decide(0, Idle);
    assert_eq!(scheduler.decide(100, Missed), Decision::Wait { until: Some(901) });
    scheduler.arrived(100, ticket(0, 1));
    assert_eq!(scheduler.average_response(), 700, "7/8 of 800");
    assert_eq!(scheduler.decide(100, Idle), Decision::Wait { until: Some(801) });
    for again in 0..200 {
        scheduler.decide(2000, Idle);
        scheduler.decide(2000, Missed);
        scheduler.arrived(2025, ticket(0, 2 + 2 * again));
        scheduler.decide(3000, Idle);
        scheduler.decide(3000, Finished);
        scheduler.submit(0).unwrap();
    }
    assert_eq!(scheduler.average_response(), 25);
}

#[test]
fn a_page_that_was_found_on_the_way_is_no_response() {
    let response = Response::Measured { start: 800 };
    let mut scheduler = with_jobs(SchedulerDesign { response, ..design(4, Priority, Arrival) }, 2);
    scheduler.decide(0, Idle);
    scheduler.arrived(10, ticket(0, 1));
    assert_eq!(run(&mut scheduler, 10, Missed), (0, true), "it goes on at once");
    assert_eq!(scheduler.average_response(), 800);
}

/// A job was resumed early and found its page by itself; the notice of the arrival comes when no job waits for it any more.
#[test]
fn an_arrival_that_is_not_waited_for_any_more_is_ignored() {
    let mut scheduler = with_jobs(design(4, Priority, Age), 1);
    scheduler.decide(0, Idle);
    scheduler.decide(10, Missed);
    assert_eq!(run(&mut scheduler, 61, Idle), (0, true));
    assert_eq!(scheduler.decide(70, Missed), Decision::Wait { until: Some(121) }, "for another page");
    scheduler.arrived(80, ticket(0, 1));
    assert_eq!(run(&mut scheduler, 121, Idle), (0, true));
    assert_eq!(scheduler.counts().resumed_early, 2, "the second page is not there");
    scheduler.decide(130, Finished);
    scheduler.submit(5).unwrap();
    assert_eq!(run(&mut scheduler, 140, Idle), (5, false));
    scheduler.arrived(150, ticket(0, 2));
    assert_eq!(scheduler.decide(160, Missed), Decision::Wait { until: Some(211) }, "it was another job's");
}

#[test]
fn what_cannot_be_is_named() {
    let error = |design| Scheduler::<u32>::new(design).unwrap_err().to_string();
    let base = design(1, Priority, Arrival);
    assert_eq!(
        error(SchedulerDesign { pending_capacity: 0, ..base }),
        "pending_capacity of a scheduler is 0; allowed: 1 to 65536"
    );
    assert!(error(SchedulerDesign { new_capacity: 0, ..base }).starts_with("new_capacity"));
    assert!(error(SchedulerDesign { response: Response::Constant(0), ..base }).starts_with("response"));
    SchedulerDesign::of_threads(64, 50).check().unwrap();
}

#[test]
#[should_panic(expected = "Finished while None runs")]
fn an_idle_core_finishes_nothing() {
    with_jobs(design(1, Priority, Arrival), 1).decide(0, Finished);
}
