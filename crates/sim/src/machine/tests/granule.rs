//! Base pages of 16 KiB and 64 KiB.

use super::paging::check_frames;
use super::*;
use crate::machine::{Detail, build};
use crate::spec::settings::HugePagePolicy;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The entries of the machines' TLB.
const ENTRIES: u64 = 64;

/// A machine with one TLB level, without walk caches.
fn machine_of(granule: Granule, levels: u32) -> MachineSpec {
    let [base, large] = [granule.base(), granule.large()];
    let text = format!(
        "name = \"arm\"\nextends = \"x86-64\"\nwalk-cache = \"none\"\n[table.radix]\nlevels = {levels}\ngranule = \"{base}\"\n\
         [tlb]\nl2 = \"none\"\n[tlb.l1.set-associative]\nentries = {ENTRIES}\nways = \"full\"\n\
         pages = [\"{base}\", \"{large}\"]\n"
    );
    spec::parse(&text, "arm.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn with_huge_pages(spec: MachineSpec) -> MachineSpec {
    changed(spec, |spec| spec.translation.huge_pages = HugePagePolicy::Always)
}

fn run(spec: &MachineSpec, detail: Detail, batch: &Batch) -> RunResult {
    let mut machine = build(spec, detail, 1, &announced()).unwrap();
    machine.batch(batch).unwrap_or_else(|error| panic!("{error}"));
    machine.finish("granule")
}

/// So many passes over a range of new memory, a store to every 4 KiB.
fn passes(count: u32, bytes: u64) -> Batch {
    let mut batch = Batch::new();
    map(&mut batch, BASE, bytes);
    for _ in 0..count {
        (0..bytes).step_by(4096).for_each(|at| batch.push(Access::store(VirtAddr(BASE + at), 8)));
    }
    batch
}

fn all() -> [(Granule, u32); 7] {
    use Granule::{Size4K, Size16K, Size64K};
    [(Size4K, 3), (Size4K, 4), (Size4K, 5), (Size16K, 3), (Size16K, 4), (Size64K, 2), (Size64K, 3)]
}

#[test]
fn a_first_pass_faults_once_a_base_page_and_walks_have_as_many_references_as_levels() {
    let bytes = 8 * MIB + 4 * KIB;
    for (granule, levels) in all() {
        let (base, name) = (granule.base().bytes(), format!("{} in {levels} levels", granule.base()));
        let result = run(&machine_of(granule, levels), Detail::Counts, &passes(1, bytes));
        let pages = bytes.div_ceil(base);
        let of = |stage, metric: &str| value(&result, stage, metric);
        assert_eq!(of("fault", &format!("minor.{}", granule.base())), pages, "{name}");
        assert_eq!(of("fault", &format!("minor.{}", granule.large())), 0, "{name}");
        assert_eq!(of("frames", "resident"), pages * base, "{name}");
        assert_eq!(of("tlb.l1", "misses"), pages, "{name}");
        // Of each page a walk that ends at an empty entry and one that finds it. The first finds less of a tree, and each
        // further leaf table one entry.
        let leaf_tables = bytes.div_ceil(granule.large().bytes());
        let short = u64::from(levels) - 1 + leaf_tables - 1;
        assert_eq!(of("walk", "references"), 2 * pages * u64::from(levels) - short, "{name}");
        assert_eq!(of("table", "bytes"), (leaf_tables + u64::from(levels) - 1) * base, "{name}");
    }
}

/// A range of as many pages as the TLB has entries misses in the first pass only; one page more, and LRU always misses.
#[test]
fn a_tlb_reaches_as_many_times_farther_as_pages_are_larger() {
    for (granule, levels) in all() {
        let base = granule.base().bytes();
        let misses = |bytes| {
            value(&run(&machine_of(granule, levels), Detail::Counts, &passes(3, bytes)), "tlb.l1", "misses")
        };
        assert_eq!(misses(ENTRIES * base), ENTRIES, "{}", granule.base());
        assert_eq!(misses((ENTRIES + 1) * base), 3 * (ENTRIES + 1), "{}", granule.base());
    }
}

#[test]
fn large_pages_are_a_full_node_of_base_pages() {
    for (granule, levels) in [(Granule::Size16K, 3), (Granule::Size64K, 3)] {
        let (base, large) = (granule.base(), granule.large());
        let spec = with_huge_pages(machine_of(granule, levels));
        let mut batch = Batch::new();
        // Two large pages, and as many base pages as lie before and behind them.
        let start = (5 << 40) + large.bytes();
        map(&mut batch, start - 3 * base.bytes(), 2 * large.bytes() + 4 * base.bytes());
        for at in [0, large.bytes() / 2, large.bytes(), 2 * large.bytes()] {
            batch.push(Access::store(VirtAddr(start + at), 8));
        }
        batch.push(Access::store(VirtAddr(start - 8), 8));
        let counts = run(&spec, Detail::Counts, &batch);
        assert_eq!(value(&counts, "fault", &format!("minor.{large}")), 2);
        assert_eq!(value(&counts, "fault", &format!("minor.{base}")), 2);
        assert_eq!(value(&counts, "frames", "resident-huge"), 2 * large.bytes());
        let timed = run(&spec, Detail::Timed, &batch);
        let kernel = &spec.kernel;
        let zeroing = 2 * (large.bytes() / (2 * MIB)) * kernel.zero_huge_page_ps
            + 2 * (base.bytes() / 4096) * kernel.zero_page_ps;
        let table = value(&timed, "table", "upkeep");
        assert_eq!(value(&timed, "time", "fault"), 4 * kernel.minor_fault_ps + zeroing + table);
        // A part that goes splits the page, and takes whole base pages with it.
        batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(start + base.bytes()), base.bytes() + 4096)));
        let split = run(&spec, Detail::Counts, &batch);
        assert_eq!(value(&split, "kernel", "huge-page-splits"), 1);
        assert_eq!(value(&split, "kernel", "dropped-pages"), 1);
        assert_eq!(value(&split, "frames", "resident-huge"), large.bytes());
    }
}

/// Mappings of a program for 4 KiB pages share base pages, which stay as long as any of them does.
#[test]
fn a_base_page_belongs_to_all_that_is_mapped_in_it() {
    let mut machine: Machine<Radix<Arm16K>, NoClock> = counting_of(&machine_of(Granule::Size16K, 3));
    let mut step = |change: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        change(&mut batch);
        machine.batch(&batch).unwrap();
        check_frames(&mut machine);
        let result = machine.finish("shared");
        let minor = value(&result, "fault", "minor.16KiB");
        (minor, value(&result, "frames", "resident") / (16 * KIB), value(&result, "fault", "protection"))
    };
    let at = |page: u64| VirtAddr(BASE + page * 4096);
    let two = |batch: &mut Batch| {
        map(batch, at(0).0, 6 * 4096);
        map(batch, at(7).0, 4096);
        (0..6).for_each(|page| batch.push(Access::store(at(page), 8)));
        batch.push(Access::store(at(7), 8));
        let read_only = Protection { write: false, ..Protection::READ_WRITE };
        batch.mark(Event::Protect(VirtRange::sized(at(7), 4096), read_only));
    };
    assert_eq!(step(&two), (2, 2, 0));
    let unmap = |batch: &mut Batch, page: u64, pages: u64| {
        batch.mark(Event::Unmap(VirtRange::sized(at(page), pages * 4096)));
    };
    assert_eq!(step(&|batch| unmap(batch, 0, 6)), (2, 1, 0), "the second page is another mapping's, too");
    // Moved by a whole number of pages, and by a part of one: the page faults again.
    let moved = |batch: &mut Batch| {
        map(batch, at(16).0, 5 * 4096);
        (16..21).for_each(|page| batch.push(Access::store(at(page), 8)));
        let [from, to] = [16, 64].map(|page| VirtRange::sized(at(page), 5 * 4096));
        batch.mark(Event::Remap { from, to });
        (64..69).for_each(|page| batch.push(Access::load(at(page), 8)));
    };
    assert_eq!(step(&moved), (2 + 2 + 1, 3, 0), "of two pages the whole one moves");
    let shifted = |batch: &mut Batch| {
        let [from, to] = [64, 129].map(|page| VirtRange::sized(at(page), 5 * 4096));
        batch.mark(Event::Remap { from, to });
        (129..134).for_each(|page| batch.push(Access::load(at(page), 8)));
    };
    assert_eq!(step(&shifted), (5 + 2, 3, 0));
    assert_eq!(step(&|batch| unmap(batch, 0, 256)), (7, 0, 0));
}

/// Mappings of all kinds that come, go, move and fork, cut at 4 KiB.
#[test]
fn every_frame_has_one_page_and_comes_back() {
    fn check<T: Built>(spec: &MachineSpec, seed: u64) {
        let mut machine = counting_of::<T>(spec);
        let free = machine.state().frames.free_frames();
        for batch in eventful(seed, 12) {
            machine.batch(&batch).unwrap();
            check_frames(&mut machine);
        }
        let mut batch = Batch::new();
        batch.mark(Event::Process(ProcessId(1)));
        batch.mark(Event::ProcessEnd);
        batch.mark(Event::Process(ProcessId(0)));
        batch.mark(Event::Exec);
        machine.batch(&batch).unwrap();
        assert_eq!(machine.state().frames.free_frames(), free, "all but the root of the process that lives");
    }
    for seed in 300..306 {
        for changed in [|spec| spec, with_huge_pages] {
            check::<Radix<Arm16K>>(&changed(machine_of(Granule::Size16K, 3)), seed);
            check::<Radix<Arm64K>>(&changed(machine_of(Granule::Size64K, 3)), seed);
        }
    }
}

/// Levels change no count of pages, and larger pages make them fewer.
#[test]
fn a_program_for_small_pages_runs_on_large_ones() {
    let stream = eventful(17, 10);
    let mut faults = Vec::new();
    for (granule, levels) in all() {
        let mut machine = build(&machine_of(granule, levels), Detail::Timed, 1, &announced()).unwrap();
        stream.iter().for_each(|batch| machine.batch(batch).unwrap());
        let result = machine.finish("granule");
        faults.push((granule, value(&result, "fault", &format!("minor.{}", granule.base()))));
        let parts = ["compute", "walk", "memory", "fault"].map(|part| value(&result, "time", part));
        assert_eq!(parts.iter().sum::<u64>(), value(&result, "time", "elapsed"));
    }
    for pair in faults.windows(2) {
        let ((granule, first), (next, second)) = (pair[0], pair[1]);
        assert!(if granule == next { first == second } else { first > second }, "{faults:?}");
    }
}
