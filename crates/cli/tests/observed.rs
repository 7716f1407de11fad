//! Programs that cannot be observed whole, or cannot run as they do alone: what the command prints, writes and ends with.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PAGEWALK: &str = env!("CARGO_BIN_EXE_pagewalk");
/// No process takes so long to end, on a busy machine.
const MOST: Duration = Duration::from_secs(60);
const FRONTENDS: [&str; 3] = ["valgrind", "callout", "qemu"];

/// The folder with the front-ends; none, with the reason printed, where they are not built.
fn library() -> Option<PathBuf> {
    let named = std::env::var_os("PAGEWALK_LIB").map(PathBuf::from);
    let beside = Path::new(PAGEWALK).parent()?.join("../pagewalk");
    let found = named.into_iter().chain([beside]).find(|folder| folder.join("valgrind").is_dir());
    if found.is_none() {
        println!("skipped: the front-ends are not built (make frontends)");
    }
    found
}

/// A folder that goes with its test, with the C programs of the tests of observation in it.
struct Bench {
    library: PathBuf,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Option<Self> {
        Some(Self { library: library()?, folder: tempfile::tempdir().expect("a folder") })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program in C, as the front-end needs it.
    fn program(&self, name: &str, frontend: &str) -> PathBuf {
        let source = format!("{}/../capture/tests/c/{name}.c", env!("CARGO_MANIFEST_DIR"));
        let program = self.path(&format!("{name}-{frontend}"));
        let mut command = Command::new("gcc");
        command.args(["-O2", "-pthread", "-o"]).arg(&program).arg(source);
        if frontend == "callout" {
            let callout = self.library.join("callout");
            command.args(["-fsanitize=thread", "-L"]).arg(&callout);
            command.arg(format!("-Wl,-rpath,{}", callout.display()));
        }
        assert!(command.status().expect("gcc").success());
        program
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PAGEWALK);
        command.args(words).env("PAGEWALK_LIB", &self.library).stdin(Stdio::null());
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("the command starts")
    }

    /// `run` of a program under a front-end, on one small machine.
    fn run(&self, frontend: &str, more: &[&str], program: &[&str]) -> Output {
        let mut words = vec!["run", "--machine", "x86-64", "--frontend", frontend];
        words.extend(more);
        words.push("--");
        words.extend(program);
        self.output(&words)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(output: &Output) -> String {
    text(&output.stderr)
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

/// What was not observed was named in the exit text only, and only by number.
#[test]
fn what_is_not_observed_is_in_the_table_the_documents_the_trace_and_the_exit_text() {
    let Some(bench) = Bench::new() else { return };
    let other = bench.path("set-user-id");
    // Another process copies: see `copy_program` of the tests of `capture`.
    assert!(Command::new("cp").arg("/bin/true").arg(&other).status().expect("cp").success());
    assert!(Command::new("chmod").arg("4755").arg(&other).status().expect("chmod").success());
    let other = other.canonicalize().expect("a path");
    let path = other.to_str().expect("text");
    let out = bench.path("out");
    let out = out.to_str().expect("text");
    for (frontend, reason) in
        [("valgrind", "set-user-id-refused"), ("callout", "set-user-id"), ("qemu", "set-user-id")]
    {
        let program = bench.program("processes", frontend);
        let program = [program.to_str().expect("text"), "start", path];
        let line = format!("process 1, {path}: not ");
        let output = bench.run(frontend, &["--out", out], &program);
        assert_eq!(code(&output), 5, "{frontend}: {}", said(&output));
        assert!(
            text(&output.stdout).contains(&format!("not observed\n  {line}")),
            "{}",
            text(&output.stdout)
        );
        assert!(said(&output).contains(&line), "{frontend}: {}", said(&output));
        let page = fs::read_to_string(format!("{out}/report.html")).expect("a report");
        assert!(page.contains("Not observed"), "{frontend}");
        let file = fs::read_to_string(format!("{out}/results.json")).expect("results");
        let output = bench.run(frontend, &["--format", "json"], &program);
        for document in [file, text(&output.stdout)] {
            let document: serde_json::Value = serde_json::from_str(&document).expect("a document");
            let [each] = &document["manifest"]["source"]["unobserved"].as_array().expect("a list")[..] else {
                panic!("{frontend}: {document}")
            };
            assert_eq!((&each["process"], &each["program"]), (&1.into(), &path.into()), "{frontend}");
            assert_eq!(each["reason"], reason, "{frontend}");
            assert!(each["text"].as_str().expect("text").starts_with(&line), "{frontend}");
        }
        let trace = bench.path("t.pwt");
        let trace = trace.to_str().expect("text");
        let mut words = vec!["record", "-o", trace, "--frontend", frontend, "--"];
        words.extend(program);
        assert_eq!(code(&bench.output(&words)), 5, "{frontend}");
        for words in [&["trace", "info", trace][..], &["run", "--machine", "x86-64", "--trace", trace]] {
            let output = bench.output(words);
            assert!(text(&output.stdout).contains(&line), "{frontend}, {words:?}: {}", text(&output.stdout));
        }
    }
    let output = bench.run("valgrind", &["--format", "json"], &["true"]);
    assert!(!text(&output.stdout).contains("unobserved"), "nothing is said where all was observed");
}

/// The advice went by the number of the signal.
#[test]
fn the_advice_names_a_filter_where_there_is_one() {
    let Some(bench) = Bench::new() else { return };
    for frontend in ["valgrind", "callout"] {
        let program = bench.program("filters", frontend);
        let program = program.to_str().expect("text");
        for (way, expected) in [("kill-process", 128 + 31), ("strict", 128 + 9), ("errno", 3)] {
            let output = bench.run(frontend, &[], &[program, way]);
            assert_eq!(code(&output), expected, "{frontend}, {way}: {}", said(&output));
            assert!(said(&output).contains("switch its sandbox off"), "{frontend}, {way}: {}", said(&output));
            if frontend == "valgrind" || way == "errno" {
                assert!(text(&output.stdout).contains("PARTIAL RESULT"), "{frontend}, {way}");
            }
        }
        for (way, signal) in [("raise", 31), ("die", 9)] {
            let output = bench.run(frontend, &[], &[program, way]);
            assert_eq!(code(&output), 128 + signal, "{frontend}, {way}: {}", said(&output));
            assert!(!said(&output).contains("sandbox"), "{frontend}, {way}: {}", said(&output));
        }
    }
    let program = bench.program("filters", "qemu");
    let output = bench.run("qemu", &[], &[program.to_str().expect("text"), "errno"]);
    assert!(
        said(&output).contains("seccomp") && said(&output).contains("--frontend valgrind"),
        "{}",
        said(&output)
    );
}

#[test]
fn an_engine_option_goes_through_or_is_refused_in_the_engines_words() {
    let Some(bench) = Bench::new() else { return };
    let traced = bench.run("valgrind", &["--engine-option=--trace-syscalls=yes"], &["true"]);
    assert_eq!(code(&traced), 0, "{}", said(&traced));
    assert!(said(&traced).contains("SYSCALL["), "Valgrind did as told: {}", said(&traced));
    let both = ["--engine-option=--max-threads=20", "--engine-option=--trace-syscalls=yes"];
    assert!(said(&bench.run("valgrind", &both, &["true"])).contains("SYSCALL["));
    for option in ["--no-such-option=7", "--max-threads=many"] {
        let output = bench.run("valgrind", &[&format!("--engine-option={option}")], &["true"]);
        assert_eq!(code(&output), 2, "{option}: {}", said(&output));
        assert!(output.stdout.is_empty(), "{option}");
        let name = option.split('=').next().expect("a name");
        assert!(
            said(&output).contains(name) && said(&output).contains("valgrind"),
            "{option}: {}",
            said(&output)
        );
    }
    for frontend in ["callout", "qemu"] {
        let output = bench.run(frontend, &["--engine-option=--max-threads=20"], &["true"]);
        assert_eq!(code(&output), 2, "{frontend}");
        assert!(
            said(&output).contains("--max-threads=20") && said(&output).contains("QEMU_CPU"),
            "{}",
            said(&output)
        );
    }
    // QEMU has its options from variables.
    let qemu = |value: &str| {
        let mut command = bench.command(&["run", "--machine", "x86-64", "--frontend", "qemu", "--", "true"]);
        command.env("QEMU_CPU", value).output().expect("it starts")
    };
    assert_eq!(code(&qemu("qemu64")), 0);
    let refused = qemu("no-such-processor");
    assert_eq!(code(&refused), 2, "{}", said(&refused));
    assert!(said(&refused).contains("no-such-processor"), "{}", said(&refused));
}

/// What an engine cannot do, as docs/capture.md lists it: the user is told, with the front-end that can.
#[test]
fn what_an_engine_cannot_do_is_said_with_the_front_end_that_can() {
    let Some(bench) = Bench::new() else { return };
    // Of each thing: what the message says, which front-ends cannot, and one that is named.
    let rows: [(&str, &str, &[&str], &str); 12] = [
        ("remap", "MREMAP_DONTUNMAP", &["valgrind"], "--frontend qemu"),
        ("reserve", "mmap of 128 GiB", &["valgrind"], "--frontend qemu"),
        ("noreplace", "MAP_FIXED_NOREPLACE", &["valgrind", "qemu"], "--frontend callout"),
        ("huge", "MAP_HUGETLB", &["qemu"], "--frontend valgrind"),
        ("nameless", "execveat", &["valgrind"], "--frontend qemu"),
        ("files", "open files", &["valgrind"], "--frontend qemu"),
        ("ptrace", "ptrace", &["qemu"], "--frontend valgrind"),
        ("unshare", "unshare", &["qemu"], "--frontend valgrind"),
        ("ring", "io_uring_setup", &["qemu"], "--frontend valgrind"),
        ("userfault", "failed", &["valgrind", "qemu"], "--frontend callout"),
        ("landlock", "system call 444", &["valgrind", "qemu"], "--frontend callout"),
        ("avx512", "AVX-512", &["valgrind", "qemu"], "--frontend callout"),
    ];
    for frontend in FRONTENDS {
        let program = bench.program("limits", frontend);
        let program = program.to_str().expect("text");
        for (what, words, unable, able) in rows {
            // Alone: the system may have no large pages, and the processor no AVX-512.
            let alone = Command::new(program).arg(what).status().expect("it starts");
            let expected = alone.code().unwrap_or_else(|| 128 + alone.signal().expect("a signal"));
            let output = bench.run(frontend, &[], &[program, what]);
            let notes: Vec<String> =
                said(&output).lines().filter(|line| line.contains(words)).map(str::to_owned).collect();
            if unable.contains(&frontend) {
                assert!(
                    notes.iter().any(|line| line.contains(able)),
                    "{frontend}, {what}: {}",
                    said(&output)
                );
            } else {
                assert_eq!(code(&output), expected, "{frontend}, {what}: {}", said(&output));
                assert!(notes.is_empty() || expected == 128 + 4, "{frontend}, {what}: {notes:?}");
            }
        }
    }
}

/// The processes that have this among their arguments and have not ended.
fn processes_with(mark: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|pid| *pid != own && pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(mark.len()).any(|part| part == mark.as_bytes())
        })
        .collect()
}

fn gone(mark: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < MOST {
        if processes_with(mark).is_empty() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// The system kills the command's own child with it; grandchildren that slept stayed behind for ever.
#[test]
fn a_command_that_is_killed_leaves_no_process_behind() {
    let Some(bench) = Bench::new() else { return };
    for (number, frontend) in FRONTENDS.into_iter().enumerate() {
        let program = bench.program("sleepers", frontend);
        let mark = format!("sleepers-mark-{}-{number}", std::process::id());
        let bystander = format!("{mark}x");
        let mut stranger = Command::new(&program);
        // Another run of the same program is not touched.
        let mut stranger = stranger
            .arg(bystander.replace("mark", "stranger"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut command = bench.command(&["run", "--machine", "x86-64", "--frontend", frontend, "--"]);
        let mut process = command
            .arg(&program)
            .arg(&mark)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        for output in [stranger.stdout.take(), process.stdout.take()] {
            let mut line = String::new();
            BufReader::new(output.expect("piped")).read_line(&mut line).expect("a line");
            assert_eq!(line, "all sleep\n", "{frontend}");
        }
        // The program, its child, a grandchild, and one that lost its descriptors and its variables.
        assert!(processes_with(&mark).len() > 4, "{frontend}: {:?}", processes_with(&mark));
        process.kill().expect("it runs");
        assert_eq!(process.wait().expect("it ended").signal(), Some(9));
        assert!(gone(&mark), "{frontend}: {:?}", processes_with(&mark));
        assert!(stranger.try_wait().expect("a look").is_none(), "{frontend}: it still runs");
        let mut children = vec![stranger.id().to_string()];
        children.extend(processes_with("sleepers-stranger"));
        let ended = Command::new("kill").arg("-KILL").args(&children).status().expect("kill");
        assert!(ended.success(), "all of them still run");
        stranger.wait().expect("it ended");
    }
}

/// The guard itself is not left behind, and neither is the folder for messages.
#[test]
fn a_command_that_ends_leaves_no_guard_behind() {
    let Some(bench) = Bench::new() else { return };
    let temporary = bench.path("temporary");
    fs::create_dir(&temporary).expect("a folder");
    let mut command =
        bench.command(&["run", "--machine", "x86-64", "--", "sh", "-c", "echo ready; sleep 600"]);
    let mut process = command.env("TMPDIR", &temporary).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 1, "the folder for messages");
    let of_command = format!("/proc/{0}/task/{0}/children", process.id());
    let children = fs::read_to_string(of_command).expect("a list");
    let guard = children.split_whitespace().find(|pid| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"guard-of-observed"))
    });
    let guard = guard.expect("a guard").to_owned();
    process.kill().expect("it runs");
    process.wait().expect("it ended");
    let begun = Instant::now();
    while begun.elapsed() < MOST && Path::new(&format!("/proc/{guard}")).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!Path::new(&format!("/proc/{guard}")).exists(), "the guard has done its work");
    assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "and has tidied up");
}
