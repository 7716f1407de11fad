//! How fast the workloads emit: accesses per second into a sink that drops them, by phase; medians.
//!
//! `cargo bench -p pagewalk-workload [-- SPEC...]`. Time is that on the CPU, so that other programs disturb less
//! (wall time where Linux does not tell). Verification counts to the phase it follows.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

use pagewalk_trace::{Batch, Event, Source};
use pagewalk_workload::Workload;

const ROUNDS: usize = 5;
const SPECS: [&str; 24] = [
    "graph500:scale=18",
    "graph500:scale=20",
    "graph500:scale=18,variant=list",
    "btree",
    "gups",
    "gups:pair=on",
    "xsbench",
    "graph",
    "gups-64g",
    "mummer",
    "sysbench",
    "quicksort",
    "assembler",
    "objects",
    "linear:n=512",
    "array-swap:dataset=256GiB,warm=1M",
    "hash-table:dataset=256GiB,warm=1M",
    "red-black-tree:dataset=256GiB,warm=1M",
    "tatp:dataset=256GiB,warm=1M",
    "tatp:dataset=256GiB,warm=1M,mix=standard",
    "tpcc:dataset=256GiB,warm=1M",
    "tpcc:dataset=256GiB,warm=1M,mix=payment",
    "silo:dataset=256GiB,warm=1M",
    "masstree:dataset=256GiB,warm=1M",
];

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let specs = if given.is_empty() { SPECS.map(str::to_owned).to_vec() } else { given };
    println!(
        "{:<44} {:<9} {:>12} {:>9} {:>9} {:>9}",
        "workload", "phase", "accesses", "M acc/s", "worst", "best"
    );
    let mut rates: BTreeMap<(usize, usize, String), (u64, Vec<f64>)> = BTreeMap::new();
    // Interleaved, so that a slow moment of the machine does not hit one workload only.
    for _ in 0..ROUNDS {
        for (i, spec) in specs.iter().enumerate() {
            for (j, (phase, accesses, time)) in measure(spec).into_iter().enumerate() {
                let entry = rates.entry((i, j, phase)).or_default();
                entry.0 = accesses;
                entry.1.push(accesses as f64 / time * 1e3);
            }
        }
    }
    for ((i, _, phase), (accesses, mut rates)) in rates {
        rates.sort_by(f64::total_cmp);
        let [worst, median, best] = [0, ROUNDS / 2, ROUNDS - 1].map(|i| rates[i]);
        println!("{:<44} {phase:<9} {accesses:>12} {median:>9.1} {worst:>9.1} {best:>9.1}", specs[i]);
    }
}

/// Nanoseconds of CPU time of this thread, to a scheduler tick; or of wall time since `start`.
fn now_ns(start: Instant) -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| start.elapsed().as_nanos() as f64)
}

/// One run: phase, accesses and nanoseconds of each.
fn measure(spec: &str) -> Vec<(String, u64, f64)> {
    let start = Instant::now();
    let mut workload = match Workload::parse(spec, 0) {
        Ok(workload) => workload,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(2);
        }
    };
    let mut phases: Vec<(String, u64, f64)> = Vec::new();
    let mut sink = |batch: &mut Batch| {
        for mark in &batch.marks {
            if let Event::Phase(name) = &mark.event {
                phases.push((name.clone(), 0, now_ns(start)));
            }
        }
        if let Some((_, accesses, _)) = phases.last_mut() {
            *accesses += batch.accesses.len() as u64;
        }
        ControlFlow::Continue(())
    };
    let answer = workload.run(&mut sink);
    let end = now_ns(start);
    if let Err(error) = answer {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
    let ends: Vec<f64> = phases.iter().skip(1).map(|phase| phase.2).chain([end]).collect();
    phases.into_iter().zip(ends).map(|((name, count, start), end)| (name, count, end - start)).collect()
}
