//! Two engines that share no code must see the same program: whole-run TLB misses of the Valgrind tool against the
//! call-out runtime, and instructions against a single-stepped run and against callgrind.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use pagewalk_capture::Program;
use pagewalk_trace::container::PwtSource;
use pagewalk_trace::record::record;
use pagewalk_trace::{Access, Batch, Source};
use pagewalk_vm::sets::{Replacement, SetArray};

use crate::common::{Build, builds, compile, is_installed, program, unmodified};

/// An LRU TLB of 4 KiB pages.
struct Lru {
    pages: SetArray,
    last: u64,
    misses: u64,
}

impl Lru {
    fn new(entries: u32, ways: u32) -> Self {
        let pages = SetArray::new(entries, ways, Replacement::Lru).expect("a shape that there is");
        Self { pages, last: u64::MAX, misses: 0 }
    }

    fn touch(&mut self, page: u64) {
        if page == self.last {
            return; // a hit on the most recent entry changes nothing
        }
        self.last = page;
        if self.pages.lookup(page, page).is_none() {
            self.misses += 1;
            self.pages.insert(page, page);
        }
    }

    /// An access that crosses a page boundary touches two pages.
    fn access(&mut self, access: Access) {
        let (first, last) = (access.addr().0, access.addr().0 + access.bytes() - 1);
        self.touch(first >> 12);
        if last >> 12 != first >> 12 {
            self.touch(last >> 12);
        }
    }
}

struct Seen {
    accesses: u64,
    instructions: u64,
    associative: u64,
    full: u64,
}

/// Accesses, and misses of a 128-set 8-way TLB and of a fully associative one of 1,024 entries.
fn observe(name: &str, args: &[&str], build: Build) -> Seen {
    let mut observed = program(&compile(name, build), args, build.frontend());
    let (associative, full, _) = misses(&mut observed, &format!("{name}, {build:?}"));
    seen(&observed, associative, full)
}

/// Misses of both TLBs, and the accesses.
fn misses(source: &mut dyn Source, what: &str) -> (u64, u64, u64) {
    let (mut associative, mut full, mut accesses) = (Lru::new(1_024, 8), Lru::new(1_024, 1_024), 0);
    source
        .run(&mut |batch: &mut Batch| {
            for &access in &batch.accesses {
                associative.access(access);
                full.access(access);
            }
            accesses += batch.accesses.len() as u64;
            ControlFlow::Continue(())
        })
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    (associative.misses, full.misses, accesses)
}

fn seen(observed: &Program, associative: u64, full: u64) -> Seen {
    let outcome = observed.outcome().expect("an outcome");
    assert!(outcome.status.success(), "{:?}", outcome.status);
    let (accesses, instructions) = (outcome.accesses, outcome.instructions);
    Seen { accesses, instructions, associative, full }
}

/// What comes back from a recording, which takes at most two and a half bytes an access on disk.
fn observe_recording(name: &str, args: &[&str], build: Build) -> Seen {
    let what = format!("{name}, {build:?}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("program.pwt");
    let mut observed = program(&compile(name, build), args, build.frontend());
    let recorded = record(&mut observed, &path).unwrap_or_else(|e| panic!("{what}: {e}"));
    let bytes = std::fs::metadata(&path).expect("just written").len();
    let each = bytes as f64 / recorded.accesses as f64;
    println!("{what}: {} accesses in {bytes} B, {each:.2} B each", recorded.accesses);
    assert!(each <= 2.5, "{what}: {each:.2} B an access");
    let (associative, full, read) = misses(&mut PwtSource::open(&path).expect("just written"), &what);
    assert_eq!(read, recorded.accesses, "{what}");
    seen(&observed, associative, full)
}

/// How far `a` is from `b`, as a fraction of `b`.
fn distance(a: u64, b: u64) -> f64 {
    a.abs_diff(b) as f64 / b as f64
}

/// Records a program with each engine, and compares what comes back. `same_layout`: all engines give it the same heap layout, which
/// the fully associative comparison needs.
fn whole_run_misses_agree(name: &str, args: &[&str], same_layout: bool) {
    let reference = observe_recording(name, args, Build::Plain);
    for build in builds().into_iter().filter(|&build| build != Build::Plain) {
        let seen = observe_recording(name, args, build);
        println!(
            "{name}, {build:?}: accesses {} / {}, 128x8 {} / {}, full {} / {}",
            seen.accesses,
            reference.accesses,
            seen.associative,
            reference.associative,
            seen.full,
            reference.full
        );
        let close = distance(seen.associative, reference.associative);
        assert!(close <= 0.02, "{name}, {build:?}: 128x8 misses are {:.3} % apart", 100.0 * close);
        let close = distance(seen.full, reference.full);
        let limit = if same_layout { 0.001 } else { 0.02 };
        assert!(
            close <= limit,
            "{name}, {build:?}: fully associative misses are {:.3} % apart",
            100.0 * close
        );
    }
}

#[test]
fn whole_run_misses_of_gups_agree() {
    whole_run_misses_agree("gups", &["64", "1"], true);
}

#[test]
fn whole_run_misses_of_a_btree_agree() {
    whole_run_misses_agree("btree", &["200", "150"], false);
}

#[test]
#[ignore = "takes half a minute, and is the comparison that is made of gups and the B-tree: `make soak`"]
fn whole_run_misses_of_a_breadth_first_search_agree() {
    whole_run_misses_agree("bfs", &["17", "16", "2"], true);
}

/// A program with irregular addressing out of several registers.
#[test]
#[ignore = "takes twenty seconds, and is the comparison that is made of gups and the B-tree: `make soak`"]
fn whole_run_misses_of_a_string_match_agree() {
    whole_run_misses_agree("match", &["600", "600"], true);
}

/// Instructions of a single-stepped run; `None` where stepping is not allowed.
fn single_stepped(target: &Path, args: &[&str]) -> Option<u64> {
    let output =
        Command::new(compile("singlestep", Build::Plain)).arg(target).args(args).output().expect("run");
    if !output.status.success() {
        println!("skipped: ptrace is not allowed here ({})", output.status);
        return None;
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(text.trim().strip_prefix("steps ").and_then(|n| n.parse().ok()).expect("a count"))
}

/// The longer run less the shorter one: what the C library does at its start depends on what the processor says it
/// can do, and Valgrind's says something else. For the same reason the program must not live in string functions.
#[test]
fn instructions_agree_with_a_single_stepped_run() {
    let target = compile("match", Build::Static);
    let [short, long] = [["0", "0"], ["1", "0"]];
    let (Some(first), Some(second)) = (single_stepped(&target, &short), single_stepped(&target, &long))
    else {
        return;
    };
    let observed = |args| observe("match", args, Build::Static).instructions;
    let (steps, ours) = (second - first, observed(&long) - observed(&short));
    println!("instructions: {ours}, single-stepped {steps}");
    assert!(steps > 50_000);
    assert!(distance(ours, steps) <= 0.001, "{ours} instructions, single-stepped {steps}");
}

#[test]
fn instructions_agree_with_callgrind_with_several_threads_too() {
    if !is_installed("valgrind") {
        return;
    }
    for (name, args) in [("bfs", &["15", "16", "2"][..]), ("threads", &[])] {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(compile(name, Build::Plain))
            .args(args)
            .output()
            .expect("valgrind");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let collected =
            text.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, n)| n.trim().parse());
        let theirs: u64 = collected.and_then(Result::ok).unwrap_or_else(|| panic!("no count in {text}"));
        for build in unmodified() {
            let ours = observe(name, args, build).instructions;
            println!("{name}, {build:?}: {ours} instructions, callgrind {theirs}");
            // What the C library does at its start differs under QEMU: some 20,000 instructions.
            let limit = if build == Build::Qemu { 0.01 } else { 0.002 };
            assert!(distance(ours, theirs) <= limit, "{name}, {build:?}: {ours}, callgrind {theirs}");
        }
    }
}

#[test]
fn every_engine_counts_the_same_twice() {
    for build in builds() {
        let (first, second) = (observe("bfs", &["12"], build), observe("bfs", &["12"], build));
        assert_eq!(first.accesses, second.accesses, "{build:?}");
        assert_eq!((first.full, first.associative), (second.full, second.associative), "{build:?}");
    }
}
