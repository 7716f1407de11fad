//! Pages of files and of shared memory, which several mappings have in one frame.

use pagewalk_trace::Advice;

use super::advice::{every_small, every_table, loads, range, run, stores};
use super::fork::counted;
use super::*;

const FILE: ObjectId = ObjectId(7);

/// A mapping of a file from a page of it on.
fn file(first: u64, pages: u64, of_file: u64, shared: bool) -> Event {
    Event::Map(Mapping {
        backing: Backing::File,
        shared,
        object: Some(ObjectPages { object: FILE, first: of_file }),
        ..Mapping::anonymous(range(first, pages))
    })
}

fn machines() -> Vec<MachineSpec> {
    every_table().into_iter().chain(every_small()).collect()
}

fn page_cache(result: &RunResult) -> u64 {
    value(result, "fault", "page-cache")
}

/// Ten processes that mapped one library took ten times its memory. A page that one process has is a minor fault for the
/// next, and takes no second frame, wherever it is mapped and whether it is shared or private; the frame stays until the
/// last mapping goes.
#[test]
fn processes_share_the_pages_of_a_file() {
    const N: u64 = 300;
    for spec in machines() {
        for [shared, other_shared] in [[true, true], [false, false], [true, false]] {
            let mut batch = Batch::new();
            batch.mark(file(0, N, 100, shared));
            loads(&mut batch, 0..N);
            batch.mark(Event::Process(ProcessId(1)));
            batch.mark(file(5_000, N + 50, 50, other_shared));
            loads(&mut batch, 5_000..5_000 + N + 50);
            let result = run(&spec, &batch);
            // Pages 50 to 99 of the file are new.
            assert_eq!(counted(&result), (2 * N + 50, 0, N + 50), "{}", spec.name);
            assert_eq!(page_cache(&result), N, "{}", spec.name);
            batch.mark(Event::Process(ProcessId(0)));
            batch.mark(Event::Exec);
            assert_eq!(counted(&run(&spec, &batch)).2, N + 50, "{}: the other has them", spec.name);
            batch.mark(Event::Process(ProcessId(1)));
            batch.mark(Event::Unmap(range(5_000, N)));
            assert_eq!(counted(&run(&spec, &batch)).2, 50, "{}", spec.name);
        }
    }
}

/// A private mapping copies a page of a file at the first store, after which the page is the process's own, and no other process sees it.
#[test]
fn private_mappings_copy_on_the_first_store() {
    const N: u64 = 200;
    const K: u64 = 80;
    for spec in machines() {
        let mut batch = Batch::new();
        batch.mark(file(0, N, 0, false));
        stores(&mut batch, 0..K);
        assert_eq!(counted(&run(&spec, &batch)), (K, 0, K), "{}: a copy at once is one fault", spec.name);
        loads(&mut batch, 0..N);
        let expected = (N, 0, N);
        assert_eq!(counted(&run(&spec, &batch)), expected, "{}", spec.name);
        batch.mark(Event::Process(ProcessId(1)));
        batch.mark(file(0, N, 0, false));
        loads(&mut batch, 0..N);
        let result = run(&spec, &batch);
        assert_eq!((counted(&result), page_cache(&result)), ((2 * N, 0, N + K), N - K), "{}", spec.name);
        stores(&mut batch, 0..N);
        stores(&mut batch, 0..N);
        let result = run(&spec, &batch);
        // The frames of its own K pages have no mapping any more, and those of the others still the first process's.
        assert_eq!(counted(&result), (3 * N, N, 2 * N), "{}", spec.name);
    }
}

/// What is mapped shared before a fork is shared after it: the child finds each page by a minor fault, and its stores are
/// not copies.
#[test]
fn a_child_shares_shared_memory() {
    const N: u64 = 150;
    for spec in machines() {
        let anonymous = Event::Map(Mapping { shared: true, ..Mapping::anonymous(range(0, N)) });
        let unknown =
            Event::Map(Mapping { shared: true, backing: Backing::File, ..Mapping::anonymous(range(0, N)) });
        for mapping in [anonymous, unknown, file(0, N, 0, true)] {
            let mut batch = Batch::new();
            batch.mark(mapping);
            stores(&mut batch, 0..N);
            batch.mark(Event::Fork { child: ProcessId(1) });
            batch.mark(Event::Process(ProcessId(1)));
            stores(&mut batch, 0..N);
            let result = run(&spec, &batch);
            assert_eq!((counted(&result), page_cache(&result)), ((2 * N, 0, N), N), "{}", spec.name);
        }
        // Two mappings of which nothing is known are two pieces of memory.
        let mut batch = Batch::new();
        for first in [0, 1_000] {
            batch.mark(Event::Map(Mapping { shared: true, ..Mapping::anonymous(range(first, N)) }));
            stores(&mut batch, first..first + N);
        }
        assert_eq!(counted(&run(&spec, &batch)), (2 * N, 0, 2 * N), "{}", spec.name);
    }
}

/// `fork` leaves the pages of a file to the child's faults, unless the mapping has copies among them (`vma_needs_copy`).
#[test]
fn a_child_gets_entries_of_private_files_only_with_copies_among_them() {
    for written in [0, 1] {
        let mut batch = Batch::new();
        batch.mark(file(0, 100, 0, false));
        loads(&mut batch, 0..100);
        stores(&mut batch, 0..written);
        batch.mark(Event::Fork { child: ProcessId(1) });
        batch.mark(Event::Process(ProcessId(1)));
        loads(&mut batch, 0..100);
        let faults = if written == 0 { 200 } else { 101 };
        assert_eq!(counted(&run(&spec("x86-64"), &batch)), (faults, written, 100));
    }
}

/// `MADV_REMOVE` punches a hole: no process has the pages any more. `MADV_DONTNEED` is about the caller's mapping only.
#[test]
fn removed_pages_are_gone_for_all() {
    const N: u64 = 40;
    for spec in machines() {
        for (advice, left) in [(Advice::Remove, 0), (Advice::DontNeed, N)] {
            let mut batch = Batch::new();
            batch.mark(file(0, N, 0, true));
            loads(&mut batch, 0..N);
            batch.mark(Event::Process(ProcessId(1)));
            batch.mark(file(500, N, 0, true));
            loads(&mut batch, 500..500 + N);
            batch.mark(Event::Advise(range(500, N), advice));
            assert_eq!(counted(&run(&spec, &batch)).2, left, "{}", spec.name);
            loads(&mut batch, 500..500 + N);
            let result = run(&spec, &batch);
            assert_eq!(counted(&result), (3 * N, 0, N), "{}", spec.name);
            assert_eq!(page_cache(&result), N + left, "{}", spec.name);
        }
    }
}

/// The page cache knows frames by their size: a file that is mapped with huge pages and with small ones has both.
#[test]
fn an_object_in_pages_of_two_sizes_has_frames_of_both() {
    let mut batch = Batch::new();
    let object = Some(ObjectPages { object: FILE, first: 0 });
    let huge =
        Mapping { huge: Some(PageSize::Size2M), shared: true, object, ..Mapping::anonymous(range(0, 512)) };
    batch.mark(Event::Map(huge));
    batch.mark(file(1_024, 512, 0, true));
    stores(&mut batch, 0..2);
    stores(&mut batch, 1_024..1_026);
    batch.mark(Event::Process(ProcessId(1)));
    batch.mark(Event::Map(huge));
    stores(&mut batch, 0..2);
    let result = run(&spec("x86-64"), &batch);
    assert_eq!((counted(&result), page_cache(&result)), ((2, 0, 514), 1));
    assert_eq!(value(&result, "fault", "minor.2MiB"), 2);
}

/// A load's fault for a page of a file brings the aligned block around it, as far as the mapping goes; a store's does not.
#[test]
fn a_load_of_a_file_brings_the_pages_around_it() {
    const N: u64 = 40;
    for spec in machines() {
        let is_small = spec.translation.table.granule() == Granule::Size4K;
        let spec = changed(spec, |spec| spec.kernel.fault_around_bytes = 16 * 4096);
        let mut batch = Batch::new();
        batch.mark(file(20, N, 0, false));
        loads(&mut batch, 20..20 + N);
        // Blocks of 12, 16 and 12 pages.
        let faults = if is_small { 3 } else { N };
        assert_eq!(counted(&run(&spec, &batch)), (faults, 0, N), "{}", spec.name);
        // Another mapping of the same pages finds them, three blocks as well, and a private store takes a copy of one.
        batch.mark(Event::Process(ProcessId(1)));
        batch.mark(file(20, N, 0, false));
        stores(&mut batch, 25..26);
        loads(&mut batch, 20..20 + N);
        stores(&mut batch, 59..60);
        let result = run(&spec, &batch);
        let (stored, loaded) = (2, if is_small { 3 } else { N - 1 });
        assert_eq!(counted(&result), (faults + loaded + stored, 1, N + 2), "{}", spec.name);
        assert_eq!(page_cache(&result), loaded, "{}", spec.name);
        batch.mark(Event::Unmap(range(20, N)));
        batch.mark(Event::Process(ProcessId(0)));
        batch.mark(Event::Unmap(range(20, N)));
        assert_eq!(counted(&run(&spec, &batch)).2, 0, "{}: all frames are free", spec.name);
    }
}

/// Anonymous memory, shared or not, has no pages to bring.
#[test]
fn nothing_lies_around_anonymous_memory() {
    let spec = changed(spec("x86-64"), |spec| spec.kernel.fault_around_bytes = 1 << 16);
    for shared in [false, true] {
        let mut batch = Batch::new();
        batch.mark(Event::Map(Mapping { shared, ..Mapping::anonymous(range(0, 32)) }));
        loads(&mut batch, 0..32);
        assert_eq!(counted(&run(&spec, &batch)), (32, 0, 32));
    }
}
