//! Machines against themselves without shortcuts, and against what may never happen.

use pagewalk_trace::{
    Access, Backing, Batch, Event, Mapping, ObjectId, ObjectPages, ProcessId, Protection, SourceInfo,
    ThreadId,
};
use pagewalk_vm::addr::{Granule, PageSize, Pfn, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::frame::Cpfn;
use pagewalk_vm::table::classic::{Classic, OpenAddressing};
use pagewalk_vm::table::hashed::HashedTable;
use pagewalk_vm::table::{Arm16K, Arm64K, Contents, PageTable, Radix, X86_64};

use super::assemble::{Built, machine};
use super::events::Machine;
use super::relocation::Relocation;
use super::turns::cross;
use super::*;
use crate::kernel::{Kernel, State};
use crate::metrics::names::{accelerator, fault, swap};
use crate::metrics::{Boundary, Number, Row, Rows, RunResult};
use crate::spec;
use crate::spec::settings::{BuddySpec, CoreSpec, HugePagePolicy, OnePageEntries, SequentialSpec, TableKind};
use crate::spec::table::RadixSpec;
use crate::time::{Clock, IntervalClock, NoClock};

mod aarch64;
mod advice;
mod cache;
mod cached_writes;
mod closed_forms;
#[path = "../../../vm/src/table/tests/conformance.rs"]
mod conformance;
mod daemons;
mod dataflow;
mod differential;
mod explicit;
mod fetch;
mod finer;
mod first_stores;
mod fork;
mod front;
mod given;
mod granule;
mod guest;
mod kernel_costs;
mod kernel_writes;
mod lines;
mod named;
mod outlines;
mod paging;
mod pairs;
mod reach;
mod refreshes;
mod registers;
mod serving;
mod serving_code;
mod strings;
mod threads;
mod units;
mod wrong_ways;

/// The checks of machines that are generic in the type of page table, for one type.
#[derive(Clone, Copy)]
pub(crate) struct Checks {
    /// The contract of the page table alone.
    pub(crate) contract: fn(&TableKind),
    front_filter: fn(&MachineSpec, &[Batch], &str),
    fault_path: fn(&MachineSpec, &[Batch], &str),
    policy: fn(&MachineSpec, u64),
    advice: fn(&MachineSpec, &Batch) -> RunResult,
}

impl Checks {
    pub(crate) const fn of<T: Built>() -> Self {
        Self {
            contract: check_contract::<T>,
            front_filter: check_filter_of::<T>,
            fault_path: pairs::check::<T>,
            policy: paging::check_run::<T>,
            advice: advice::run_on::<T>,
        }
    }

    fn on(spec: &MachineSpec) -> Self {
        spec.translation.table.assembly().checks
    }
}

fn check_contract<T: Built>(kind: &TableKind) {
    let frame = |number: u64, level: u32| match T::IS_COMPRESSED {
        true => Pfn::of_code(Cpfn((number % 255) as u16)),
        false => Pfn((1 << 27) + number * T::GRANULE.sizes()[level as usize].base_pages()),
    };
    let pages = |level: u32| T::GRANULE.sizes()[level as usize].base_pages();
    conformance::conformance::<T>(&T::design(kind), 1 << 36, pages, frame);
}

const BASE: u64 = 0x5555_0000_0000;

fn announced() -> SourceInfo {
    SourceInfo { announces_mappings: true, counts_instructions: true, ..SourceInfo::default() }
}

impl<T: PageTable, C> Machine<T, C> {
    /// What the machine's kernel keeps.
    fn state(&self) -> &State {
        &self.engine.kernel.state
    }
}

fn spec(name: &str) -> MachineSpec {
    spec::load(name).expect("a built-in machine")
}

/// A machine after a change.
pub(super) fn changed(mut spec: MachineSpec, change: impl FnOnce(&mut MachineSpec)) -> MachineSpec {
    change(&mut spec);
    spec
}

type Plain = Radix<X86_64>;
type Toc = Contents;

fn counting(spec: &MachineSpec) -> Machine<Plain, NoClock> {
    counting_of(spec)
}

fn counting_of<T: Built>(spec: &MachineSpec) -> Machine<T, NoClock> {
    machine(spec, 1, &announced()).expect("memory for a page table")
}

fn map(batch: &mut Batch, start: u64, bytes: u64) {
    batch.mark(Event::Map(Mapping::anonymous(VirtRange::sized(VirtAddr(start), bytes))));
}

fn value(result: &RunResult, stage: &str, metric: &str) -> u64 {
    let row = result.metrics.iter().find(|m| m.stage == stage && m.metric == metric && m.phase.is_none());
    match row.unwrap_or_else(|| panic!("no {stage} {metric}")).value {
        Some(Number::Count(count)) => count,
        other => panic!("{stage} {metric} is {other:?}"),
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// A stream with everything in it: locality and jumps, loads and stores, several threads and processes, and
/// every change of an address space.
fn eventful(seed: u64, batches: usize) -> Vec<Batch> {
    let mut random = Random(seed);
    let bytes = 64 << 20;
    let mut stream = Vec::new();
    let (mut page, mut forked) = (0, false);
    for number in 0..batches {
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(7_000));
        if number == 0 {
            map(&mut batch, BASE, bytes);
        }
        for _ in 0..2_000 {
            let at = BASE + random.below(bytes / 4096) * 4096;
            let range = VirtRange::sized(VirtAddr(at), (1 + random.below(60)) * 4096);
            match random.below(400) {
                0 => batch.mark(Event::Unmap(range)),
                1 => map(&mut batch, at, range.bytes()),
                2 => batch.mark(Event::Protect(range, Protection { write: false, ..Protection::READ_WRITE })),
                3 => batch.mark(Event::Protect(range, Protection::READ_WRITE)),
                4 => batch.mark(Event::Advise(range, pagewalk_trace::Advice::DontNeed)),
                5 => batch.mark(Event::Thread(ThreadId(random.below(4) as u32))),
                6 => {
                    let to = VirtRange::sized(
                        VirtAddr(BASE + (1 << 32) + random.below(4096) * 4096),
                        range.bytes(),
                    );
                    batch.mark(Event::Remap { from: range, to });
                }
                7 if number > 2 && !forked => {
                    forked = true;
                    batch.mark(Event::Fork { child: ProcessId(1) });
                }
                9 => {
                    let all = pagewalk_trace::Advice::ALL;
                    batch.mark(Event::Advise(range, all[random.below(all.len() as u64) as usize]));
                }
                10 => {
                    let (object, first) = (ObjectId(random.below(3)), random.below(32));
                    batch.mark(Event::Map(Mapping {
                        backing: Backing::File,
                        shared: random.below(2) == 0,
                        object: Some(ObjectPages { object, first }),
                        ..Mapping::anonymous(range)
                    }));
                }
                8 if forked => batch.mark(Event::Process(ProcessId(random.below(2) as u32))),
                _ => {}
            }
            if random.below(4) == 0 {
                page = random.below(bytes / 4096);
            }
            // Now and then many pages in turn, between the short stays on one.
            let burst = random.below(30) == 0;
            for _ in 0..if burst { 200 } else { random.below(6) } {
                if burst && random.below(3) == 0 {
                    page = random.below(bytes / 4096);
                }
                let addr = VirtAddr(BASE + page * 4096 + random.below(4088));
                batch.push(Access::new(addr, 8, random.below(3) == 0));
            }
        }
        stream.push(batch);
    }
    stream
}

/// Every machine file, every policy: the front filter changes no count.
#[test]
fn the_front_filter_is_exact() {
    let stream = eventful(42, 3);
    // Machines that differ in time only count the same.
    let mut checked = Vec::new();
    for name in spec::builtin_names() {
        let spec = spec(name);
        let counts = (spec.translation.clone(), spec.paging.clone(), spec.core.count);
        if !checked.contains(&counts) {
            check_filter(&spec, &stream, name);
            checked.push(counts);
        }
    }
    assert!(checked.len() >= 30, "{}", checked.len());
    let mut base = spec("x86-64-thp");
    use crate::spec::settings::Replacement;
    for replacement in [Replacement::Fifo, Replacement::TreePlru, Replacement::Nru, Replacement::Random] {
        for array in base.translation.tlb.iter_mut().flat_map(|level| &mut level.arrays) {
            array.replacement = replacement;
            if replacement == Replacement::TreePlru {
                array.ways = array.ways.next_power_of_two();
                array.entries = array.entries.next_power_of_two();
            }
        }
        check_filter(&base, &stream, &format!("{replacement:?}"));
    }
}

/// A refused store uses its page's entry all the same: the page used before it is no longer its set's newest.
#[test]
fn the_front_filter_is_exact_after_a_refused_store() {
    let page = |number: u64| VirtAddr(BASE + number * 16 * 4096);
    let mut batch = Batch::new();
    map(&mut batch, BASE, 1 << 24);
    let range = VirtRange::sized(page(0), 4096);
    batch.mark(Event::Protect(range, Protection { write: false, ..Protection::READ_WRITE }));
    batch.push(Access::load(page(0), 8));
    batch.push(Access::load(page(1), 8));
    batch.push(Access::store(page(0), 8));
    batch.push(Access::load(page(1), 8));
    // The set of six ways is full after four more pages; the fifth evicts page 0, which page 1 has outlived.
    (2..7).for_each(|number| batch.push(Access::load(page(number), 8)));
    batch.push(Access::load(page(1), 8));
    batch.push(Access::load(page(1), 8));
    check_filter(&spec("x86-64"), &[batch], "a refused store");
}

/// Huge pages that only the second level holds enter the first in pieces, and push other pages out.
#[test]
fn the_front_filter_is_exact_when_huge_pages_are_chopped() {
    let mut spec = spec("x86-64-thp");
    spec.translation.tlb[0].arrays.truncate(1);
    let mut batch = Batch::new();
    map(&mut batch, BASE, 4096);
    map(&mut batch, BASE + (1 << 30), 2 << 20);
    batch.push(Access::load(VirtAddr(BASE), 8));
    (0..7).for_each(|number| batch.push(Access::load(VirtAddr(BASE + (1 << 30) + number * 16 * 4096), 8)));
    (0..2).for_each(|_| batch.push(Access::load(VirtAddr(BASE), 8)));
    check_filter(&spec, &[batch], "huge pages chopped in the first level");
}

/// The same with base pages of 16 KiB, whose large pages only the second level holds.
#[test]
fn the_front_filter_is_exact_when_large_pages_of_another_granule_are_chopped() {
    let mut spec = spec("apple-m1");
    let first = &mut spec.translation.tlb[0];
    first.arrays.truncate(1);
    first.arrays[0].kind = OnePageEntries { pages: vec![PageSize::Size16K] }.into();
    let policy = HugePagePolicy::Always;
    (spec.translation.huge_pages, spec.paging.frames) =
        (policy, spec::load("x86-64-thp").unwrap().paging.frames);
    check_filter(&spec, &eventful(43, 12), "large pages of the granule of 16 KiB, chopped");
}

/// A repeated store is skipped like a load where stores have an array of their own.
#[test]
fn the_front_filter_serves_stores_with_an_array_of_their_own() {
    let mut batch = Batch::new();
    map(&mut batch, BASE, 1 << 20);
    for number in 0..1_000 {
        batch.push(Access::new(VirtAddr(BASE + number % 2 * 3 * 4096), 8, number % 2 == 1));
    }
    let skipped = |spec: &MachineSpec| {
        let mut machine = counting_of::<Plain>(spec);
        machine.batch(&batch).unwrap();
        machine.engine.mmu.skipped()
    };
    let plain = skipped(&spec("x86-64"));
    assert!(plain > 990, "{plain}");
    let stores = skipped(&spec("x86-64-store-tlb"));
    assert!((990..=plain).contains(&stores), "{stores}");
}

/// A stream as the machine itself sees it.
fn seen_by(spec: &MachineSpec, stream: &[Batch]) -> Vec<Batch> {
    let Some(space) = spec.translation.table.program_space() else { return stream.to_vec() };
    let mut relocation = Relocation::new(space);
    stream.iter().map(|batch| relocation.batch(batch).expect("room for it").clone()).collect()
}

fn check_filter(spec: &MachineSpec, stream: &[Batch], name: &str) {
    let stream = &seen_by(spec, stream);
    (Checks::on(spec).front_filter)(spec, stream, name);
}

fn check_filter_of<T: Built>(spec: &MachineSpec, stream: &[Batch], name: &str) {
    let mut filtered = counting_of::<T>(spec);
    let mut plain = counting_of::<T>(spec);
    plain.engine.mmu.without_filters();
    for batch in stream {
        filtered.batch(batch).unwrap();
        plain.batch(batch).unwrap();
    }
    let (filtered_end, plain_end) = (filtered.finish("s"), plain.finish("s"));
    assert_eq!(filtered_end, plain_end, "{name}");
    let skipped = filtered.engine.mmu.skipped();
    assert!(spec.translation.tlb.is_empty() || skipped > 0, "{name}: the filter skips something");
    assert_eq!(plain.engine.mmu.skipped(), 0);
}

#[test]
fn a_timed_run_counts_what_a_counts_run_counts() {
    let stream = eventful(7, 5);
    for name in ["x86-64", "x86-64-thp", "gem5-mosaic-8", "gem5-plain"] {
        check_times::<Plain>(&spec(name), &stream);
    }
    for name in
        ["hashed-sets", "victim", "coalesced", "tlb-prefetch", "exclusive-tlb", "store-tlb", "shared-tlb"]
    {
        let name = format!("x86-64-{name}");
        let name = name.as_str();
        check_times::<Plain>(&spec(name), &stream);
    }
    check_times::<Toc>(&spec("mosaic-8"), &stream);
    check_times::<Toc>(&paging::small("mosaic-swap"), &stream);
    check_times::<Plain>(&paging::small("linux-swap"), &stream);
    check_times::<Plain>(&paging::small("rocket-swap"), &stream);
    check_times::<Plain>(&paging::small("rocket-accelerator"), &stream);
    check_times::<Toc>(&paging::accelerated(paging::small("mosaic-swap")), &stream);
    for name in ["ecpt", "me-hpt", "me-hpt-thp"] {
        check_times::<HashedTable>(&spec(name), &stream);
    }
}

fn check_times<T: Built>(spec: &MachineSpec, stream: &[Batch]) {
    // Several cores go on in order of time, so that pages are new in another order.
    let spec = &MachineSpec { core: CoreSpec { count: 1, ..spec.core.clone() }, ..spec.clone() };
    let mut counted = counting_of::<T>(spec);
    let mut timed: Machine<T, IntervalClock> = machine(spec, 1, &announced()).unwrap();
    for batch in stream {
        counted.batch(batch).unwrap();
        timed.batch(batch).unwrap();
    }
    let (counted, timed) = (counted.engine.rows(|_| ()), timed.engine.rows(|_| ()));
    // Only time tells whether a page that is wanted again is still on its way out.
    let depends = |row: &&Row| {
        [fault::MAJOR, fault::SWAP_CACHE, swap::PAGES_IN, accelerator::DAEMON_RUNS].contains(&row.name)
    };
    let equal = |(counted, timed): (&Row, &Row)| counted == timed || depends(&counted);
    assert_eq!(counted.iter().zip(timed.iter()).find(|&(a, b)| !equal((a, b))), None, "{}", spec.name);
    let came =
        |rows: &Rows| rows.value(&fault::MAJOR).unwrap_or(0) + rows.value(&fault::SWAP_CACHE).unwrap_or(0);
    assert_eq!(came(&counted), came(&timed), "{}: pages that came back", spec.name);
}

/// What a page table is made like changes what a walk reads and what the system does for it, and nothing else.
#[test]
fn hashed_tables_translate_as_a_radix_table_does() {
    let small = ["ecpt", "me-hpt", "hashed-open-addressing", "hashed-chained"];
    let huge = ["ecpt-thp", "me-hpt-thp"];
    for (baseline, names, seed) in [("me-hpt-radix", &small[..], 3), ("me-hpt-radix-thp", &huge[..], 4)] {
        let stream = eventful(seed, 12);
        let run = |spec: &MachineSpec| {
            let mut machine = super::build(spec, Detail::Counts, 1, &announced()).unwrap();
            stream.iter().for_each(|batch| machine.batch(batch).unwrap());
            machine.finish("s")
        };
        let expected = run(&spec(baseline));
        let classic = small[2..].iter().map(|name| {
            let huge_pages = spec(baseline).translation.huge_pages;
            changed(spec(name), |spec| spec.translation.huge_pages = huge_pages)
        });
        for spec in names.iter().map(|name| spec(name)).chain(classic) {
            check_same(&expected, &run(&spec), &spec);
        }
    }
}

fn check_same(expected: &RunResult, result: &RunResult, spec: &MachineSpec) {
    let is_compared = |stage: &str| !["walk", "walk-cache", "table"].contains(&stage);
    let mut compared = 0;
    for metric in expected.metrics.iter().filter(|metric| is_compared(&metric.stage)) {
        let name = (&metric.stage, &metric.metric, &metric.unit);
        let same = result.metrics.iter().find(|other| (&other.stage, &other.metric, &other.unit) == name);
        assert_eq!(same.expect("the same rows").value, metric.value, "{}: {name:?}", spec.name);
        compared += 1;
    }
    assert!(compared > 20);
    let walks = value(result, "walk", "walks");
    assert_eq!(walks, value(expected, "walk", "walks"));
    assert!(value(result, "table", "lines-visited") > 100);
    if spec.translation.walk_cache.is_some() {
        let kinds = ["complete", "partial", "size", "direct", "mixed", "fault"];
        let of_kinds: u64 = kinds.iter().map(|kind| value(result, "walk", &format!("kind.{kind}"))).sum();
        assert_eq!(of_kinds, walks);
        assert!(value(result, "table", "chunk-rows-switched") > 0);
    }
}
