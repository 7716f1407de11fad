//! Whole runs of the command: accesses a second from a trace on disk to the report, and the peak of resident memory,
//! which must not depend on the trace's length. And the processor time of eight machines in one pass over a workload, beside that
//! of one.
//!
//! `cargo bench -p pagewalk-cli -- [ROUNDS]`: each row's figure is the median of interleaved rounds.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One trace in two lengths, and the machines that it runs on.
const LENGTHS: [(&str, u64); 2] = [("short", 4), ("long", 32)];
const MACHINES: [&[&str]; 3] =
    [&["x86-64"], &["x86-64", "mosaic-4"], &["x86-64", "x86-64-thp", "mosaic-4", "mosaic-64"]];
/// How much more the long trace may need: what the host's allocator leaves to chance.
const ALLOWED_GROWTH: f64 = 1.10;

/// Machines in one pass, and the seconds of processor time that counts on all of them may take: each has its own frames and tables.
const EIGHT: [&str; 8] =
    ["x86-64", "x86-64-thp", "mosaic-4", "mosaic-8", "mosaic-16", "ecpt", "me-hpt", "zen3"];
const EIGHT_MAY_TAKE: f64 = 20.0;

fn pagewalk() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewalk"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The highest resident memory that the kernel saw of a child so far, in bytes.
fn peak(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Seconds and peak bytes of one run. The peak is read every few milliseconds until the process has ended: the last
/// reading misses nothing that stayed longer.
fn run(trace: &Path, machines: &[&str]) -> (f64, u64) {
    let mut command = pagewalk();
    command.args(["run", "--detail", "counts", "--format", "json", "--trace"]).arg(trace);
    for machine in machines {
        command.args(["--machine", machine]);
    }
    let (start, mut most) = (Instant::now(), 0);
    let mut child = command.spawn().expect("pagewalk starts");
    loop {
        most = most.max(peak(&child).unwrap_or(0));
        if let Some(status) = child.try_wait().expect("a child") {
            assert!(status.success(), "{command:?}: {status}");
            return (start.elapsed().as_secs_f64(), most);
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// The processor time of all children that have ended, in seconds.
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // Behind the name, which may hold anything: user and system time of children are fields 16 and 17, of which 3 comes first.
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    // Linux shows hundredths of a second, whatever the kernel counts in.
    fields[13..15].iter().map(|ticks| ticks.parse::<f64>().expect("a number") / 100.0).sum()
}

/// Prints the processor time of one machine and of eight in one pass over live GUPS.
fn machines_in_one_pass(rounds: usize) {
    let sets = [&EIGHT[..1], &EIGHT[..]];
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (machines, seconds) in sets.iter().zip(&mut seconds) {
            let mut command = pagewalk();
            command.args(["run", "--detail", "counts", "--format", "json", "--workload", "gups"]);
            machines.iter().for_each(|machine| _ = command.args(["--machine", machine]));
            let before = children_seconds();
            assert!(command.status().expect("pagewalk starts").success(), "{command:?}");
            seconds.push(children_seconds() - before);
        }
    }
    println!("gups live, 256 MiB table; seconds of processor time, medians of {rounds}");
    let [one, eight] = seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        seconds[rounds / 2]
    });
    println!("{:<40} {one:>12.2}", EIGHT[0]);
    println!(
        "{:<40} {eight:>12.2} (at most {EIGHT_MAY_TAKE}); {:.1} times one",
        "eight machines",
        eight / one
    );
}

fn record(folder: &Path, name: &str, updates: u64) -> PathBuf {
    let path = folder.join(name).with_extension("pwt");
    let workload = format!("gups:table=64MiB,updates={updates}M");
    let mut command = pagewalk();
    command.args(["record", "--workload", &workload, "--output"]).arg(&path);
    assert!(command.status().expect("pagewalk starts").success(), "{command:?}");
    path
}

fn main() {
    let rounds = std::env::args().find_map(|argument| argument.parse::<usize>().ok()).unwrap_or(3);
    let folder = std::env::temp_dir().join(format!("pagewalk-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let traces = LENGTHS.map(|(name, updates)| (record(&folder, name, updates), updates));
    println!("gups from disk, 64 MiB table; wall seconds and peak resident memory, medians of {rounds}");
    println!("{:<40} {:>9} {:>16} {:>12} {:>10}", "machines", "updates", "file", "seconds", "peak MiB");
    for machines in MACHINES {
        let mut results = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for ((trace, _), results) in traces.iter().zip(&mut results) {
                results.push(run(trace, machines));
            }
        }
        let mut peaks = Vec::new();
        for ((trace, updates), results) in traces.iter().zip(&mut results) {
            results.sort_by(|a, b| a.0.total_cmp(&b.0));
            let seconds = results[rounds / 2].0;
            let most = results.iter().map(|&(_, peak)| peak).max().expect("a round");
            let bytes = File::open(trace).and_then(|file| file.metadata()).expect("just written").len();
            println!(
                "{:<40} {:>7} M {:>12.1} MiB {seconds:>12.2} {:>10.1}",
                machines.join(" "),
                updates,
                bytes as f64 / (1 << 20) as f64,
                most as f64 / (1 << 20) as f64
            );
            peaks.push(most as f64);
        }
        let growth = peaks[1] / peaks[0];
        let verdict = if growth <= ALLOWED_GROWTH { "bounded" } else { "GROWS WITH THE TRACE" };
        println!(
            "{:<40} {growth:.2} times the memory for {} times the trace: {verdict}",
            "",
            LENGTHS[1].1 / LENGTHS[0].1
        );
    }
    std::fs::remove_dir_all(&folder).expect("our own folder");
    machines_in_one_pass(rounds);
}
