//! Tests of what a program says of its memory, and of what its pages do then.

use pagewalk_trace::Advice;

use super::paging::{accelerated, check_frames, small};
use super::*;

const PAGE: u64 = 4096;

pub(super) fn range(first: u64, pages: u64) -> VirtRange {
    VirtRange::sized(VirtAddr(BASE + first * PAGE), pages * PAGE)
}

pub(super) fn stores(batch: &mut Batch, pages: impl IntoIterator<Item = u64>) {
    batch.accesses.extend(pages.into_iter().map(|page| Access::store(VirtAddr(BASE + page * PAGE), 8)));
}

pub(super) fn loads(batch: &mut Batch, pages: impl IntoIterator<Item = u64>) {
    batch.accesses.extend(pages.into_iter().map(|page| Access::load(VirtAddr(BASE + page * PAGE), 8)));
}

/// Runs `stream` on the machine, looks whether every frame has one page, and answers what was counted.
pub(super) fn run_on<T: Built>(spec: &MachineSpec, stream: &Batch) -> RunResult {
    let mut machine = counting_of::<T>(spec);
    machine.batch(stream).unwrap_or_else(|error| panic!("{error}"));
    check_frames(&mut machine);
    machine.finish("advice")
}

/// The same for whatever page table the machine has.
pub(super) fn run(spec: &MachineSpec, stream: &Batch) -> RunResult {
    (Checks::on(spec).advice)(spec, stream)
}

/// Machines of 4 KiB pages with every page table and every allocator, without a policy.
pub(super) fn every_table() -> Vec<MachineSpec> {
    let names =
        ["x86-64", "x86-64-la57", "mosaic-8", "ecpt", "me-hpt", "hashed-open-addressing", "hashed-chained"];
    let frames = BuddySpec { memory_bytes: 256 << 20, fragmentation: 100, ..BuddySpec::default() }.into();
    let fragmented = changed(spec("me-hpt"), |spec| {
        (spec.name, spec.paging.frames) = ("fragmented".into(), frames);
    });
    names.iter().map(|name| spec(name)).chain([fragmented]).collect()
}

/// Machines of which pages leave, with 2048 frames for them.
pub(super) fn every_small() -> Vec<MachineSpec> {
    let names = ["linux-swap", "lru-swap", "mosaic-swap"];
    names.iter().map(|name| small(name)).chain([accelerated(small("linux-swap"))]).collect()
}

/// A program that frees lazily and writes again (jemalloc's and Go's heaps do) was said to fault on every page once more:
/// 16,464 faults, where Linux had 4,385.
#[test]
fn lazily_freed_pages_stay_until_there_is_need() {
    const PAGES: u64 = 500;
    for spec in every_table().iter().chain(&every_small()) {
        let mut batch = Batch::new();
        map(&mut batch, BASE, PAGES * PAGE);
        stores(&mut batch, 0..PAGES);
        for _ in 0..3 {
            batch.mark(Event::Advise(range(0, PAGES), Advice::Free));
            stores(&mut batch, 0..PAGES);
        }
        let result = run(spec, &batch);
        assert_eq!(value(&result, "fault", "minor.4KiB"), PAGES, "{}", spec.name);
        assert_eq!(value(&result, "kernel", "dropped-pages"), 0, "{}", spec.name);
        // Clean after each, and dirty again by the stores behind it.
        assert_eq!(value(&result, "walk", "dirty-updates"), 3 * PAGES, "{}", spec.name);
    }
}

/// Memory of 2048 pages, 3000 of which are used in turn: what was freed lazily leaves without being written, and reads as
/// zeroes afterwards; what was written to since is as any other page.
#[test]
fn lazily_freed_pages_leave_without_a_copy() {
    const FREED: u64 = 1_000;
    for spec in every_small() {
        let run_with = |rewritten: u64| {
            let mut batch = Batch::new();
            map(&mut batch, BASE, 8_000 * PAGE);
            stores(&mut batch, 0..FREED);
            batch.mark(Event::Advise(range(0, FREED), Advice::Free));
            stores(&mut batch, 0..rewritten);
            loads(&mut batch, 2_000..6_000);
            loads(&mut batch, 0..FREED);
            run(&spec, &batch)
        };
        let came_back = |result: &RunResult| match spec.paging.accelerator {
            Some(_) => value(result, "accelerator", "fetches"),
            None => value(result, "fault", "major") + value(result, "fault", "swap-cache"),
        };
        let none = run_with(0);
        assert_eq!((value(&none, "swap", "pages-out"), came_back(&none)), (0, 0), "{}", spec.name);
        assert!(value(&none, "fault", "minor.4KiB") > 4_000 + FREED + 900, "{}: they left", spec.name);
        let some = run_with(300);
        let (out, back) = (value(&some, "swap", "pages-out"), came_back(&some));
        assert!((1..=300).contains(&out) && back == out, "{}: {out} out, {back} back", spec.name);
    }
}

/// `MAP_POPULATE` of 65 MiB was 0.3 MiB resident.
#[test]
fn populated_pages_are_resident_without_a_touch() {
    const PAGES: u64 = 700;
    for spec in every_table().iter().chain(&every_small()) {
        for advice in [Advice::Populate, Advice::PopulateRead, Advice::PopulateWrite, Advice::Lock] {
            let mut batch = Batch::new();
            map(&mut batch, BASE, 2 * PAGES * PAGE);
            stores(&mut batch, 10..20);
            batch.mark(Event::Advise(range(0, PAGES), advice));
            let result = run(spec, &batch);
            assert_eq!(value(&result, "frames", "resident"), PAGES * PAGE, "{} {advice:?}", spec.name);
            assert_eq!(value(&result, "fault", "minor.4KiB"), PAGES, "{} {advice:?}", spec.name);
            stores(&mut batch, 0..PAGES);
            let result = run(spec, &batch);
            assert_eq!(value(&result, "fault", "minor.4KiB"), PAGES, "{} {advice:?}", spec.name);
        }
        let mut batch = Batch::new();
        map(&mut batch, BASE, PAGES * PAGE);
        batch.mark(Event::Advise(range(0, PAGES), Advice::LockOnFault));
        let result = run(spec, &batch);
        assert_eq!(value(&result, "frames", "resident"), 0, "{}: locked on fault", spec.name);
    }
}

/// Populating takes huge pages where a touch would, and makes nothing resident that the mapping does not allow.
#[test]
fn populating_does_what_a_touch_would() {
    let mut batch = Batch::new();
    map(&mut batch, BASE, 4 << 20);
    batch.mark(Event::Protect(range(512, 512), Protection { read: false, write: false, execute: false }));
    batch.mark(Event::Advise(range(0, 1024), Advice::Populate));
    let result = run(&spec("x86-64-thp"), &batch);
    let faults = (value(&result, "fault", "minor.2MiB"), value(&result, "fault", "minor.4KiB"));
    assert_eq!((faults, value(&result, "fault", "protection")), ((1, 0), 0));
    let mut batch = Batch::new();
    batch.mark(Event::Map(Mapping {
        protection: Protection { read: true, write: false, execute: false },
        ..Mapping::anonymous(range(0, 8))
    }));
    batch.mark(Event::Advise(range(0, 8), Advice::PopulateWrite));
    assert_eq!(value(&run(&spec("x86-64"), &batch), "frames", "resident"), 0);
    batch.mark(Event::Advise(range(0, 8), Advice::Populate));
    assert_eq!(value(&run(&spec("x86-64"), &batch), "frames", "resident"), 8 * PAGE);
}

/// Locked pages stay while others leave; unlocked ones leave again. Pages whose frames are placed by hash do leave.
#[test]
fn locked_pages_do_not_leave() {
    const LOCKED: u64 = 800;
    for spec in [small("linux-swap"), small("lru-swap")] {
        for advice in [Advice::Lock, Advice::LockOnFault] {
            let mut batch = Batch::new();
            map(&mut batch, BASE, 10_000 * PAGE);
            batch.mark(Event::Advise(range(0, LOCKED), advice));
            stores(&mut batch, 0..LOCKED);
            (0..3).for_each(|_| stores(&mut batch, 1_000..4_000));
            loads(&mut batch, 0..LOCKED);
            let before = run(&spec, &batch);
            let came = value(&before, "fault", "major") + value(&before, "fault", "swap-cache");
            assert_eq!(value(&before, "fault", "minor.4KiB"), LOCKED + 3_000, "{} {advice:?}", spec.name);
            assert_eq!(came, 6_000, "{} {advice:?}: the others take turns", spec.name);
            batch.mark(Event::Advise(range(0, LOCKED), Advice::Unlock));
            (0..3).for_each(|_| stores(&mut batch, 1_000..4_000));
            loads(&mut batch, 0..LOCKED);
            let after = run(&spec, &batch);
            let came_after = value(&after, "fault", "major") + value(&after, "fault", "swap-cache");
            assert_eq!(came_after - came, 9_000 + LOCKED, "{} {advice:?}", spec.name);
        }
    }
}

/// What the program sends away leaves, and what it asks for again is there before it is touched.
#[test]
fn pages_leave_and_come_back_on_request() {
    const PAGES: u64 = 600;
    for spec in [small("linux-swap"), small("lru-swap"), small("mosaic-swap")] {
        let mut batch = Batch::new();
        map(&mut batch, BASE, 2_000 * PAGE);
        stores(&mut batch, 0..PAGES);
        batch.mark(Event::Advise(range(0, PAGES), Advice::PageOut));
        let out = run(&spec, &batch);
        assert_eq!(value(&out, "frames", "resident"), 0, "{}", spec.name);
        assert_eq!(value(&out, "swap", "pages-out"), PAGES, "{}", spec.name);
        batch.mark(Event::Advise(range(0, PAGES), Advice::WillNeed));
        loads(&mut batch, 0..PAGES);
        let back = run(&spec, &batch);
        assert_eq!(value(&back, "swap", "pages-in"), PAGES, "{}", spec.name);
        assert_eq!(value(&back, "fault", "major"), 0, "{}: nothing waits for the device", spec.name);
        assert_eq!(value(&back, "fault", "swap-cache"), PAGES, "{}", spec.name);
    }
    // Without a device nothing leaves.
    let mut batch = Batch::new();
    map(&mut batch, BASE, PAGES * PAGE);
    stores(&mut batch, 0..PAGES);
    batch.mark(Event::Advise(range(0, PAGES), Advice::PageOut));
    assert_eq!(value(&run(&spec("x86-64"), &batch), "frames", "resident"), PAGES * PAGE);
}

/// Of pages that are used in turn, cold ones leave first, however lately they were used.
#[test]
fn cold_pages_leave_first() {
    for spec in [small("linux-swap"), small("lru-swap")] {
        let mut batch = Batch::new();
        map(&mut batch, BASE, 10_000 * PAGE);
        stores(&mut batch, 0..2_000);
        batch.mark(Event::Advise(range(1_800, 200), Advice::Cold));
        stores(&mut batch, 5_000..5_200);
        loads(&mut batch, 0..1_800);
        let result = run(&spec, &batch);
        assert_eq!(
            value(&result, "fault", "major") + value(&result, "fault", "swap-cache"),
            0,
            "{}",
            spec.name
        );
        assert!(value(&result, "reclaim", "evictions") >= 152, "{}", spec.name);
    }
}

/// A slot of small pages becomes a huge one when the program asks for it, wherever the table has huge pages.
#[test]
fn collapsing_makes_huge_pages_of_small_ones() {
    for name in ["x86-64", "ecpt", "me-hpt", "mosaic-8"] {
        let spec = spec(name);
        let mut batch = Batch::new();
        map(&mut batch, BASE, 8 << 20);
        stores(&mut batch, 0..512);
        stores(&mut batch, [600]);
        batch.mark(Event::Advise(range(0, 2048), Advice::Collapse));
        let collapsed = value(&run(&spec, &batch), "kernel", "huge-page-collapses");
        let expected = if name == "mosaic-8" { 0 } else { 2 };
        assert_eq!(collapsed, expected, "{name}: a slot without a page stays empty");
        loads(&mut batch, 0..1_024);
        stores(&mut batch, 0..1_024);
        let result = run(&spec, &batch);
        assert_eq!(value(&result, "frames", "resident-huge"), expected * (2 << 20), "{name}");
        let faults = value(&result, "fault", "minor.4KiB") + value(&result, "fault", "minor.2MiB");
        assert_eq!(faults, if expected > 0 { 513 } else { 1_024 }, "{name}");
    }
}
