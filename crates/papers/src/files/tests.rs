//! Shares and counts of small files.

use pagewalk_trace::{Stop, StopRequest};
use pagewalk_vm::file::MOST_EXTENT_PAGES;

use super::pattern::FilesError;
use super::{Pattern, PatternRun, run};
use pagewalk_sim::files::Part;
use pagewalk_sim::spec::settings::MachineSpec;
use pagewalk_sim::spec::{load, parse};

const MIB: u64 = 1 << 20;

fn machine(name: &str) -> MachineSpec {
    load(name).unwrap_or_else(|error| panic!("{error}"))
}

fn run_one(name: &str, pattern: Pattern) -> PatternRun {
    run(&machine(name), pattern, 64 * MIB, 1, &Stop::default()).expect("there is room")
}

#[test]
fn an_append_takes_the_journals_eleven_steps() {
    let spec = machine("ext4-dax");
    let run_with = |spec: &MachineSpec| {
        run(spec, Pattern::Append, 640 * MIB, 1, &Stop::default()).expect("there is room")
    };
    let whole = run_with(&spec);
    let text = include_str!("../../../../machines/ext4-dax.toml");
    let free = text.replace("journal = \"632 ns\"", "journal = \"0 ns\"");
    assert_ne!(free, text);
    let step_ps = 632_000;
    let without = run_with(&parse(&free, "free.toml").expect("a machine"));
    // Three handles; the list of files to be cut and the inode, twice; bitmap, descriptor, inode; and the tree's node, once the
    // root in the inode is full.
    let root_appends = 4 * MOST_EXTENT_PAGES;
    let steps = 11 * whole.operations - root_appends;
    let saved = whole.parts.total() - without.parts.total();
    let expected = steps * step_ps;
    assert!(saved.abs_diff(expected) < expected / 100, "{saved} of {expected}");
    assert_eq!((whole.counts.extents, whole.counts.depth), (6, 1));
}

#[test]
fn a_growing_file_moves_by_levels_and_swaps_64_entries_at_most() {
    let appended = run_one("ctfs", Pattern::Append);
    // 64 MiB lie in an L5; L0 to L4 move 1, 8, 64, 1, 8 entries.
    assert_eq!((appended.counts.moves, appended.counts.entries, appended.counts.most_entries), (5, 82, 64));
    assert_eq!(appended.counts.translations, appended.operations);
}

#[test]
fn the_hardware_walks_once_for_a_large_page_that_no_tlb_has() {
    let read = run_one("ctfs", Pattern::RandomRead);
    // 32 large pages fit into the first TLB: each faults once, and its walk is made again behind the fault.
    assert_eq!((read.counts.faults, read.counts.walks), (32, 64));
    assert_eq!(read.parts.of(Part::Build), 0, "the file was there");
}

#[test]
fn the_index_of_ranges_costs_less_than_the_one_of_extents() {
    for (pattern, name) in Pattern::ALL {
        let [extents, pages] = ["ext4-dax", "ctfs"].map(|machine| run_one(machine, pattern).parts);
        let share = |parts: pagewalk_sim::files::Parts| parts.index() as f64 / parts.total() as f64;
        match pattern {
            // What a small file's first moves cost is not yet spread over many appends.
            Pattern::Append | Pattern::RandomRead | Pattern::RandomWrite => {
                assert!(2.0 * share(pages) < share(extents), "{name}: {} {}", share(pages), share(extents));
            }
            _ => assert!(share(pages) < 0.01, "{name}: {}", share(pages)),
        }
        if pattern == Pattern::Append || pattern == Pattern::SequentialWriteEmpty {
            assert!(share(extents) > 0.4, "{name}: {}", share(extents));
        }
        assert!(pages.total() < extents.total() * 101 / 100, "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_time() {
    let spec = machine("ctfs");
    let [one, same, other] = [1, 1, 2]
        .map(|seed| run(&spec, Pattern::RandomWrite, 16 * MIB, seed, &Stop::default()).expect("room"));
    assert_eq!(one, same);
    assert_ne!(one.parts, other.parts);
}

#[test]
fn what_cannot_run_says_why() {
    let x86 = machine("x86-64");
    assert_eq!(run(&x86, Pattern::Append, MIB, 0, &Stop::default()), Err(FilesError::NoFiles));
    let ctfs = machine("ctfs");
    for bytes in [0, MIB + 1, 1_025 * MIB] {
        assert_eq!(run(&ctfs, Pattern::Append, bytes, 0, &Stop::default()), Err(FilesError::Size { bytes }));
    }
    let little = "name = \"little\"\nextends = \"optane\"\n[persistent]\ncapacity = \"128MiB\"\n[files]\ncall = \"1 ns\"\n";
    for index in ["[files.page-table]\n", "[files.extent-tree]\nmap = \"1 ns\"\njournal = \"1 ns\"\n"] {
        let spec =
            parse(&format!("{little}{index}"), "little.toml").unwrap_or_else(|error| panic!("{error}"));
        let error = run(&spec, Pattern::SequentialWriteEmpty, 256 * MIB, 0, &Stop::default())
            .expect_err("there is no room");
        assert!(matches!(error, FilesError::File(_)), "{error}");
    }
}

/// An interrupted `pagewalk paper ctfs` went on for the rest of its largest file.
#[test]
fn a_run_that_is_to_stop_has_no_result() {
    let stop = Stop::default();
    stop.request(StopRequest::Now);
    for name in ["ctfs", "ext4-dax"] {
        let ran = run(&machine(name), Pattern::SequentialRead, 64 * MIB, 1, &stop);
        assert!(matches!(ran, Err(FilesError::Stopped)), "{name}: {ran:?}");
    }
}
