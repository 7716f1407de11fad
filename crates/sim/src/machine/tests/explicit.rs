//! All anonymous memory in explicit huge pages, as hugetlbfs has them.

use super::paging::check_frames;
use super::*;
use crate::spec::settings::HugePagePolicy;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A machine with explicit pages of a size.
fn explicit(name: &str, size: PageSize) -> MachineSpec {
    changed(spec(name), |spec| spec.translation.huge_pages = HugePagePolicy::Explicit(size))
}

/// Stores to an address of every so many bytes of a range.
fn touch(batch: &mut Batch, start: u64, bytes: u64, step: u64) {
    (0..bytes).step_by(step as usize).for_each(|at| batch.push(Access::store(VirtAddr(start + at), 8)));
}

fn minor(result: &RunResult) -> [u64; 3] {
    PageSize::ALL.map(|size| value(result, "fault", &format!("minor.{size}")))
}

fn resident(result: &RunResult) -> u64 {
    value(result, "frames", "resident")
}

#[test]
fn a_first_pass_faults_once_a_page_however_large_its_end_is() {
    for (bytes, step) in [(37 * MIB + 4096, 4096), (4 * GIB + 4096, 512 * 1024), (2 * MIB, 4096)] {
        for (size, at) in [(PageSize::Size2M, 1), (PageSize::Size1G, 2)] {
            let mut machine = counting(&explicit("x86-64", size));
            let mut batch = Batch::new();
            map(&mut batch, 5 << 40, bytes);
            touch(&mut batch, 5 << 40, bytes, step);
            machine.batch(&batch).unwrap();
            let result = machine.finish("pass");
            let pages = bytes.div_ceil(size.bytes());
            let mut faults = [0; 3];
            faults[at] = pages;
            assert_eq!(minor(&result), faults, "{bytes} bytes in pages of {size}");
            assert_eq!(resident(&result), pages * size.bytes());
            assert_eq!(value(&result, "frames", "resident-huge"), pages * size.bytes());
            assert_eq!(value(&result, "tlb.l1", "misses"), pages, "one entry a page");
            // Of each page, a walk to where nothing is mapped and one to its entry.
            assert_eq!(value(&result, "walk", "walks"), 2 * pages);
            check_frames(&mut machine);
        }
    }
}

/// Every table that has pages of these sizes.
#[test]
fn other_tables_have_as_many_pages() {
    let mut batch = Batch::new();
    map(&mut batch, 5 << 40, 3 * GIB);
    touch(&mut batch, 5 << 40, 3 * GIB, 128 * 1024);
    for name in ["x86-64-la57", "me-hpt", "ecpt", "hashed-open-addressing", "hashed-chained"] {
        for (size, pages) in [(PageSize::Size2M, 1536), (PageSize::Size1G, 3)] {
            let result = advice::run(&explicit(name, size), &batch);
            assert_eq!(minor(&result).iter().sum::<u64>(), pages, "{name}");
        }
    }
}

#[test]
fn a_page_costs_the_zeroing_of_all_of_it() {
    let kernel_ps = |size: PageSize, pages: u64| {
        let spec = explicit("x86-64", size);
        let mut machine: Machine<Plain, IntervalClock> = machine(&spec, 1, &announced()).unwrap();
        let mut batch = Batch::new();
        map(&mut batch, 5 << 40, pages * size.bytes());
        touch(&mut batch, 5 << 40, pages * size.bytes(), size.bytes());
        machine.batch(&batch).unwrap();
        let result = machine.finish("zero");
        value(&result, "time", "fault") - value(&result, "table", "upkeep")
    };
    let of = spec("x86-64").kernel;
    for pages in [1, 3] {
        let cost = |zero_ps| pages * (of.minor_fault_ps + zero_ps);
        assert_eq!(kernel_ps(PageSize::Size2M, pages), cost(of.zero_huge_page_ps));
        assert_eq!(kernel_ps(PageSize::Size1G, pages), cost(512 * of.zero_huge_page_ps));
    }
}

/// A page stays whole, and stays until the last mapping of which it holds a part is gone.
#[test]
fn a_page_stays_as_long_as_anything_in_it_is_mapped() {
    let mut machine = counting(&explicit("x86-64", PageSize::Size2M));
    let mut step = |change: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        change(&mut batch);
        machine.batch(&batch).unwrap();
        check_frames(&mut machine);
        let result = machine.finish("stays");
        assert_eq!(value(&result, "kernel", "huge-page-splits"), 0);
        (minor(&result)[1], resident(&result) / (2 * MIB))
    };
    let unmap = |batch: &mut Batch, start: u64, bytes: u64| {
        batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(start), bytes)));
    };
    // Two mappings that share the second of three pages.
    let two = |batch: &mut Batch| {
        map(batch, BASE, 3 * MIB);
        map(batch, BASE + 3 * MIB + 4096, 2 * MIB);
        touch(batch, BASE, 3 * MIB, 4096);
        touch(batch, BASE + 3 * MIB + 4096, 2 * MIB, 4096);
    };
    assert_eq!(step(&two), (3, 3));
    assert_eq!(step(&|batch| unmap(batch, BASE, 3 * MIB)), (3, 2), "the first page is gone");
    let again = |batch: &mut Batch| {
        map(batch, BASE + 2 * MIB, 4096);
        touch(batch, BASE + 2 * MIB, 4096, 4096);
        let half = VirtRange::sized(VirtAddr(BASE + 3 * MIB + 4096), 4096);
        batch.mark(Event::Advise(half, pagewalk_trace::Advice::DontNeed));
        batch.mark(Event::Protect(half, Protection { write: false, ..Protection::READ_WRITE }));
        batch.push(Access::load(half.start, 8));
    };
    assert_eq!(step(&again), (3, 2), "the second page has what is mapped anew");
    assert_eq!(step(&|batch| unmap(batch, BASE + 3 * MIB + 4096, 2 * MIB)), (3, 1));
    assert_eq!(step(&|batch| unmap(batch, BASE + 2 * MIB, 4096)), (3, 0));
}

#[test]
fn memory_of_another_kind_has_pages_of_its_own() {
    let file = |batch: &mut Batch, start: u64, bytes: u64| {
        let range = VirtRange::sized(VirtAddr(start), bytes);
        batch.mark(Event::Map(Mapping { backing: Backing::File, ..Mapping::anonymous(range) }));
        batch.push(Access::load(VirtAddr(start), 8));
    };
    let mut machine = counting(&explicit("x86-64", PageSize::Size1G));
    let (first, second) = (5 << 40, 6 << 40);
    let mut batch = Batch::new();
    // Beside a file, the next smaller pages.
    file(&mut batch, first, 4096);
    map(&mut batch, first + 4096, 4 * MIB);
    touch(&mut batch, first + 4096, 4 * MIB, 4096);
    machine.batch(&batch).unwrap();
    check_frames(&mut machine);
    assert_eq!(minor(&machine.finish("beside")), [1 + 511, 2, 0]);
    // Into a page that reaches where a file comes later.
    let mut batch = Batch::new();
    map(&mut batch, second, 4096);
    touch(&mut batch, second, 4096, 4096);
    file(&mut batch, second + 4096, 4096);
    machine.batch(&batch).unwrap();
    check_frames(&mut machine);
    let result = machine.finish("into");
    assert_eq!(minor(&result), [2 + 511, 2, 1]);
    assert_eq!(value(&result, "kernel", "huge-page-splits"), 2, "to 2 MiB and to 4 KiB");
}

#[test]
fn a_child_that_writes_copies_the_whole_page() {
    let mut machine = counting(&explicit("x86-64", PageSize::Size2M));
    let mut batch = Batch::new();
    // Both mappings lie in one page.
    for start in [BASE, BASE + MIB] {
        map(&mut batch, start, 4096);
        batch.push(Access::store(VirtAddr(start), 8));
    }
    let read_only = Protection { write: false, ..Protection::READ_WRITE };
    batch.mark(Event::Protect(VirtRange::sized(VirtAddr(BASE + MIB), 4096), read_only));
    batch.mark(Event::Fork { child: ProcessId(1) });
    batch.mark(Event::Process(ProcessId(1)));
    batch.push(Access::load(VirtAddr(BASE), 8));
    batch.push(Access::store(VirtAddr(BASE), 8));
    machine.batch(&batch).unwrap();
    check_frames(&mut machine);
    let result = machine.finish("fork");
    assert_eq!(minor(&result), [0, 2, 0]);
    assert_eq!(value(&result, "kernel", "copies-on-write"), 1);
    assert_eq!(value(&result, "kernel", "huge-page-splits"), 0);
    assert_eq!(resident(&result), 4 * MIB);
}

/// Mappings of all kinds that come, go, move and fork.
#[test]
fn every_frame_has_one_page_and_comes_back() {
    for size in [PageSize::Size2M, PageSize::Size1G] {
        for seed in 0..6 {
            let spec = explicit("x86-64", size);
            let mut machine = counting(&spec);
            let free = machine.state().frames.free_frames();
            for batch in eventful(100 + seed, 12) {
                machine.batch(&batch).unwrap();
                check_frames(&mut machine);
            }
            let mut batch = Batch::new();
            batch.mark(Event::Process(ProcessId(1)));
            batch.mark(Event::ProcessEnd);
            batch.mark(Event::Process(ProcessId(0)));
            batch.mark(Event::Exec);
            machine.batch(&batch).unwrap();
            assert_eq!(
                machine.state().frames.free_frames(),
                free,
                "all but the root of the process that lives"
            );
        }
        check_filter(&explicit("x86-64", size), &eventful(200, 12), "explicit pages");
    }
}
