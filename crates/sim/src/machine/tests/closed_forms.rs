//! Machines against closed forms, and single events against what they must do.

use super::*;

#[test]
fn a_first_touch_pass_over_n_pages_misses_n_times_at_every_arity() {
    const PAGES: u64 = 20_000;
    for name in
        ["gem5-plain", "gem5-mosaic-4", "gem5-mosaic-8", "gem5-mosaic-16", "gem5-mosaic-32", "gem5-mosaic-64"]
    {
        let mut machine = counting(&spec(name));
        let mut batch = Batch::new();
        map(&mut batch, BASE, PAGES * 4096);
        for word in 0..PAGES * 8 {
            batch.push(Access::store(VirtAddr(BASE + word * 512), 8));
            if batch.is_full() {
                machine.batch(&batch).unwrap();
                batch.clear();
            }
        }
        machine.batch(&batch).unwrap();
        let result = machine.finish("pass");
        assert_eq!(value(&result, "tlb.l1", "misses"), PAGES, "{name}");
        assert_eq!(value(&result, "tlb.l1", "accesses"), PAGES * 8, "{name}");
        assert_eq!(value(&result, "fault", "minor.4KiB"), PAGES, "{name}");
        // A fault's walk and the walk of the repeated access.
        assert_eq!(value(&result, "walk", "walks"), 2 * PAGES, "{name}");
    }
}

/// After the first page, each is in the prefetch buffer; a page that is not mapped stays out of it, and nothing faults.
#[test]
fn a_sequential_prefetcher_covers_all_of_a_sweep_but_its_first_page() {
    const PAGES: u64 = 10_000;
    let run = |spec: &MachineSpec| {
        let mut machine = counting(spec);
        let mut batch = Batch::new();
        map(&mut batch, BASE, PAGES * 4096);
        for page in (0..PAGES).chain(0..PAGES) {
            batch.push(Access::load(VirtAddr(BASE + page * 4096), 8));
        }
        machine.batch(&batch).unwrap();
        machine.finish("sweeps")
    };
    let plain = run(&spec("x86-64"));
    let prefetching = run(&changed(spec("x86-64-tlb-prefetch"), |spec| {
        let prefetch = spec.translation.prefetch.as_mut().expect("a prefetcher");
        prefetch.kind = SequentialSpec { degree: 1 }.into();
    }));
    let of = |metric| value(&prefetching, "tlb-prefetch", metric);
    assert_eq!(of("misses"), 2 * PAGES);
    assert_eq!(of("hits"), PAGES - 1);
    assert_eq!(of("prefetches"), 2 * PAGES);
    assert_eq!(of("empty"), PAGES + 1, "the next page of a first touch, and the one behind the last");
    for (stage, metric) in
        [("fault", "minor.4KiB"), ("tlb.l1", "misses"), ("tlb.l2", "misses"), ("walk", "dirty-updates")]
    {
        assert_eq!(value(&prefetching, stage, metric), value(&plain, stage, metric), "{stage} {metric}");
    }
    // A first touch walks twice; of the second sweep only the first page walks.
    assert_eq!(value(&prefetching, "walk", "walks"), 2 * PAGES + 1);
    assert_eq!(value(&plain, "walk", "walks"), 3 * PAGES);
    assert!(of("references") >= 2 * PAGES);
}

/// Two threads on two cores: with a shared second level, the second thread finds there what the first walked to.
#[test]
fn cores_that_share_a_level_walk_to_a_page_once() {
    const PAGES: u64 = 1_000;
    let run = |is_shared| {
        let mut machine = counting(&changed(spec("x86-64-shared-tlb"), |spec| {
            spec.translation.tlb[1].is_shared = is_shared;
        }));
        let mut batch = Batch::new();
        map(&mut batch, BASE, PAGES * 4096);
        for thread in 0..2 {
            batch.mark(Event::Thread(ThreadId(thread)));
            (0..PAGES).for_each(|page| batch.push(Access::load(VirtAddr(BASE + page * 4096), 8)));
        }
        batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(BASE), 4096)));
        map(&mut batch, BASE, 4096);
        batch.push(Access::load(VirtAddr(BASE), 8));
        machine.batch(&batch).unwrap();
        let result = machine.finish("threads");
        [("tlb.l1", "misses"), ("tlb.l2", "hits"), ("tlb.l2", "misses"), ("walk", "walks")]
            .map(|(stage, metric)| value(&result, stage, metric))
    };
    // A first touch walks twice, and so does the page that was unmapped.
    assert_eq!(run(true), [2 * PAGES + 1, PAGES, PAGES + 1, 2 * PAGES + 2]);
    assert_eq!(run(false), [2 * PAGES + 1, 0, 2 * PAGES + 1, 3 * PAGES + 2]);
}

#[test]
fn huge_pages_divide_faults_by_512_and_shorten_walks() {
    let mut machine = counting(&spec("x86-64-thp"));
    let mut batch = Batch::new();
    map(&mut batch, BASE, 64 << 20);
    for page in 0..(64 << 20) / 4096 {
        batch.push(Access::store(VirtAddr(BASE + page * 4096), 8));
    }
    machine.batch(&batch).unwrap();
    let result = machine.finish("thp");
    assert_eq!(value(&result, "fault", "minor.2MiB"), 32);
    assert_eq!(value(&result, "fault", "minor.4KiB"), 0);
    assert_eq!(value(&result, "walk", "references.level0"), 0);
    assert_eq!(value(&result, "frames", "resident-huge"), 64 << 20);
    assert_eq!(value(&result, "table", "bytes"), 3 * 4096);
}

#[test]
fn unmapping_part_of_a_huge_page_splits_it() {
    let mut machine = counting(&spec("x86-64-thp"));
    let mut batch = Batch::new();
    map(&mut batch, BASE, 4 << 20);
    batch.push(Access::store(VirtAddr(BASE), 8));
    batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(BASE + 4096), 4096)));
    batch.push(Access::load(VirtAddr(BASE + 8192), 8));
    machine.batch(&batch).unwrap();
    let result = machine.finish("split");
    assert_eq!(value(&result, "kernel", "huge-page-splits"), 1);
    assert_eq!(value(&result, "frames", "resident"), 511 * 4096);
    assert_eq!(value(&result, "fault", "minor.4KiB"), 0, "the other pieces are still there");
}

#[test]
fn every_frame_comes_back() {
    let spec = spec("x86-64-thp");
    let mut machine = counting(&spec);
    let free = machine.state().frames.free_frames();
    for batch in eventful(3, 10) {
        machine.batch(&batch).unwrap();
    }
    assert!(machine.state().frames.free_frames() < free);
    let mut batch = Batch::new();
    batch.mark(Event::Process(ProcessId(1)));
    batch.mark(Event::ProcessEnd);
    batch.mark(Event::Process(ProcessId(0)));
    batch.mark(Event::Exec);
    machine.batch(&batch).unwrap();
    assert_eq!(machine.state().frames.free_frames(), free, "all but the root of the process that lives");
    assert_eq!(machine.state().counts.resident.pages, [0; 3]);
    assert_eq!(machine.state().table_space.bytes, 4096);
}

#[test]
fn a_forked_child_has_the_mappings_and_its_own_pages() {
    let mut machine = counting(&spec("x86-64"));
    let mut batch = Batch::new();
    map(&mut batch, BASE, 1 << 20);
    batch.push(Access::store(VirtAddr(BASE), 8));
    batch.mark(Event::Fork { child: ProcessId(9) });
    batch.mark(Event::Process(ProcessId(9)));
    batch.push(Access::store(VirtAddr(BASE), 8));
    machine.batch(&batch).unwrap();
    let result = machine.finish("fork");
    assert_eq!(value(&result, "fault", "minor.4KiB"), 2);
    assert_eq!(value(&result, "fault", "unannounced-pages"), 0);
    assert_eq!(value(&result, "tlb.l1", "misses"), 2, "the parent's translation is not the child's");
}

#[test]
fn running_out_of_memory_is_an_error_that_says_what_to_do() {
    let mut small = spec("x86-64");
    small.paging.frames =
        BuddySpec { memory_bytes: 1 << 20, fragmentation: 0, ..BuddySpec::default() }.into();
    let mut machine = counting(&small);
    let mut batch = Batch::new();
    map(&mut batch, BASE, 16 << 20);
    (0..4096).for_each(|page| batch.push(Access::store(VirtAddr(BASE + page * 4096), 8)));
    let error = machine.batch(&batch).unwrap_err().to_string();
    assert!(error.contains("1048576 bytes is too small") && error.contains("[frames]"), "{error}");
    // No frame was handed out twice: all that are in use are resident pages or table nodes.
    let used = machine.state().frames.total_frames() - machine.state().frames.free_frames();
    assert_eq!(used, machine.state().resident_bytes() / 4096 + machine.state().table_space.bytes / 4096);
}

/// In memory that is all small pieces, a table in one piece ends the run, and one in chunks makes room for them.
#[test]
fn a_table_in_one_piece_does_not_fit_into_fragments() {
    let run = |name: &str| {
        let frames = BuddySpec { memory_bytes: 1 << 30, fragmentation: 100, ..BuddySpec::default() }.into();
        let mut machine =
            counting_of::<HashedTable>(&changed(spec(name), |spec| spec.paging.frames = frames));
        let mut batch = Batch::new();
        map(&mut batch, BASE, 4 << 30);
        // One page of every line.
        (0..70_000).for_each(|line| batch.push(Access::store(VirtAddr(BASE + line * 8 * 4096), 8)));
        machine.batch(&batch).map(|()| machine)
    };
    let mut machine = run("me-hpt").unwrap_or_else(|error| panic!("{error}"));
    let result = machine.finish("fragments");
    assert_eq!(value(&result, "table", "contiguous"), 1 << 20);
    assert!(value(&result, "frames", "compactions") > 3);
    assert!(value(&result, "frames", "migrated-pages") > 500);
    // Pages that were moved are known to be where they are now.
    let mut frames = std::collections::BTreeSet::new();
    let Kernel { state, tables, .. } = &mut machine.engine.kernel;
    let mut store = state.table_space.store(&mut state.frames, &machine.spec.kernel);
    PageTable::visit(&mut tables.list[0], &mut store, Vpn(0), Vpn(1 << 36), |page, leaf, _| {
        assert!(frames.insert(leaf.frame), "{page} shares its frame");
        Some(leaf)
    });
    assert_eq!(frames.len(), 70_000);
    let free = machine.state().frames.free_frames();
    machine.engine.event(&Event::Exec).unwrap();
    assert!(machine.state().frames.free_frames() >= free + 70_000, "each is given back");
    let Err(error) = run("ecpt") else { panic!("4 MiB in one piece where none is") };
    assert!(matches!(error, MachineError::OutOfContiguousMemory { wanted_kib: 4096, .. }), "{error}");
    assert!(error.to_string().contains("fragmentation"), "{error}");
}

#[test]
fn a_store_to_read_only_memory_is_a_signal_and_not_a_page() {
    let mut machine = counting(&spec("x86-64"));
    let mut batch = Batch::new();
    let range = VirtRange::sized(VirtAddr(BASE), 8192);
    let read_only = Protection { read: true, write: false, execute: false };
    batch.mark(Event::Map(Mapping {
        protection: read_only,
        backing: Backing::File,
        ..Mapping::anonymous(range)
    }));
    batch.push(Access::store(VirtAddr(BASE), 8));
    batch.push(Access::load(VirtAddr(BASE), 8));
    batch.push(Access::store(VirtAddr(BASE), 8));
    machine.batch(&batch).unwrap();
    let result = machine.finish("ro");
    assert_eq!(value(&result, "fault", "protection"), 2);
    assert_eq!(value(&result, "fault", "minor.4KiB"), 1);
}

#[test]
fn a_store_after_a_load_sets_the_dirty_bit_once() {
    let mut machine = counting(&spec("x86-64"));
    let mut batch = Batch::new();
    map(&mut batch, BASE, 4096);
    for write in [false, false, true, true, false, true] {
        batch.push(Access::new(VirtAddr(BASE + 64), 8, write));
    }
    machine.batch(&batch).unwrap();
    let result = machine.finish("dirty");
    assert_eq!(value(&result, "walk", "dirty-updates"), 1);
    assert_eq!(value(&result, "tlb.l1", "misses"), 1);
}

#[test]
fn phases_add_up_to_the_whole() {
    let mut machine = counting(&spec("x86-64"));
    for (number, mut batch) in eventful(5, 6).into_iter().enumerate() {
        if number % 3 == 0 {
            batch.marks.insert(0, pagewalk_trace::Mark::at(0, Event::Phase(format!("p{number}"))));
        }
        machine.batch(&batch).unwrap();
    }
    let result = machine.finish("phases");
    for (stage, metric) in
        [("program", "accesses"), ("tlb.l1", "misses"), ("walk", "references"), ("fault", "minor.4KiB")]
    {
        let by_phase: u64 = result
            .metrics
            .iter()
            .filter(|m| m.phase.is_some() && m.stage == stage && m.metric == metric && m.unit == "count")
            .map(|m| m.value.unwrap().as_f64() as u64)
            .sum();
        assert_eq!(by_phase, value(&result, stage, metric), "{stage} {metric}");
    }
}

/// A wait that a snapshot counts must not be hidden by what follows it.
#[test]
fn a_phase_that_begins_with_accesses_in_flight_takes_no_negative_time() {
    let mut machine: Machine<Plain, IntervalClock> = machine(&spec("x86-64"), 1, &announced()).unwrap();
    let mut batch = Batch::new();
    map(&mut batch, BASE, 1 << 20);
    (0..20).for_each(|page| batch.push(Access::load(VirtAddr(BASE + page * 4096), 8)));
    for (number, page) in [(0, 30), (1, 31)] {
        batch.mark(Event::Phase(format!("p{number}")));
        batch.push(Access::load(VirtAddr(BASE + page * 4096 + 64), 8));
    }
    machine.batch(&batch).unwrap();
    let result = machine.finish("phases");
    let whole = value(&result, "time", "elapsed");
    let phases = result.metrics.iter().filter(|m| m.phase.is_some() && m.stage == "time" && m.unit == "ps");
    for metric in phases {
        assert!(metric.value.unwrap().as_f64() <= whole as f64, "{metric:?}");
    }
}

#[test]
fn a_source_without_mappings_runs_without_unannounced_pages() {
    let mut machine: Machine<Plain, NoClock> =
        machine(&spec("x86-64-thp"), 1, &SourceInfo::default()).unwrap();
    let mut batch = Batch::new();
    batch.push(Access::load(VirtAddr(BASE), 8));
    batch.push(Access::load(VirtAddr(BASE + 4096), 8));
    machine.batch(&batch).unwrap();
    let result = machine.finish("champsim");
    assert_eq!(value(&result, "fault", "unannounced-pages"), 0);
    assert_eq!(value(&result, "fault", "minor.2MiB"), 1);
    assert_eq!(value(&result, "frames", "resident"), PageSize::Size2M.bytes());
}

/// Taking pages out of an address space takes its time for each page that is there, by its size.
#[test]
fn unmapping_takes_its_time_for_each_page_that_is_there() {
    let fault = |unmap_page_ps, unmap_huge_page_ps| {
        let spec = changed(spec("x86-64-thp"), |spec| {
            (spec.kernel.unmap_page_ps, spec.kernel.unmap_huge_page_ps) = (unmap_page_ps, unmap_huge_page_ps);
        });
        let mut machine: Machine<Plain, IntervalClock> = machine(&spec, 1, &announced()).unwrap();
        let mut batch = Batch::new();
        let (huge, small) = (BASE, BASE + (1 << 30));
        map(&mut batch, huge, 4 << 20);
        map(&mut batch, small, 40_960);
        // Both of the huge pages, and seven of ten small ones.
        let pages =
            [0, 2 << 20].map(|at| huge + at).into_iter().chain((0..7).map(|page| small + page * 4096));
        pages.for_each(|at| batch.push(Access::store(VirtAddr(at), 8)));
        for (start, bytes) in [(huge, 4 << 20), (small, 40_960), (small, 40_960)] {
            batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(start), bytes)));
        }
        machine.batch(&batch).unwrap();
        value(&machine.finish("unmap"), "time", "fault")
    };
    let free = fault(0, 0);
    assert_eq!([fault(300_000, 0) - free, fault(0, 8_000_000) - free], [7 * 300_000, 2 * 8_000_000]);
}
