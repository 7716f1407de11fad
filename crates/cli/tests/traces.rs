//! Traces of other tools on the command line: through pipes, with what was left out, and with the kernel's part.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn pagewalk(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagewalk")).args(arguments).output().expect("the command starts")
}

/// Runs the command with `input` on its standard input, through a pipe.
fn piped(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewalk"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        // The command may close the pipe before all of it is written.
        scope.spawn(move || drop(pipe.write_all(input)));
        child.wait_with_output().expect("the command ends")
    })
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document and nothing else")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn accesses(document: &Value) -> u64 {
    let rows = document["runs"][0]["metrics"].as_array().expect("metrics");
    let row = rows.iter().find(|row| row["stage"] == "program" && row["metric"] == "accesses");
    row.and_then(|row| row["value"].as_u64()).expect("a count")
}

/// ChampSim records with a load each, of a page of its own.
fn champsim(count: u64) -> Vec<u8> {
    let record = |at: u64| {
        [0x40_1000, 0, 0, 0, 0x7000_0000 + at * 4096, 0x7000_0105, 0, 0].map(u64::to_le_bytes).concat()
    };
    (0..count).flat_map(record).collect()
}

fn entry(kind: u16, size: u16, value: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
}

/// A drmemtrace file with a system call: two accesses of the program, a prefetch, and two accesses of the kernel.
fn with_kernel() -> Vec<u8> {
    [
        entry(25, 0, 7),
        entry(28, 9, 0x1e40),
        entry(22, 0, 1),
        entry(24, 0, 1),
        entry(10, 4, 0x40_1000),
        entry(0, 8, 0x7f00_0000_1000),
        entry(2, 8, 0x7f00_0000_9000),
        entry(28, 27, 1),
        entry(10, 4, 0xffff_ffff_8100_0000),
        entry(1, 8, 0xffff_8880_0000_1000),
        entry(0, 8, 0x7f00_0000_2000),
        entry(28, 28, 1),
        entry(10, 4, 0x40_1004),
        entry(1, 0, 0x7f00_0000_3000),
        entry(23, 0, 1),
        entry(26, 0, 0),
    ]
    .concat()
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("a temporary folder has a plain name").to_owned()
}

/// The first 1,024 records were lost, and nothing said so.
#[test]
fn a_trace_through_a_pipe_gives_the_counts_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(folder.path(), "t.champsimtrace");
    std::fs::write(&file, champsim(3_000)).unwrap();
    let run =
        |trace: &str| ["run", "--machine", "x86-64", "--format", "json", "--trace", trace].map(str::to_owned);
    let run = |trace: &str, input: &[u8]| {
        let arguments = run(trace);
        document(&piped(&arguments.each_ref().map(String::as_str), input))
    };
    let direct = run(&file, b"");
    assert_eq!(accesses(&direct), 6_000);
    for name in ["-", "/dev/stdin", "/dev/fd/0"] {
        let through = run(name, &champsim(3_000));
        assert_eq!(through["runs"][0]["metrics"], direct["runs"][0]["metrics"], "{name}");
    }
    let info = text(&piped(&["trace", "info", "-"], &champsim(3_000)));
    assert!(info.contains("standard input") && info.contains("192000 bytes"), "{info}");
    let target = path(folder.path(), "p.pwt");
    assert!(piped(&["trace", "convert", "-o", &target, "-"], &champsim(3_000)).status.success());
    assert_eq!(accesses(&run(&target, b"")), 6_000);
    let error = refusal(&piped(&["trace", "convert", "-"], &champsim(3_000)));
    assert!(error.contains("name one with --output"), "{error}");
}

#[test]
fn what_a_reader_leaves_out_stands_in_every_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(folder.path(), "t.trace");
    std::fs::write(&file, with_kernel()).unwrap();
    let expected = [
        "1 system calls and context switches in the kernel",
        "1 kernel instructions",
        "2 accesses by the kernel",
        "1 prefetches",
    ];
    let target = path(folder.path(), "t.pwt");
    let converted = pagewalk(&["trace", "convert", "-o", &target, &file]);
    let recorded = pagewalk(&["record", "-o", &target, "--trace", &file]);
    for shown in [
        text(&pagewalk(&["trace", "info", &file])),
        text(&pagewalk(&["run", "--machine", "x86-64", "--trace", &file])),
        String::from_utf8_lossy(&converted.stderr).into_owned(),
        String::from_utf8_lossy(&recorded.stderr).into_owned(),
    ] {
        for words in expected {
            let line = shown.lines().find(|line| line.ends_with(words));
            assert!(line.is_some_and(|line| line.contains("left out")), "`{words}` in {shown}");
        }
        assert!(shown.contains("1 accesses of unknown size"), "{shown}");
    }
    let run = document(&pagewalk(&["run", "--machine", "x86-64", "--format", "json", "--trace", &file]));
    let info = document(&pagewalk(&["trace", "info", "--format", "json", &file]));
    for remarks in [&run["manifest"]["source"]["trace"], &info["traces"][0]["remarks"]] {
        let left_out = &remarks["left_out"];
        assert_eq!(
            (&left_out["kernel_instructions"], &left_out["kernel_accesses"]),
            (&1.into(), &2.into()),
            "{remarks}"
        );
        assert_eq!(
            (&left_out["prefetches"], &remarks["assumed"]["unknown_sizes"]),
            (&1.into(), &1.into()),
            "{remarks}"
        );
    }
    assert_eq!(accesses(&run), 2);
}

#[test]
fn a_trace_of_which_everything_is_left_out_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(folder.path(), "t.lackey");
    std::fs::write(&file, "I  1000,1\n L 0000,1\n").unwrap();
    let error = refusal(&pagewalk(&["run", "--machine", "x86-64", "--trace", &file]));
    assert!(error.contains("no memory access at all"), "{error}");
    assert!(error.contains("left out: 1 1-byte loads at address 0"), "{error}");
}

#[test]
fn the_kernel_is_simulated_if_asked_for_on_every_kind_of_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(folder.path(), "t.trace");
    std::fs::write(&file, with_kernel()).unwrap();
    for machine in ["x86-64", "x86-64-thp", "x86-64-la57", "mosaic-4", "me-hpt"] {
        let arguments =
            ["run", "--machine", machine, "--detail", "timed", "--format", "json", "--trace", &file];
        let without = document(&pagewalk(&arguments));
        let with = document(&pagewalk(&[&arguments[..], &["--kernel"]].concat()));
        assert_eq!((accesses(&without), accesses(&with)), (2, 4), "{machine}");
        let trace = &with["manifest"]["source"]["trace"];
        assert_eq!(trace["assumed"]["kernel_instructions"], 1, "{trace}");
        assert!(trace["left_out"].get("kernel_instructions").is_none(), "{trace}");
        assert!(
            with["manifest"]["command"].as_array().is_some_and(|words| words.contains(&"--kernel".into()))
        );
    }
    let info = document(&pagewalk(&["trace", "info", "--kernel", "--format", "json", &file]));
    assert_eq!((&info["traces"][0]["accesses"], &info["traces"][0]["instructions"]), (&4.into(), &3.into()));
    let target = path(folder.path(), "t.pwt");
    assert!(pagewalk(&["trace", "convert", "--kernel", "-o", &target, &file]).status.success());
    let error = refusal(&pagewalk(&["run", "--kernel", "--trace", &target]));
    assert!(
        error.contains("a .pwt does not say what the kernel did") && error.contains("= help:"),
        "{error}"
    );
    let error = refusal(&pagewalk(&["run", "--kernel", "--workload", "gups-small"]));
    assert!(error.contains("--kernel") && error.contains("--trace"), "{error}");
}

#[test]
fn a_folder_converts_to_one_recording() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("drmemtrace.app.dir");
    std::fs::create_dir_all(trace.join("trace")).unwrap();
    std::fs::write(trace.join("trace/drmemtrace.app.1.trace"), with_kernel()).unwrap();
    assert!(pagewalk(&["trace", "convert", trace.to_str().unwrap()]).status.success());
    let info = document(&pagewalk(&[
        "trace",
        "info",
        "--format",
        "json",
        &path(folder.path(), "drmemtrace.app.pwt"),
    ]));
    assert_eq!(info["traces"][0]["accesses"], 2);
}

fn metric(run: &Value, stage: &str, metric: &str) -> Option<u64> {
    let rows = run["metrics"].as_array().expect("metrics");
    let is_it = |row: &&Value| row["stage"] == stage && row["metric"] == metric && row["unit"] != "per-walk";
    rows.iter().find(is_it)?["value"].as_u64()
}

/// A program with a huge page, two pages that share a frame, and a page of which nothing is said.
fn folder_with_frames(folder: &Path) -> String {
    let trace = folder.join("drmemtrace.app.dir");
    std::fs::create_dir_all(trace.join("trace")).unwrap();
    let head =
        [entry(25, 0, 7), entry(28, 12, 7), entry(28, 9, 0xe40), entry(22, 0, 1), entry(24, 0, 1)].concat();
    let addresses = [0x7f00_0020_0000, 0x7f00_003f_f000, 0x1000, 0x3000, 0x9000];
    let loads: Vec<u8> =
        addresses.iter().flat_map(|&at| [entry(10, 4, 0x40_1000), entry(0, 8, at)].concat()).collect();
    let records = [head, loads, entry(23, 0, 1), entry(26, 0, 0)].concat();
    std::fs::write(trace.join("trace/drmemtrace.app.1.trace"), records).unwrap();
    let pages = "address_mapping_group {
          page_size: 0x200000
          address_mapping { virtual_address: 0x7f0000200000 physical_address: 0x12340000000 }
        }
        address_mapping_group {
          page_size: 4096
          address_mapping { virtual_address: 0x1000 physical_address: 0x7000 }
          address_mapping { virtual_address: 0x3000 physical_address: 0x7000 }
        }";
    std::fs::write(trace.join("v2p.textproto"), pages).unwrap();
    path(folder, "drmemtrace.app.dir")
}

/// Machines chose their own frames and page sizes, whatever stood beside the trace.
#[test]
fn pages_have_the_frames_that_the_trace_gives() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder_with_frames(folder.path());
    let run = |trace: &str, more: &[&str]| {
        let machines = ["run", "--machine", "x86-64", "--machine", "mosaic-4", "--machine", "me-hpt"];
        pagewalk(&[&machines[..], &["--trace", trace], more].concat())
    };
    let given = document(&run(&trace, &["--format", "json"]));
    let radix = &given["runs"][0];
    let count = |run, stage, name| metric(run, stage, name).expect("a count");
    assert_eq!((count(radix, "fault", "minor.2MiB"), count(radix, "fault", "minor.4KiB")), (1, 3));
    assert_eq!((count(radix, "frames", "given-pages"), count(radix, "frames", "own-pages")), (3, 1));
    assert_eq!(count(radix, "frames", "resident"), (2 << 20) + 2 * 4096, "the shared frame is there once");
    assert_eq!(count(radix, "tlb.l1", "misses"), 4);
    assert_eq!(count(radix, "walk", "walks"), 8);
    // A root; two tables for the huge page; three for the small ones.
    assert_eq!(count(radix, "table", "bytes"), 6 * 4096);
    assert_eq!(count(&given["runs"][2], "fault", "minor.2MiB"), 1);
    assert_eq!(metric(&given["runs"][1], "frames", "given-pages"), None);
    let machines = &given["manifest"]["machines"];
    assert_eq!(machines[0]["frames"], serde_json::json!({ "used": "given" }));
    let because = "it places frames by hashing";
    assert_eq!(machines[1]["frames"], serde_json::json!({ "used": "own", "because": because }));
    let table = text(&run(&trace, &[]));
    for line in [
        "  x86-64: as the trace gives them (3 pages; 1 of its own)\n",
        "  mosaic-4: its own, because it places frames by hashing\n",
    ] {
        assert!(table.contains(line), "{table}");
    }

    // A recording has the frames, too.
    assert!(pagewalk(&["trace", "convert", &trace]).status.success());
    let recording = path(folder.path(), "drmemtrace.app.pwt");
    let recorded = document(&run(&recording, &["--format", "json"]));
    for machine in 0..3 {
        assert_eq!(recorded["runs"][machine]["metrics"], given["runs"][machine]["metrics"]);
    }
    assert_eq!(recorded["manifest"]["machines"], *machines);
    assert!(text(&pagewalk(&["trace", "info", &recording])).contains("3 frame"));

    let own = document(&run(&trace, &["--frames", "own", "--format", "json"]));
    let radix = &own["runs"][0];
    assert_eq!(
        (metric(radix, "fault", "minor.2MiB"), metric(radix, "fault", "minor.4KiB")),
        (Some(0), Some(5))
    );
    assert_eq!(
        (metric(radix, "frames", "resident"), metric(radix, "table", "bytes")),
        (Some(5 * 4096), Some(7 * 4096))
    );
    assert_eq!(metric(radix, "frames", "given-pages"), None);
    assert_eq!(own["manifest"]["machines"][0]["frames"]["because"], "--frames own asks for that");

    let error = refusal(&pagewalk(&["run", "--frames", "own", "--workload", "gups-small"]));
    assert!(error.contains("--frames") && error.contains("--trace"), "{error}");
}

#[test]
fn a_trace_that_gives_no_frames_says_nothing_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(folder.path(), "t.trace");
    std::fs::write(&file, with_kernel()).unwrap();
    let run = |more: &[&str]| pagewalk(&[&["run", "--machine", "x86-64", "--trace", &file], more].concat());
    assert!(!text(&run(&[])).contains("frames of pages"));
    assert!(document(&run(&["--format", "json"]))["manifest"]["machines"][0].get("frames").is_none());
}
