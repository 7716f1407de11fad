//! Guests in virtual machines.

use pagewalk_vm::table::Giving;

use super::*;
use crate::spec::settings::{HostSpec, HugePagePolicy, RunEntries, TlbKind};

fn host(levels: u32, pages: PageSize) -> HostSpec {
    HostSpec {
        levels,
        pages,
        giving: Giving::AtFirstTouch,
        fault_ps: 2_000_000,
        tlb_entries: 0,
        walk_cache: None,
    }
}

/// A guest of which each access walks from the root.
fn cold(guest_levels: u32, host: HostSpec) -> MachineSpec {
    changed(spec("x86-64"), |spec| {
        spec.translation.table = RadixSpec { levels: guest_levels, granule: Granule::Size4K }.into();
        spec.translation.tlb.clear();
        spec.translation.walk_cache = None;
        spec.translation.host = Some(host);
    })
}

fn sweep(machine: &mut dyn Simulate, pages: u64) {
    let mut batch = Batch::new();
    for page in 0..pages {
        batch.push(Access::store(VirtAddr(BASE + page * 4096), 8));
    }
    machine.batch(&batch).expect("memory enough");
}

fn mapped(spec: &MachineSpec, detail: Detail, bytes: u64) -> Box<dyn Simulate> {
    let mut machine = build(spec, detail, 1, &announced()).expect("memory for a page table");
    let mut batch = Batch::new();
    map(&mut batch, BASE, bytes);
    machine.batch(&batch).expect("memory enough");
    machine
}

/// The counts of a second pass over pages that are all there.
fn second_pass(spec: &MachineSpec, pages: u64) -> impl Fn(&str, &str) -> u64 + use<> {
    let mut machine = mapped(spec, Detail::Counts, pages * 4096);
    sweep(&mut *machine, pages);
    let first = machine.finish("first");
    sweep(&mut *machine, pages);
    let second = machine.finish("second");
    move |stage, metric| value(&second, stage, metric) - value(&first, stage, metric)
}

#[test]
fn each_walk_has_the_references_of_both_tables() {
    for guest in [4, 5] {
        for levels in [3, 4, 5] {
            for (at, pages) in PageSize::ALL.into_iter().enumerate() {
                let counts = second_pass(&cold(guest, host(levels, pages)), 1_000);
                let of_host = u64::from(levels) - at as u64;
                let guest = u64::from(guest);
                assert_eq!(counts("walk", "walks"), 1_000);
                assert_eq!(counts("walk", "references"), 1_000 * ((guest + 1) * (of_host + 1) - 1));
                assert_eq!(counts("host", "references"), 1_000 * (guest + 1) * of_host);
                assert_eq!(counts("walk", "references.level0"), 1_000);
                assert_eq!((counts("host", "faults"), counts("host", "walks")), (0, 1_000 * (guest + 1)));
            }
        }
    }
}

#[test]
fn walk_caches_and_a_tlb_for_guest_physical_pages_shorten_walks() {
    let with = |change: &dyn Fn(&mut MachineSpec)| {
        let spec = changed(cold(4, host(4, PageSize::Size4K)), change);
        second_pass(&spec, 1_000)("walk", "references")
    };
    let none = with(&|_| ());
    assert_eq!(none, 24_000);
    let guests = with(&|spec| spec.translation.walk_cache = self::spec("x86-64").translation.walk_cache);
    // An entry of the guest's last table, and a walk to the page; a table of 512 pages is new now and then.
    assert!((5_000..5_100).contains(&guests), "{guests}");
    let of_host = |spec: &mut MachineSpec, host: HostSpec| spec.translation.host = Some(host);
    let cached = with(&|spec| {
        of_host(spec, HostSpec { walk_cache: Some(vec![4, 4, 32]), ..host(4, PageSize::Size4K) });
    });
    assert!(
        (9_000..9_100).contains(&cached),
        "{cached}: five translations of a reference each, and four entries"
    );
    let tlb = with(&|spec| of_host(spec, HostSpec { tlb_entries: 16, ..host(4, PageSize::Size4K) }));
    assert!((8_000..8_100).contains(&tlb), "{tlb}: only the page's own translation is new");
}

#[test]
fn a_tlb_holds_the_smaller_of_both_pages_and_the_host_gives_its_own() {
    for (pages, is_huge) in [(PageSize::Size4K, false), (PageSize::Size2M, true), (PageSize::Size1G, true)] {
        let spec = changed(spec("x86-64-thp"), |spec| spec.translation.host = Some(host(4, pages)));
        let mut machine = mapped(&spec, Detail::Counts, 64 << 20);
        (0..2).for_each(|_| sweep(&mut *machine, 16_384));
        let result = machine.finish("twice");
        assert_eq!(value(&result, "fault", "minor.2MiB"), 32);
        let misses = value(&result, "tlb.l2", "misses");
        // 32 huge pages have room in the TLB, and 16,384 small ones do not.
        assert_eq!(misses, if is_huge { 32 } else { 2 * 16_384 }, "{pages}");
        let (faults, given) = (value(&result, "host", "faults"), value(&result, "host", "given"));
        assert_eq!(faults * pages.bytes(), given);
        let least = (64 << 20) / pages.bytes();
        assert!((least..least + 20).contains(&faults), "{faults} faults of {pages}");
    }
}

/// Runs of pages come with an entry as far as the host's page reaches.
#[test]
fn an_entry_of_several_pages_stays_within_the_hosts_page() {
    let misses = |pages| {
        let spec = changed(spec("x86-64"), |spec| {
            spec.translation.host = Some(host(4, pages));
            spec.translation.tlb.truncate(1);
            let array = &mut spec.translation.tlb[0].arrays[0];
            (array.entries, array.ways) = (16, 16);
            array.kind = TlbKind::from(RunEntries { arity: 8 });
            spec.translation.tlb[0].arrays.truncate(1);
        });
        second_pass(&spec, 1_024)("tlb.l1", "misses")
    };
    // Runs that lie across two of the host's pages miss twice or more.
    assert!((128..150).contains(&misses(PageSize::Size2M)));
    assert_eq!(misses(PageSize::Size4K), 1_024);
}

/// A page that is large in the guest and small in the host comes alone.
#[test]
fn an_entry_of_several_pages_takes_a_large_page_of_the_guest_in_pieces() {
    let spec = changed(spec("x86-64-thp"), |spec| {
        spec.translation.host = Some(host(4, PageSize::Size4K));
        spec.translation.tlb.truncate(1);
        let array = &mut spec.translation.tlb[0].arrays[0];
        (array.entries, array.ways) = (16, 16);
        array.kind = TlbKind::from(RunEntries { arity: 8 });
        spec.translation.tlb[0].arrays.truncate(1);
    });
    assert_eq!(second_pass(&spec, 1_024)("tlb.l1", "misses"), 1_024);
}

#[test]
fn prefetches_go_through_the_hosts_table_and_do_not_leave_the_guest() {
    let spec = changed(spec("x86-64-tlb-prefetch"), |spec| {
        spec.translation.host = Some(host(4, PageSize::Size4K));
        spec.translation.walk_cache = None;
    });
    let counts = second_pass(&spec, 4_096);
    let (walks, prefetches) = (counts("walk", "walks"), counts("tlb-prefetch", "prefetches"));
    assert!(walks < 100 && prefetches >= 4_000, "{walks} walks and {prefetches} prefetches");
    // Two end early: beyond the last page after three levels of the guest, and where the distance back to the first leads, after two.
    assert_eq!(counts("tlb-prefetch", "empty"), 2);
    assert_eq!(counts("tlb-prefetch", "references"), 24 * (prefetches - 2) + 15 + 10);
    assert_eq!(counts("host", "faults"), 0);
}

#[test]
fn a_guest_takes_longer_and_its_exits_are_charged() {
    let elapsed = |spec: &MachineSpec| {
        let mut machine = mapped(spec, Detail::Timed, 16 << 20);
        (0..3).for_each(|_| sweep(&mut *machine, 4_096));
        let result = machine.finish("timed");
        let faults = spec.translation.host.as_ref().map_or(0, |_| value(&result, "host", "faults"));
        (value(&result, "time", "elapsed"), faults)
    };
    let native = elapsed(&spec("x86-64")).0;
    let guest = |fault_ps| {
        let host = HostSpec { fault_ps, ..host(4, PageSize::Size4K) };
        elapsed(&changed(spec("x86-64"), |spec| spec.translation.host = Some(host.clone())))
    };
    let (free, faults) = guest(0);
    assert!(free > native, "{free} ps, and {native} ps without a host");
    let (charged, same) = guest(1_000_000);
    assert_eq!(same, faults);
    let ratio = (charged - free) as f64 / (faults * 1_000_000) as f64;
    assert!((0.95..=1.0).contains(&ratio), "{ratio} of the exits' time");
}

/// What a guest's kernel does with memory, whatever the host does.
#[test]
fn a_guest_has_the_faults_of_a_machine_without_a_host() {
    let native = changed(spec("x86-64"), |spec| spec.translation.huge_pages = HugePagePolicy::Never);
    let guest = changed(native.clone(), |spec| spec.translation.host = Some(host(4, PageSize::Size2M)));
    let counts = [native, guest].map(|spec| {
        let mut machine = mapped(&spec, Detail::Counts, 4 << 20);
        sweep(&mut *machine, 1_024);
        let mut batch = Batch::new();
        batch.mark(Event::Fork { child: pagewalk_trace::ProcessId(1) });
        batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(BASE), 1 << 20)));
        machine.batch(&batch).expect("memory enough");
        let mut batch = Batch::new();
        (256..1_024).for_each(|page| batch.push(Access::store(VirtAddr(BASE + page * 4096), 8)));
        machine.batch(&batch).expect("memory enough");
        let result = machine.finish("forked");
        let of = ["fault", "kernel", "frames", "table"];
        let rows = result.metrics.into_iter().filter(|row| of.contains(&&*row.stage));
        rows.collect::<Vec<_>>()
    });
    assert_eq!(counts[0], counts[1]);
}
