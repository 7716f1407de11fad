//! A program's minor faults as Linux counts them, beside those of a machine that observes the same program.

use std::ops::ControlFlow;
use std::process::Command;

use pagewalk_sim::machine::{Detail, build};
use pagewalk_sim::metrics::Number;
use pagewalk_sim::spec;
use pagewalk_trace::{Batch, Source};

use crate::common::{Build, compile, program};

/// What `getrusage` says of a native run.
fn native(case: &str, pages: u64) -> i64 {
    let path = compile("faults", Build::Plain);
    let output = Command::new(path).args([case, &pages.to_string()]).output().expect("the program starts");
    assert!(output.status.success(), "{case}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

/// The minor faults of a machine with pages of 4 KiB.
fn modelled(case: &str, pages: u64) -> i64 {
    let path = compile("faults", Build::Plain);
    let mut program = program(&path, &[case, &pages.to_string()], Build::Plain.frontend());
    let machine_file = spec::load("x86-64").expect("a shipped machine");
    let mut machine = build(&machine_file, Detail::Counts, 1, &program.info()).expect("a machine");
    let run = program.run(&mut |batch: &mut Batch| {
        machine.batch(batch).expect("enough memory");
        ControlFlow::Continue(())
    });
    run.unwrap_or_else(|error| panic!("{case}: {error}"));
    let result = machine.finish(case);
    let row = result.metrics.iter().find(|row| row.stage == "fault" && row.metric == "minor.4KiB");
    match row.and_then(|row| row.value) {
        Some(Number::Count(count)) => count as i64,
        other => panic!("{case}: {other:?}"),
    }
}

/// Programs that free lazily, populate, and fork had up to four times as many faults in a machine as on Linux, or none where
/// Linux had one for each page. How the faults grow with the pages leaves out what starting a program takes.
#[test]
fn faults_grow_with_pages_as_they_do_on_linux() {
    const FEW: u64 = 200;
    const MANY: u64 = 1_200;
    for (case, faults_per_page) in [
        ("free", 1),
        ("populate", 1),
        ("untouched", 1),
        ("child-loads", 1),
        ("child-stores", 3),
        ("child-shares", 2),
        ("private-file", 1),
    ] {
        let expected = faults_per_page * (MANY - FEW) as i64;
        let linux = native(case, MANY) - native(case, FEW);
        let ours = modelled(case, MANY) - modelled(case, FEW);
        println!("{case}: {linux} faults more on Linux, {ours} in the machine");
        assert!((linux - expected).abs() <= 30, "{case}: {linux} on Linux, {expected} expected");
        assert!((ours - linux).abs() <= 30, "{case}: {ours} in the machine, {linux} on Linux");
    }
}
