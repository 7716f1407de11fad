//! Processes: forks, execs, ends of every kind, and what passes through untouched.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pagewalk_capture::{Frontend, Outcome, Program, Reason};
use pagewalk_trace::{Batch, Event, ProcessId, Source};

use crate::common::{Build, Stream, builds, compile, copy_program, install, program, record, unmodified};

const BASE: u64 = 0x8_0000_0000;

fn run(build: Build, mode: &str) -> (Stream, Outcome) {
    record(program(&compile("processes", build), &[mode], build.frontend()))
}

/// Stores to each page, by process.
fn stores(stream: &Stream) -> BTreeMap<(u64, ProcessId), u64> {
    let mut stores = BTreeMap::new();
    for (process, _, access) in &stream.accesses {
        let offset = access.addr().0.wrapping_sub(BASE);
        if offset < 1 << 20 && access.is_write() {
            *stores.entry((offset / 4096, *process)).or_default() += 1;
        }
    }
    stores
}

fn events_like(stream: &Stream, wanted: impl Fn(&Event) -> bool) -> Vec<(ProcessId, Event)> {
    stream.events.iter().filter(|(_, _, _, e)| wanted(e)).map(|(_, p, _, e)| (*p, e.clone())).collect()
}

#[test]
fn children_are_followed_as_processes_of_their_own() {
    for build in builds() {
        let (stream, outcome) = run(build, "fork");
        assert_eq!(outcome.status.code(), Some(3), "{build:?}");
        assert_eq!(outcome.processes, 4);
        let forks = events_like(&stream, |e| matches!(e, Event::Fork { .. }));
        let children: Vec<ProcessId> = (1..=3).map(ProcessId).collect();
        let expected = children.iter().map(|&child| (ProcessId(0), Event::Fork { child }));
        assert_eq!(forks, expected.collect::<Vec<_>>(), "{build:?}");
        let mut expected = BTreeMap::from([((0, ProcessId(0)), 150)]);
        expected.extend((1..=3).map(|child| ((child, ProcessId(child as u32)), 200 + child)));
        assert_eq!(stores(&stream), expected, "{build:?}");
        let ends = events_like(&stream, |e| matches!(e, Event::ProcessEnd));
        assert_eq!(ends.len(), 4);
        assert_eq!(
            ends.last(),
            Some(&(ProcessId(0), Event::ProcessEnd)),
            "the parent waits for its children"
        );
    }
}

#[test]
fn a_fork_comes_before_everything_its_child_does() {
    for build in builds() {
        let (stream, _) = run(build, "fork-exit");
        for child in [1, 2].map(ProcessId) {
            let forked =
                stream.events.iter().position(|(_, _, _, e)| *e == Event::Fork { child }).expect("a fork");
            let before = stream.events[forked].0;
            let first =
                stream.accesses.iter().position(|&(process, _, _)| process == child).expect("accesses");
            assert!(before <= first, "{build:?}: {child:?} runs before its fork");
        }
        let expected = BTreeMap::from([((1, ProcessId(1)), 300), ((2, ProcessId(2)), 301)]);
        assert_eq!(stores(&stream), expected, "{build:?}: _exit loses nothing");
    }
}

#[test]
fn an_exec_goes_on_as_the_same_process_with_an_empty_address_space() {
    for build in builds() {
        let (stream, outcome) = run(build, "exec");
        assert_eq!((outcome.status.code(), outcome.processes), (Some(5), 1), "{build:?}");
        assert_eq!(events_like(&stream, |e| *e == Event::Exec), [(ProcessId(0), Event::Exec)], "{build:?}");
        let expected = BTreeMap::from([((0, ProcessId(0)), 400), ((1, ProcessId(0)), 401)]);
        assert_eq!(stores(&stream), expected, "{build:?}");
    }
}

/// Python's subprocess closes every descriptor in the child before it executes the program: children were lost without a
/// word under QEMU and the call-out runtime. Valgrind keeps its own descriptors; the others come back by the socket's name.
#[test]
fn a_program_that_closes_all_descriptors_stays_observed() {
    for build in builds() {
        let (stream, outcome) = run(build, "close-all");
        assert_eq!(outcome.status.code(), Some(5), "{build:?}");
        let expected = BTreeMap::from([((0, ProcessId(0)), 100_000), ((1, ProcessId(0)), 401)]);
        assert_eq!(stores(&stream), expected, "{build:?}");
    }
}

#[test]
fn children_that_close_all_descriptors_stay_observed() {
    for build in builds() {
        let (stream, outcome) = run(build, "close-range");
        assert_eq!((outcome.status.code(), outcome.processes), (Some(7), 4), "{build:?}");
        // Of each child: what it stores before it closes its descriptors, after it, and after the exec.
        let mut expected = BTreeMap::from([((0, ProcessId(0)), 150)]);
        for child in 1..=3 {
            expected.insert((child, ProcessId(child as u32)), 300 + child);
            let before = expected.insert((1, ProcessId(child as u32)), 401);
            if let Some(before) = before {
                expected.insert((1, ProcessId(child as u32)), 401 + before);
            }
        }
        assert_eq!(stores(&stream), expected, "{build:?}");
        let forks = events_like(&stream, |e| matches!(e, Event::Fork { .. }));
        assert_eq!(forks.len(), 3, "{build:?}");
    }
}

/// A child that closes its descriptors and gives the next program an empty environment cannot come back under the call-out
/// runtime. The command must not pass that over.
#[test]
fn a_process_that_is_lost_is_named() {
    for build in builds() {
        let program = compile("processes", build);
        let (stream, outcome) = run(build, "lose-child");
        assert_eq!((outcome.status.code(), outcome.processes), (Some(7), 2), "{build:?}");
        let is_lost = build.frontend() == Frontend::Callout;
        let named: Vec<_> = outcome.unobserved.iter().map(|each| (each.process, each.reason)).collect();
        let expected = if is_lost { vec![(ProcessId(1), Reason::NoRuntime)] } else { Vec::new() };
        assert_eq!(named, expected, "{build:?}");
        let programs = outcome.unobserved.iter().map(|each| each.program.as_deref());
        assert!(
            programs.eq(expected.iter().map(|_| program.to_str())),
            "{build:?}: {:?}",
            outcome.unobserved
        );
        let after_exec = stores(&stream).get(&(1, ProcessId(1))).copied();
        assert_eq!(after_exec, (!is_lost).then_some(401), "{build:?}");
    }
}

#[test]
fn death_by_a_signal_is_reported_and_what_came_before_is_kept() {
    for build in builds() {
        let (stream, outcome) = run(build, "signal");
        assert_eq!(outcome.status.signal(), Some(11), "{build:?}");
        assert_eq!(outcome.killed_by(), Some(11));
        let stored = stores(&stream)[&(0, ProcessId(0))];
        // A block that faults commits nothing, and the call-out runtime cannot send its last buffer.
        let lost_at_most = if build == Build::Plain { 64 } else { 8_192 };
        assert!((100_000 - lost_at_most..=100_000).contains(&stored), "{build:?}: {stored}");
        let (stream, outcome) = run(build, "kill");
        assert_eq!(outcome.killed_by(), Some(9), "{build:?}");
        assert!(stores(&stream)[&(0, ProcessId(0))] >= 100_000 - 2 * 8_192, "{build:?}");
        let ends = events_like(&stream, |e| matches!(e, Event::ProcessEnd));
        assert_eq!(ends.len(), 1, "{build:?}: a killed process ends in the stream too");
    }
}

#[test]
fn a_handled_fault_costs_no_record_of_the_access_that_is_tried_again() {
    for build in builds() {
        let (stream, outcome) = run(build, "recover");
        assert!(outcome.status.success(), "{build:?}");
        assert_eq!(stores(&stream)[&(5, ProcessId(0))], 1_000, "{build:?}");
        let protects = events_like(
            &stream,
            |e| matches!(e, Event::Protect(range, _) if range.start.0 == BASE + 5 * 4096),
        );
        assert_eq!(protects.len(), 2, "{build:?}: closed by the program, opened by its handler");
    }
}

#[test]
fn a_fault_is_where_it_would_be_without_us() {
    for build in unmodified() {
        let (stream, outcome) = run(build, "where");
        assert_eq!(outcome.status.code(), Some(2), "{build:?}: two closed pages");
        let stored: u64 = stores(&stream).values().sum();
        assert_eq!(stored, 2_000, "{build:?}");
    }
}

#[test]
fn input_output_arguments_and_exit_code_pass_through() {
    let echo = compile("processes", Build::Plain);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("echo");
    std::fs::create_dir_all(&folder).expect("a folder");
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
    std::fs::write(folder.join("in"), &bytes).expect("input");
    let script = format!(
        "cd '{}' && exec '{}' echo 'a b' '' '--tool=x' <in >out 2>err",
        folder.display(),
        echo.display()
    );
    for build in unmodified() {
        let shell = Program::new("sh", ["-c", &script]).frontend(build.frontend()).install(install());
        let (_, outcome) = record(shell);
        assert_eq!(outcome.status.code(), Some(42), "{build:?}");
        assert_eq!(std::fs::read(folder.join("out")).expect("output"), bytes, "{build:?}: byte for byte");
        let said = std::fs::read_to_string(folder.join("err")).expect("error");
        assert_eq!(said, "a b\n\n--tool=x\n", "{build:?}: and nothing else");
        assert_eq!(outcome.log, "");
    }
}

#[test]
fn statically_linked_programs_are_observed() {
    let (stream, outcome) =
        record(program(&compile("processes", Build::Static), &["fork"], Build::Static.frontend()));
    assert_eq!((outcome.status.code(), outcome.processes), (Some(3), 4));
    assert_eq!(stores(&stream)[&(0, ProcessId(0))], 150);
}

#[test]
fn scripts_and_what_they_run_are_observed() {
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("script.sh");
    let child = compile("processes", Build::Plain);
    std::fs::write(&script, format!("#!/bin/sh\n'{}' after-exec\nexit $(($? + 1))\n", child.display()))
        .expect("script");
    let status = Command::new("chmod").arg("+x").arg(&script).status().expect("chmod");
    assert!(status.success());
    for build in unmodified() {
        let (stream, outcome) = record(program(&script, &[], build.frontend()));
        assert_eq!((outcome.status.code(), outcome.processes), (Some(6), 2), "{build:?}");
        assert_eq!(stores(&stream), BTreeMap::from([((1, ProcessId(1)), 401)]), "{build:?}");
        assert_eq!(events_like(&stream, |e| *e == Event::Exec), [(ProcessId(1), Event::Exec)], "{build:?}");
    }
}

/// Whether a process with this in its command line is there; a zombie has none.
fn is_running(text: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(text))
}

#[test]
fn a_sink_that_has_enough_ends_the_program_and_its_children() {
    for build in builds() {
        for mode in ["forever", "stubborn", "family"] {
            let path = compile("processes", build);
            // A name of its own, so that the processes can be told from those of other tests.
            let own = path.with_file_name(format!("stop-{mode}-{build:?}"));
            copy_program(&path, &own);
            let mut observed = program(&own, &[mode], build.frontend());
            let begin = Instant::now();
            let mut batches = 0;
            observed
                .run(&mut |_: &mut Batch| {
                    batches += 1;
                    if batches == 40 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
                .unwrap_or_else(|e| panic!("{mode}, {build:?}: {e}"));
            let outcome = observed.outcome().expect("an outcome");
            assert!(outcome.stopped && outcome.killed_by().is_none());
            assert_eq!(batches, 40, "nothing comes after the break");
            assert!(begin.elapsed() < Duration::from_secs(20), "{mode}, {build:?}: {:?}", begin.elapsed());
            std::thread::sleep(Duration::from_millis(200));
            assert!(!is_running(&format!("stop-{mode}-{build:?}")), "{mode}, {build:?} is still running");
        }
    }
}
