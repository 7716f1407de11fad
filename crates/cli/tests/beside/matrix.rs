//! Every call that can use an open file, with the shim and without: what a program sees is the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::shim;
use crate::mounted::{Store, name, text};

/// Where a program of several threads makes a system call by an instruction of its own, nothing here sees that call, and it may find a
/// file as long as the kernel last knew, or a descriptor that it has closed for some microseconds more. docs/ctfs.md says so.
const NOT_SEEN_OF_THREADS: [&str; 12] = [
    "instruction sendfile",
    "instruction copy_file_range",
    "instruction setfl",
    "instruction close",
    "instruction close_range",
    "instruction dup2_over",
    "raw_close_and_open",
    "raw_close_and_socket",
    "fionread_by_instruction",
    "mapped_by_instruction",
    "written_by_mapping",
    "spliced",
];
/// `close`.
const CLOSE: &str = "number 3";

/// Builds the program beside the store.
fn build(folder: &Path) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/beside/matrix");
    let generated = Command::new("python3").arg(sources.join("generate.py")).arg("gcc").output();
    let Ok(generated) = generated else {
        println!("skipped: python3 and gcc make the calls from the C library's headers");
        return None;
    };
    assert!(generated.status.success(), "{}", text(&generated.stderr));
    std::fs::write(folder.join("generated.h"), generated.stdout).expect("written");
    let program = folder.join("matrix");
    let compiled = Command::new("gcc")
        .args(["-O1", "-w", "-D_FILE_OFFSET_BITS=64", "-I", name(folder)])
        .arg(sources.join("matrix.c"))
        .args(["-o", name(&program), "-lpthread", "-lutil"])
        .output()
        .expect("gcc starts");
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    Some(program)
}

fn run(program: &Path, with_shim: bool, folder: &Path, mode: &str) -> Output {
    std::fs::create_dir(folder).expect("made");
    let mut command = match with_shim {
        true => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pagewalk"));
            command.args(["fs", "run", "--", name(program)]);
            command
        }
        false => Command::new(program),
    };
    command.args([name(folder), mode]).stdin(Stdio::null()).output().expect("it starts")
}

fn same_with_and_without(mode: &str, is_left_out: impl Fn(&str) -> bool) {
    if shim().is_none() {
        return;
    }
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    let Some(program) = build(store.folder.path()) else { return };
    let [plain, beside] = [false, true].map(|with_shim| {
        let folder = store.mount_point().join(if with_shim { "beside" } else { "plain" });
        let output = run(&program, with_shim, &folder, mode);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
            .lines()
            .filter(|line| !is_left_out(line))
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    });
    assert!(plain.len() > 400, "{plain:?}");
    let differ = plain.symmetric_difference(&beside).collect::<Vec<_>>();
    assert!(differ.is_empty(), "with the shim and without: {differ:#?}");
    drop(mounted);
    store.is_sound();
}

#[test]
fn every_call_sees_what_a_program_of_one_thread_did() {
    same_with_and_without("alone", |_| false);
}

#[test]
fn every_call_sees_what_a_program_of_threads_did() {
    let is_left_out = |line: &str| {
        let is_case =
            |case: &&str| line.contains(&format!(" {case}:")) || line.contains(&format!("({case})"));
        NOT_SEEN_OF_THREADS.iter().chain([&CLOSE]).any(is_case)
    };
    same_with_and_without("threads", is_left_out);
}

#[test]
fn every_call_sees_what_a_program_appended() {
    same_with_and_without("appends", |_| false);
}
