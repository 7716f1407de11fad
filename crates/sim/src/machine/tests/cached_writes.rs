//! What the kernel writes on a machine whose caches hear of it.

use super::advice::{every_small, every_table, range};
use super::*;
use crate::machine::{Detail, build};

const PAGE: u64 = 4096;
const LINES: u64 = PAGE / 64;

/// A machine whose kernel takes no time but for what memory takes to hand over lines, each so long.
fn machine(line_ps: u64) -> MachineSpec {
    changed(spec("x86-64"), |spec| {
        let kernel = &mut spec.kernel;
        (kernel.minor_fault_ps, kernel.zero_page_ps, kernel.zero_huge_page_ps) = (0, 0, 0);
        kernel.writes_are_cached = true;
        spec.hierarchy.memory.line_ps = Some(line_ps);
    })
}

fn run(spec: &MachineSpec, batch: &Batch) -> RunResult {
    let mut machine = build(spec, Detail::Timed, 1, &announced()).unwrap_or_else(|error| panic!("{error}"));
    machine.batch(batch).unwrap_or_else(|error| panic!("{error}"));
    machine.finish("writes")
}

/// Touches so many pages of new memory, and then loads each of their lines.
fn touch(pages: u64, then_loads: bool) -> Batch {
    let mut batch = Batch::new();
    batch.mark(Event::Map(Mapping::anonymous(range(0, pages))));
    for page in 0..pages {
        batch.push(Access::store(VirtAddr(BASE + page * PAGE), 8));
        if then_loads {
            (0..LINES).for_each(|line| batch.push(Access::load(VirtAddr(BASE + page * PAGE + line * 64), 8)));
        }
    }
    batch
}

/// A memory that hands over a line in so long hands over a page in 64 times as long, whatever its latency is.
#[test]
fn zeroing_waits_for_memory_and_leaves_the_page_in_the_caches() {
    const PAGES: u64 = 100;
    for (line_ps, latency_ps) in [(2_000, 50_000), (8_000, 50_000), (8_000, 100_000)] {
        let spec = changed(machine(line_ps), |spec| spec.hierarchy.memory.latency_ps = latency_ps);
        let result = run(&spec, &touch(PAGES, true));
        let cached = |result: &RunResult| value(result, "time", "fault") - value(result, "table", "upkeep");
        let (waited, lines) = (cached(&result), PAGES * LINES * line_ps);
        // Memory counts by eight lines.
        assert!(waited.abs_diff(lines) < lines / 7, "{waited} ps, and {lines} of all lines");
        assert_eq!(value(&result, "memory", "kernel-reads"), PAGES * LINES);
        assert_eq!(
            (value(&result, "memory", "data-reads"), value(&result, "cache.l1", "data-misses")),
            (0, 0)
        );
        // What takes longer on the core hides the wait.
        let page_ps = 2 * LINES * line_ps;
        let long = changed(spec, |spec| spec.kernel.zero_page_ps = page_ps);
        assert_eq!(cached(&run(&long, &touch(PAGES, true))), PAGES * page_ps);
    }
}

/// Frames that have been used lately are in the caches still.
#[test]
fn a_frame_that_was_freed_a_moment_ago_is_zeroed_in_the_caches() {
    let mut batch = touch(1, false);
    batch.mark(Event::Unmap(range(0, 1)));
    let once = batch.accesses.len();
    batch.mark(Event::Map(Mapping::anonymous(range(0, 1))));
    batch.push(Access::store(VirtAddr(BASE), 8));
    assert_eq!(batch.accesses.len(), once + 1);
    assert_eq!(value(&run(&machine(1_000), &batch), "memory", "kernel-reads"), LINES);
}

/// What a call writes is in the caches afterwards, of each table and with frames of every kind.
#[test]
fn the_program_finds_what_a_call_wrote_in_its_caches() {
    const PAGES: u64 = 5;
    for spec in every_table().into_iter().chain(every_small()) {
        let name = spec.name.clone();
        let spec = changed(spec, |spec| spec.kernel.writes_are_cached = true);
        let mut batch = Batch::new();
        batch.mark(Event::Map(Mapping::anonymous(range(0, PAGES))));
        let written = VirtRange::sized(VirtAddr(BASE + 1_000), 3 * PAGE);
        // Once for the pages, and once more for what is copied alone.
        batch.mark(Event::KernelWrite(written));
        let zeroed = run(&spec, &batch);
        batch.mark(Event::KernelWrite(written));
        (written.start.0..written.end.0).step_by(64).for_each(|at| batch.push(Access::load(VirtAddr(at), 8)));
        let result = run(&spec, &batch);
        assert_eq!(value(&result, "memory", "data-reads"), 0, "{name}");
        assert_eq!(value(&result, "memory", "kernel-reads"), 4 * LINES, "{name}");
        let copying = value(&result, "time", "fault") - value(&zeroed, "time", "fault");
        assert_eq!(copying, copied_ps(&spec, &written), "{name}");
    }
}

/// Page by page, as the kernel copies.
fn copied_ps(spec: &MachineSpec, written: &VirtRange) -> u64 {
    let pages = (written.start.0 / PAGE..written.end.0.div_ceil(PAGE)).map(|page| page * PAGE);
    let bytes = pages.map(|page| (page + PAGE).min(written.end.0) - page.max(written.start.0));
    bytes.map(|bytes| spec.kernel.zero_page_ps * bytes / PAGE).sum()
}
