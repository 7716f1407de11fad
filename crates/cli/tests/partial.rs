//! Tests that every result of a part of the work says so, and for good: recordings that were ended early, traces that are damaged
//! or cut short, and everything that is made of them.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::ends::world::{self, Ended, PAGEWALK, World};

/// A workload that goes on for minutes, unless it is ended.
const LONG: &str = "gups:table=1MiB,updates=4000M";

/// The words of a call; what begins with `@` is a path of the world.
fn pagewalk(world: &World, text: &str) -> Command {
    let mut command = Command::new(PAGEWALK);
    command.args(text.split(' ').map(|word| match word.strip_prefix('@') {
        Some(path) => world.path(path).into_os_string(),
        None => OsString::from(word),
    }));
    command
}

fn call(world: &World, text: &str) -> Ended {
    world.start(pagewalk(world, text), [Stdio::null(), Stdio::piped(), Stdio::piped()]).end(text)
}

/// Calls, and demands this exit code.
fn ends_with(world: &World, code: i32, text: &str) -> Ended {
    let ended = call(world, text);
    assert_eq!(ended.status.code(), Some(code), "{text}: {}", ended.stderr);
    ended
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).expect("a document")
}

/// Why a trace file is partial, and how many accesses it has.
fn info(world: &World, path: &str) -> (serde_json::Value, u64) {
    let document = json(&ends_with(world, 0, &format!("trace info --format json {path}")).stdout);
    let trace = &document["traces"][0];
    assert!(trace["damage"].is_null(), "{trace}");
    (trace["partial"].clone(), trace["accesses"].as_u64().expect("a count"))
}

/// A recording that was ended early looked like a whole one to every later command.
#[test]
fn a_recording_that_was_ended_early_says_so_ever_after() {
    let world = World::new(b"world");
    let ended = ends_with(&world, 0, &format!("record --time-limit 300ms --workload {LONG} -o @out/t.pwt"));
    assert!(ended.stderr.contains("partial: ended by the time limit"), "{}", ended.stderr);
    let (partial, accesses) = info(&world, "@out/t.pwt");
    assert_eq!(partial["reason"], "time-limit");
    assert_eq!(partial["text"], "ended by the time limit of 300ms");
    assert!(accesses > 1000, "{accesses}");
    let shown = ends_with(&world, 0, "trace info @out/t.pwt");
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains("partial          ended by the time limit of 300ms\n"), "{shown}");

    // What is made of it is partial, too, though it was read to its end.
    let run = ends_with(&world, 0, "run --machine x86-64 --trace @out/t.pwt");
    let text = String::from_utf8(run.stdout).expect("text");
    let heading = "PARTIAL RESULT: the recording is partial: ended by the time limit of 300ms\n";
    assert!(text.starts_with(heading), "{text}");
    let run = json(&ends_with(&world, 0, "run --machine x86-64 --format json --trace @out/t.pwt").stdout);
    assert_eq!(run["manifest"]["partial"]["reason"], "time-limit");
    for (how, to) in
        [("trace convert @out/t.pwt -o", "@out/c.pwt"), ("record --trace @out/c.pwt -o", "@out/d.pwt")]
    {
        ends_with(&world, 0, &format!("{how} {to}"));
        let (partial, again) = info(&world, to);
        assert_eq!(partial["text"], "the recording is partial: ended by the time limit of 300ms", "{how}");
        assert_eq!(again, accesses);
    }

    // A limit of accesses lies within the part that there is.
    let run = ends_with(&world, 0, "run --limit 1000 --machine x86-64 --format json --trace @out/t.pwt");
    assert!(json(&run.stdout)["manifest"]["partial"].is_null());
    ends_with(&world, 0, "record --limit 1000 --trace @out/t.pwt -o @out/few.pwt");
    assert!(info(&world, "@out/few.pwt").0.is_null());
    assert!(info(&world, "@in/t.pwt").0.is_null(), "a whole recording");
}

/// SIGINT and its kin end a recording of the RISC-V machine, and its list of faults, which stood half-written under its name.
#[test]
fn a_recording_of_the_riscv_machine_is_marked_and_its_list_is_whole() {
    let world = World::new(b"world");
    let text = "riscv --limit 1000000M --record @out/r.pwt --trace @out/notes @in/loop.elf";
    let process = world.start(pagewalk(&world, text), [Stdio::null(), Stdio::piped(), Stdio::piped()]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(
        fs::read_dir(world.path("out")).expect("a folder").next().is_none(),
        "nothing is there before the end"
    );
    process.signal("INT");
    let ended = process.end(text);
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    assert_eq!(info(&world, "@out/r.pwt").0["text"], "ended by SIGINT");
    let notes = fs::read_to_string(world.path("out/notes")).expect("the list");
    assert!(notes.ends_with("partial: ended by SIGINT\n"), "{notes}");
    // A reader at the other end of a pipe gets the lines as they come.
    let said = ends_with(&world, 1, "riscv --limit 1000 --trace /dev/stdout @in/loop.elf");
    assert!(!said.stderr.contains("cannot write"), "{}", said.stderr);
}

/// A RISC-V program that reads one byte, and exits with how many it got. Its word to the host is at 0x8000_1000, the host's to it at
/// 0x8000_1008.
const READER: [u32; 18] = [
    // The request at t1: call 63 (read), descriptor 0, a buffer, 1 byte.
    0x0000_1297, // auipc t0, 1
    0x0402_8313, // addi  t1, t0, 0x40
    0x03f0_0393, // li    t2, 63
    0x0073_3023, // sd    t2, 0(t1)
    0x0003_3423, // sd    zero, 8(t1)
    0x1002_8393, // addi  t2, t0, 0x100
    0x0073_3823, // sd    t2, 16(t1)
    0x0010_0393, // li    t2, 1
    0x0073_3c23, // sd    t2, 24(t1)
    0x0062_b023, // sd    t1, 0(t0)
    // The answer.
    0x0082_b383, // ld    t2, 8(t0)
    0xfe03_8ee3, // beqz  t2, -4
    0x0002_b423, // sd    zero, 8(t0)
    0x0003_3383, // ld    t2, 0(t1)
    0x0013_9393, // slli  t2, t2, 1
    0x0013_e393, // ori   t2, t2, 1
    0x0072_b023, // sd    t2, 0(t0)
    0x0000_006f, // j     .
];

/// A program that reads from the console: the command did not see the first signal before a key was pressed.
#[test]
fn the_first_signal_ends_a_wait_for_the_keyboard() {
    let world = World::new(b"world");
    fs::write(world.path("in/read.elf"), world::riscv_elf(&READER)).expect("written");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let start = |stdin: Stdio| {
        let command =
            pagewalk(&world, "riscv --stats --tohost 0x80001000 --fromhost 0x80001008 @in/read.elf");
        world.start(command, [stdin, Stdio::piped(), Stdio::piped()])
    };
    for signal in [("INT", 130), ("TERM", 143)] {
        let process = start(reader.try_clone().expect("a pipe").into());
        std::thread::sleep(Duration::from_millis(400));
        process.signal(signal.0);
        let ended = process.end("a wait for a key");
        assert_eq!(ended.status.code(), Some(signal.1), "{}", ended.stderr);
    }
    // The program exits with how many bytes it got: none at the end of its input, and one of one.
    drop(writer);
    let ended = start(reader.into()).end("the end of the input");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let process = start(reader.into());
    std::thread::sleep(Duration::from_millis(200));
    writer.write_all(b"x").expect("written");
    drop(writer);
    assert_eq!(process.end("one byte").status.code(), Some(1));
}

/// Cuts of the same trace in several forms, each by a part that is enough to be seen.
fn damaged(world: &World) -> Vec<(&'static str, &'static str)> {
    let text = fs::read(world.path("in/t.lackey")).expect("a trace");
    let pwt = fs::read(world.path("in/t.pwt")).expect("a trace");
    let gzip = |name: &str| {
        let out = Command::new("gzip").arg("-c").arg(world.path(name)).output().expect("gzip");
        assert!(out.status.success());
        out.stdout
    };
    let packed = gzip("in/t.lackey");
    let cut = |bytes: &[u8], name: &str| fs::write(world.path(name), bytes).expect("written");
    cut(&packed[..packed.len() * 2 / 3], "in/cut.lackey.gz");
    cut(&text[..text.len() - 1], "in/line.lackey");
    let mut wrong = text.clone();
    let middle = text.len() / 2;
    wrong[middle..middle + 8].copy_from_slice(b"\0\0\0\0\0\0\0\0");
    cut(&wrong, "in/wrong.lackey");
    cut(&pwt[..pwt.len() - 1], "in/end.pwt");
    vec![
        ("in/cut.lackey.gz", "of the decompressed content: "),
        ("in/line.lackey", "the last line has no line end"),
        ("in/wrong.lackey", "line "),
        ("in/end.pwt", "the file has no trailer"),
    ]
}

/// A damaged trace gave its error alone, after hours perhaps.
#[test]
fn what_comes_before_the_damage_of_a_trace_is_a_result() {
    let world = World::new(b"world");
    for (name, why) in damaged(&world) {
        let format = if name.contains("lackey") { "--input-format lackey " } else { "" };
        let marked = |partial: &serde_json::Value| {
            assert_eq!(partial["reason"], "trace-damaged", "{name}");
            assert!(partial["text"].as_str().expect("text").contains(why), "{name}: {partial}");
        };
        let ended =
            ends_with(&world, 3, &format!("run --machine x86-64 --out @out/r {format}--trace @{name}"));
        let text = String::from_utf8(ended.stdout).expect("text");
        assert!(text.starts_with("PARTIAL RESULT: ") && text.contains("L1 TLB misses"), "{name}: {text}");
        assert!(ended.stderr.contains(why), "{name}: {}", ended.stderr);
        let document = json(&fs::read(world.path("out/r/results.json")).expect("results"));
        marked(&document["manifest"]["partial"]);
        let rows = document["runs"][0]["metrics"].as_array().expect("metrics");
        let accesses = rows.iter().find(|row| row["stage"] == "program" && row["metric"] == "accesses");
        let accesses = accesses.expect("a row")["value"].as_u64().expect("a count");
        assert!(accesses > 10_000, "{name}: {accesses}");

        let ended = ends_with(&world, 3, &format!("trace info --format json {format}@{name}"));
        let document = json(&ended.stdout);
        let trace = &document["traces"][0];
        assert_eq!(trace["accesses"], accesses, "{name}");
        assert!(trace["damage"].as_str().expect("text").contains(why), "{name}: {trace}");

        for text in [
            format!("trace convert {format}-o @out/c.pwt @{name}"),
            format!("record {format}-o @out/c.pwt --trace @{name}"),
        ] {
            ends_with(&world, 3, &text);
            let (partial, again) = info(&world, "@out/c.pwt");
            marked(&partial);
            assert_eq!(again, accesses, "{name}");
            fs::remove_file(world.path("out/c.pwt")).expect("removed");
        }
        world.holds_whole_files(name);
        world.clear();
    }
}

/// Nothing in front of the damage is no result.
#[test]
fn a_trace_that_is_damaged_from_its_beginning_is_an_error() {
    let world = World::new(b"world");
    fs::write(world.path("in/x.lackey"), "\0\0\0\0\n").expect("written");
    for text in [
        "run --machine x86-64 --input-format lackey --trace @in/x.lackey",
        "trace info --input-format lackey @in/x.lackey",
        "trace convert --input-format lackey -o @out/c.pwt @in/x.lackey",
    ] {
        assert!(ends_with(&world, 2, text).stdout.is_empty(), "{text}");
    }
    assert!(!world.path("out/c.pwt").exists());
    // The other files are shown all the same.
    let ended = ends_with(&world, 2, "trace info --input-format auto @in/x.lackey @in/t.pwt");
    let text = String::from_utf8(ended.stdout).expect("text");
    assert!(text.contains("t.pwt") && ended.stderr.contains("x.lackey"), "{text} {}", ended.stderr);
}

/// Rows of a group of experiments that was interrupted were lost with it.
#[test]
fn the_rows_of_an_interrupted_group_are_kept() {
    let world = World::new(b"world");
    let mut command = pagewalk(&world, "paper pfa figure-16 --small --format json --threads 1 --out @out/p");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    // The second program of the group begins.
    let lines = BufReader::new(process.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let second = lines.filter(|line| line.starts_with("running ")).nth(1);
    assert!(second.is_some(), "the group has two programs");
    let kill = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    let ended = process.wait_with_output().expect("a child");
    assert_eq!(ended.status.code(), Some(143));
    let document = json(&ended.stdout);
    assert_eq!(document["partial"]["text"], "ended by SIGTERM");
    let items: Vec<&str> =
        document["rows"].as_array().expect("rows").iter().filter_map(|row| row["item"].as_str()).collect();
    assert!(!items.is_empty() && items.iter().all(|item| item.starts_with("figure-16/gen")), "{items:?}");
    assert_eq!(json(&fs::read(world.path("out/p/results.json")).expect("results")), document);
}
