//! What observing costs: CPU time of a program under each front-end against the plain program, records built and
//! dropped ("null"), and against a live run whose records are counted here ("live", both processes' CPU).
//!
//! ```text
//! cargo bench -p pagewalk-capture             seven interleaved rounds
//! cargo bench -p pagewalk-capture -- 3 gups   three rounds, one program
//! ```
//!
//! Medians of interleaved runs, because the machine is never quiet; CPU time (user and system), because it is never
//! idle either. Targets: facts of the prototypes, on a machine of the same class; take +-25 % on any ratio.

#[path = "../tests/common/mod.rs"]
mod common;

use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{Build, builds, compile, program};
use pagewalk_trace::{Batch, Source};

/// Programs, arguments that take about a second natively, and the largest allowed ratios: Valgrind, call-outs.
const PROGRAMS: [(&str, &[&str], f64, f64); 4] = [
    ("gups", &["256", "50"], 2.5, 1.7),
    ("btree", &["1300", "2000"], 3.5, 1.8),
    ("bfs", &["18", "16", "32"], 6.0, 3.1),
    ("match", &["2000", "2500"], 2.5, f64::NAN),
];

/// User and system seconds of this process and of the children that it has waited for.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let (_, fields) = text.rsplit_once(") ").expect("a command name in parentheses");
    // utime, stime, cutime and cstime are fields 14 to 17, counted from the process number; ticks of 1/100 s.
    let ticks: u64 = fields.split(' ').skip(11).take(4).map(|n| n.parse::<u64>().expect("ticks")).sum();
    ticks as f64 / 100.0
}

fn cpu_of(work: impl FnOnce()) -> f64 {
    let before = cpu_seconds();
    work();
    cpu_seconds() - before
}

fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).status().expect("a program");
    assert!(status.success(), "{command:?}: {status}");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A live run: accesses, and wall seconds.
fn observe(path: &Path, args: &[&str], build: Build) -> (u64, f64) {
    let begin = Instant::now();
    let mut observed = program(path, args, build.frontend()).stdout_to_stderr(true);
    observed.run(&mut |_: &mut Batch| ControlFlow::Continue(())).expect("a run");
    (observed.outcome().expect("an outcome").accesses, begin.elapsed().as_secs_f64())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let rounds = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(7);
    let wanted: Vec<&String> = args.iter().filter(|arg| arg.parse::<usize>().is_err()).collect();
    println!("CPU time against gcc -O2, medians of {rounds} interleaved rounds");
    println!(
        "program  front-end      native s   null s  ratio  target  M acc/CPU-s  live ratio  live wall s"
    );
    for (name, arguments, valgrind_target, callout_target) in PROGRAMS {
        if wanted.is_empty() || wanted.iter().any(|w| *w == name) {
            compare(name, arguments, [valgrind_target, callout_target], rounds);
        }
    }
    let null = program(Path::new("/bin/true"), &[], Build::Plain.frontend()).discarding_command();
    let startup = cpu_of(|| (0..rounds).for_each(|_| run(&mut null_again(&null)))) / rounds as f64;
    println!("start-up of the Valgrind tool: {startup:.2} CPU-s");
}

fn null_again(command: &Result<Command, pagewalk_capture::CaptureError>) -> Command {
    let command = command.as_ref().expect("a command");
    let mut again = Command::new(command.get_program());
    again.args(command.get_args());
    again.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    again
}

fn compare(name: &str, arguments: &[&str], targets: [f64; 2], rounds: usize) {
    let native = compile(name, Build::Plain);
    let fronts: Vec<_> = builds().into_iter().map(|build| (build, compile(name, build))).collect();
    let mut native_s = Vec::new();
    let mut null_s = vec![Vec::new(); fronts.len()];
    let mut live = vec![Vec::new(); fronts.len()];
    let mut wall = vec![Vec::new(); fronts.len()];
    let mut accesses = vec![0; fronts.len()];
    for _ in 0..rounds {
        native_s.push(cpu_of(|| run(Command::new(&native).args(arguments))));
        for (i, (build, path)) in fronts.iter().enumerate() {
            let observed = program(path, arguments, build.frontend());
            let mut null = observed.discarding_command().expect("a command");
            null_s[i].push(cpu_of(|| run(&mut null)));
            live[i].push(cpu_of(|| {
                let (count, seconds) = observe(path, arguments, *build);
                accesses[i] = count;
                wall[i].push(seconds);
            }));
        }
    }
    let native = median(&mut native_s);
    for (i, (build, _)) in fronts.iter().enumerate() {
        let (null, live, wall) = (median(&mut null_s[i]), median(&mut live[i]), median(&mut wall[i]));
        let target = targets[usize::from(*build != Build::Plain)];
        let label = if *build == Build::Plain { "Valgrind".to_owned() } else { format!("{build:?}") };
        println!(
            "{name:8} {label:14} {native:8.2} {null:8.2} {:6.2} {target:7.1} {:12.0} {:11.2} {wall:12.2}",
            null / native,
            accesses[i] as f64 / null / 1e6,
            live / native,
        );
    }
}
