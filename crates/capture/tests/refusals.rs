//! Bad input: every mistake has its own words.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use pagewalk_capture::{Frontend, Install, Program};
use pagewalk_trace::{Batch, Source};

use crate::common::{self, Build, HELPER, compile, install, is_installed, program, refuse};

fn file(name: &str, bytes: &[u8], executable: bool) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("a file");
    let mode = if executable { "755" } else { "644" };
    assert!(Command::new("chmod").arg(mode).arg(&path).status().expect("chmod").success());
    path
}

fn refusal(program: impl Into<std::ffi::OsString>) -> String {
    refuse(Program::new(program, [] as [&str; 0]).install(install()))
}

#[test]
fn programs_that_are_not_there_or_not_programs() {
    for (message, words) in [
        (refusal("no-such-program-at-all"), "not found in PATH"),
        (refusal("./no-such-program-at-all"), "not found"),
        (refusal("/"), "folder"),
        (refusal(file("plain.txt", b"#!/bin/sh\n", false)), "permission"),
        (refusal(file("words", b"just words", true)), "neither an ELF program nor a script"),
        (refusal(file("short", b"\x7fELF\x02", true)), "cut short"),
    ] {
        assert!(message.contains(words), "{message:?} does not say {words:?}");
    }
}

#[test]
fn programs_of_other_machines() {
    let mut header = [0u8; 64];
    header[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    header[16] = 2;
    header[18] = 3;
    let message = refusal(file("i386", &header, true));
    assert!(message.contains("32-bit") && message.contains("x86-64"), "{message}");
    (header[4], header[18]) = (2, 21);
    let message = refusal(file("powerpc", &header, true));
    assert!(message.contains("PowerPC") && message.contains("--frontend qemu"), "{message}");
    // One that QEMU could take, and finds empty.
    (header[18], header[32], header[54], header[56]) = (183, 64, 56, 1);
    let whole: Vec<u8> = header.into_iter().chain([0; 56]).collect();
    let path = file("aarch64", &whole, true);
    let message = refusal(&path);
    assert!(message.contains("AArch64") && message.contains("--frontend qemu"), "{message}");
    if is_installed("qemu-aarch64") {
        let message = refuse(program(&path, &[], Frontend::Qemu));
        assert!(message.contains("QEMU could not start"), "{message}");
    }
}

#[test]
fn a_program_cut_short_and_one_that_only_the_loader_refuses() {
    let whole = std::fs::read(compile("gups", Build::Plain)).expect("a program");
    let message = refusal(file("cut", &whole[..100], true));
    assert!(message.contains("cut short"), "{message}");
    let message = refusal(file("half", &whole[..whole.len() / 8], true));
    assert!(message.contains("valgrind could not start"), "{message}");
}

#[test]
fn a_front_end_that_is_not_built() {
    let nowhere = Install::at("/nonexistent/pagewalk");
    for frontend in [Frontend::Valgrind, Frontend::Qemu] {
        let message =
            refuse(Program::new("true", [] as [&str; 0]).frontend(frontend).install(nowhere.clone()));
        assert!(message.contains("/nonexistent/pagewalk") && message.contains("make"), "{message}");
    }
}

#[test]
fn a_tool_built_for_another_valgrind() {
    let real = install().callout().expect("an install");
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other-version");
    let _ = std::fs::remove_dir_all(&copy);
    let parent = real.parent().expect("a parent");
    assert!(Command::new("cp").arg("-a").arg(parent).arg(&copy).status().expect("cp").success());
    std::fs::write(copy.join("valgrind/version"), "3.1\n").expect("a file");
    let message = refuse(Program::new("true", [] as [&str; 0]).install(Install::at(copy)));
    assert!(message.contains("3.1") && message.contains("rebuild"), "{message}");
}

#[test]
fn no_records_at_all_is_an_error() {
    let plain = compile("processes", Build::Plain);
    let message = refuse(program(&plain, &["recover"], Frontend::Callout));
    assert!(message.contains("no access records"), "{message}");
}

#[test]
fn the_same_for_load_and_store_call_outs_without_a_level() {
    let Some(clang) = common::clang() else { return println!("skipped: clang is not installed") };
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sancov-nothing");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/gups.c");
    let folder = install().callout().expect("runtime");
    let mut command = Command::new(clang);
    command.args(["-O2", "-fsanitize-coverage=trace-loads,trace-stores", "-o"]).arg(&out).arg(source);
    command.arg(format!("-Wl,-rpath,{}", folder.display())).arg(format!("-L{}", folder.display()));
    command.args(["-Wl,--no-as-needed", "-ltsan"]);
    if !command.status().expect("clang").success() {
        return println!("skipped: this clang cannot link sanitizer coverage");
    }
    let message = refuse(program(&out, &["1", "0"], Frontend::Callout));
    assert!(message.contains("no access records"), "{message}");
}

/// Runs as a child of the test below: libtest's own lines go to standard output, the program's must not.
#[test]
fn helper_prints_to_standard_error() {
    if std::env::var_os(HELPER).is_none() {
        return;
    }
    let mut observed = Program::new("echo", ["from the program"]).install(install()).stdout_to_stderr(true);
    observed.run(&mut |_: &mut Batch| ControlFlow::Continue(())).expect("a run");
}

#[test]
fn a_programs_output_can_go_to_standard_error() {
    install(); // The helper finds the front-ends built.
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "refusals::helper_prints_to_standard_error", "--nocapture"])
        .env(HELPER, "1")
        .output()
        .expect("the helper");
    assert!(output.status.success());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&output.stderr), "from the program\n");
    assert!(!text(&output.stdout).contains("from the program"));
}

#[test]
fn a_missing_interpreter_is_reported() {
    if !is_installed("sh") {
        return;
    }
    let message = refusal(file("orphan", b"#!/no/such/interpreter\n", true));
    assert!(message.contains("could not start"), "{message}");
}
