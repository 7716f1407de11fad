//! Every way in which pages come back, with every kind of table, TLB, allocator and policy.

use pagewalk_vm::addr::PAGE_BYTES;

use super::paging::{accelerated, check_frames, small};
use super::*;
use crate::spec::settings::{
    AcceleratorDaemonSpec, AcceleratorSpec, HorizonLruSpec, IcebergLruSpec, MemoryCopySpec, ReclaimKind,
    SwapKind, TranslationSpec,
};

/// The pages of the program: three times those of the memory.
const PAGES: u64 = 3 * 2_048;

/// A program that stores to each page before all else, so that no page may ever be new again, and changes its address
/// space on the way.
fn stream() -> Vec<Batch> {
    let mut random = Random(31);
    let page = |number: u64| BASE + number * PAGE_BYTES;
    let mut batches = Vec::new();
    let mut first = Batch::new();
    map(&mut first, BASE, PAGES * PAGE_BYTES);
    (0..PAGES).for_each(|number| first.push(Access::store(VirtAddr(page(number)), 8)));
    batches.push(first);
    for number in 0..6 {
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(20_000));
        let begin = random.below(PAGES - 200);
        let range = VirtRange::sized(VirtAddr(page(begin)), 64 * PAGE_BYTES);
        match number {
            1 => batch.mark(Event::Protect(range, Protection { write: false, ..Protection::READ_WRITE })),
            2 => {
                let to = VirtRange::sized(VirtAddr(BASE + (1 << 34)), range.bytes());
                batch.mark(Event::Remap { from: range, to });
                // Back again, so that the program finds all pages where they were.
                batch.mark(Event::Remap { from: to, to: range });
            }
            _ => {}
        }
        for reference in 0..1_000 {
            // In the end, two threads run beside each other.
            if number >= 3 && reference % 100 == 0 {
                batch.mark(Event::Thread(ThreadId(1 + reference / 100 % 2)));
            }
            let at = random.below(PAGES);
            for offset in 0..random.below(6) {
                let addr = VirtAddr(page((at + offset) % PAGES) + 64 * offset);
                batch.push(Access::new(addr, 8, random.below(4) == 0));
            }
        }
        batches.push(batch);
    }
    batches
}

type Change = Box<dyn Fn(MachineSpec) -> MachineSpec>;

/// What brings pages back, by name.
fn paths() -> Vec<(&'static str, Change)> {
    let blade = || spec("rocket-swap").paging.swap;
    let daemon = AcceleratorDaemonSpec {
        first_ps: 200_000_000,
        longer_ps: 1_000_000,
        shorter_ps: 20_000_000,
        least_ps: 50_000_000,
        most_ps: 1_000_000_000_000,
        slack_ps: 0,
    };
    let with = move |queues: [u32; 3], waits: bool, daemon: Option<AcceleratorDaemonSpec>| {
        move |spec: MachineSpec| {
            let spec = accelerated(changed(spec, |spec| spec.paging.swap = blade()));
            let accelerator = spec.paging.accelerator.clone().map(|of| AcceleratorSpec {
                queues,
                waits_for_evictions: waits,
                daemon: daemon.clone(),
                ..of
            });
            changed(spec, |spec| spec.paging.accelerator = accelerator)
        }
    };
    let memory = SwapKind::from(MemoryCopySpec { out_ps: 250_000, in_ps: 250_000 });
    vec![
        ("disk", Box::new(|spec| spec)),
        ("disk, read ahead", Box::new(|spec| changed(spec, |spec| spec.paging.swap.readahead = 8))),
        ("memory", Box::new(move |spec| changed(spec, |spec| spec.paging.swap.kind = memory.clone()))),
        ("blade", Box::new(move |spec| changed(spec, |spec| spec.paging.swap = blade()))),
        ("accelerator", Box::new(with([64, 64, 1], true, None))),
        ("accelerator, short queues", Box::new(with([1, 3, 2], false, None))),
        ("accelerator, daemon", Box::new(with([64, 64, 64], false, Some(daemon)))),
    ]
}

/// Tables and TLBs, policies and allocators, as shipped machines have them.
fn memories() -> Vec<MachineSpec> {
    let with_table = |base: &str, table: &str| {
        let TranslationSpec { table, walk_cache, .. } = spec(table).translation;
        changed(small(base), |spec| {
            spec.name = format!("{base} with another table");
            (spec.translation.table, spec.translation.walk_cache) = (table, walk_cache);
        })
    };
    let placed =
        |name: &str, reclaim: ReclaimKind| changed(small(name), |spec| spec.paging.reclaim = Some(reclaim));
    let background = changed(small("linux-swap"), |spec| spec.paging.background_percent = 50);
    let mosaic_tlbs =
        changed(small("linux-swap"), |of| of.translation.tlb = spec("mosaic-8").translation.tlb);
    vec![
        small("linux-swap"),
        background,
        mosaic_tlbs,
        small("lru-swap"),
        with_table("linux-swap", "x86-64-la57"),
        with_table("linux-swap", "ecpt"),
        with_table("lru-swap", "me-hpt"),
        with_table("linux-swap", "hashed-open-addressing"),
        with_table("linux-swap", "hashed-chained"),
        small("mosaic-swap"),
        placed("mosaic-swap", HorizonLruSpec { scan_interval: Some(5_000) }.into()),
        placed("mosaic-swap", IcebergLruSpec { live_percent: 87, is_strict: false }.into()),
        // Hash-placed frames behind an ordinary table, and behind hashed ones.
        with_table("mosaic-swap", "x86-64"),
        with_table("mosaic-swap", "me-hpt"),
    ]
}

pub(super) fn check<T: Built>(spec: &MachineSpec, stream: &[Batch], name: &str) {
    let mut counted = counting_of::<T>(spec);
    let mut timed: Machine<T, IntervalClock> = machine(spec, 1, &announced()).unwrap();
    for batch in stream {
        counted.batch(batch).unwrap_or_else(|error| panic!("{name}: {error}"));
        timed.batch(batch).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    check_frames(&mut counted);
    check_frames(&mut timed);
    for result in [counted.finish("s"), timed.finish("s")] {
        let value = |stage, metric| value(&result, stage, metric);
        assert_eq!(value("fault", "minor.4KiB"), PAGES, "{name}: every page is new once");
        let (out, clean) = (value("swap", "pages-out"), value("swap", "clean-evictions"));
        assert_eq!(out + clean, value("reclaim", "evictions"), "{name}");
        let software = value("fault", "major") + value("swap", "read-ahead");
        match spec.paging.accelerator {
            None => assert_eq!(value("swap", "pages-in"), software, "{name}"),
            Some(_) => {
                assert_eq!(value("swap", "pages-in"), value("accelerator", "fetches"), "{name}");
                assert_eq!(software + value("fault", "swap-cache"), 0, "{name}: the kernel brings nothing");
                assert_eq!(value("accelerator", "evictions"), out, "{name}");
                assert!(value("accelerator", "service-faults") > 0, "{name}");
            }
        }
        assert!(value("swap", "pages-in") > 2_000, "{name}: {} pages came back", value("swap", "pages-in"));
    }
    let result = timed.finish("s");
    let time = |metric: &str| value(&result, "time", metric);
    let steps: u64 =
        crate::metrics::KernelStep::ALL.iter().map(|step| time(&format!("fault.{}", step.name()))).sum();
    assert_eq!(steps, time("fault"), "{name}: every part of the kernel's time has a name");
    if spec.core.count == 1 {
        let parts = time("compute") + time("walk") + time("memory") + time("fault");
        assert_eq!(parts, time("elapsed"), "{name}");
    }
}

#[test]
fn every_fault_path_goes_with_every_table_allocator_and_policy() {
    let stream = stream();
    for memory in memories() {
        for (path, change) in paths() {
            let spec = change(memory.clone());
            let name = format!("{} ({:?}), {path}", spec.name, spec.paging.reclaim);
            (Checks::on(&spec).fault_path)(&spec, &stream, &name);
        }
    }
}

#[test]
fn several_cores_may_fault_as_often_as_the_accelerator_allows() {
    let stream = stream();
    let elapsed = |fetches: u32| {
        let mut spec =
            accelerated(changed(small("linux-swap"), |of| of.paging.swap = spec("rocket-swap").paging.swap));
        spec.core.count = 2;
        spec.paging.accelerator.as_mut().expect("an accelerator").fetches = fetches;
        check::<Plain>(&spec, &stream, "two cores");
        let mut timed: Machine<Plain, IntervalClock> = machine(&spec, 1, &announced()).unwrap();
        stream.iter().for_each(|batch| timed.batch(batch).unwrap());
        value(&timed.finish("s"), "time", "fault.lock")
    };
    assert!(elapsed(1) > elapsed(2), "one at a time makes the other core wait");
}
