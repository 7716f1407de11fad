//! What system calls write into a program's memory: it faults as the program's own stores do.

use super::advice::{every_small, every_table, loads, range, run, stores};
use super::fork::counted;
use super::*;

/// The kernel writes to whole pages.
fn writes(first: u64, pages: u64) -> Event {
    Event::KernelWrite(range(first, pages))
}

/// `sort` reads its input into memory that nothing has touched: these pages counted as loaded first, and faulted twice.
#[test]
fn a_page_that_a_call_writes_first_faults_once() {
    const N: u64 = 300;
    for spec in every_table().into_iter().chain(every_small()) {
        let spec = changed(spec, |spec| spec.kernel.first_stores_fault = true);
        let mut batch = Batch::new();
        batch.mark(Event::Map(Mapping::anonymous(range(0, 2 * N))));
        batch.mark(writes(0, N));
        batch.mark(writes(0, N));
        assert_eq!(counted(&run(&spec, &batch)), (N, 0, N), "{}: written", spec.name);
        loads(&mut batch, 0..N);
        stores(&mut batch, 0..N);
        assert_eq!(counted(&run(&spec, &batch)), (N, 0, N), "{}: used", spec.name);
        // A page that was loaded from shows zeroes; the call's store faults again.
        loads(&mut batch, N..2 * N);
        batch.mark(writes(N, N));
        stores(&mut batch, N..2 * N);
        assert_eq!(counted(&run(&spec, &batch)), (3 * N, 0, 2 * N), "{}: loaded before", spec.name);
    }
}

/// A part of a page is the page; pages beside it are left alone.
#[test]
fn a_few_bytes_touch_their_pages_alone() {
    let spec = spec("x86-64");
    for (start, bytes, pages) in [(5, 1, 1), (0, 4096, 1), (4095, 2, 2), (4096, 0, 0), (100, 10_000, 3)] {
        let mut batch = Batch::new();
        batch.mark(Event::Map(Mapping::anonymous(range(0, 16))));
        batch.mark(Event::KernelWrite(VirtRange::sized(VirtAddr(BASE + start), bytes)));
        assert_eq!(counted(&run(&spec, &batch)).0, pages, "{bytes} bytes from {start}");
    }
}

/// A call ends with an error where it may not write, and what it wrote before stays.
#[test]
fn a_call_writes_as_far_as_it_may() {
    let spec = spec("x86-64");
    for (protection, mapped) in
        [(Some(Protection { write: false, ..Protection::READ_WRITE }), 20), (None, 20)]
    {
        let mut batch = Batch::new();
        batch.mark(Event::Map(Mapping::anonymous(range(0, 40))));
        match protection {
            Some(protection) => batch.mark(Event::Protect(range(mapped, 10), protection)),
            None => batch.mark(Event::Unmap(range(mapped, 10))),
        }
        batch.mark(writes(0, 40));
        let result = run(&spec, &batch);
        assert_eq!(counted(&result), (mapped, 0, mapped));
        assert_eq!(value(&result, "fault", "unannounced-pages"), 0);
    }
    // Beside all mappings, and beyond all addresses.
    let mut batch = Batch::new();
    batch.mark(Event::Map(Mapping::anonymous(range(0, 40))));
    batch.mark(Event::KernelWrite(VirtRange::new(VirtAddr(0), VirtAddr(u64::MAX))));
    batch.mark(Event::KernelWrite(VirtRange::new(VirtAddr(u64::MAX), VirtAddr(u64::MAX))));
    assert_eq!(counted(&run(&spec, &batch)), (0, 0, 0));
}

/// A child's `read` into memory that it has of its parent copies the pages.
#[test]
fn a_call_of_a_child_copies_what_it_writes() {
    const N: u64 = 100;
    for spec in every_table().iter().chain(&every_small()) {
        let mut batch = Batch::new();
        batch.mark(Event::Map(Mapping::anonymous(range(0, N))));
        stores(&mut batch, 0..N);
        batch.mark(Event::Fork { child: ProcessId(1) });
        batch.mark(Event::Process(ProcessId(1)));
        batch.mark(writes(10, 30));
        assert_eq!(counted(&run(spec, &batch)), (N + 30, 30, N + 30), "{}", spec.name);
        stores(&mut batch, 10..40);
        assert_eq!(counted(&run(spec, &batch)), (N + 30, 30, N + 30), "{}: stored to", spec.name);
    }
}
