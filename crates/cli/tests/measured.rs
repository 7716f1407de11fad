//! This computer measured, and predictions judged by it. No number is judged here: tests run beside one another.

use std::fs;
use std::path::Path;

use crate::common::{command, pagewalk, text};

#[test]
fn what_was_measured_is_a_machine_that_others_can_show_and_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("here.toml");
    let file = file.to_str().expect("text");
    let ended = pagewalk(&["calibrate", "--rounds", "1", "--memory", "8MiB", "-o", file]);
    assert!(ended.status.success() && ended.stdout.is_empty(), "{}", text(&ended.stderr));
    let written = fs::read_to_string(file).expect("it was written");
    assert!(written.contains("frequency = ") && written.contains(", 1 rounds. Of times"), "{written}");
    let shown = pagewalk(&["machines", "show", file]);
    assert!(text(&shown.stdout).contains("[core.dataflow]") || !cfg!(target_arch = "x86_64"), "{written}");
    let run = pagewalk(&[
        "run",
        "--machine",
        file,
        "--workload",
        "gups:table=1MiB,updates=10k",
        "--detail",
        "timed",
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
}

#[test]
fn progress_is_shown_where_it_is_asked_for() {
    let words = ["calibrate", "--rounds", "1", "--memory", "8MiB", "--progress", "always"];
    let stderr = text(&pagewalk(&words).stderr);
    assert!(stderr.contains("round 1 of 1: cycle time\n") && stderr.contains("system calls\n"), "{stderr}");
}

#[test]
fn wrong_requests_are_refused_at_once() {
    for (words, reason) in [
        (&["calibrate", "--memory", "1MiB"][..], "8388608 bytes of memory at least"),
        (&["calibrate", "--rounds", "0"], "0 is not in 1..=10000"),
        (&["calibrate", "-o", "/no/folder/here.toml"], "cannot write /no/folder/here.toml"),
        (&["validate", "--machine", "x86-64", "none"], "there is no program `none`"),
        (&["validate", "--machine", "none", "sort"], "none"),
        (&["validate", "sort", "--", "sort"], "cannot be used with"),
    ] {
        let ended = pagewalk(words);
        assert_eq!(ended.status.code(), Some(2), "{words:?}");
        assert!(text(&ended.stderr).contains(reason), "{words:?}: {}", text(&ended.stderr));
    }
}

#[test]
fn programs_are_listed() {
    let listed = text(&pagewalk(&["validate", "--list"]).stdout);
    assert!(listed.lines().count() >= 24, "{listed}");
    assert!(listed.contains("\nquicksort      quicksort 400000\n"), "{listed}");
}

/// The folder with the front-ends, where they are built.
fn has_frontends() -> bool {
    let beside =
        Path::new(env!("CARGO_BIN_EXE_pagewalk")).parent().expect("a folder").join("../pagewalk/valgrind");
    let found = std::env::var_os("PAGEWALK_LIB").is_some() || beside.is_dir();
    if !found {
        println!("skipped: the front-ends are not built (make frontends)");
    }
    found
}

#[test]
fn a_program_of_the_user_is_judged() {
    if !has_frontends() {
        return;
    }
    let words = [
        "validate",
        "--machine",
        "zen3",
        "--fixed",
        "--runs",
        "1",
        "--ablate",
        "--huge-pages",
        "--format",
        "json",
        "--",
    ];
    let program = ["sh", "-c", "echo said"];
    let ended = command().args(words).args(program).output().expect("it starts");
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(!text(&ended.stderr).contains("said"), "programs are silent");
    let document: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("one document");
    let row = &document["programs"][0];
    assert_eq!((&row["program"], &document["machine"]), (&"sh".into(), &"zen3".into()));
    for number in ["measured_ns", "predicted_ns", "measured_faults", "predicted_faults"] {
        assert!(row[number].as_f64().is_some_and(|number| number > 0.0), "{number}: {row}");
    }
    assert!(row["huge_pages"]["measured"].is_number() && row["huge_pages"]["predicted"].is_number(), "{row}");
    let without = row["without"].as_object().expect("ablations");
    let ingredients = [
        "bandwidth",
        "branch targets",
        "branches",
        "decoders",
        "dependences",
        "fetch",
        "foreseen loads",
        "kernel writes",
        "line fills",
        "pages ahead",
        "prefetchers",
        "refresh",
        "registers",
        "replacement",
        "schedulers",
        "sets",
        "slots",
        "units",
        "waiting walks",
        "wrong ways",
    ];
    assert_eq!(without.keys().collect::<Vec<_>>(), ingredients);
}

#[test]
fn a_program_is_shown_as_soon_as_it_has_run_and_the_folder_has_a_page() {
    if !has_frontends() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("v");
    let out = out.to_str().expect("text");
    let ended =
        pagewalk(&["validate", "--machine", "zen3", "--fixed", "--runs", "1", "--out", out, "--", "true"]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let table = text(&ended.stdout);
    let [heading, row, errors] =
        ["program        class", "\ntrue ", "\nerrors "].map(|part| table.find(part).expect(part));
    assert!(heading < row && row < errors, "{table}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join("v").join(name)).expect(name);
    let document: serde_json::Value = serde_json::from_str(&read("results.json")).expect("one document");
    assert_eq!(document["programs"][0]["program"], "true");
    assert!(read("report.html").contains("zen3 against the stopwatch"));
}

#[test]
fn a_program_that_fails_is_left_out_with_its_reason() {
    let ended = pagewalk(&["validate", "--machine", "zen3", "--runs", "1", "--", "sh", "-c", "exit 3"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(text(&ended.stderr).contains("sh failed with exit code 3"), "{}", text(&ended.stderr));
}
