//! Frames that a trace gives: exact values by hand, and that nothing else ever lies in one.

use std::collections::BTreeSet;

use pagewalk_trace::{Mark, PageFrame};
use pagewalk_vm::addr::{PageSize, PhysAddr};
use pagewalk_vm::frame::OWN_START;
use pagewalk_vm::table::classic::Chained;
use pagewalk_vm::table::{Leaf, PageTable};

use super::*;

const SIZES: [PageSize; 3] = PageSize::ALL;
/// Far above the memory of any machine here.
const THERE: u64 = 0x123_4000_0000;

fn giving() -> SourceInfo {
    SourceInfo { gives_frames: true, counts_instructions: true, ..SourceInfo::default() }
}

fn giving_of<T: Built, C: Clock>(name: &str) -> Machine<T, C> {
    machine(&spec(name), 1, &giving()).expect("memory for a page table")
}

fn given(batch: &mut Batch, page: u64, frame: u64, size: PageSize) {
    let given = PageFrame::new(VirtAddr(page), PhysAddr(frame), size);
    batch.mark(Event::Frame(given.expect("a translation")));
}

fn load(batch: &mut Batch, addr: u64) {
    batch.push(Access::load(VirtAddr(addr), 1));
}

/// What the page table has for an address of the first process.
fn found<T: PageTable, C>(machine: &Machine<T, C>, addr: u64) -> (u64, PageSize) {
    let found =
        machine.engine.kernel.tables.list[0].find(&machine.state().table_space.memory, VirtAddr(addr).page());
    let (leaf, level) = found.expect("it was touched");
    (leaf.frame.addr().0, SIZES[level as usize])
}

/// A load of every 4 KiB of 2 MiB.
fn sweep() -> Batch {
    let mut batch = Batch::new();
    (0..512).for_each(|page| load(&mut batch, BASE + page * 4096));
    batch
}

#[test]
fn a_huge_page_is_one_fault_one_tlb_entry_and_a_walk_of_three_steps() {
    let mut machine = giving_of::<Plain, NoClock>("x86-64");
    let mut batch = Batch::new();
    given(&mut batch, BASE, THERE, PageSize::Size2M);
    machine.batch(&batch).unwrap();
    assert_eq!(machine.state().resident_bytes(), 0, "nothing was touched");
    machine.batch(&sweep()).unwrap();
    let result = machine.finish("huge");
    let count = |stage: &str, metric: &str| value(&result, stage, metric);
    assert_eq!((count("fault", "minor.2MiB"), count("fault", "minor.4KiB")), (1, 0));
    assert_eq!((count("tlb.l1", "misses"), count("tlb.l2", "misses")), (1, 1));
    // The fault's walk ends at the root; the second one goes down three levels.
    assert_eq!((count("walk", "walks"), count("walk", "references")), (2, 1 + 3));
    assert_eq!((count("walk", "references.level1"), count("walk", "references.level0")), (1, 0));
    assert_eq!(count("table", "bytes"), 3 * 4096);
    assert_eq!((count("frames", "resident"), count("frames", "resident-huge")), (2 << 20, 2 << 20));
    assert_eq!((count("frames", "given-pages"), count("frames", "own-pages")), (1, 0));
    assert_eq!(found(&machine, BASE + 5), (THERE, PageSize::Size2M));

    // The same program on the same machine, which chooses its own frames: 4 KiB each.
    let info = SourceInfo { gives_frames: false, ..giving() };
    let mut own: Machine<Plain, NoClock> = super::machine(&spec("x86-64"), 1, &info).unwrap();
    [batch, sweep()].iter().for_each(|batch| own.batch(batch).unwrap());
    let result = own.finish("small");
    assert_eq!(value(&result, "fault", "minor.4KiB"), 512);
    assert_eq!(value(&result, "tlb.l1", "misses"), 512);
    assert_eq!(value(&result, "table", "bytes"), 4 * 4096);
    assert!(!result.metrics.iter().any(|row| row.metric == "given-pages"));
}

#[test]
fn a_giant_page_needs_two_tables() {
    let mut machine = giving_of::<Plain, NoClock>("x86-64");
    let mut batch = Batch::new();
    given(&mut batch, BASE, THERE, PageSize::Size1G);
    (0..512).for_each(|page| load(&mut batch, BASE + (page << 21)));
    machine.batch(&batch).unwrap();
    let result = machine.finish("giant");
    assert_eq!(value(&result, "fault", "minor.1GiB"), 1);
    assert_eq!(value(&result, "tlb.l1", "misses"), 1);
    assert_eq!(value(&result, "table", "bytes"), 2 * 4096);
    assert_eq!(value(&result, "frames", "resident-huge"), 1 << 30);
}

/// What a table cannot hold is there in pieces, side by side as the page was.
fn check_huge<T: Built>(name: &str, size: PageSize) {
    let mut machine = giving_of::<T, NoClock>(name);
    let mut batch = Batch::new();
    given(&mut batch, BASE, THERE, PageSize::Size2M);
    machine.batch(&batch).unwrap();
    machine.batch(&sweep()).unwrap();
    for page in 0..512 {
        let offset = (page * 4096) & !(size.bytes() - 1);
        assert_eq!(found(&machine, BASE + page * 4096), (THERE + offset, size), "{name}");
    }
    let pages = (2 << 20) / size.bytes();
    let result = machine.finish("s");
    assert_eq!(value(&result, "fault", &format!("minor.{size}")), pages, "{name}");
    assert_eq!(value(&result, "frames", "given-pages"), pages, "{name}");
    assert_eq!(value(&result, "frames", "resident"), 2 << 20, "{name}");
}

#[test]
fn every_kind_of_table_has_given_frames() {
    check_huge::<Plain>("x86-64", PageSize::Size2M);
    check_huge::<Plain>("x86-64-la57", PageSize::Size2M);
    check_huge::<HashedTable>("ecpt", PageSize::Size2M);
    check_huge::<HashedTable>("me-hpt", PageSize::Size2M);
    check_huge::<HashedTable>("ecpt-fragmented", PageSize::Size2M);
    check_huge::<Classic<OpenAddressing>>("hashed-open-addressing", PageSize::Size2M);
    check_huge::<Classic<Chained>>("hashed-chained", PageSize::Size2M);
    check_huge::<Plain>("gem5-mosaic-8", PageSize::Size2M);
}

#[test]
fn a_slot_with_something_in_it_gets_pieces_of_a_huge_page() {
    let mut machine = giving_of::<Plain, NoClock>("x86-64");
    let mut batch = Batch::new();
    given(&mut batch, BASE, THERE, PageSize::Size2M);
    given(&mut batch, BASE + 0x3000, 0x7000, PageSize::Size4K);
    (2..5).for_each(|page| load(&mut batch, BASE + page * 4096));
    machine.batch(&batch).unwrap();
    let frames = [2, 3, 4].map(|page| found(&machine, BASE + page * 4096).0);
    assert_eq!(frames, [THERE + 0x2000, 0x7000, THERE + 0x4000]);
    assert_eq!(machine.state().resident_bytes(), 3 * 4096);
}

/// Where a source announces its mappings, a page ends with its mapping.
#[test]
fn a_huge_page_beyond_its_mapping_is_there_in_pieces() {
    let info = SourceInfo { announces_mappings: true, ..giving() };
    let mut machine: Machine<Plain, NoClock> = super::machine(&spec("x86-64"), 1, &info).unwrap();
    let mut batch = Batch::new();
    given(&mut batch, BASE, THERE, PageSize::Size2M);
    map(&mut batch, BASE, 0x3000);
    load(&mut batch, BASE + 0x2000);
    machine.batch(&batch).unwrap();
    assert_eq!(found(&machine, BASE + 0x2000), (THERE + 0x2000, PageSize::Size4K));
}

#[test]
fn a_frame_of_two_pages_is_resident_once() {
    let info = SourceInfo { announces_mappings: true, ..giving() };
    let mut machine: Machine<Plain, NoClock> = super::machine(&spec("x86-64"), 1, &info).unwrap();
    let mut batch = Batch::new();
    map(&mut batch, BASE, 0x3000);
    [0, 0x1000].into_iter().for_each(|page| given(&mut batch, BASE + page, THERE, PageSize::Size4K));
    (0..3).for_each(|page| batch.push(Access::store(VirtAddr(BASE + page * 4096), 8)));
    machine.batch(&batch).unwrap();
    assert_eq!([0, 0x1000].map(|page| found(&machine, BASE + page).0), [THERE; 2]);
    assert!(found(&machine, BASE + 0x2000).0 >= OWN_START.addr().0);
    assert_eq!(machine.state().resident_bytes(), 2 * 4096);
    let result = machine.finish("shared");
    assert_eq!((value(&result, "frames", "given-pages"), value(&result, "frames", "own-pages")), (2, 1));
    assert_eq!(value(&result, "fault", "minor.4KiB"), 3);
    assert_eq!(value(&result, "kernel", "copies-on-write"), 0);

    for (page, left) in [(0, 2), (0x1000, 1), (0x2000, 0)] {
        let mut batch = Batch::new();
        batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(BASE + page), 4096)));
        machine.batch(&batch).unwrap();
        assert_eq!(machine.state().resident_bytes(), left * 4096);
    }
    assert_eq!(value(&machine.finish("s"), "frames", "resident-peak"), 2 * 4096);
}

/// The lowest frame and the highest: page tables and other pages are elsewhere, and the host's memory does not grow.
#[test]
fn own_frames_are_above_all_given_ones() {
    let mut machine = giving_of::<Plain, NoClock>("x86-64");
    let last = OWN_START.addr().0 - 4096;
    let mut batch = Batch::new();
    given(&mut batch, BASE, 0x1000, PageSize::Size4K);
    given(&mut batch, BASE + 0x1000, last, PageSize::Size4K);
    (0..3).for_each(|page| load(&mut batch, BASE + page * 4096));
    machine.batch(&batch).unwrap();
    assert_eq!(found(&machine, BASE).0, 0x1000);
    assert_eq!(found(&machine, BASE + 0x1000).0, last);
    // Frames 1 to 4 of the machine's own memory are page tables.
    assert_eq!(found(&machine, BASE + 0x2000).0, OWN_START.addr().0 + 5 * 4096);
    assert!(
        machine.state().table_space.memory.host_bytes() < 1 << 20,
        "{}",
        machine.state().table_space.memory.host_bytes()
    );
}

#[test]
fn the_machines_own_huge_pages_leave_out_slots_with_given_frames() {
    let mut machine = giving_of::<Plain, NoClock>("x86-64-thp");
    let mut batch = Batch::new();
    given(&mut batch, BASE + 0x5000, THERE, PageSize::Size4K);
    [0, 0x5000, 2 << 20].into_iter().for_each(|page| load(&mut batch, BASE + page));
    machine.batch(&batch).unwrap();
    assert_eq!(found(&machine, BASE).1, PageSize::Size4K);
    assert_eq!(found(&machine, BASE + 0x5000), (THERE, PageSize::Size4K));
    assert_eq!(found(&machine, BASE + (2 << 20)).1, PageSize::Size2M);
}

#[test]
fn a_page_moves_when_the_trace_says_so() {
    let mut machine = giving_of::<Plain, NoClock>("x86-64");
    let step = |machine: &mut Machine<Plain, NoClock>, frame| {
        let mut batch = Batch::new();
        given(&mut batch, BASE, frame, PageSize::Size4K);
        (0..2).for_each(|_| load(&mut batch, BASE));
        machine.batch(&batch).unwrap();
        (
            found(machine, BASE).0,
            machine.state().counts.changes.dropped_pages,
            machine.state().counts.faults.minor[0],
        )
    };
    assert_eq!(step(&mut machine, THERE), (THERE, 0, 1));
    assert_eq!(step(&mut machine, THERE), (THERE, 0, 1), "nothing new");
    assert_eq!(step(&mut machine, 0x9000), (0x9000, 1, 2));
    assert_eq!(machine.state().resident_bytes(), 4096);

    // A page that was the machine's own before.
    let mut batch = Batch::new();
    load(&mut batch, BASE + 0x1000);
    given(&mut batch, BASE + 0x1000, THERE, PageSize::Size4K);
    load(&mut batch, BASE + 0x1000);
    let free = machine.state().frames.free_frames();
    machine.batch(&batch).unwrap();
    assert_eq!(found(&machine, BASE + 0x1000).0, THERE);
    assert_eq!(machine.state().frames.free_frames(), free, "its own frame is free again");
}

/// A huge page of which a part moves away.
#[test]
fn a_huge_page_is_split_when_a_part_of_it_moves() {
    let mut machine = giving_of::<Plain, NoClock>("x86-64");
    let mut batch = Batch::new();
    given(&mut batch, BASE, THERE, PageSize::Size2M);
    load(&mut batch, BASE);
    given(&mut batch, BASE + 0x3000, 0x8000, PageSize::Size4K);
    load(&mut batch, BASE + 0x3000);
    machine.batch(&batch).unwrap();
    assert_eq!(machine.state().counts.changes.splits, 1);
    assert_eq!(found(&machine, BASE + 0x3000), (0x8000, PageSize::Size4K));
    assert_eq!(found(&machine, BASE + 0x4000), (THERE + 0x4000, PageSize::Size4K));
    assert_eq!(machine.state().resident_bytes(), 2 << 20);
}

#[test]
fn machines_that_place_pages_themselves_keep_to_that() {
    let mut own = 0;
    for name in spec::builtin_names() {
        let spec = spec(name);
        let mut machine = super::super::build(&spec, Detail::Counts, 1, &giving()).unwrap();
        let mut batch = Batch::new();
        given(&mut batch, BASE, THERE, PageSize::Size4K);
        load(&mut batch, BASE);
        machine.batch(&batch).unwrap();
        let result = machine.finish("s");
        let has_rows = result.metrics.iter().any(|row| row.stage == "frames" && row.metric == "given-pages");
        assert_eq!(has_rows, spec.places_frames().is_none(), "{name}");
        own += u32::from(!has_rows);
    }
    assert!(spec("mosaic-4").places_frames().is_some_and(|why| why.contains("hashing")));
    assert!(spec("linux-swap").places_frames().is_some_and(|why| why.contains("leave memory")));
    assert!(spec("astriflash").places_frames().is_some_and(|why| why.contains("flash")));
    assert!(own > 10);
}

/// A recording can say it, and no access can ask for it.
#[test]
fn translations_of_addresses_beyond_48_bits_change_nothing() {
    let mut machine = giving_of::<Plain, NoClock>("x86-64");
    let mut batch = Batch::new();
    load(&mut batch, 0x1000);
    given(&mut batch, 0x1000 | 1 << 48, THERE, PageSize::Size4K);
    given(&mut batch, 1 << 63, 1 << 30, PageSize::Size1G);
    load(&mut batch, 0x1000);
    machine.batch(&batch).unwrap();
    assert!(found(&machine, 0x1000).0 >= OWN_START.addr().0);
    assert_eq!(
        (machine.state().counts.changes.dropped_pages, machine.state().counts.faults.minor[0]),
        (0, 1)
    );
}

/// Everything that happens to address spaces, and translations in between: of several sizes, changing, shared.
fn eventful_with_frames(seed: u64, batches: usize) -> Vec<Batch> {
    let mut random = Random(seed);
    let mut stream = eventful(seed, batches);
    for batch in &mut stream {
        for _ in 0..40 {
            let size = SIZES[[0, 0, 0, 1][random.below(4) as usize]];
            let page = BASE + random.below((64 << 20) / size.bytes()) * size.bytes();
            let frame = THERE + random.below((16 << 20) / size.bytes()) * size.bytes();
            let given = PageFrame::new(VirtAddr(page), PhysAddr(frame), size).unwrap();
            let at = random.below(batch.accesses.len() as u64) as u32;
            let place = batch.marks.partition_point(|mark| mark.at <= at);
            batch.marks.insert(place, Mark::at(at, Event::Frame(given)));
        }
    }
    stream
}

/// The front filter changes no count, time changes none either, and what is resident is what page tables name.
fn check_stream<T: Built>(name: &str, info: &SourceInfo) {
    let spec = MachineSpec { core: CoreSpec { count: 1, ..spec(name).core }, ..spec(name) };
    let mut filtered: Machine<T, NoClock> = machine(&spec, 1, info).unwrap();
    let mut plain: Machine<T, NoClock> = machine(&spec, 1, info).unwrap();
    let mut timed: Machine<T, IntervalClock> = machine(&spec, 1, info).unwrap();
    plain.engine.mmu.without_filters();
    for batch in eventful_with_frames(11, 10) {
        filtered.batch(&batch).unwrap();
        plain.batch(&batch).unwrap();
        timed.batch(&batch).unwrap();
        let mut frames = BTreeSet::new();
        for at in 0..filtered.state().processes.count() {
            let asid = filtered.state().processes[at].asid;
            let entries: Vec<(Vpn, Leaf, u32)> = filtered.engine.entries_of(at, Vpn(0), Vpn(1 << 36));
            for (page, leaf, level) in entries {
                frames
                    .extend((0..SIZES[level as usize].base_pages()).map(|distance| leaf.frame.0 + distance));
                if let (Some(given), true) = (
                    filtered.state().frames.given().unwrap().of(asid, page),
                    filtered.state().frames.is_given(leaf.frame),
                ) {
                    let is_moved = given.frame_of(page) != leaf.frame;
                    assert!(!is_moved || info.announces_mappings, "{name}: {page} is at {}", leaf.frame);
                }
            }
        }
        assert_eq!(filtered.state().resident_bytes(), frames.len() as u64 * 4096, "{name}");
        let own = frames.iter().filter(|&&frame| frame >= OWN_START.0).count() as u64;
        let used = filtered.state().frames.total_frames() - filtered.state().frames.free_frames();
        assert_eq!(used, own + filtered.state().table_space.bytes / 4096, "{name}");
    }
    assert_eq!(filtered.finish("s"), plain.finish("s"), "{name}");
    let (counted, timed) = (filtered.engine.rows(|_| ()), timed.engine.rows(|_| ()));
    assert_eq!(counted.iter().zip(timed.iter()).find(|(a, b)| a != b), None, "{name}");
    assert!(
        filtered.state().counts.faults.given_pages > 1_000 && filtered.state().counts.faults.own_pages > 100,
        "{name}"
    );
}

#[test]
fn the_books_are_right_whatever_happens() {
    for info in [giving(), SourceInfo { announces_mappings: true, ..giving() }] {
        check_stream::<Plain>("x86-64", &info);
        check_stream::<Plain>("x86-64-thp", &info);
        check_stream::<Plain>("gem5-mosaic-8", &info);
        check_stream::<HashedTable>("me-hpt-thp", &info);
        check_stream::<Classic<Chained>>("hashed-chained", &info);
    }
}

/// A program that moves a page with `mremap`, and a child of `fork`: what the trace says of other addresses stays said.
#[test]
fn pages_of_a_child_are_where_the_trace_says_of_the_child() {
    let info = SourceInfo { announces_mappings: true, ..giving() };
    let mut machine: Machine<Plain, NoClock> = super::machine(&spec("x86-64"), 1, &info).unwrap();
    let mut batch = Batch::new();
    map(&mut batch, BASE, 0x2000);
    given(&mut batch, BASE, THERE, PageSize::Size4K);
    [0, 0x1000].into_iter().for_each(|page| batch.push(Access::store(VirtAddr(BASE + page), 8)));
    batch.mark(Event::Fork { child: ProcessId(1) });
    batch.mark(Event::Process(ProcessId(1)));
    batch.push(Access::store(VirtAddr(BASE), 8));
    machine.batch(&batch).unwrap();
    assert_eq!(found(&machine, BASE).0, THERE, "the parent's");
    let child =
        machine.engine.kernel.tables.list[1].find(&machine.state().table_space.memory, VirtAddr(BASE).page());
    assert!(child.unwrap().0.frame >= OWN_START, "the trace says nothing of the child's");
    let mut batch = Batch::new();
    given(&mut batch, BASE, THERE + 0x5000, PageSize::Size4K);
    load(&mut batch, BASE);
    batch.mark(Event::ProcessEnd);
    machine.batch(&batch).unwrap();
    assert_eq!(machine.state().resident_bytes(), 2 * 4096);
    assert_eq!(
        machine
            .state()
            .frames
            .given()
            .unwrap()
            .of(machine.state().processes[0].asid, VirtAddr(BASE).page())
            .unwrap()
            .frame()
            .addr()
            .0,
        THERE
    );
}
