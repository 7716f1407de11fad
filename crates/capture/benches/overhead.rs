//! What observing costs: CPU time of a program under each front-end against the plain program, records built and
//! dropped ("null"), and against live runs whose records are counted here ("live"), or go through a filter and eight
//! TLBs here ("8 TLBs"), both processes' CPU. "seen" is the share of the accesses that the Valgrind tool sees: what a
//! compiler announces leaves out libraries, register spills and wide vectors. "no tool" is Valgrind's own part.
//!
//! ```text
//! cargo bench -p pagewalk-capture             seven interleaved rounds
//! cargo bench -p pagewalk-capture -- 3 gups   three rounds, one program (or `threads`, `server`, `blocks`)
//! ```
//!
//! Medians of interleaved runs, because the machine is never quiet; CPU time (user and system), because it is never
//! idle either. Targets: facts of the prototypes, on a machine of the same class; take +-25 % on any ratio.

#[path = "../tests/common/mod.rs"]
#[allow(dead_code)] // the benchmark uses a part of it
mod common;

use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Build, builds, compile, is_installed, program};
use pagewalk_capture::Frontend;
use pagewalk_trace::container::{PwtSource, Writer};
use pagewalk_trace::{Batch, Source};
use pagewalk_vm::tlb::LruBank;

/// A program, arguments that take about a second natively, and the largest ratios that it should show.
struct Case {
    name: &'static str,
    args: &'static [&'static str],
    valgrind: f64,
    callouts: f64,
    inlined: f64,
    qemu: f64,
    /// With a filter and eight TLBs behind the call-outs.
    eight_tlbs: f64,
}

const NONE: f64 = f64::NAN;
const PROGRAMS: [Case; 4] = [
    case("gups", &["256", "50"], [2.5, 1.7, 1.4, 4.0, 3.0]),
    case("btree", &["1300", "2000"], [3.5, 1.8, 1.4, 5.0, 3.0]),
    case("bfs", &["18", "16", "32"], [6.0, 3.1, 2.3, 6.0, 8.0]),
    case("match", &["2000", "2500"], [2.5, NONE, NONE, NONE, NONE]),
];

const fn case(name: &'static str, args: &'static [&'static str], most: [f64; 5]) -> Case {
    let [valgrind, callouts, inlined, qemu, eight_tlbs] = most;
    Case { name, args, valgrind, callouts, inlined, qemu, eight_tlbs }
}

impl Case {
    fn null_target(&self, build: Build) -> f64 {
        match build {
            Build::Plain | Build::Static | Build::Freestanding => self.valgrind,
            Build::GccCallout | Build::ClangCallout => self.callouts,
            Build::GccCalled => NONE,
            Build::ClangInlined => self.inlined,
            Build::Qemu => self.qemu,
        }
    }

    fn tlbs_target(&self, build: Build) -> f64 {
        if build.frontend() == Frontend::Callout { self.eight_tlbs } else { NONE }
    }
}

/// Live runs take the first so many rounds only: they take both processors, and three times as long.
const LIVE_ROUNDS: usize = 3;

/// User and system seconds of this process and of the children that it has waited for.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let (_, fields) = text.rsplit_once(") ").expect("a command name in parentheses");
    // utime, stime, cutime and cstime are fields 14 to 17, counted from the process number; ticks of 1/100 s.
    let ticks: u64 = fields.split(' ').skip(11).take(4).map(|n| n.parse::<u64>().expect("ticks")).sum();
    ticks as f64 / 100.0
}

/// What a piece of work took, in seconds.
#[derive(Clone, Copy)]
struct Took {
    cpu: f64,
    wall: f64,
}

fn timed(work: impl FnOnce()) -> Took {
    let (cpu, begin) = (cpu_seconds(), Instant::now());
    work();
    Took { cpu: cpu_seconds() - cpu, wall: begin.elapsed().as_secs_f64() }
}

fn run(mut command: Command) {
    let status = command.stdout(Stdio::null()).status().expect("a program");
    assert!(status.success(), "{command:?}: {status}");
}

fn plain(path: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(args);
    command
}

/// Every record built, and dropped.
fn discarding(path: &Path, args: &[&str], build: Build) -> Command {
    program(path, args, build.frontend()).discarding_command().expect("a command")
}

/// Valgrind without a tool: what no tool can be faster than, unless it improves what VEX made.
fn bare_valgrind(path: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=none", "--command-line-only=yes", "-q", "--vgdb=no", "--"]).arg(path).args(args);
    command
}

/// A live run: the accesses that `each` was shown.
fn observe(path: &Path, args: &[&str], build: Build, mut each: impl FnMut(&Batch)) -> u64 {
    let mut observed = program(path, args, build.frontend()).stdout_to_stderr(true);
    let run = observed.run(&mut |batch: &mut Batch| {
        each(batch);
        ControlFlow::Continue(())
    });
    run.expect("a run");
    observed.outcome().expect("an outcome").accesses
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn cpu(all: &[Took]) -> f64 {
    median(all.iter().map(|took| took.cpu))
}

fn wall(all: &[Took]) -> f64 {
    median(all.iter().map(|took| took.wall))
}

fn label(build: Build) -> String {
    if build == Build::Plain { "Valgrind".to_owned() } else { format!("{build:?}") }
}

fn or_dash(target: f64) -> String {
    if target.is_nan() { "-".to_owned() } else { format!("{target:.1}") }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let rounds = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(7);
    let chosen: Vec<&String> = args.iter().filter(|arg| arg.parse::<usize>().is_err()).collect();
    let wanted = |row: &str| chosen.is_empty() || chosen.iter().any(|name| *name == row);
    println!("CPU time against gcc -O2, medians of {rounds} interleaved rounds, of live runs {LIVE_ROUNDS}");
    println!(
        "program  front-end      native s   null s  ratio  target  M acc/CPU-s   seen  live ratio  8 TLBs  target  \
         wall s"
    );
    PROGRAMS.iter().filter(|case| wanted(case.name)).for_each(|case| compare(case, rounds));
    if wanted("threads") {
        threads(rounds.min(LIVE_ROUNDS));
    }
    if wanted("server") {
        server(rounds.min(LIVE_ROUNDS));
    }
    if wanted("blocks") {
        blocks(rounds);
        traces_with_blocks(rounds);
    }
    if chosen.is_empty() {
        for build in builds() {
            let nothing = compile("nothing", build);
            let native = compile("nothing", Build::Plain);
            let more = median((0..rounds).map(|_| {
                let native = timed(|| run(plain(&native, &[])));
                timed(|| run(discarding(&nothing, &[], build))).wall - native.wall
            }));
            println!("start-up, {}: {more:.3} s", label(build));
        }
    }
}

fn compare(case: &Case, rounds: usize) {
    let Case { name, args, .. } = case;
    let native = compile(name, Build::Plain);
    let fronts: Vec<_> = builds().into_iter().map(|build| (build, compile(name, build))).collect();
    let (mut native_took, mut bare) = (Vec::new(), Vec::new());
    let mut null = vec![Vec::new(); fronts.len()];
    let mut live = vec![Vec::new(); fronts.len()];
    let mut tlbs = vec![Vec::new(); fronts.len()];
    let mut accesses = vec![0; fronts.len()];
    for round in 0..rounds {
        native_took.push(timed(|| run(plain(&native, args))));
        bare.push(timed(|| run(bare_valgrind(&native, args))));
        for (i, (build, path)) in fronts.iter().enumerate() {
            null[i].push(timed(|| run(discarding(path, args, *build))));
            if round < LIVE_ROUNDS {
                live[i].push(timed(|| accesses[i] = observe(path, args, *build, |_| ())));
                let mut bank = LruBank::new();
                tlbs[i].push(timed(|| {
                    let simulate =
                        |batch: &Batch| bank.access(&batch.accesses, |access| access.addr().page());
                    let seen = observe(path, args, *build, simulate);
                    let missed = bank.curve().last().expect("eight TLBs").1;
                    assert!(0 < missed && missed <= seen, "{missed} misses of {seen} accesses");
                }));
            }
        }
    }
    let (native, bare) = (cpu(&native_took), cpu(&bare));
    println!("{name:8} {:14} {native:8.2} {bare:8.2} {:6.2}", "no tool", bare / native);
    for (i, (build, _)) in fronts.iter().enumerate() {
        let null = cpu(&null[i]);
        println!(
            "{name:8} {:14} {native:8.2} {null:8.2} {:6.2} {:>7} {:12.0} {:5.1}% {:11.2} {:7.2} {:>7} {:7.2}",
            label(*build),
            null / native,
            or_dash(case.null_target(*build)),
            accesses[i] as f64 / null / 1e6,
            100.0 * accesses[i] as f64 / accesses[0] as f64,
            cpu(&live[i]) / native,
            cpu(&tlbs[i]) / native,
            or_dash(case.tlbs_target(*build)),
            wall(&tlbs[i]),
        );
    }
}

/// The same updates by more threads: under Valgrind they take turns.
fn threads(rounds: usize) {
    println!(
        "threads of gups, null: times the plain program's with as many threads, medians of {rounds} rounds"
    );
    println!("threads  front-end      native CPU s  native wall s  CPU ratio  wall ratio");
    let native = compile("gups", Build::Plain);
    for threads in ["1", "2", "4"] {
        let args = ["256", "50", threads];
        let fronts: Vec<_> = builds().into_iter().map(|build| (build, compile("gups", build))).collect();
        let mut native_took = Vec::new();
        let mut null = vec![Vec::new(); fronts.len()];
        for _ in 0..rounds {
            native_took.push(timed(|| run(plain(&native, &args))));
            for (took, (build, path)) in null.iter_mut().zip(&fronts) {
                took.push(timed(|| run(discarding(path, &args, *build))));
            }
        }
        for (took, (build, _)) in null.iter().zip(&fronts) {
            let (native_cpu, native_wall) = (cpu(&native_took), wall(&native_took));
            println!(
                "{threads:7}  {:14} {native_cpu:12.2} {native_wall:14.2} {:10.2} {:11.2}",
                label(*build),
                cpu(took) / native_cpu,
                wall(took) / native_wall,
            );
        }
    }
}

/// What the record of executed blocks adds to the accesses alone, under the front-ends that give it.
fn blocks(rounds: usize) {
    println!(
        "executed blocks, null: CPU time beside that of accesses alone, medians of {rounds} interleaved rounds"
    );
    println!("program  front-end      accesses s  with blocks s  ratio  target");
    for case in &PROGRAMS {
        for build in builds().into_iter().filter(|build| build.frontend() != Frontend::Callout) {
            let path = compile(case.name, build);
            let mut took = [Vec::new(), Vec::new()];
            for _ in 0..rounds {
                for (took, with_blocks) in took.iter_mut().zip([false, true]) {
                    let observed = program(&path, case.args, build.frontend()).blocks(with_blocks);
                    took.push(timed(|| run(observed.discarding_command().expect("a command"))));
                }
            }
            let ratio = median(took[0].iter().zip(&took[1]).map(|(without, with)| with.cpu / without.cpu));
            let [without, with] = took.map(|took| cpu(&took));
            println!(
                "{:8} {:14} {without:10.2} {with:14.2} {ratio:6.2} {:>7}",
                case.name,
                label(build),
                "1.10"
            );
        }
    }
}

/// The size of traces of compiled programs with their executed blocks, and how fast they are read.
fn traces_with_blocks(rounds: usize) {
    println!("traces with executed blocks (targets: at most 4 B an access, 60 M accesses/CPU-s decoded)");
    println!("program  M accesses  blocks/access  B/access  decode M/CPU-s");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, args) in [("gups", &["64", "10"][..]), ("btree", &["300", "200"]), ("bfs", &["16", "16", "8"])]
    {
        let mut source = program(&compile(name, Build::Plain), args, Frontend::Valgrind)
            .blocks(true)
            .stdout_to_stderr(true);
        let path = folder.path().join(name).with_extension("pwt");
        let mut writer = Writer::create(&path, &source.info()).expect("a temporary file");
        let (mut accesses, mut blocks) = (0, 0);
        let written = source.run(&mut |batch: &mut Batch| {
            accesses += batch.accesses.len();
            blocks += batch.blocks.len();
            writer.write(batch).expect("room on the disk");
            ControlFlow::Continue(())
        });
        written.expect("a run");
        writer.finish().expect("room on the disk");
        let bytes = std::fs::metadata(&path).expect("just written").len();
        let decode = || {
            let mut decoded = 0;
            let mut file = PwtSource::open(&path).expect("just written");
            let read = file.run(&mut |batch: &mut Batch| {
                decoded += batch.accesses.len();
                ControlFlow::Continue(())
            });
            read.expect("a sound file");
            assert_eq!(decoded, accesses);
        };
        let decode: Vec<Took> = (0..rounds).map(|_| timed(decode)).collect();
        println!(
            "{name:8} {:10.1} {:14.3} {:9.2} {:15.1}",
            accesses as f64 / 1e6,
            blocks as f64 / accesses as f64,
            bytes as f64 / accesses as f64,
            accesses as f64 / cpu(&decode) / 1e6,
        );
    }
}

/// Requests that the server's own load generator makes of each kind, so many on their way at a time.
const REQUESTS: &str = "300000";

/// A server whose clients are not observed: Redis under its own load, through a socket in the file system.
fn server(rounds: usize) {
    if !is_installed("redis-check-rdb") || !is_installed("redis-benchmark") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("socket");
    // Debian's package of tools holds the server, too, under another name: it becomes what it is called. The package
    // of the server would start one.
    let path = folder.path().join("redis-server");
    let search = std::env::var_os("PATH").unwrap_or_default();
    let tool = std::env::split_paths(&search)
        .map(|folder| folder.join("redis-check-rdb"))
        .find(|path| path.is_file());
    std::os::unix::fs::symlink(tool.expect("just found"), &path).expect("a link");
    let args = ["--port", "0", "--save", "", "--dir", folder.path().to_str().expect("text"), "--unixsocket"];
    let args = args.into_iter().chain([socket.to_str().expect("text"), "--logfile", "log"]);
    let args: Vec<&str> = args.collect();
    let (mut native, mut null, mut live) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        native.push(serve(plain(&path, &args), &socket));
        null.push(serve(discarding(&path, &args, Build::Plain), &socket));
        let load = std::thread::spawn({
            let socket = socket.clone();
            move || {
                let took = load(&socket);
                shut_down(&socket);
                took
            }
        });
        observe(&path, &args, Build::Plain, |_| ());
        live.push(load.join().expect("clients"));
    }
    println!(
        "server: {REQUESTS} SET and {REQUESTS} GET of Redis; the server's CPU {:.2} s, the clients' wait {:.2} s; under \
         Valgrind, null, {:.2} and {:.2} times that, live the wait {:.2} times",
        cpu(&native),
        wall(&native),
        cpu(&null) / cpu(&native),
        wall(&null) / wall(&native),
        wall(&live) / wall(&native),
    );
}

/// The server's processor time from its start to its end, and the wall time of its clients.
fn serve(mut command: Command, socket: &Path) -> Took {
    let mut server = command.stdout(Stdio::null()).spawn().expect("a server");
    let clients = load(socket);
    shut_down(socket);
    let before = cpu_seconds();
    let status = server.wait().expect("a child");
    assert!(status.success(), "{command:?}: {status}");
    Took { cpu: cpu_seconds() - before, wall: clients.wall }
}

fn load(socket: &Path) -> Took {
    let begin = Instant::now();
    while UnixStream::connect(socket).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "a server that answers");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut clients = Command::new("redis-benchmark");
    clients.arg("-s").arg(socket).args(["-t", "set,get", "-n", REQUESTS, "-r", "100000", "-P", "16", "-q"]);
    timed(|| run(clients))
}

fn shut_down(socket: &Path) {
    let mut order = Command::new("redis-cli");
    order.arg("-s").arg(socket).args(["shutdown", "nosave"]);
    run(order);
}
