//! Small fixed results for tests, with exactly the rows that the simulator writes.

use pagewalk_sim::metrics::{Fidelity, Metric, Number, RunResult};

use crate::document::{MachineNote, Manifest, SourceNote};
use crate::validation::{Class, Gain, Gained, LeftOut, Times, Validation, ValidationRow};

const SOURCE: &str = "gups --table 64MiB";

/// A counts run; `factor` scales its TLB misses and walks.
pub(crate) fn counted(machine: &str, factor: f64) -> RunResult {
    RunResult {
        machine: machine.into(),
        source: SOURCE.into(),
        metrics: rows(None, factor, 1.0, false),
        spans: Vec::new(),
    }
}

/// Returns a timed run.
pub(crate) fn timed(machine: &str, factor: f64) -> RunResult {
    RunResult { metrics: rows(None, factor, 1.0, true), ..counted(machine, factor) }
}

/// A timed run with phases of equal length.
pub(crate) fn with_phases(machine: &str, factor: f64, phases: &[&str]) -> RunResult {
    let mut run = timed(machine, factor);
    for (at, phase) in phases.iter().enumerate() {
        let share = 1.0 / phases.len() as f64;
        run.metrics.extend(rows(Some(phase), factor * (0.4 + 0.5 * at as f64), share, true));
    }
    run
}

/// A run whose source counts no instructions.
pub(crate) fn without_instructions(machine: &str) -> RunResult {
    let mut run = counted(machine, 1.0);
    for row in &mut run.metrics {
        if row.metric == "instructions" {
            row.value = Some(Number::Count(0));
        }
        if row.unit == "per-kilo-instruction" {
            row.value = None;
        }
    }
    run
}

/// A run that has the program's rows only.
pub(crate) fn without_stages(machine: &str) -> RunResult {
    let mut run = counted(machine, 1.0);
    run.metrics.retain(|row| row.stage == "program");
    run
}

/// A run without a TLB: every access walks.
pub(crate) fn without_tlb(machine: &str) -> RunResult {
    let mut run = counted(machine, 15.0);
    run.metrics.retain(|row| !row.stage.starts_with("tlb"));
    run
}

/// A run of a guest in a virtual machine.
pub(crate) fn guest(machine: &str) -> RunResult {
    let mut run = counted(machine, 1.0);
    let mut list = List { phase: None, rows: Vec::new() };
    for (metric, value) in
        [("lookups", 30_000_000), ("tlb-hits", 24_000_000), ("walks", 6_000_000), ("references", 7_500_000)]
    {
        list.add("host", metric, "count", value, Fidelity::Modelled);
    }
    list.add("host", "walk-cache-hits.level3", "count", 1_000_000, Fidelity::Modelled);
    list.add("host", "faults", "count", 16_384, Fidelity::Modelled);
    list.add("host", "given", "bytes", 64 << 20, Fidelity::Modelled);
    run.metrics.extend(list.rows);
    run
}

/// Two machines, timed, with phases.
pub(crate) fn pair() -> Vec<RunResult> {
    let phases = ["initialise", "update"];
    vec![with_phases("x86-64", 1.0, &phases), with_phases("mosaic-4", 0.54, &phases)]
}

/// Returns the results of so many machines.
pub(crate) fn many(count: usize) -> Vec<RunResult> {
    (0..count).map(|at| timed(&format!("machine-number-{at}"), 1.0 / (1.0 + at as f64))).collect()
}

/// Returns a manifest.
pub(crate) fn manifest() -> Manifest {
    let machine = |name: &str, description: &str| MachineNote {
        name: name.into(),
        description: description.into(),
        resolved: Some(format!("name = \"{name}\"\n[tlb.l1.set-associative]\nentries = 64 # default\n")),
        frames: None,
    };
    Manifest {
        pagewalk: "0.1.0".into(),
        command: ["pagewalk", "run", "--workload", "gups", "--detail", "timed"].map(str::to_owned).into(),
        detail: "timed".into(),
        seed: 1,
        limit: Some(100_000_000),
        begin: None,
        skip: None,
        warm_up: None,
        limited: true,
        partial: None,
        failed: vec![],
        source: SourceNote {
            name: SOURCE.into(),
            announces_mappings: true,
            counts_instructions: true,
            gives_blocks: false,
            trace: None,
            unobserved: vec![],
        },
        machines: vec![
            machine("x86-64", "A current server core with 4 KiB pages"),
            machine("mosaic-4", "The same with Mosaic TLBs of arity 4"),
        ],
    }
}

fn rows(phase: Option<&str>, factor: f64, share: f64, timed: bool) -> Vec<Metric> {
    let mut list = List { phase, rows: Vec::new() };
    let whole = |value: f64| (value * share) as u64;
    let (accesses, instructions) = (whole(100e6), whole(402_123_456.0));
    let (first, walks) = (whole(49.3e6 * factor.min(2.0)), whole(12.34e6 * factor));
    for (metric, value) in [
        ("accesses", accesses),
        ("loads", whole(67e6)),
        ("stores", whole(33e6)),
        ("instructions", instructions),
    ] {
        list.add("program", metric, "count", value, Fidelity::Observed);
    }
    let counts = [
        ("tlb.l1", "accesses", accesses),
        ("tlb.l1", "hits", accesses - first.min(accesses)),
        ("tlb.l1", "misses", first),
        ("tlb.l1", "sub-entry-misses", 0),
        ("tlb.l2", "accesses", first),
        ("tlb.l2", "hits", first - walks.min(first)),
        ("tlb.l2", "misses", walks),
        ("tlb.l2", "sub-entry-misses", 0),
        ("walk", "walks", walks),
        ("walk", "references", walks + walks / 2 + walks / 16),
        ("walk", "references.level0", walks),
        ("walk", "references.level1", walks / 2),
        ("walk", "references.level2", walks / 16),
        ("walk", "references.level3", 0),
        ("walk", "dirty-updates", whole(16_384.0)),
        ("walk-cache", "lookups", walks),
        ("walk-cache", "hits.level1", walks / 2),
        ("walk-cache", "hits.level2", walks / 3),
        ("walk-cache", "hits.level3", walks / 6),
        ("fault", "minor.4KiB", whole(16_384.0)),
        ("fault", "minor.2MiB", if factor < 0.5 { 32 } else { 0 }),
        ("fault", "minor.1GiB", 0),
        ("fault", "protection", 0),
        ("fault", "unannounced-pages", 0),
        ("kernel", "shootdowns", 0),
        ("kernel", "dropped-pages", 0),
        ("kernel", "huge-page-splits", 0),
        ("kernel", "refused-calls", 0),
    ];
    for (stage, metric, value) in counts {
        list.add(stage, metric, "count", value, Fidelity::Modelled);
    }
    for (stage, metric, value) in [
        ("frames", "resident", 64 << 20),
        ("frames", "resident-peak", 67_211_264),
        ("frames", "resident-huge", 0),
        ("frames", "memory", 4 << 30),
        ("table", "bytes", 139_264),
        ("table", "bytes-peak", 143_360),
    ] {
        list.add(stage, metric, "bytes", value, Fidelity::Modelled);
    }
    if timed {
        let parts = [
            ("compute", whole(33.5e9)),
            ("walk", whole(88e9 * factor)),
            ("memory", whole(120e9)),
            ("fault", whole(16.4e9)),
        ];
        list.add("time", "elapsed", "ps", parts.iter().map(|(_, ps)| ps).sum(), Fidelity::Estimated);
        for (metric, ps) in parts {
            list.add("time", metric, "ps", ps, Fidelity::Estimated);
        }
        for (metric, value) in
            [("data-reads", whole(45e6)), ("walk-reads", walks / 4), ("writes", whole(22e6))]
        {
            list.add("memory", metric, "count", value, Fidelity::Modelled);
        }
    }
    let rate = 1e3 * walks as f64 / instructions as f64;
    list.push(
        "tlb.l2",
        "misses-per-kilo-instruction",
        "per-kilo-instruction",
        Some(Number::Ratio(rate)),
        Fidelity::Modelled,
    );
    let per_walk = (walks > 0).then_some(Number::Ratio(1.5625));
    list.push("walk", "references-per-walk", "per-walk", per_walk, Fidelity::Modelled);
    list.rows
}

struct List<'a> {
    phase: Option<&'a str>,
    rows: Vec<Metric>,
}

impl List<'_> {
    fn add(&mut self, stage: &str, metric: &str, unit: &str, value: u64, fidelity: Fidelity) {
        self.push(stage, metric, unit, Some(Number::Count(value)), fidelity);
    }

    fn push(&mut self, stage: &str, metric: &str, unit: &str, value: Option<Number>, fidelity: Fidelity) {
        self.rows.push(Metric {
            stage: stage.into(),
            phase: self.phase.map(str::to_owned),
            metric: metric.into(),
            unit: unit.into(),
            value,
            fidelity,
        });
    }
}

fn validated(program: &str, class: Class, error: f64, void: bool) -> ValidationRow {
    ValidationRow {
        program: program.to_owned(),
        class,
        is_held_out: program == "gzip",
        measured_ns: 1e8,
        predicted_ns: 1e8 * (1.0 + error),
        band_ns: (class == Class::ThirdCache).then_some([1e8, 2e8]),
        error,
        measured_faults: 100,
        predicted_faults: 90,
        void: void.then(|| "it moved".to_owned()),
        huge_pages: void.then_some(Gain {
            pairs: 5,
            whole: Gained { measured: 0.31, spread: 0.01, predicted: 0.25 },
            steady: Some(Gained { measured: 0.5, spread: 0.04, predicted: 0.45 }),
            first_touches: Some(Times { measured: 2e7, predicted: 2.5e7 }),
        }),
        without: [("branches", 2.0 * error)].into(),
    }
}

/// A validation with a row of each class, and a void one.
pub(crate) fn validation() -> Validation {
    let rows = vec![
        validated("sort", Class::CoreBound, 0.1, false),
        validated("gzip", Class::CoreBound, 0.3, false),
        validated("gups", Class::MemoryBound, 0.5, false),
        validated("join", Class::MemoryBound, 9.0, true),
        validated("bfs", Class::ThirdCache, 0.0, false),
    ];
    let left_out = vec![LeftOut { program: "bc".to_owned(), reason: "there is no /usr/bin/bc".to_owned() }];
    Validation::new("here".to_owned(), rows, left_out, false)
}
