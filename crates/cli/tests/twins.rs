//! Built-in workloads against compiled programs with the same algorithms: a core that executes instructions takes as long for both.
//!
//! `twins/twins.c` has the algorithms in C, observed under Valgrind. Only their steady part is compared: of the program, the time of
//! more operations less that of fewer; of the workload, its phases without their page faults. Modelled time is deterministic, but
//! depends on what the compiler makes of the C code.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The workload's time in that of the compiled program.
const RATIO: RangeInclusive<f64> = 0.85..=1.15;

/// A workload and the arguments of its twin: size, and two numbers of operations, whose difference is the workload's.
struct Pair {
    twin: &'static str,
    size: u64,
    operations: [u64; 2],
    workload: &'static str,
    phases: &'static [&'static str],
}

const GUPS: Pair = Pair {
    twin: "gups",
    size: 1 << 16,
    operations: [25_600, 281_600],
    workload: "gups:table=512KiB,updates=256k",
    phases: &["updates"],
};
const QUICKSORT: Pair = Pair {
    twin: "quicksort",
    size: 20_000,
    operations: [1, 2],
    workload: "quicksort:bytes=80000B",
    phases: &["fill", "sort"],
};
const BTREE: Pair = Pair {
    twin: "btree",
    size: 10_000,
    operations: [1_000, 11_000],
    workload: "btree:elements=10k,lookups=10k",
    phases: &["lookup"],
};
const BFS: Pair = Pair {
    twin: "bfs",
    size: 11,
    operations: [1, 5],
    workload: "graph500:scale=11,roots=4",
    phases: &["bfs"],
};
const XSBENCH: Pair = Pair {
    twin: "xsbench",
    size: 5,
    operations: [100, 1_100],
    workload: "xsbench:grid-points=5,particles=100,lookups=10",
    phases: &["lookup"],
};

/// The folder with the built front-ends.
fn frontends() -> Option<PathBuf> {
    let named = std::env::var_os("PAGEWALK_LIB").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_BIN_EXE_pagewalk")).parent()?.join("../pagewalk");
    named.into_iter().chain([beside]).find(|folder| folder.join("valgrind").is_dir())
}

/// Compiles the twins; none, with the reason printed, without a compiler or the front-ends.
fn compiled(folder: &Path) -> Option<PathBuf> {
    if frontends().is_none() {
        println!("skipped: the front-ends are not built (make frontends)");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/twins/twins.c");
    let program = folder.join("twins");
    match Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(source).status() {
        Ok(status) => {
            assert!(status.success(), "twins.c is not compiled");
            Some(program)
        }
        Err(error) => {
            println!("skipped: cc: {error}");
            None
        }
    }
}

fn run(source: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewalk"));
    command.args(["run", "--machine", "zen3", "--detail", "timed", "--format", "json"]).args(source);
    let output: Output = command
        .envs(frontends().map(|folder| ("PAGEWALK_LIB", folder)))
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one document")
}

/// The time of a run, or of one of its phases, without page faults; in picoseconds.
fn steady_ps(document: &Value, phase: Option<&str>) -> f64 {
    assert_eq!(document["manifest"]["source"]["gives_blocks"], true);
    let rows = document["runs"][0]["metrics"].as_array().expect("metrics");
    let value = |metric: &str| {
        let is_it = |row: &&Value| {
            row["stage"] == "time"
                && row["metric"] == metric
                && row.get("phase").and_then(Value::as_str) == phase
        };
        rows.iter().find(is_it).and_then(|row| row["value"].as_f64()).expect("a time")
    };
    value("elapsed") - value("fault")
}

/// Compares a workload with its twin.
fn compare(pair: &Pair) {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled(folder.path()) else { return };
    let [few, many] = pair.operations.map(|operations| {
        let (size, operations) = (pair.size.to_string(), operations.to_string());
        let program = program.to_str().expect("a name in UTF-8");
        steady_ps(&run(&["--", program, pair.twin, &size, &operations]), None)
    });
    let document = run(&["--workload", pair.workload]);
    let workload: f64 = pair.phases.iter().map(|phase| steady_ps(&document, Some(phase))).sum();
    let ratio = workload / (many - few);
    println!("{}: {:.3} of the compiled program's time", pair.workload, ratio);
    assert!(RATIO.contains(&ratio), "{}: {ratio:.3} of {:.0} ps", pair.workload, many - few);
}

#[test]
fn gups_takes_as_long_as_its_twin() {
    compare(&GUPS);
}

#[test]
fn quicksort_takes_as_long_as_its_twin() {
    compare(&QUICKSORT);
}

/// With those whose twins take longer to begin.
#[test]
#[ignore = "takes a minute"]
fn each_workload_takes_as_long_as_its_twin() {
    for pair in [GUPS, QUICKSORT, BTREE, BFS, XSBENCH] {
        compare(&pair);
    }
}
