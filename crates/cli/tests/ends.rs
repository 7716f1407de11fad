//! Every command, ended in every way that a user, a shell or a full disk ends commands: no panic, no process left behind, no
//! half-written file, and an exit code that tells.
//!
//! The matrix is made of the rows in `ends/rows.rs`, one or more for each command of clap's tree, and of the tests below,
//! each of which tries all rows in one way. A command without a row fails `every_command_has_a_row`.

#[allow(dead_code, reason = "only the command tree is used")]
#[path = "../src/args.rs"]
mod args;
mod rows;
pub(crate) mod world;

use std::any::TypeId;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use clap::CommandFactory;
use pagewalk_blade::Endpoint;
use rows::{Kind, ROWS, Row, WITHOUT_ROW, frontends};
use world::{Ended, PAGEWALK, World};

/// The signals that end commands, and how a shell counts them.
const SIGNALS: [(&str, i32); 3] = [("HUP", 1), ("INT", 2), ("TERM", 15)];
/// How long a server is left alone before it gets the signal that it is to end by.
const SERVES: Duration = Duration::from_millis(300);

/// Those that reach commands started here: under `nohup` SIGHUP is ignored, and commands keep it so.
fn signals() -> Vec<(&'static str, i32)> {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    let ignored = u64::from_str_radix(mask.trim(), 16).expect("a number");
    let (ignored, reach): (Vec<_>, Vec<_>) =
        SIGNALS.into_iter().partition(|(_, number)| ignored >> (number - 1) & 1 != 0);
    ignored.iter().for_each(|(name, _)| println!("skipped: SIG{name}, which is ignored here"));
    reach
}

fn pipes() -> [Stdio; 3] {
    [Stdio::null(), Stdio::piped(), Stdio::piped()]
}

impl Row {
    /// Whether the row can be tried here; the reason is printed once if not.
    fn is_possible(&self) -> bool {
        static SAID: OnceLock<()> = OnceLock::new();
        let is_possible = self.kind != Kind::Live || frontends().is_some();
        if !is_possible {
            SAID.get_or_init(|| {
                println!("skipped: observed programs, the front-ends are not built (make frontends)")
            });
        }
        is_possible
    }

    fn command(&self, world: &mut World) -> Command {
        let mut command = Command::new(PAGEWALK);
        command.args(self.command.split(' ')).args((self.arguments)(world));
        command.envs(frontends().map(|folder| ("PAGEWALK_LIB", folder)));
        command
    }

    /// Calls it through a shell that does `before`, with the command as `"$@"`.
    fn behind(&self, world: &mut World, before: &str) -> Command {
        let inner = self.command(world);
        let mut command = Command::new("sh");
        command.args(["-c", before]).arg("sh").arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Lets it run, a server until it is told to end.
    fn run(&self, world: &World, command: Command, stdio: [Stdio; 3], what: &str) -> Ended {
        let process = world.start(command, stdio);
        if self.kind == Kind::Server {
            std::thread::sleep(SERVES);
            process.signal("TERM");
        }
        process.end(&format!("{}: {what}", self.name()))
    }

    /// What it does undisturbed.
    fn undisturbed(&self, world: &mut World) -> Ended {
        let command = self.command(world);
        let ended = self.run(world, command, pipes(), "undisturbed");
        world.holds_whole_files(&self.name());
        world.clear();
        ended
    }

    fn name(&self) -> String {
        format!("pagewalk {}{}", self.command, if self.kind == Kind::Live { " -- PROGRAM" } else { "" })
    }
}

/// Tries every row that can be tried.
fn each(world: &mut World, mut attempt: impl FnMut(&Row, &mut World)) {
    for row in ROWS.iter().filter(|row| row.is_possible()) {
        attempt(row, world);
        world.holds_whole_files(&row.name());
        world.clear();
    }
}

#[test]
fn every_command_has_a_row() {
    fn leaves(command: &clap::Command, path: &str, into: &mut Vec<String>) {
        let mut below = command.get_subcommands().peekable();
        if below.peek().is_none() || !command.is_subcommand_required_set() && !path.is_empty() {
            into.push(path.to_owned());
        }
        below.for_each(|below| leaves(below, format!("{path} {}", below.get_name()).trim_start(), into));
    }
    let mut commands = Vec::new();
    leaves(&args::Arguments::command(), "", &mut commands);
    assert!(commands.len() > 12, "{commands:?}");
    for command in &commands {
        assert!(
            ROWS.iter().any(|row| row.command == command),
            "`pagewalk {command}` has no row in ends/rows.rs"
        );
    }
    for row in ROWS {
        assert!(
            commands.iter().any(|command| command == row.command),
            "there is no `pagewalk {}`",
            row.command
        );
    }
}

/// An option of a new kind of path needs a row in which that path is no text, on a full disk, and so on.
#[test]
fn every_option_that_names_a_path_has_a_row() {
    fn options(command: &clap::Command, path: &str, into: &mut Vec<(String, String)>) {
        let names_path = |option: &&clap::Arg| {
            let kind = option.get_value_parser().type_id();
            option.get_long().is_some()
                && (kind == TypeId::of::<PathBuf>()
                    || kind == TypeId::of::<OsString>()
                    || kind == TypeId::of::<Endpoint>()
                    || kind == TypeId::of::<Option<Endpoint>>())
        };
        let names = command.get_arguments().filter(names_path).filter_map(clap::Arg::get_long);
        into.extend(names.map(|name| (path.to_owned(), name.to_owned())));
        let below = command.get_subcommands();
        below.for_each(|below| options(below, format!("{path} {}", below.get_name()).trim_start(), into));
    }
    let (mut found, mut world) = (Vec::new(), World::new(b"world"));
    options(&args::Arguments::command(), "", &mut found);
    assert!(found.len() > 12, "{found:?}");
    let mut is_given = |command: &str, option: &str| {
        let words = [format!("--{option}"), if option == "output" { "-o".into() } else { String::new() }];
        ROWS.iter().filter(|row| row.command == command).any(|row| {
            (row.arguments)(&mut world)
                .iter()
                .any(|given| words.iter().any(|word| !word.is_empty() && given == &**word))
        })
    };
    for (command, option) in &found {
        let without = WITHOUT_ROW.iter().any(|(other, name, _)| other == command && name == option);
        assert_ne!(is_given(command, option), without, "`pagewalk {command} --{option}` and ends/rows.rs");
    }
    for (command, option, _) in WITHOUT_ROW {
        let is_there = found.iter().any(|(other, name)| other == command && name == option);
        assert!(is_there, "there is no `pagewalk {command} --{option}`");
    }
}

/// `pagewalk run -- ls *` panicked at a file name that is no text when the program had ended, with exit code 101.
#[test]
fn names_and_variables_that_are_not_text_change_nothing() {
    let mut plain = World::new(b"plain");
    let mut world = World::new(b"caf\xe9 \xff%,");
    let temporary = world.path("in").as_os_str().as_bytes().to_owned();
    world = world.with(b"COLUMNS", b"\xff").with(b"NO_COLOR", b"\xfe").with(b"ODD\xff", b"\xff");
    world = world
        .with(b"TMPDIR", &temporary)
        .with(b"HOME", b"/\xff")
        .with(b"TERM", b"\xff")
        .with(b"LANG", b"\xff");
    if let Some(folder) = frontends() {
        let link = world.path("frontends");
        std::os::unix::fs::symlink(fs::canonicalize(folder).expect("a folder"), &link).expect("linked");
        world = world.with(b"PAGEWALK_LIB", link.as_os_str().as_bytes());
    }
    each(&mut world, |row, world| {
        let usual = row.undisturbed(&mut plain);
        let ended = row.undisturbed(world);
        assert_eq!(ended.status, usual.status, "{}: {} / {}", row.name(), ended.stderr, usual.stderr);
    });
}

/// `eprintln!` and `println!` panic where the other end of a pipe is closed.
#[test]
fn closed_and_broken_streams_change_no_exit_code() {
    let mut world = World::new(b"world");
    each(&mut world, |row, world| {
        let usual = row.undisturbed(world);
        let broken = || {
            let (_, writer) = std::io::pipe().expect("a pipe");
            Stdio::from(writer)
        };
        let mut attempt = |before: &str, stdio: [Stdio; 3]| {
            let command = match before {
                "" => row.command(world),
                _ => row.behind(world, &format!("exec \"$@\" {before}")),
            };
            let ended = row.run(world, command, stdio, before);
            world.clear();
            let what = format!("{} {before}: {}", row.name(), ended.stderr);
            assert_eq!(ended.status, usual.status, "{what}");
        };
        for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
            attempt(closed, pipes());
        }
        attempt("", [Stdio::null(), broken(), Stdio::piped()]);
        attempt("", [Stdio::null(), Stdio::piped(), broken()]);
        attempt("", [Stdio::null(), broken(), broken()]);
    });
}

/// What cannot be written to standard output is an error, and named.
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let mut world = World::new(b"world");
    each(&mut world, |row, world| {
        let usual = row.undisturbed(world);
        let command = row.behind(world, "exec \"$@\" >/dev/full");
        let ended = row.run(world, command, pipes(), ">/dev/full");
        if usual.stdout.is_empty() {
            assert_eq!(ended.status, usual.status, "{}: {}", row.name(), ended.stderr);
        } else {
            assert_eq!(ended.status.code(), Some(2), "{}: {}", row.name(), ended.stderr);
            assert!(ended.stderr.contains("No space left"), "{}: {}", row.name(), ended.stderr);
        }
    });
}

/// Runs the rows that write on a small file system of their own. It is gone with its namespace, so the shell in it reports
/// which files there are in the end.
fn on_a_file_system(prepare: &str, words: &[&str]) {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let may = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !is_root || !may.is_ok_and(|status| status.success()) {
        return println!("skipped: a file system of a test takes root, and the right to mount");
    }
    let mut world = World::new(b"world");
    let out = world.path("out");
    let list = world.path("list");
    each(&mut world, |row, world| {
        if !row.writes {
            return;
        }
        let script = format!(
            "{prepare} || exit 99; \"$@\" & wait $!; rc=$?; find \"$OUT\" -type f ! -name fill >\"$LIST\"; exit $rc"
        );
        // A server that can begin is told to end by the shell.
        let script = match row.kind {
            Kind::Server => script.replace("wait $!", "p=$!; (sleep 0.3; kill $p) 2>/dev/null & wait $p"),
            _ => script,
        };
        let inner = row.behind(world, &script);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]).arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("OUT", &out).env("LIST", &list);
        let ended = world.start(command, pipes()).end(&row.name());
        let what = format!("{}: {}", row.name(), ended.stderr);
        let is_told = words.iter().any(|word| ended.stderr.contains(word));
        // A store of pages takes room only as pages are written.
        let may_serve = row.kind == Kind::Server && ended.status.success();
        assert!(ended.status.code() == Some(2) && is_told || may_serve, "{}: {what}", ended.status);
        let left = fs::read_to_string(&list).expect("a list");
        assert!(left.is_empty() || may_serve, "{what}: it left {left}");
    });
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let fill =
        "mount -t tmpfs -o size=64k none \"$OUT\" && { cat /dev/zero >\"$OUT/fill\" 2>/dev/null; true; }";
    on_a_file_system(fill, &["No space left", "no room", "the disk"]);
}

#[test]
fn a_folder_that_is_read_only_is_refused() {
    on_a_file_system("mount -t tmpfs -o ro none \"$OUT\"", &["Read-only file system"]);
}

/// Sends one signal to a call after a part of the time that it takes alone.
fn end_early(row: &Row, world: &mut World, usual: &Ended, (signal, number): (&str, i32), part: f64) {
    let command = row.command(world);
    let process = world.start(command, pipes());
    let most = if row.kind == Kind::Server { SERVES } else { usual.took };
    std::thread::sleep(most.mul_f64(part));
    process.signal(signal);
    let what = format!("{} after {part:.2} of {most:?} by SIG{signal}", row.name());
    let ended = process.end(&what);
    let tells = ended.status.code() == Some(128 + number) || ended.status.signal() == Some(number);
    assert!(tells || ended.status == usual.status, "{what}: {}: {}", ended.status, ended.stderr);
    world.holds_whole_files(&what);
    world.clear();
}

/// Random parts of a life, from its beginning to a little after its end. The seed is said, and may be given.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let given = std::env::var("PAGEWALK_ENDS_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || std::time::UNIX_EPOCH.elapsed().expect("a clock").as_nanos() as u64;
        let seed = given.unwrap_or_else(now);
        println!("moments of PAGEWALK_ENDS_SEED={seed}");
        Self(seed)
    }

    /// The next one: Steele and others, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        1.05 * ((mixed ^ mixed >> 31) as f64 / u64::MAX as f64)
    }
}

/// How many moments of each row are tried.
const MOMENTS: usize = 10;
/// The same where signals take turns.
const TURNS: usize = 6;

#[test]
fn a_signal_at_any_moment_ends_every_command_in_good_order() {
    let mut world = World::new(b"world");
    let (mut moments, signals) = (Moments::new(), signals());
    each(&mut world, |row, world| {
        let usual = row.undisturbed(world);
        // The signals take turns.
        for &signal in signals.iter().cycle().take(TURNS) {
            end_early(row, world, &usual, signal, moments.next());
        }
    });
}

#[test]
#[ignore = "ten moments for each signal and command: minutes"]
fn every_signal_at_ten_moments_ends_every_command_in_good_order() {
    let mut world = World::new(b"world");
    let (mut moments, signals) = (Moments::new(), signals());
    each(&mut world, |row, world| {
        let usual = row.undisturbed(world);
        for _ in 0..MOMENTS {
            signals.iter().for_each(|&signal| end_early(row, world, &usual, signal, moments.next()));
        }
    });
}

/// A run that goes on for minutes, unless it is ended.
const LONG: &str = "gups:table=1MiB,updates=4000M";

fn words(text: &str) -> impl Iterator<Item = OsString> + '_ {
    text.split(' ').map(OsString::from)
}

fn pagewalk(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
    let mut command = Command::new(PAGEWALK);
    command.args(arguments.into_iter().map(Into::into));
    command.envs(frontends().map(|folder| ("PAGEWALK_LIB", folder)));
    command
}

/// The manifest of results in the folder `out/r`, and the accesses of the first machine.
fn results(world: &World) -> (serde_json::Value, u64) {
    let text = fs::read(world.path("out/r/results.json")).expect("results");
    let document: serde_json::Value = serde_json::from_slice(&text).expect("a document");
    let rows = document["runs"][0]["metrics"].as_array().expect("metrics");
    let accesses = rows.iter().find(|row| row["stage"] == "program" && row["metric"] == "accesses");
    (document["manifest"].clone(), accesses.expect("a row")["value"].as_u64().expect("a count"))
}

/// 336 M simulated accesses were lost by a Ctrl-C.
#[test]
fn the_result_so_far_of_a_run_is_written_and_marked() {
    let world = World::new(b"world");
    for (signal, number) in signals() {
        let mut command = pagewalk(words(&format!("run --machine x86-64 --workload {LONG} --out")));
        command.arg(world.path("out/r"));
        let process = world.start(command, pipes());
        std::thread::sleep(Duration::from_millis(500));
        process.signal(signal);
        let ended = process.end(signal);
        assert_eq!(ended.status.code(), Some(128 + number), "{}", ended.stderr);
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(text.starts_with(&format!("PARTIAL RESULT: ended by SIG{signal}\n")), "{text}");
        assert!(text.contains("L1 TLB misses"), "{text}");
        assert!(ended.stderr.contains(&format!("is partial: ended by SIG{signal}")), "{}", ended.stderr);
        let (manifest, accesses) = results(&world);
        assert_eq!(manifest["partial"]["reason"], "signal");
        assert!(accesses > 100_000, "{accesses}");
        assert!(
            fs::read_to_string(world.path("out/r/report.html")).expect("a page").contains("PARTIAL RESULT")
        );
        world.holds_whole_files(signal);
        world.clear();
    }
}

#[test]
fn a_limit_of_time_ends_a_run_and_a_recording_well() {
    let world = World::new(b"world");
    let mut command =
        pagewalk(words(&format!("run --time-limit 400ms --machine x86-64 --workload {LONG} --out")));
    command.arg(world.path("out/r"));
    let ended = world.start(command, pipes()).end("run");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let (manifest, accesses) = results(&world);
    assert_eq!(manifest["partial"]["reason"], "time-limit");
    assert!(accesses > 100_000, "{accesses}");
    let mut command = pagewalk(words(&format!("record --time-limit 400ms --workload {LONG} -o")));
    command.arg(world.path("out/r.pwt"));
    let ended = world.start(command, pipes()).end("record");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("time limit of 400ms"), "{}", ended.stderr);
    world.holds_whole_files("a limit of time");
    let short = pagewalk(words("run --time-limit 60 --workload gups-small"));
    assert_eq!(world.start(short, pipes()).end("a time without unit").status.code(), Some(2));
}

/// A SIGTERM left the observed program behind as an orphan; `World::start` marks every process and `Try::end` looks for them.
#[test]
fn an_observed_program_ends_with_the_command() {
    if frontends().is_none() {
        return println!("skipped: the front-ends are not built (make frontends)");
    }
    let world = World::new(b"world");
    let file = world.path("out/r.pwt");
    let start = |script: &str| {
        let mut command = pagewalk(words("record -o"));
        command.arg(&file).args(["--", "sh", "-c", script]);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let process = world.start(command, [Stdio::null(), writer.into(), Stdio::piped()]);
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        process
    };
    // Sleeping children, which the signal reaches as well.
    let process = start("sleep 300 & sleep 300 & echo ready; wait");
    process.signal("TERM");
    let ended = process.end("asleep");
    assert_eq!(ended.status.code(), Some(143), "{}", ended.stderr);
    world.holds_whole_files("asleep");
    assert!(file.is_file(), "the recording so far is kept");
    world.clear();
    // One that ends in good order has been recorded whole.
    let process = start("trap 'exit 0' TERM; echo ready; while :; do :; done");
    process.signal("TERM");
    let ended = process.end("in good order");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("partial"), "{}", ended.stderr);
    world.clear();
    // One that does not listen: its second signal ends the command at once, and it with the command.
    let process = start("trap '' INT TERM HUP; echo ready; while :; do :; done");
    process.signal("INT");
    std::thread::sleep(Duration::from_millis(400));
    let second = Instant::now();
    process.signal("INT");
    let ended = process.end("twice");
    assert!(second.elapsed() < Duration::from_secs(3), "{:?}", second.elapsed());
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    world.holds_whole_files("twice");
    world.clear();
    // One that is killed has left its records, and the exit code is the shell's.
    let mut command = pagewalk(words("record -o"));
    command.arg(&file).args(["--", "sh", "-c", "kill -SEGV $$"]);
    let ended = world.start(command, pipes()).end("killed");
    assert_eq!(ended.status.code(), Some(139), "{}", ended.stderr);
    assert!(ended.stderr.contains("was killed by SIGSEGV"), "{}", ended.stderr);
    world.holds_whole_files("killed");
    assert!(file.is_file());
}

/// One machine whose memory is full threw away what the others had simulated by then.
#[test]
fn a_machine_that_cannot_go_on_costs_the_others_nothing() {
    let world = World::new(b"world");
    let small = "name = \"small\"\nextends = \"x86-64\"\n[frames.buddy]\nmemory = \"1MiB\"\n";
    fs::write(world.path("in/small.toml"), small).expect("written");
    let run = |threads: &str, machines: &[&str]| {
        let mut command =
            pagewalk(words("run --workload gups:table=4MiB,updates=100k --format json --threads"));
        command.arg(threads);
        for machine in machines {
            let machine = if *machine == "small" { world.path("in/small.toml") } else { machine.into() };
            command.arg("--machine").arg(machine);
        }
        world.start(command, pipes()).end("run")
    };
    let alone = run("1", &["x86-64", "mosaic-4"]);
    let alone: serde_json::Value = serde_json::from_slice(&alone.stdout).expect("a document");
    for threads in ["1", "2", "3"] {
        let ended = run(threads, &["small", "x86-64", "mosaic-4"]);
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("machine `small`"), "{}", ended.stderr);
        let document: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("a document");
        assert_eq!(document["manifest"]["failed"][0]["machine"], "small");
        assert_eq!(document["runs"], alone["runs"], "with {threads} threads");
    }
    let ended = run("1", &["small"]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stdout.is_empty() && ended.stderr.contains("machine `small`"), "{}", ended.stderr);
}

/// The rows of experiments that were finished before the signal are kept.
#[test]
fn a_paper_that_is_interrupted_says_so() {
    let world = World::new(b"world");
    let mut command = pagewalk(words("paper mosaic tlb --format json --out"));
    command.arg(world.path("out/p"));
    let process = world.start(command, pipes());
    std::thread::sleep(Duration::from_millis(700));
    process.signal("TERM");
    let ended = process.end("paper");
    assert_eq!(ended.status.code(), Some(143), "{}", ended.stderr);
    let document: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("a document");
    assert_eq!(document["partial"]["text"], "ended by SIGTERM");
    world.holds_whole_files("paper");
}

/// `trace convert a/t.zip b/t.zip --out o` wrote `o/t.pwt` twice.
#[test]
fn outputs_that_collide_are_refused_before_anything_is_written() {
    let world = World::new(b"world");
    fs::create_dir_all(world.path("in/b")).expect("a folder");
    fs::copy(world.path("in/t.lackey"), world.path("in/b/t.lackey")).expect("copied");
    std::os::unix::fs::symlink(world.path("in/t.pwt"), world.path("in/link.pwt")).expect("linked");
    let refused = |text: &str, word: &str| {
        let arguments = text.split(' ').map(|word| match word.strip_prefix('@') {
            Some(path) => world.path(path).into_os_string(),
            None => word.into(),
        });
        let before = fs::read(world.path("in/t.pwt")).expect("read");
        let ended = world.start(pagewalk(arguments), pipes()).end(text);
        assert_eq!(ended.status.code(), Some(2), "{text}: {}", ended.stderr);
        assert!(ended.stderr.contains(word), "{text}: {}", ended.stderr);
        assert!(!world.path("out/t.pwt").exists(), "{text}");
        assert!(fs::read(world.path("in/t.pwt")).expect("read") == before, "{text}: an input has changed");
    };
    refused("trace convert --input-format lackey --out @out @in/t.lackey @in/b/t.lackey", "the same file");
    refused("trace convert @in/t.lackey @in/t.pwt", "while it is read");
    refused("trace convert -o @in/link.pwt @in/t.pwt", "while it is read");
    refused("record -o @in/link.pwt --trace @in/t.pwt", "while it is read");
    refused("riscv --record @out/t.pwt --trace @out/t.pwt @in/loop.elf", "the same file");
    refused("riscv --trace @in/loop.elf @in/loop.elf", "while it is read");
    refused("fs mount --daemon --log @in/s.ctfs @in/s.ctfs @mount", "while it is read");
    refused("run --machine x86-64 --machine x86-64 --workload gups-small", "two machines");
    // A file of that name came out of it.
    for recording in
        ["record -o - --workload gups-small", "trace convert -o - @in/t.pwt", "riscv --record - @in/loop.elf"]
    {
        refused(recording, "standard output");
    }
    refused("trace convert -", "name one with --output");
}

/// Where files without a name cannot be made, `.NAME.mkfs-PID` stayed behind.
#[test]
fn a_signal_leaves_no_temporary_file_of_mkfs() {
    let world = World::new(b"world");
    let store = world.path("in/large.ctfs");
    let mkfs = |path: &PathBuf, size: &str| {
        let mut command = pagewalk(words(&format!("fs mkfs --size {size}")));
        command.arg(path);
        world.start(command, pipes())
    };
    assert!(mkfs(&store, "96MiB").end("mkfs").status.success());
    // A mounted store has no such files.
    let mut mount = pagewalk(words("fs mount"));
    mount.arg(&store).arg(world.path("mount"));
    let mount = world.start(mount, pipes());
    let begun = Instant::now();
    let device = |name: &str| fs::metadata(world.path(name)).expect("a folder").dev();
    while device("mount") == device("in") {
        if begun.elapsed() > Duration::from_secs(10) {
            mount.signal("TERM");
            return println!("skipped: nothing can be mounted here: {}", mount.end("mount").stderr);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let path = world.path("mount/s.ctfs");
    let usual = mkfs(&path, "64MiB").end("mkfs");
    assert!(usual.status.success(), "{}", usual.stderr);
    let mut moments = Moments::new();
    for &(signal, number) in signals().iter().cycle().take(MOMENTS) {
        fs::remove_file(&path)
            .or_else(|error| if path.exists() { Err(error) } else { Ok(()) })
            .expect("removed");
        let process = mkfs(&path, "64MiB");
        std::thread::sleep(usual.took.mul_f64(moments.next()));
        process.signal(signal);
        let ended = process.end(signal);
        let tells = ended.status.code() == Some(128 + number) || ended.status.signal() == Some(number);
        assert!(tells || ended.status.success(), "{}: {}", ended.status, ended.stderr);
        let left: Vec<_> = fs::read_dir(world.path("mount")).expect("a folder").flatten().collect();
        let is_hidden = |entry: &fs::DirEntry| entry.file_name().as_bytes().starts_with(b".");
        assert!(!left.iter().any(is_hidden), "SIG{signal} left {left:?}");
    }
    mount.signal("TERM");
    assert!(mount.end("mount").status.success());
}

/// A bar that is drawn and erased would erase a half-written line of the observed program with it.
#[test]
fn progress_beside_a_program_is_shown_only_if_asked_for() {
    let world = World::new(b"world");
    let said = |arguments: &str| {
        // `script` gives the command a terminal.
        let mut command = Command::new("script");
        let call = arguments.replace("pagewalk", PAGEWALK);
        command.args(["-q", "-e", "-c", &call, "/dev/null"]);
        command.envs(frontends().map(|folder| ("PAGEWALK_LIB", folder))).env("TERM", "xterm");
        let ended = world.start(command, pipes()).end(arguments);
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        return println!("skipped: there is no script(1), which makes terminals");
    }
    let workload = format!("pagewalk run --machine x86-64 --time-limit 1800ms --workload {LONG}");
    let erases = |text: &str| text.contains("\x1b[2K") || text.contains("\x1b[K") || text.contains("\x1b[1A");
    assert!(erases(&said(&workload)), "a bar is drawn");
    // Behind what another program has written, and only that far.
    let bench = "pagewalk fs bench --size 1MiB --rounds 1 --items rr /dev/shm";
    for progress in [&*workload, bench] {
        let text = said(&format!("printf half; {progress}"));
        assert!(text.contains("half\x1b7"), "{text:?}");
        let pieces: Vec<&str> = text.split("\x1b[K").collect();
        for piece in &pieces[..pieces.len() - 1] {
            let from_place = piece.rsplit_once("\x1b8").or(piece.rsplit_once("\x1b7"));
            assert!(from_place.is_some_and(|(_, line)| !line.contains(['\r', '\n'])), "{text:?}");
        }
        assert!(!text.contains("\x1b[2K") && !text.contains("\r\x1b"), "{text:?}");
    }
    assert!(!erases(&said(&format!("{workload} --progress never"))));
    let piped = "(printf half >&2; for i in 1 2 3; do sleep 0.6; seq -f ' L %.0f0,8' 200000; done) | pagewalk run --machine x86-64 \
                 --input-format lackey --trace -";
    let text = said(piped);
    assert!(text.contains("half") && text.contains("L1 TLB misses") && !erases(&text), "{text:?}");
    assert!(!said(&format!("{workload} --quiet")).contains("is partial: ended by the time limit"));
    if frontends().is_none() {
        return println!("skipped: the front-ends are not built (make frontends)");
    }
    let program =
        "pagewalk run --machine x86-64 --time-limit 1800ms -- sh -c 'printf half; while :; do :; done'";
    let text = said(program);
    assert!(text.contains("half") && !erases(&text) && !text.contains("M/s"), "{text:?}");
}
