//! Tests of limits: the front-ends allow a program what the system allows it.

use std::process::Command;

use pagewalk_capture::Frontend;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::{Build, HELPER, compile, install, program, record, refuse, unmodified};

/// Valgrind sets 16 MiB aside for the main stack, whatever `ulimit -s` says: with 64 MiB in use a program died of SIGSEGV.
#[test]
fn a_stack_may_be_as_large_as_the_system_allows() {
    let allowed = getrlimit(Resource::Stack);
    let wanted = 128 << 20;
    if allowed.maximum.is_some_and(|most| most < wanted) {
        return println!("skipped: the system allows less than 128 MiB of stack");
    }
    if std::env::var_os(HELPER).is_none() {
        // A limit is a process's, and the programs of other tests would inherit this one: it takes a process of its own.
        let test = "limits::a_stack_may_be_as_large_as_the_system_allows";
        install(); // The process finds the front-ends built.
        let mut itself = Command::new(std::env::current_exe().expect("this test"));
        let output = itself.args(["--exact", test]).env(HELPER, "1").output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    setrlimit(Resource::Stack, Rlimit { current: Some(wanted), maximum: allowed.maximum })
        .expect("a higher limit");
    for build in unmodified() {
        let (_, outcome) = record(program(&compile("limits", build), &["stack", "64"], build.frontend()));
        assert!(outcome.status.success(), "{build:?}: {}", outcome.status);
    }
}

/// Valgrind's default is 500 threads; the 501st ended it with the advice to pass an option that pagewalk did not take.
#[test]
fn there_may_be_more_threads_than_valgrind_has_by_default() {
    let path = compile("limits", Build::Plain);
    let (_, outcome) = record(program(&path, &["threads", "520"], Frontend::Valgrind));
    assert!(outcome.status.success(), "{}", outcome.status);
}

#[test]
fn an_option_goes_through_to_valgrind() {
    let path = compile("limits", Build::Plain);
    let few = program(&path, &["threads", "40"], Frontend::Valgrind).engine_options(["--max-threads=20"]);
    let message = refuse(few);
    assert!(message.contains("max-threads"), "{message}");
    for frontend in [Frontend::Callout, Frontend::Qemu] {
        let message = refuse(program(&path, &[], frontend).engine_options(["--max-threads=20"]));
        assert!(message.contains("--max-threads=20") && message.contains("help:"), "{message}");
    }
}
