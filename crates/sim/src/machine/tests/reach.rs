//! Machines with fewer addresses than a program: three levels, and programs that are relocated.

use super::*;
use crate::machine::{Detail, build};

/// The reference machine with the table of Sv39.
fn sv39() -> MachineSpec {
    let text =
        "name = \"sv39\"\nextends = \"x86-64\"\n[table.radix]\nlevels = 3\n[walk-cache]\nentries = [4, 32]\n";
    spec::parse(text, "sv39.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn run(spec: &MachineSpec, stream: &[Batch]) -> Result<RunResult, MachineError> {
    let mut machine = build(spec, Detail::Counts, 1, &announced())?;
    stream.iter().try_for_each(|batch| machine.batch(batch))?;
    Ok(machine.finish("reach"))
}

fn without_walk_cache(spec: MachineSpec) -> MachineSpec {
    changed(spec, |spec| spec.translation.walk_cache = None)
}

#[test]
fn a_walk_of_three_levels_makes_three_references() {
    const PAGES: u64 = 5_000;
    let mut batch = Batch::new();
    map(&mut batch, BASE, PAGES * 4096);
    (0..PAGES).for_each(|page| batch.push(Access::store(VirtAddr(BASE + page * 4096), 8)));
    for (spec, levels) in [(sv39(), 3), (spec("x86-64"), 4), (spec("x86-64-la57"), 5)] {
        let result = run(&without_walk_cache(spec), std::slice::from_ref(&batch)).unwrap();
        // A fault's walk ends where a table is missing: the first one at the root, one of each new leaf table above it.
        let leaf_tables = PAGES.div_ceil(512);
        let short = levels - 1 + (leaf_tables - 1);
        assert_eq!(value(&result, "walk", "walks"), 2 * PAGES);
        assert_eq!(value(&result, "walk", "references"), 2 * PAGES * levels - short, "{levels} levels");
        assert_eq!(value(&result, "table", "bytes"), (leaf_tables + levels - 1) * 4096);
    }
}

/// The heap, the mappings and the stack of a program, two processes, and every change of an address space.
#[test]
fn a_relocated_program_counts_what_it_counts_where_it_was() {
    let mut stream = eventful(11, 8);
    let mut far = Batch::new();
    for start in [0x40_0000, 0x7fff_f7c0_0000 - (3 << 30), 0x7fff_fffd_e000] {
        map(&mut far, start, 1 << 20);
        (0..256).for_each(|page| far.push(Access::store(VirtAddr(start + page * 4096), 8)));
    }
    stream.push(far);
    let four = run(&without_walk_cache(spec("x86-64")), &stream).unwrap();
    let three = run(&without_walk_cache(sv39()), &stream).unwrap();
    let walks = value(&four, "walk", "walks");
    for (stage, metric) in [
        ("program", "accesses"),
        ("tlb.l1", "misses"),
        ("tlb.l2", "misses"),
        ("fault", "minor.4KiB"),
        ("fault", "unannounced-pages"),
        ("kernel", "shootdowns"),
        ("kernel", "dropped-pages"),
        ("frames", "resident"),
        ("walk", "references.level0"),
        ("walk", "references.level1"),
    ] {
        assert_eq!(value(&three, stage, metric), value(&four, stage, metric), "{stage} {metric}");
    }
    assert_eq!(value(&three, "walk", "references.level2"), walks, "the root");
    assert_eq!(value(&four, "walk", "references.level3"), walks, "the root");
}

#[test]
fn what_falls_on_the_same_addresses_is_kept_apart() {
    let mut batch = Batch::new();
    // Both end in the same 38 bits; the third page belongs to the second process only.
    let (low, high) = (0x40_0000, (1 << 38) + 0x40_0000);
    for start in [low, high] {
        map(&mut batch, start, 8192);
        batch.push(Access::store(VirtAddr(start), 8));
    }
    batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(low), 4096)));
    batch.push(Access::load(VirtAddr(high), 8));
    batch.mark(Event::Process(ProcessId(1)));
    map(&mut batch, high, 4096);
    batch.push(Access::store(VirtAddr(high), 8));
    let result = run(&sv39(), &[batch]).unwrap();
    assert_eq!(value(&result, "fault", "minor.4KiB"), 3);
    assert_eq!(value(&result, "kernel", "dropped-pages"), 1);
    assert_eq!(value(&result, "fault", "unannounced-pages"), 0);
}

/// Unmapping, advice and protection say nothing of addresses that have no place, and follow those that have.
#[test]
fn a_range_falls_into_the_parts_that_have_places() {
    const GIB: u64 = 1 << 30;
    let space = sv39().translation.table.program_space().expect("a small space");
    assert_eq!((space.levels, space.bytes), (3, 256 << 30));
    let mut relocation = Relocation::new(space);
    let mut batch = Batch::new();
    // Units 0 and 1 lie together, unit 256 falls on the place of unit 0, and unit 3 has its own.
    for unit in [0, 1, 256, 3] {
        batch.push(Access::load(VirtAddr(unit * GIB + 64), 8));
    }
    batch.mark(Event::Unmap(VirtRange::new(VirtAddr(4096), VirtAddr(257 * GIB))));
    batch.mark(Event::Unmap(VirtRange::new(VirtAddr(300 * GIB), VirtAddr(1 << 47))));
    batch.push(Access::store(VirtAddr(64), 64));
    let relocated = relocation.batch(&batch).unwrap();
    let places: Vec<u64> = relocated.accesses.iter().map(|access| access.addr().0 / GIB).collect();
    assert_eq!(places, [0, 1, 2, 3, 0]);
    assert!(relocated.accesses[4].is_write() && relocated.accesses[4].bytes() == 64);
    let part = |start, end| Event::Unmap(VirtRange::new(VirtAddr(start), VirtAddr(end)));
    let marked: Vec<Event> = relocated.marks.iter().map(|mark| mark.event.clone()).collect();
    assert_eq!(marked, [part(4096, 2 * GIB), part(3 * GIB, 4 * GIB), part(2 * GIB, 3 * GIB)]);
    assert!(relocated.marks.iter().all(|mark| mark.at == 4));
}

#[test]
fn a_program_that_does_not_fit_is_told_the_address_and_the_way_out() {
    let mut large = Batch::new();
    map(&mut large, 1 << 40, 257 << 30);
    let mut many = Batch::new();
    (0..257).for_each(|unit| many.push(Access::load(VirtAddr(unit << 30), 8)));
    for (batch, range) in [(large, "[0x10000000000, 0x14040000000)"), (many, "[0x4000000000, 0x4000000008)")]
    {
        let error = run(&sv39(), &[batch]).unwrap_err().to_string();
        for part in ["`sv39`", range, "3 levels", "256 GiB", "more `levels`"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn threads_that_serve_jobs_need_more_addresses() {
    let text = "name = \"small\"\nextends = \"flash-dram-only\"\n[table.radix]\nlevels = 3\n[walk-cache]\nentries = [4, 32]\n";
    let error = spec::parse(text, "small.toml").unwrap_err().to_string();
    assert!(error.contains("no addresses") && error.contains("small.toml:3"), "{error}");
}
