//! `pagewalk riscv` as a process: what it refuses, and that programs compute the same wherever remote memory is.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn pagewalk(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagewalk"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The folder of the built programs; `None`, with the reason, where there is no compiler for them.
fn built() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("riscv");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/riscv/build.sh");
    let output = Command::new(script).arg(&folder).output().expect("the script runs");
    match output.status.code() {
        Some(0) => Some(folder),
        Some(3) => {
            println!("skipped: {}", text(&output.stderr).trim());
            None
        }
        _ => panic!("{}", text(&output.stderr)),
    }
}

/// A blade on loopback, ended with the test.
struct Blade {
    process: Child,
    at: String,
}

impl Blade {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
            .args(["blade", "serve", "--listen", "udp:127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut line = String::new();
        BufReader::new(process.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
        let at = line.trim_end().split(" at ").nth(1).unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { process, at }
    }
}

impl Drop for Blade {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn what_is_no_program_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("not.elf");
    std::fs::write(&file, "not an ELF file").expect("written");
    let file = file.to_str().expect("text");
    for (arguments, word) in [
        (&["riscv", file][..], "not an ELF file of 64 bits"),
        (&["riscv", "/nowhere.elf"], "cannot read /nowhere.elf"),
        (&["riscv", env!("CARGO_BIN_EXE_pagewalk")], "not an executable for RISC-V"),
        (&["riscv", "--pfa-queues", "1,2", file], "one number, or three"),
        (&["riscv", "--memory", "12", file], "12"),
        (&["riscv", "--blade", "pigeon:1", file], "pigeon"),
    ] {
        let output = pagewalk(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(word), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn programs_compute_the_same_wherever_remote_memory_is() {
    let Some(folder) = built() else { return };
    let key = folder.join("key");
    std::fs::write(&key, [7; 32]).expect("written");
    let key = key.to_str().expect("text");
    for program in ["selftest", "stress"] {
        let program = folder.join(program).with_extension("elf");
        let program = program.to_str().expect("text");
        let here = pagewalk(&["riscv", program]);
        assert_eq!(here.status.code(), Some(0), "{}", text(&here.stderr));
        // Pages that were never written are zeroes: each program needs its own.
        let (open, secure) = (Blade::start(&[]), Blade::start(&["--key", key]));
        for elsewhere in [&["--blade", &open.at][..], &["--blade", &secure.at, "--key", key]] {
            let output = pagewalk(&[&["riscv"], elsewhere, &[program]].concat());
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            assert_eq!(text(&output.stdout), text(&here.stdout));
        }
    }
}

#[test]
fn a_blade_that_dies_ends_the_run_with_an_error() {
    let Some(folder) = built() else { return };
    let program = folder.join("stress.elf");
    let blade = Blade::start(&[]);
    let at = blade.at.clone();
    drop(blade);
    let begun = Instant::now();
    let output = pagewalk(&["riscv", "--blade", &at, program.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("remote memory does not answer"), "{}", text(&output.stderr));
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn one_document_has_the_counts_and_the_exit_code() {
    let Some(folder) = built() else { return };
    let program = folder.join("selftest.elf");
    let output = pagewalk(&["riscv", "--format", "json", program.to_str().expect("text")]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], 1);
    assert_eq!(document["runs"][0]["exit"], 0);
    assert!(text(&output.stderr).contains("selftest: passed"));
}

#[test]
fn any_program_is_a_trace_source() {
    let Some(folder) = built() else { return };
    let (program, trace) = (folder.join("stress.elf"), folder.join("stress.pwt"));
    let (program, trace) = (program.to_str().expect("text"), trace.to_str().expect("text"));
    let plain = pagewalk(&["riscv", "--format", "json", program]);
    let recorded = pagewalk(&["riscv", "--format", "json", "--record", trace, program]);
    assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
    assert_eq!(text(&recorded.stdout), text(&plain.stdout), "recording changes nothing");
    let counted = |output: &Output, stage: &str, metric: &str| {
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
        let metrics = document["runs"][0]["metrics"].as_array().expect("metrics").clone();
        let found = metrics.iter().find(|row| row["stage"] == stage && row["metric"] == metric);
        found.unwrap_or_else(|| panic!("{stage} {metric}: {metrics:?}"))["value"].as_u64().expect("a count")
    };
    let simulated = pagewalk(&["run", "--trace", trace, "--machine", "x86-64", "--format", "json"]);
    assert_eq!(simulated.status.code(), Some(0), "{}", text(&simulated.stderr));
    assert_eq!(
        counted(&simulated, "program", "instructions"),
        counted(&plain, "hart", "instructions"),
        "{}",
        text(&simulated.stdout)
    );
    let limited = pagewalk(&["riscv", "--record", trace, "--limit", "10k", program]);
    assert_eq!(limited.status.code(), Some(1));
    assert!(text(&limited.stderr).contains("the limit of 10000 instructions"), "{}", text(&limited.stderr));
    let unwritable = pagewalk(&["riscv", "--record", "/nowhere/trace.pwt", program]);
    assert_eq!(unwritable.status.code(), Some(2), "{}", text(&unwritable.stderr));
}
