//! Machines whose memory is too small: what leaves, what comes back, and that nothing is ever in two places.

use std::collections::BTreeMap;

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::frame::{IcebergShape, PageKey};

use super::*;
use crate::spec::settings::{BlockSpec, ClockSpec, HorizonLruSpec, IcebergLruSpec, IcebergSpec, ReclaimKind};

/// A shipped machine that swaps, with 8 MiB for the program.
pub(super) fn small(name: &str) -> MachineSpec {
    let mut spec = spec(name);
    const BYTES: u64 = 8 << 20;
    if let Some(placed) = spec.paging.frames.settings::<IcebergSpec>() {
        let shape = IcebergShape::mosaic((BYTES / PAGE_BYTES) as u32 / 64);
        spec.paging.frames = IcebergSpec { shape, ..placed.clone() }.into();
    }
    if let Some(limited) = spec.paging.reclaim.as_ref().and_then(|policy| policy.limited(BYTES)) {
        spec.paging.reclaim = Some(limited);
    }
    spec
}

fn with_reclaim(reclaim: ReclaimKind) -> MachineSpec {
    changed(small("mosaic-swap"), |spec| spec.paging.reclaim = Some(reclaim))
}

/// Linux's lists over a hashed page table.
fn hashed() -> MachineSpec {
    let table = spec("me-hpt").translation.table;
    changed(small("linux-swap"), |spec| {
        (spec.translation.table, spec.translation.walk_cache) = (table, None);
    })
}

/// The published accelerator in front of the swap device.
pub(super) fn accelerated(spec: MachineSpec) -> MachineSpec {
    let accelerator = super::spec("rocket-accelerator").paging.accelerator;
    changed(spec, |spec| spec.paging.accelerator = accelerator)
}

/// Shipped machines that swap, and everything that can be done differently: policies, tables, what brings pages back.
fn every_policy() -> Vec<MachineSpec> {
    let ahead = |spec: MachineSpec| {
        changed(spec, |spec| {
            spec.paging.swap.readahead = 8;
            spec.paging.background_percent = if spec.paging.frames.hash_placed().is_none() { 10 } else { 0 };
        })
    };
    vec![
        ahead(small("linux-swap")),
        ahead(hashed()),
        ahead(small("mosaic-swap")),
        accelerated(small("linux-swap")),
        accelerated(small("lru-swap")),
        accelerated(hashed()),
        accelerated(small("mosaic-swap")),
        small("linux-swap"),
        small("lru-swap"),
        small("mosaic-swap"),
        hashed(),
        with_reclaim(HorizonLruSpec { scan_interval: Some(5_000) }.into()),
        with_reclaim(IcebergLruSpec { live_percent: 87, is_strict: false }.into()),
        with_reclaim(IcebergLruSpec { live_percent: 87, is_strict: true }.into()),
    ]
}

#[test]
fn the_front_filter_is_exact_under_every_policy() {
    let stream = eventful(5, 4);
    for spec in every_policy() {
        check_filter(&spec, &stream, &format!("{:?}", spec.paging.reclaim));
        let mut two_cores = spec.clone();
        two_cores.core.count = 2;
        let policy = spec.paging.reclaim.as_ref().expect("a policy");
        if policy.settings::<HorizonLruSpec>().is_some() || policy.settings::<ClockSpec>().is_some() {
            check_filter(&two_cores, &stream, &format!("{:?} on two cores", spec.paging.reclaim));
        }
    }
}

/// Every page in memory has one frame, that is its own by all accounts or shared with those that the reverse map names, and
/// the frames add up.
pub(super) fn check_frames<T: Built, C: Clock>(machine: &mut Machine<T, C>) {
    let (costs, ready) = (machine.spec.kernel.clone(), machine.engine.kernel.frames_without_entry());
    let Kernel { state, tables, .. } = &mut machine.engine.kernel;
    let State { processes, table_space, frames, counts, .. } = state;
    let mut owners: BTreeMap<_, Vec<PageKey>> = BTreeMap::new();
    for (at, table) in tables.list.iter_mut().enumerate() {
        let asid = processes[at].asid;
        let mut leaves = Vec::new();
        let mut store = table_space.store(frames, &costs);
        table.visit(&mut store, Vpn(0), Vpn(1 << 36), |vpn, leaf, _| {
            leaves.push((vpn, leaf.frame));
            Some(leaf)
        });
        for (page, frame) in leaves {
            let key = PageKey { asid, page };
            let frame = match frame.code() {
                Some(code) => frames.hash_placed().expect("codes").decode(key, code),
                None => frame,
            };
            assert!(frames.may_hold(frame, key), "{key:?} in {frame:?}");
            owners.entry(frame).or_default().push(key);
        }
    }
    for (&frame, pages) in &mut owners {
        let mut sharers = frames.shared().pages(frame).to_vec();
        let by_page = |key: &PageKey| (key.asid, key.page);
        pages.sort_unstable_by_key(by_page);
        sharers.sort_unstable_by_key(by_page);
        assert!(
            sharers == *pages || (sharers.is_empty() && pages.len() == 1),
            "{frame:?}: {pages:?}, {sharers:?}"
        );
        if let Some(owner) = frames.owner(frame) {
            assert!(pages.contains(&owner), "{frame:?}");
        }
    }
    let mapped = owners.len() as u64;
    assert_eq!(mapped, counts.resident.pages.iter().sum::<u64>());
    let by_level = T::GRANULE.sizes().iter().zip(counts.resident.pages);
    let pages: u64 = by_level.map(|(size, pages)| pages * size.base_pages()).sum();
    let used = frames.total_frames() - frames.free_frames();
    let own = pages + table_space.bytes / 4096 + ready;
    // In fragmented memory the rest is other programs'.
    assert!(used == own || (used > own && frames.ordinary().counts().is_some()), "{used} used, {own} known");
}

pub(super) fn check_run<T: Built>(spec: &MachineSpec, seed: u64) {
    let mut machine = counting_of::<T>(spec);
    for batch in eventful(seed, 14) {
        machine.batch(&batch).unwrap();
        check_frames(&mut machine);
    }
    let result = machine.finish("s");
    assert!(value(&result, "reclaim", "evictions") > 1_000, "{:?}: nothing left", spec.paging.reclaim);
    let came_back = match spec.paging.accelerator {
        Some(_) => value(&result, "accelerator", "fetches"),
        None => value(&result, "fault", "major"),
    };
    assert!(came_back > 500, "{:?}: nothing came back", spec.paging.reclaim);
    let (out, clean) = (value(&result, "swap", "pages-out"), value(&result, "swap", "clean-evictions"));
    assert_eq!(out + clean, value(&result, "reclaim", "evictions"));
    assert_eq!(value(&result, "swap", "pages-in"), came_back + value(&result, "swap", "read-ahead"));
    assert_eq!(value(&result, "reclaim", "ahead") > 0, spec.paging.background_percent > 0);
    // Without it, only what the program asks for (`MADV_WILLNEED`) is read ahead.
    assert!(value(&result, "swap", "read-ahead") > 0 || spec.paging.swap.readahead == 1);
    if T::IS_COMPRESSED {
        assert!(value(&result, "reclaim", "copied-pages") > 0, "moved pages are copied");
    }
}

#[test]
fn every_frame_has_one_page_whatever_leaves() {
    for (number, spec) in every_policy().iter().enumerate() {
        (Checks::on(spec).policy)(spec, 60 + number as u64);
    }
}

/// Exact LRU against a list of pages: the same faults, the same writes.
#[test]
fn exact_lru_equals_a_list_of_pages() {
    let spec = small("lru-swap");
    let mut machine = counting(&spec);
    const FRAMES: usize = 2_048;
    let mut random = Random(77);
    // Most recent last: page, and whether it was written to since it came.
    let mut list: Vec<(u64, bool)> = Vec::new();
    let mut copies = std::collections::HashSet::new();
    let (mut major, mut out) = (0, 0);
    let mut batch = Batch::new();
    map(&mut batch, BASE, 1 << 30);
    for _ in 0..60_000 {
        let (hot, all) = (random.below(1_500), random.below(2_600));
        let page = if random.below(3) == 0 { all } else { hot };
        let write = random.below(4) == 0;
        batch.push(Access::new(VirtAddr(BASE + page * PAGE_BYTES), 8, write));
        let dirty = match list.iter().position(|&(other, _)| other == page) {
            Some(at) => list.remove(at).1,
            None => {
                if list.len() == FRAMES {
                    let (gone, dirty) = list.remove(0);
                    out += u64::from(dirty);
                    if dirty {
                        copies.insert(gone);
                    }
                }
                major += u64::from(copies.contains(&page));
                false
            }
        };
        list.push((page, dirty || write));
    }
    machine.batch(&batch).unwrap();
    let result = machine.finish("s");
    assert_eq!((value(&result, "fault", "major"), value(&result, "swap", "pages-out")), (major, out));
    assert!(major > 1_000);
}

/// Nearly all of memory moves to other page numbers, again and again: moved pages push moved pages out.
#[test]
fn moving_more_pages_than_find_a_place_loses_none() {
    let mut machine = counting_of::<Toc>(&small("mosaic-swap"));
    const PAGES: u64 = 2_200;
    let range = |number: u64| VirtRange::sized(VirtAddr(BASE + (number << 32)), PAGES * PAGE_BYTES);
    let mut batch = Batch::new();
    batch.mark(Event::Map(Mapping::anonymous(range(0))));
    for round in 0..6 {
        (0..PAGES).for_each(|page| batch.push(Access::store(range(round).start.add(page * PAGE_BYTES), 8)));
        batch.mark(Event::Remap { from: range(round), to: range(round + 1) });
        machine.batch(&batch).unwrap();
        check_frames(&mut machine);
        batch = Batch::new();
    }
    let result = machine.finish("s");
    // Every page is in memory or on the device: none is new again.
    assert_eq!(value(&result, "fault", "minor.4KiB"), PAGES);
    assert_eq!(value(&result, "kernel", "refused-calls"), 0);
}

#[test]
fn file_and_shared_pages_have_ordinary_frames() {
    let mut machine = counting_of::<Toc>(&spec("mosaic-8"));
    let mut batch = Batch::new();
    let range = |number: u64| VirtRange::sized(VirtAddr(BASE + number * 32 * PAGE_BYTES), 32 * PAGE_BYTES);
    let mappings = [
        Mapping::anonymous(range(0)),
        Mapping { backing: Backing::File, ..Mapping::anonymous(range(1)) },
        Mapping { shared: true, ..Mapping::anonymous(range(2)) },
    ];
    mappings.into_iter().for_each(|mapping| batch.mark(Event::Map(mapping)));
    for _ in 0..2 {
        (0..96).for_each(|page| batch.push(Access::load(VirtAddr(BASE + page * PAGE_BYTES), 8)));
    }
    machine.batch(&batch).unwrap();
    assert_eq!(machine.state().frames.hash_placed().map(|placed| placed.frames().used()), Some(32));
    check_frames(&mut machine);
    let mut end = Batch::new();
    end.mark(Event::Unmap(VirtRange::sized(VirtAddr(BASE), 96 * PAGE_BYTES)));
    machine.batch(&end).unwrap();
    check_frames(&mut machine);
    assert_eq!(machine.state().counts.resident.pages[0], 0);
}

#[test]
fn waiting_for_a_swapped_page_takes_the_devices_time() {
    let spec = small("lru-swap");
    let mut machine: Machine<Plain, IntervalClock> = machine(&spec, 1, &announced()).unwrap();
    let mut batch = Batch::new();
    map(&mut batch, BASE, 1 << 30);
    // A cyclic scan of twice as many pages as there are frames: every access of the second round waits, for pages that
    // left long ago.
    for page in (0..4_096).chain(0..4_096) {
        batch.push(Access::store(VirtAddr(BASE + page * PAGE_BYTES), 8));
    }
    machine.batch(&batch).unwrap();
    let result = machine.finish("s");
    let time = |metric: &str| value(&result, "time", metric);
    assert_eq!(value(&result, "fault", "major"), 4_096);
    let disk = spec.paging.swap.kind.settings::<BlockSpec>().expect("a disk");
    assert!(time("swap-wait") > 4_096 * disk.latency_ps, "{}", time("swap-wait"));
    assert!(time("fault") > time("swap-wait"));
    assert_eq!(time("elapsed"), time("compute") + time("walk") + time("memory") + time("fault"));
}

#[test]
fn a_full_swap_device_is_an_error_that_says_what_to_do() {
    let mut spec = small("mosaic-swap");
    spec.paging.swap.bytes = 100 * PAGE_BYTES;
    let mut machine = counting_of::<Toc>(&spec);
    let mut batch = Batch::new();
    map(&mut batch, BASE, 1 << 30);
    (0..4_000).for_each(|page| batch.push(Access::store(VirtAddr(BASE + page * PAGE_BYTES), 8)));
    let error = machine.batch(&batch).unwrap_err().to_string();
    assert!(error.contains("all of its 100 pages") && error.contains("[swap]"), "{error}");
}
