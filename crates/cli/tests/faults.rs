//! Tests of a program whose pages are on a blade that dies, stands still or comes back, or whose cable is pulled.
//!
//! Faults come when the program has fetched so many pages, a number by a seed: however fast the machine is, it is in the middle.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use pagewalk_vm::random::SplitMix64;

use crate::common::{Blade, Cable, built, command, loopback, pagewalk, text};

/// No run may take longer, on however slow a machine: one that waits forever must not pass.
const DEADLINE: Duration = Duration::from_secs(120);

/// The stress test under way, as it tells of its fetches.
struct Run {
    process: Child,
    notes: BufReader<ChildStderr>,
    begun: Instant,
}

impl Run {
    fn start(mut command: Command, blade: &str, options: &[&str]) -> Self {
        let mut process = command
            .args(["riscv", "--trace", "-", "--blade", blade])
            .args(options)
            .arg(built().expect("asked before").join("stress.elf"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let notes = BufReader::new(process.stderr.take().expect("piped"));
        Self { process, notes, begun: Instant::now() }
    }

    /// Returns when it has fetched so many pages more.
    fn fetch(&mut self, count: u64) {
        let mut fetched = 0;
        while fetched < count {
            let mut note = String::new();
            assert_ne!(self.notes.read_line(&mut note).expect("text"), 0, "it ended before");
            fetched += u64::from(note.starts_with("fetch: "));
        }
    }

    /// Its exit code, output, and last note, once it has ended.
    fn end(mut self) -> (Option<i32>, String, String) {
        let last = self.notes.lines().last().transpose().expect("text").unwrap_or_default();
        let mut output = String::new();
        self.process.stdout.take().expect("piped").read_to_string(&mut output).expect("text");
        let status = self.process.wait().expect("it ends");
        assert!(self.begun.elapsed() < DEADLINE, "{:?}", self.begun.elapsed());
        (status.code(), output, last)
    }

    fn ends_with_an_error(self, how: &str) {
        let (code, output, last) = self.end();
        assert_eq!(code, Some(1), "{how}: {last}");
        assert_eq!(output, "", "{how}");
        assert!(
            last.starts_with("error: remote memory does not answer: the blade did not answer 9 times in "),
            "{how}: {last}"
        );
    }

    fn ends_well(self, how: &str) {
        let (code, output, last) = self.end();
        assert_eq!(code, Some(0), "{how}: {last}");
        assert_eq!(output, expected(built().expect("asked before")), "{how}");
    }
}

fn expected(folder: &Path) -> String {
    let output = pagewalk(&["riscv", folder.join("stress.elf").to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A moment in the first two thirds of the 16 202 fetches.
fn moment(random: &mut SplitMix64) -> u64 {
    1 + random.below(10_000)
}

#[test]
fn a_blade_that_is_gone_ends_the_run_with_an_error() {
    if built().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [key, ring] = ["key", "ring"].map(|name| folder.path().join(name));
    std::fs::write(&key, [7; 32]).expect("written");
    let key = ["--key", key.to_str().expect("text")];
    let ring = format!("ring:{}", ring.display());
    // All wait at the same time.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut blade = Blade::start(&[]);
            blade.kill();
            // It is asked before the program begins.
            let (code, output, last) = Run::start(command(), &blade.at, &[]).end();
            assert_eq!((code, &*output), (Some(2), ""), "{last}");
            assert!(last.starts_with("error: cannot use the blade at "), "{last}");
        });
        for (seed, listen, options) in [(1, loopback(), &[][..]), (2, loopback(), &key), (3, ring, &[])] {
            scope.spawn(move || {
                let mut blade = Blade::start_at(&listen, options);
                let mut run = Run::start(command(), &blade.at, options);
                run.fetch(moment(&mut SplitMix64::new(seed)));
                blade.kill();
                run.ends_with_an_error(&format!("{listen} killed, seed {seed}"));
            });
        }
        scope.spawn(|| {
            let blade = Blade::start(&[]);
            let mut run = Run::start(command(), &blade.at, &[]);
            run.fetch(moment(&mut SplitMix64::new(5)));
            blade.signal("STOP");
            run.ends_with_an_error("stopped for good");
        });
    });
}

#[test]
fn a_blade_that_stands_still_for_a_while_only_delays_the_run() {
    if built().is_none() {
        return;
    }
    let blade = Blade::start(&[]);
    let mut run = Run::start(command(), &blade.at, &[]);
    let mut random = SplitMix64::new(6);
    for _ in 0..3 {
        run.fetch(1 + random.below(4_000));
        blade.signal("STOP");
        // Long enough for requests to be sent several times, far from when the client gives up.
        std::thread::sleep(Duration::from_millis(300 + random.below(300)));
        blade.signal("CONT");
    }
    run.ends_well("stopped and continued");
}

/// The blade's end is 0, the program's 1.
fn over_a_cable(cable: &Cable) -> (Blade, Run) {
    let listen = format!("eth:{}", Cable::INTERFACE);
    let blade = Blade::start_with(cable.command(0), &listen, &[]);
    let run = Run::start(cable.command(1), &format!("{listen}/{}", Cable::CARDS[0]), &[]);
    (blade, run)
}

#[test]
fn a_link_that_goes_down_at_either_end_ends_the_run_with_an_error() {
    if built().is_none() {
        return;
    }
    std::thread::scope(|scope| {
        for end in [0, 1] {
            scope.spawn(move || {
                let Some(cable) = Cable::new() else { return };
                let (_blade, mut run) = over_a_cable(&cable);
                run.fetch(moment(&mut SplitMix64::new(8 + end as u64)));
                cable.switch(end, "down").expect("it goes down");
                run.ends_with_an_error(&format!("end {end} is down"));
            });
        }
    });
}

#[test]
fn a_link_that_comes_back_only_delays_the_run() {
    let (Some(_), Some(cable)) = (built(), Cable::new()) else { return };
    let (_blade, mut run) = over_a_cable(&cable);
    let mut random = SplitMix64::new(10);
    for end in [0, 1, 0] {
        run.fetch(1 + random.below(4_000));
        cable.switch(end, "down").expect("it goes down");
        std::thread::sleep(Duration::from_millis(100 + random.below(200)));
        cable.switch(end, "up").expect("it comes back");
    }
    run.ends_well("down and up");
}

/// A blade with a store is killed and started again, so many times in one run.
fn restarted(seed: u64, times: u64, options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("pages");
    let stored = [&["--capacity", "1MiB", "--store", store.to_str().expect("text")], options].concat();
    let mut blade = Blade::start(&stored);
    let mut run = Run::start(command(), &blade.at, options);
    let mut random = SplitMix64::new(seed);
    for _ in 0..times {
        run.fetch(1 + random.below(12_000 / times));
        blade.restart();
    }
    run.ends_well(&format!("seed {seed}, restarted {times} times"));
}

#[test]
fn a_blade_with_a_store_may_be_killed_and_started_again_under_a_program() {
    if built().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).expect("written");
    restarted(11, 5, &[]);
    restarted(12, 2, &["--key", key.to_str().expect("text")]);
}

#[test]
#[ignore = "long: `make soak`"]
fn a_blade_with_a_store_may_be_killed_again_and_again_under_many_programs() {
    if built().is_none() {
        return;
    }
    for seed in 100..150 {
        restarted(seed, 1 + seed % 20, &[]);
    }
}
