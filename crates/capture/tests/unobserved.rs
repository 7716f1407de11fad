//! Programs that set filters of system calls for themselves, and programs with other rights: what could not be observed of them
//! is named, and nothing is said of filters where there are none.

use std::path::{Path, PathBuf};
use std::process::Command;

use pagewalk_capture::{Frontend, Outcome, Program, Reason};
use pagewalk_trace::{Event, ProcessId};

use crate::common::{self, Build, builds, compile, copy_program, install, observe, program, record};

/// A build for each front-end.
fn frontends() -> Vec<Build> {
    let each = [Build::Plain, Build::GccCallout, Build::Qemu];
    builds().into_iter().filter(|build| each.contains(build)).collect()
}

/// How a run ended: with an outcome, or an error after some accesses.
fn filtered(build: Build, way: &str, process: &str) -> Result<Outcome, String> {
    observe(program(&compile("filters", build), &[way, process], build.frontend())).1
}

/// No test had a program with a filter of its own; that of QEMU's program could not even be set.
#[test]
fn a_filter_that_refuses_the_observers_calls_is_named() {
    for build in frontends() {
        for way in ["kill-process", "kill-thread", "trap", "errno", "strict"] {
            let ended = filtered(build, way, "self");
            let what = format!("{build:?}, {way}: {ended:?}");
            match (build.frontend(), ended) {
                // QEMU lets no program set one.
                (Frontend::Qemu, Ok(outcome)) => {
                    assert_eq!(outcome.status.code(), Some(9), "{what}");
                    assert!(!outcome.has_filter, "{what}");
                }
                (_, Err(error)) => {
                    assert!(error.contains("seccomp") && error.contains("sandbox"), "{what}");
                    // Valgrind catches the signal.
                    let is_caught = way == "trap" && build.frontend() == Frontend::Valgrind;
                    assert!(way == "errno" || is_caught, "{what}");
                }
                (_, Ok(outcome)) => {
                    let signal = if way == "strict" { 9 } else { 31 };
                    assert_eq!(outcome.killed_by(), Some(signal), "{what}");
                    assert!(outcome.has_filter && outcome.advice().contains("seccomp"), "{what}");
                    assert!(outcome.accesses >= 1_000, "{what}: what came before the filter is kept");
                }
            }
        }
    }
}

#[test]
fn a_child_with_such_a_filter_is_named_too() {
    for build in frontends().into_iter().filter(|build| build.frontend() != Frontend::Qemu) {
        for way in ["kill-process", "trap", "errno", "strict"] {
            let outcome = filtered(build, way, "child").expect("the parent goes on");
            let what = format!("{build:?}, {way}: {outcome:?}");
            assert_eq!(outcome.status.code(), Some(4), "{what}");
            let [child] = &outcome.unobserved[..] else { panic!("{what}") };
            assert_eq!((child.process, child.reason), (ProcessId(1), Reason::Filter), "{what}");
            assert!(child.program.as_ref().is_some_and(|name| name.contains("filters")), "{what}");
            assert!(child.to_string().contains("seccomp"), "{what}");
        }
    }
}

#[test]
fn nothing_is_said_of_filters_where_none_is_in_the_way() {
    for build in frontends() {
        for (way, signal) in [("raise", 31), ("die", 9)] {
            let outcome = filtered(build, way, "self").expect("an outcome");
            assert_eq!(outcome.killed_by(), Some(signal), "{build:?}, {way}");
            assert!(!outcome.has_filter && !outcome.advice().contains("seccomp"), "{build:?}, {way}");
            let outcome = filtered(build, way, "child").expect("an outcome");
            let reasons: Vec<Reason> = outcome.unobserved.iter().map(|each| each.reason).collect();
            // Valgrind itself ends a program that dies by a signal that it sees, and says so.
            let is_seen = way == "raise" && build.frontend() == Frontend::Valgrind;
            let expected = if is_seen { vec![] } else { vec![Reason::Killed] };
            assert_eq!(reasons, expected, "{build:?}, {way}: {:?}", outcome.unobserved);
        }
        if build.frontend() != Frontend::Qemu {
            let outcome = filtered(build, "allow", "self").expect("an outcome");
            assert_eq!(outcome.status.code(), Some(3), "{build:?}");
            assert!(outcome.accesses >= 101_000, "{build:?}: observed behind the filter, too");
            assert!(!outcome.has_filter && outcome.unobserved.is_empty(), "{build:?}: {outcome:?}");
        }
    }
}

/// A set-user-ID program; of another user if the test may make one.
fn set_user_id(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    copy_program(Path::new("/bin/true"), &path);
    let run =
        |words: &[&str]| Command::new(words[0]).args(&words[1..]).arg(&path).status().expect("it starts");
    if !run(&["chown", "1"]).success() {
        println!("of this user, since the test may not make files of others");
    }
    assert!(run(&["chmod", "4755"]).success());
    path.canonicalize().expect("a path")
}

#[test]
fn a_set_user_id_program_inside_a_script_is_named() {
    let path = set_user_id("set-user-id");
    for build in frontends() {
        let script = format!("'{}'; echo $? >&2; exit 5", path.display());
        let shell = match build.frontend() {
            Frontend::Callout => {
                program(&compile("processes", build), &["start", path.to_str().unwrap()], Frontend::Callout)
            }
            frontend => Program::new("sh", ["-c", &script]).frontend(frontend).install(install()),
        };
        let (stream, outcome) = record(shell);
        assert_eq!(outcome.status.code(), Some(5), "{build:?}");
        let [named] = &outcome.unobserved[..] else { panic!("{build:?}: {:?}", outcome.unobserved) };
        assert_eq!((named.process, named.program.as_deref()), (ProcessId(1), path.to_str()), "{build:?}");
        let is_refused = build.frontend() == Frontend::Valgrind;
        let reason = if is_refused { Reason::SetUserIdRefused } else { Reason::SetUserId };
        assert_eq!(named.reason, reason, "{build:?}");
        let text = Event::Unobserved(named.to_string());
        let in_stream = stream.events.iter().find(|(_, _, _, event)| *event == text);
        assert_eq!(in_stream.map(|&(_, process, _, _)| process), Some(ProcessId(1)), "{build:?}");
    }
}

/// What becomes of the first process is the program's own end: there is no result without an error.
#[test]
fn a_program_that_becomes_one_that_is_not_observed_says_so() {
    let path = set_user_id("set-user-id-last");
    for build in frontends().into_iter().filter(|build| build.frontend() != Frontend::Valgrind) {
        let become_it = ["become", path.to_str().unwrap()];
        let (_, ended) = observe(program(&compile("processes", build), &become_it, build.frontend()));
        let error = ended.expect_err("an error");
        assert!(
            error.contains("set-user-ID") && error.contains(path.to_str().unwrap()),
            "{build:?}: {error}"
        );
    }
}

/// A program of 32 bits; none where it cannot be made, or does not run.
fn for_32_bits() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("for-32-bits");
    let source = path.with_extension("s");
    std::fs::write(&source, ".globl _start\n_start: movl $1, %eax\n xorl %ebx, %ebx\n int $0x80\n")
        .expect("written");
    let made =
        Command::new("gcc").args(["-m32", "-nostdlib", "-static", "-o"]).arg(&path).arg(source).status();
    let runs = made.is_ok_and(|made| made.success())
        && Command::new(&path).status().is_ok_and(|status| status.success());
    if !runs {
        println!("skipped: programs of 32 bits cannot be made here, or do not run");
    }
    runs.then(|| path.canonicalize().expect("a path"))
}

/// A program without the call-out runtime, and one of another instruction set.
#[test]
fn other_losses_are_named_by_program_and_reason() {
    for (build, path, reason) in [
        (Build::GccCallout, Some(compile("processes", Build::Static)), Reason::NoRuntime),
        (Build::Qemu, for_32_bits(), Reason::InstructionSet),
    ] {
        let Some(path) = path.filter(|_| builds().contains(&build)) else { continue };
        let path = path.to_str().expect("a path");
        let (_, outcome) = record(program(&compile("processes", build), &["start", path], build.frontend()));
        let named: Vec<_> =
            outcome.unobserved.iter().map(|each| (each.program.as_deref(), each.reason)).collect();
        assert_eq!(named, [(Some(path), reason)], "{build:?}");
    }
}

/// Such a program was not even counted: the runtime heard of forks only.
#[test]
fn programs_that_are_started_without_a_fork_are_named() {
    let shell = Path::new("/bin/sh").canonicalize().expect("a shell");
    for build in frontends() {
        let program_of = compile("processes", build);
        let run = |path: &Path| {
            let words = ["spawn", path.to_str().expect("a path")];
            let (_, outcome) = record(program(&program_of, &words, build.frontend()));
            assert_eq!(outcome.status.code(), Some(7), "{build:?}");
            let named = outcome.unobserved.into_iter().map(|each| {
                assert_eq!(
                    (each.process, each.reason),
                    (ProcessId(0), Reason::SpawnedWithoutRuntime),
                    "{build:?}"
                );
                PathBuf::from(each.program.expect("a name"))
            });
            (named.collect::<Vec<_>>(), outcome.processes)
        };
        let without = compile("processes", Build::Static);
        if build.frontend() == Frontend::Callout {
            assert_eq!(run(&without), (vec![shell.clone(), without], 1));
            assert_eq!(run(&program_of), (vec![shell.clone()], 3), "those that have it are processes");
        } else {
            assert_eq!(run(&without), (vec![], 4), "{build:?}");
        }
    }
}

#[test]
fn a_program_with_capabilities_of_its_own_is_refused_with_the_reason() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capable");
    copy_program(Path::new("/bin/true"), &path);
    let set = Command::new("setcap").arg("cap_net_raw+ep").arg(&path).status();
    if !set.is_ok_and(|status| status.success()) {
        return println!("skipped: setcap gives no capabilities here");
    }
    let message = common::refuse(program(&path, &[], Frontend::Valgrind));
    assert!(message.contains("capabilities"), "{message}");
}
