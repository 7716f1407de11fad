//! Runs of which only a part is measured.

use pagewalk_sim::machine::{Detail, build};
use pagewalk_sim::metrics::names::{frames, program};
use pagewalk_sim::metrics::{Metric, Name, Number};
use pagewalk_sim::run::{Length, RunError, RunOptions, RunOutcome, run};
use pagewalk_sim::spec;

use crate::{Recorded, record};

const MACHINES: [&str; 4] = ["x86-64", "mosaic-4", "me-hpt", "lru-swap"];

fn part(source: &mut Recorded, detail: Detail, options: &RunOptions) -> Result<RunOutcome, RunError> {
    let machines = MACHINES.map(|name| {
        let spec = spec::load(name).expect("a built-in machine");
        build(&spec, detail, 0, &source.info).expect("a machine")
    });
    run(source, machines.into(), options.clone(), &mut ())
}

/// The counts of events of one of the machines, of the whole run.
fn counts(outcome: &RunOutcome, machine: usize) -> Vec<&Metric> {
    let metrics = &outcome.results[machine].metrics;
    let is_sum = |metric: &&Metric| matches!(metric.value, Some(Number::Count(_))) && metric.phase.is_none();
    metrics.iter().filter(is_sum).collect()
}

fn value(outcome: &RunOutcome, machine: usize, name: &Name) -> u64 {
    let row = counts(outcome, machine).into_iter().find(|metric| name.is_of(metric));
    row.and_then(|row| row.value).unwrap_or_else(|| panic!("no {name:?}")).as_f64() as u64
}

/// The place lies in the middle of a batch and of a segment of instructions.
#[test]
fn a_warm_up_and_what_is_measured_add_up_to_the_run() {
    let mut recorded = record("graph500-small", 300_000);
    for detail in [Detail::Counts, Detail::Timed] {
        let all = RunOptions { limit: Some(200_000), ..RunOptions::default() };
        let first = RunOptions { limit: Some(70_001), ..all.clone() };
        let rest =
            RunOptions { warm_up: Some(Length::Accesses(70_001)), limit: Some(129_999), ..all.clone() };
        let [all, first, rest] =
            [all, first, rest].map(|options| part(&mut recorded, detail, &options).expect("a run"));
        assert_eq!((rest.warm_up, rest.accesses, rest.skipped), (70_001, 129_999, 0));
        for (machine, name) in MACHINES.iter().enumerate() {
            let (all, first, rest) = (counts(&all, machine), counts(&first, machine), counts(&rest, machine));
            let mut added = 0;
            for ((all, first), rest) in all.iter().zip(&first).zip(&rest) {
                let [whole, first, rest] = [all, first, rest].map(|metric| match metric.value {
                    Some(Number::Count(count)) => count,
                    _ => 0,
                });
                // What follows an unfinished wait, and states, do not add up.
                let is_exact = ["program", "tlb.l1", "tlb.l2", "walk", "walk-cache", "fault"];
                if is_exact.contains(&&*all.stage) && (detail == Detail::Counts || whole > 0) {
                    assert_eq!(whole, first + rest, "{} {} of {name}", all.stage, all.metric);
                    added += whole;
                }
            }
            assert!(added > 200_000, "{name}");
        }
    }
}

/// What is skipped brings pages in: behind it, no page is touched for the first time that was touched in it.
#[test]
fn behind_a_skipped_part_page_tables_are_as_behind_a_warm_up() {
    let mut recorded = record("graph500-small", 300_000);
    let (part_of, limit) = (Some(Length::Accesses(150_000)), Some(100_000));
    let skip = RunOptions { skip: part_of, limit, ..RunOptions::default() };
    let warm_up = RunOptions { warm_up: part_of, limit, ..RunOptions::default() };
    let [skip, warm_up] =
        [skip, warm_up].map(|options| part(&mut recorded, Detail::Counts, &options).expect("a run"));
    assert_eq!((skip.skipped, skip.warm_up, skip.accesses), (150_000, 0, 100_000));
    for (machine, machine_name) in MACHINES.iter().take(2).enumerate() {
        let of_pages = |outcome: &RunOutcome| -> Vec<Metric> {
            let is_of_pages = |metric: &&Metric| ["program", "fault"].contains(&&*metric.stage);
            counts(outcome, machine).into_iter().filter(is_of_pages).cloned().collect()
        };
        assert_eq!(of_pages(&skip), of_pages(&warm_up), "{machine_name}");
        for name in [frames::RESIDENT, program::ACCESSES] {
            let [one, other] = [&skip, &warm_up].map(|outcome| value(outcome, machine, &name));
            assert_eq!(one, other, "{name:?} of {machine_name}");
        }
        assert_eq!(value(&skip, machine, &program::ACCESSES), 100_000);
    }
}

#[test]
fn parts_follow_each_other_and_are_measured_in_instructions_too() {
    let mut recorded = record("gups:table=1MiB,updates=256k", 600_000);
    let options = RunOptions {
        begin: Some("updates".into()),
        skip: Some(Length::Instructions(100_000)),
        warm_up: Some(Length::Accesses(1_000)),
        limit: Some(5_000),
        ..RunOptions::default()
    };
    let outcome = part(&mut recorded, Detail::Timed, &options).expect("a run");
    assert_eq!((outcome.warm_up, outcome.accesses, outcome.limited), (1_000, 5_000, true));
    let metrics = &outcome.results[0].metrics;
    let accesses: Vec<_> = metrics.iter().filter(|metric| program::ACCESSES.is_of(metric)).collect();
    let of_phase: Vec<_> = accesses.iter().map(|metric| (metric.phase.as_deref(), metric.value)).collect();
    let count = Some(Number::Count(5_000));
    assert_eq!(of_phase, [(None, count), (Some("updates"), count)], "the phase goes on");
}

#[test]
fn a_source_that_ends_too_early_is_refused_with_its_length() {
    let mut recorded = record("gups-small", 20_000);
    let there: usize = recorded.batches.iter().map(|batch| batch.accesses.len()).sum();
    let options = RunOptions { warm_up: Some(Length::Accesses(1 << 40)), ..RunOptions::default() };
    let error = part(&mut recorded, Detail::Counts, &options).expect_err("it is too short");
    let text = error.to_string();
    assert!(text.contains(&format!("ended after {there} accesses")), "{text}");
    assert!(text.contains("the warm-up of 1099511627776 accesses"), "{text}");
}
