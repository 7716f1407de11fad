//! Tests of the daemon's timer.

use super::*;

const US: u64 = 1_000_000;

fn sleep_us(timer: &BookkeepingTimer) -> (u64, u64) {
    (timer.sleep_ps().start() / US, timer.sleep_ps().end() / US)
}

#[test]
fn the_first_sleep_is_10_ms_and_may_be_10_ms_longer() {
    assert_eq!(sleep_us(&BookkeepingTimer::default()), (10_000, 20_000));
}

#[test]
fn a_run_adds_100_us_and_a_service_fault_takes_1_ms_off() {
    let mut timer = BookkeepingTimer::default();
    timer.ran(true);
    timer.ran(true);
    assert_eq!(sleep_us(&timer), (10_200, 20_200));
    timer.interrupted();
    assert_eq!(sleep_us(&timer), (9_200, 19_200));
}

#[test]
fn a_run_without_the_lock_does_not_lengthen_the_sleep() {
    let mut timer = BookkeepingTimer::default();
    timer.ran(false);
    assert_eq!(sleep_us(&timer), (10_000, 20_000));
}

#[test]
fn no_sleep_is_below_5_ms() {
    let mut timer = BookkeepingTimer::default();
    for expected in [9_000, 8_000, 7_000, 6_000, 5_000, 5_000] {
        timer.interrupted();
        assert_eq!(*timer.sleep_ps().start(), expected * US);
    }
    timer.ran(true);
    timer.interrupted();
    assert_eq!(sleep_us(&timer), (5_000, 15_000), "5.1 ms less 1 ms");
}

#[test]
fn no_sleep_is_above_100_s() {
    let first_ps = 99_999_950 * US;
    let mut timer = BookkeepingTimer::new(TimerDesign { first_ps, ..TimerDesign::default() }).unwrap();
    for _ in 0..2 {
        timer.ran(true);
        assert_eq!(sleep_us(&timer), (100_000_000, 100_010_000));
    }
    timer.interrupted();
    assert_eq!(sleep_us(&timer).0, 99_999_000);
}

#[test]
fn every_constant_can_be_set() {
    let design =
        TimerDesign { first_ps: 50, longer_ps: 7, shorter_ps: 20, least_ps: 20, most_ps: 60, slack_ps: 3 };
    let mut timer = BookkeepingTimer::new(design).unwrap();
    assert_eq!(timer.sleep_ps(), 50..=53);
    let mut sleeps = Vec::new();
    for step in [true, true, false, false, false, true] {
        if step {
            timer.ran(true)
        } else {
            timer.interrupted()
        }
        sleeps.push(*timer.sleep_ps().start());
    }
    assert_eq!(sleeps, [57, 60, 40, 20, 20, 27]);
    for first_ps in [19, 61] {
        let error = BookkeepingTimer::new(TimerDesign { first_ps, ..design }).unwrap_err();
        assert_eq!(error.value, first_ps, "{error}");
    }
}
