//! Children of `fork`: their pages are their parent's until one of them writes.

use pagewalk_trace::Advice;

use super::advice::{every_small, every_table, loads, range, run, stores};
use super::*;

const PAGE: u64 = 4096;

/// A parent that has written `pages` pages, and a child that is current.
fn forked(pages: u64) -> Batch {
    let mut batch = Batch::new();
    map(&mut batch, BASE, pages * PAGE);
    stores(&mut batch, 0..pages);
    batch.mark(Event::Fork { child: ProcessId(1) });
    batch.mark(Event::Process(ProcessId(1)));
    batch
}

/// Faults of 4 KiB pages, copies, and resident pages.
pub(super) fn counted(result: &RunResult) -> (u64, u64, u64) {
    let resident = value(result, "frames", "resident") / PAGE;
    (value(result, "fault", "minor.4KiB"), value(result, "kernel", "copies-on-write"), resident)
}

/// A child was said to fault on every page that it only reads, and to take a frame for each: a program that forks workers
/// over a large read-only heap took many times its memory. A fork of a parent with N resident pages and a child that writes
/// k of them takes k copies, and a reader takes none; what the child has left to the parent alone is not copied again.
#[test]
fn a_child_copies_what_it_writes_and_nothing_else() {
    const N: u64 = 600;
    const K: u64 = 150;
    for spec in every_table().iter().chain(&every_small()) {
        let mut batch = forked(N);
        loads(&mut batch, 0..N);
        assert_eq!(counted(&run(spec, &batch)), (N, 0, N), "{}: a reader", spec.name);
        stores(&mut batch, 0..K);
        stores(&mut batch, 0..K);
        assert_eq!(counted(&run(spec, &batch)), (N + K, K, N + K), "{}: a writer", spec.name);
        batch.mark(Event::Process(ProcessId(0)));
        loads(&mut batch, 0..N);
        assert_eq!(counted(&run(spec, &batch)), (N + K, K, N + K), "{}: the parent reads", spec.name);
        stores(&mut batch, 0..2 * K);
        let expected = (N + 3 * K, 2 * K, N + 2 * K);
        assert_eq!(
            counted(&run(spec, &batch)),
            expected,
            "{}: pages that are its own need a fault",
            spec.name
        );
        batch.mark(Event::Process(ProcessId(1)));
        batch.mark(Event::ProcessEnd);
        batch.mark(Event::Process(ProcessId(0)));
        let expected = (N + 3 * K, 2 * K, N);
        assert_eq!(counted(&run(spec, &batch)), expected, "{}: the child has ended", spec.name);
        stores(&mut batch, 0..N);
        let expected = (2 * N + K, 2 * K, N);
        assert_eq!(
            counted(&run(spec, &batch)),
            expected,
            "{}: no other process is left to copy for",
            spec.name
        );
    }
}

/// A page of several generations stays as long as one of them has it.
#[test]
fn frames_outlive_the_process_that_took_them() {
    for spec in every_table().iter().chain(&every_small()) {
        let mut batch = forked(100);
        batch.mark(Event::Fork { child: ProcessId(2) });
        batch.mark(Event::Process(ProcessId(0)));
        batch.mark(Event::Exec);
        batch.mark(Event::Process(ProcessId(1)));
        batch.mark(Event::ProcessEnd);
        batch.mark(Event::Process(ProcessId(2)));
        loads(&mut batch, 0..100);
        assert_eq!(counted(&run(spec, &batch)), (100, 0, 100), "{}", spec.name);
        stores(&mut batch, 0..100);
        assert_eq!(counted(&run(spec, &batch)), (200, 0, 100), "{}", spec.name);
        batch.mark(Event::Unmap(range(0, 100)));
        assert_eq!(counted(&run(spec, &batch)).2, 0, "{}", spec.name);
    }
}

/// What the system does to the entries of shared pages does not make them writable: `mprotect`, `mremap`, populating.
#[test]
fn shared_pages_are_copied_whatever_was_done_to_their_entries() {
    for spec in every_table() {
        let mut batch = forked(64);
        batch.mark(Event::Protect(range(0, 64), Protection { write: false, ..Protection::READ_WRITE }));
        loads(&mut batch, 0..64);
        batch.mark(Event::Protect(range(0, 64), Protection::READ_WRITE));
        stores(&mut batch, 0..64);
        assert_eq!(counted(&run(&spec, &batch)), (128, 64, 128), "{}: mprotect", spec.name);

        let mut batch = forked(64);
        batch.mark(Event::Remap { from: range(0, 64), to: range(1 << 20, 64) });
        stores(&mut batch, 1 << 20..(1 << 20) + 64);
        let copies = if spec.name == "mosaic-8" { 0 } else { 64 };
        assert_eq!(counted(&run(&spec, &batch)), (128, copies, 128), "{}: mremap", spec.name);

        let mut batch = forked(64);
        batch.mark(Event::Advise(range(0, 64), Advice::PopulateRead));
        assert_eq!(counted(&run(&spec, &batch)), (64, 0, 64), "{}: a read", spec.name);
        batch.mark(Event::Advise(range(0, 64), Advice::PopulateWrite));
        stores(&mut batch, 0..64);
        assert_eq!(counted(&run(&spec, &batch)), (128, 64, 128), "{}: a write", spec.name);
    }
}

#[test]
fn a_child_gets_what_the_advice_leaves_it() {
    let mut batch = Batch::new();
    map(&mut batch, BASE, 64 * PAGE);
    stores(&mut batch, 0..64);
    batch.mark(Event::Advise(range(0, 16), Advice::DontFork));
    batch.mark(Event::Advise(range(16, 16), Advice::WipeOnFork));
    batch.mark(Event::Fork { child: ProcessId(1) });
    batch.mark(Event::Process(ProcessId(1)));
    loads(&mut batch, 16..64);
    let result = run(&spec("x86-64"), &batch);
    assert_eq!(counted(&result), (64 + 16, 0, 64 + 16));
    assert_eq!(value(&result, "fault", "unannounced-pages"), 0);
    loads(&mut batch, 0..16);
    assert_eq!(value(&run(&spec("x86-64"), &batch), "fault", "unannounced-pages"), 16);
}

/// Of a huge page that is shared, a store copies 4 KiB; of an explicit one all of it.
#[test]
fn shared_huge_pages_split_unless_they_are_explicit() {
    let forked = |mapping: Mapping| {
        let mut batch = Batch::new();
        batch.mark(Event::Map(mapping));
        stores(&mut batch, 0..1_024);
        batch.mark(Event::Fork { child: ProcessId(1) });
        batch.mark(Event::Process(ProcessId(1)));
        loads(&mut batch, 0..1_024);
        stores(&mut batch, [3, 5]);
        batch
    };
    for name in ["x86-64-thp", "ecpt-thp", "me-hpt-thp"] {
        let result = run(&spec(name), &forked(Mapping::anonymous(range(0, 1_024))));
        assert_eq!(counted(&result), (2, 2, 1_026), "{name}");
        assert_eq!(value(&result, "fault", "minor.2MiB"), 2, "{name}");
        assert_eq!(value(&result, "kernel", "huge-page-splits"), 2, "{name}: the parent's and the child's");
        let explicit = Mapping { huge: Some(PageSize::Size2M), ..Mapping::anonymous(range(0, 1_024)) };
        let result = run(&spec(name), &forked(explicit));
        assert_eq!(counted(&result), (0, 1, 1_536), "{name}");
        assert_eq!(value(&result, "fault", "minor.2MiB"), 3, "{name}");
    }
}

/// Advice about a part of a huge page cuts its mapping and not the page: a fork must not share it once for each part.
#[test]
fn a_huge_page_of_two_mappings_is_shared_once() {
    let mut batch = Batch::new();
    map(&mut batch, BASE, 2 << 20);
    stores(&mut batch, [0]);
    batch.mark(Event::Advise(range(100, 100), Advice::NoHugePage));
    batch.mark(Event::Fork { child: ProcessId(1) });
    batch.mark(Event::Process(ProcessId(1)));
    loads(&mut batch, 0..512);
    stores(&mut batch, [150]);
    let result = run(&spec("x86-64-thp"), &batch);
    assert_eq!(counted(&result), (1, 1, 513));
    assert_eq!(value(&result, "kernel", "huge-page-splits"), 1);
}

/// Shared pages leave memory once, for all that have them, and are written once; each process that wants them again reads
/// them. A page that was written to since then has a copy of its own.
#[test]
fn shared_pages_leave_together() {
    const N: u64 = 500;
    for spec in every_small() {
        let came_back = |result: &RunResult| match spec.paging.accelerator {
            Some(_) => value(result, "accelerator", "fetches"),
            None => value(result, "fault", "major") + value(result, "fault", "swap-cache"),
        };
        let mut batch = Batch::new();
        map(&mut batch, BASE, 10_000 * PAGE);
        stores(&mut batch, 0..N);
        batch.mark(Event::Fork { child: ProcessId(1) });
        // Clean pages that push all others out, where neighbours in frames do not matter.
        (0..3).for_each(|round| loads(&mut batch, 1_000 + 2_500 * round..3_500 + 2_500 * round));
        let gone = run(&spec, &batch);
        let out = value(&gone, "swap", "pages-out");
        assert!(out <= N && out > N * 9 / 10, "{}: {out}", spec.name);
        loads(&mut batch, 0..N);
        batch.mark(Event::Process(ProcessId(1)));
        loads(&mut batch, 0..N);
        let back = run(&spec, &batch);
        assert_eq!(came_back(&back), 2 * out, "{}", spec.name);
        assert_eq!(value(&back, "kernel", "copies-on-write"), 0, "{}", spec.name);
        // Each has frames of its own now: no more than a fault is needed to write, and what is written has its own copy.
        stores(&mut batch, 0..N);
        (0..3).for_each(|round| loads(&mut batch, 1_000 + 2_500 * round..3_500 + 2_500 * round));
        loads(&mut batch, 0..N);
        let after = run(&spec, &batch);
        let written = value(&after, "swap", "pages-out");
        assert!(written > out + N * 8 / 10 && written <= 2 * N + out, "{}: {written}", spec.name);
    }
}

/// A fork in the middle of everything: every stream has one, and each frame has the pages that the reverse map names.
#[test]
fn frames_add_up_whatever_children_do() {
    for (number, spec) in every_table().into_iter().enumerate() {
        let mut all = Batch::new();
        for batch in eventful(900 + number as u64, 5) {
            let at = all.accesses.len() as u32;
            all.accesses.extend(batch.accesses);
            all.marks.extend(
                batch.marks.into_iter().map(|mark| pagewalk_trace::Mark { at: at + mark.at, ..mark }),
            );
        }
        let result = run(&spec, &all);
        assert!(value(&result, "kernel", "copies-on-write") > 100, "{}", spec.name);
    }
}
