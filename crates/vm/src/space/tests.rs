//! Cases with known answers; `model` compares random sequences with a map from page to attributes.

mod model;

use super::*;
use crate::addr::{Granule, PAGE_BYTES, PageSize, VirtAddr, VirtRange, Vpn};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn range(start: u64, end: u64) -> VirtRange {
    VirtRange::new(VirtAddr(start), VirtAddr(end))
}

/// The half-open range of these base pages.
fn pages(start: u64, end: u64) -> VirtRange {
    range(start * PAGE_BYTES, end * PAGE_BYTES)
}

fn anonymous(range: VirtRange) -> Mapping {
    Mapping::anonymous(range)
}

fn ranges(space: &AddressSpace) -> Vec<VirtRange> {
    space.vmas().map(|vma| vma.range).collect()
}

const READ: Protection = Protection { read: true, write: false, execute: false };
const NONE: Protection = Protection { read: false, write: false, execute: false };

#[test]
fn neighbours_split_and_merge() {
    let mut space = AddressSpace::new(HugePagePolicy::Never);
    assert_eq!(space.map(anonymous(pages(10, 20))), Ok(vec![]));
    assert_eq!(space.map(anonymous(pages(20, 30))), Ok(vec![]));
    assert_eq!(ranges(&space), [pages(10, 30)]);
    assert_eq!(space.protect(pages(15, 18), READ), Ok(vec![pages(15, 18)]));
    assert_eq!(ranges(&space), [pages(10, 15), pages(15, 18), pages(18, 30)]);
    assert_eq!(space.protect(pages(0, 17), READ), Ok(vec![pages(10, 15)]), "15 and 16 had it already");
    assert_eq!(space.protect(pages(0, 100), Protection::READ_WRITE), Ok(vec![pages(10, 18)]));
    assert_eq!(ranges(&space), [pages(10, 30)]);
    assert_eq!(space.unmap(pages(12, 14)), Ok(vec![pages(12, 14)]));
    assert_eq!(space.unmap(pages(0, 100)), Ok(vec![pages(10, 12), pages(14, 30)]));
    assert_eq!((space.vma_count(), space.mapped_bytes()), (0, 0));
}

#[test]
fn mappings_of_files_stay_apart_but_parts_of_one_rejoin() {
    let mut space = AddressSpace::new(HugePagePolicy::Never);
    let file = |range| Mapping { backing: Backing::File, protection: READ, ..Mapping::anonymous(range) };
    space.map(file(pages(10, 20))).unwrap();
    space.map(file(pages(20, 30))).unwrap();
    assert_eq!(ranges(&space), [pages(10, 20), pages(20, 30)]);
    space.protect(pages(15, 25), NONE).unwrap();
    assert_eq!(space.vma_count(), 4);
    space.protect(pages(15, 25), READ).unwrap();
    assert_eq!(ranges(&space), [pages(10, 20), pages(20, 30)]);
    space.remap(pages(15, 20), pages(40, 45)).unwrap();
    space.remap(pages(40, 45), pages(15, 20)).unwrap();
    assert_eq!(space.vma_count(), 3, "a part that went away is another mapping");
}

#[test]
fn ranges_are_rounded_outwards_and_the_break_upwards() {
    let mut space = AddressSpace::new(HugePagePolicy::Never);
    space.map(anonymous(range(0x1001, 0x2001))).unwrap();
    assert_eq!(ranges(&space), [pages(1, 3)]);
    assert_eq!(space.unmap(range(0x2fff, 0x3000)), Ok(vec![pages(2, 3)]));
    space.set_break(range(0x5800, 0x5900)).unwrap();
    assert_eq!(space.heap(), pages(6, 6), "the page of the break belongs to what is below");
    space.set_break(range(0x5800, 0x6001)).unwrap();
    assert_eq!(ranges(&space), [pages(1, 2), pages(6, 7)]);
    assert_eq!(space.map(anonymous(range(0x9000, 0x8000))), Ok(vec![]), "an empty range maps nothing");
}

#[test]
fn the_heap_grows_and_shrinks_as_one_mapping() {
    let mut space = AddressSpace::new(HugePagePolicy::Never);
    for end in [100, 120, 150, 130] {
        space.set_break(pages(100, end)).unwrap();
    }
    assert_eq!(ranges(&space), [pages(100, 130)]);
    space.map(anonymous(pages(140, 150))).unwrap();
    assert_eq!(
        space.set_break(pages(100, 145)),
        Ok(vec![pages(140, 145)]),
        "the break replaces what is there"
    );
    assert_eq!(space.set_break(pages(100, 100)), Ok(vec![pages(100, 145)]));
    assert_eq!(ranges(&space), [pages(145, 150)]);
    space.set_break(pages(200, 210)).unwrap();
    assert_eq!(space.set_break(pages(195, 205)), Ok(vec![pages(205, 210)]));
    assert_eq!(space.set_break(pages(300, 301)), Ok(vec![pages(195, 205)]));
    assert_eq!(space.heap(), pages(300, 301));
}

#[test]
fn remap_moves_grows_and_shrinks() {
    let mut space = AddressSpace::new(HugePagePolicy::Never);
    space.map(anonymous(pages(10, 20))).unwrap();
    let grown = space.remap(pages(10, 20), pages(10, 25)).unwrap();
    assert_eq!(grown, Remapped::default());
    let shrunk = space.remap(pages(10, 25), pages(10, 18)).unwrap();
    assert_eq!(shrunk, Remapped { dropped: vec![pages(18, 25)], moved: vec![] });
    space.map(anonymous(pages(55, 60))).unwrap();
    let moved = space.remap(pages(12, 18), pages(50, 58)).unwrap();
    let expected =
        Remapped { dropped: vec![pages(55, 58)], moved: vec![(pages(12, 18), VirtAddr(50 * PAGE_BYTES))] };
    assert_eq!(moved, expected);
    assert_eq!(ranges(&space), [pages(10, 12), pages(50, 60)]);
    for (from, to) in
        [(pages(50, 54), pages(52, 56)), (pages(50, 50), pages(1, 2)), (pages(50, 51), pages(1, 1))]
    {
        assert_eq!(space.remap(from, to), Err(SpaceError::BadRemap { from, to }));
    }
    assert_eq!(space.remap(pages(0, 5), pages(80, 85)), Err(SpaceError::NotMapped { range: pages(0, 5) }));
    let end_missing = space.remap(pages(55, 65), pages(80, 95));
    assert_eq!(end_missing, Err(SpaceError::NotMapped { range: pages(60, 65) }));
    let tail_only = space.remap(pages(45, 52), pages(45, 47)).unwrap();
    assert_eq!(tail_only.dropped, [pages(50, 52)]);
}

#[test]
fn the_number_of_mappings_is_limited_and_a_refused_call_changes_nothing() {
    let mut space = AddressSpace::new(HugePagePolicy::Never);
    for n in 0..MAX_MAPPINGS as u64 {
        space.map(anonymous(pages(4 * n, 4 * n + 3))).unwrap();
    }
    let before = ranges(&space);
    let free = pages(4 * MAX_MAPPINGS as u64, 4 * MAX_MAPPINGS as u64 + 1);
    let too_many = |range| Err(SpaceError::TooManyMappings { range });
    assert_eq!(space.map(anonymous(free)), too_many(free));
    assert_eq!(space.unmap(pages(1, 2)), too_many(pages(1, 2)));
    assert_eq!(space.protect(pages(1, 2), READ), too_many(pages(1, 2)));
    assert_eq!(space.advise(pages(1, 2), Advice::HugePage), too_many(pages(1, 2)));
    assert_eq!(space.set_break(free), too_many(free));
    let from = pages(1, 2);
    assert_eq!(space.remap(from, free).unwrap_err(), SpaceError::TooManyMappings { range: free });
    assert_eq!(ranges(&space), before);
    assert_eq!(space.heap(), VirtRange::default());
    // What does not need another VMA still works.
    space.map(anonymous(pages(3, 4))).unwrap();
    assert_eq!(space.vma_count(), MAX_MAPPINGS - 1);
    space.map(anonymous(free)).unwrap();
    assert_eq!(space.vma_count(), MAX_MAPPINGS);
}

#[test]
fn huge_pages_change_as_a_whole() {
    let mut space = AddressSpace::new(HugePagePolicy::Always);
    let huge = |range| Mapping { huge: Some(PageSize::Size2M), ..Mapping::anonymous(range) };
    let misaligned = space.map(huge(range(MIB, 3 * MIB)));
    assert!(matches!(misaligned, Err(SpaceError::MisalignedHugePages { size: PageSize::Size2M, .. })));
    space.map(huge(range(4 * MIB, 7 * MIB))).unwrap();
    assert_eq!(ranges(&space), [range(4 * MIB, 8 * MIB)], "the end is rounded up");
    let cut = range(5 * MIB, 6 * MIB);
    let refused =
        SpaceError::SplitsHugePage { range: cut, vma: range(4 * MIB, 8 * MIB), size: PageSize::Size2M };
    assert_eq!(space.unmap(cut), Err(refused));
    assert_eq!(space.protect(cut, READ), Err(refused));
    assert_eq!(space.map(anonymous(cut)), Err(refused));
    assert!(space.set_break(cut).is_err());
    assert_eq!(space.advise(range(4 * MIB, 7 * MIB), Advice::DontNeed), Ok(vec![range(4 * MIB, 6 * MIB)]));
    assert_eq!(space.remap(range(4 * MIB, 5 * MIB), range(10 * MIB, 11 * MIB)).unwrap().moved.len(), 1);
    assert_eq!(ranges(&space), [range(6 * MIB, 8 * MIB), range(10 * MIB, 12 * MIB)]);
    assert!(space.remap(range(6 * MIB, 8 * MIB), range(21 * MIB, 23 * MIB)).is_err());
    // A move that begins with small pages must not cut the huge ones behind them.
    space.map(anonymous(range(5 * MIB, 6 * MIB))).unwrap();
    let cut = space.remap(range(5 * MIB, 8 * MIB), range(31 * MIB, 33 * MIB));
    let misaligned =
        SpaceError::MisalignedHugePages { range: range(32 * MIB, 33 * MIB), size: PageSize::Size2M };
    assert_eq!(cut, Err(misaligned));
    assert!(space.remap(range(5 * MIB, 8 * MIB), range(31 * MIB, 34 * MIB)).is_ok());
    space.remap(range(31 * MIB, 34 * MIB), range(5 * MIB, 8 * MIB)).unwrap();
    assert_eq!(space.unmap(range(6 * MIB, 8 * MIB)), Ok(vec![range(6 * MIB, 8 * MIB)]));
    space.map(Mapping { huge: Some(PageSize::Size4K), ..Mapping::anonymous(pages(1, 2)) }).unwrap();
    assert_eq!(space.find(VirtAddr(PAGE_BYTES)).unwrap().huge, None, "4 KiB is not an explicit huge page");
}

#[test]
fn addresses_beyond_the_user_half_are_refused() {
    let mut space = AddressSpace::new(HugePagePolicy::Never);
    let top = range(ADDRESS_LIMIT.0 - PAGE_BYTES, ADDRESS_LIMIT.0);
    space.map(anonymous(top)).unwrap();
    for bad in
        [range(ADDRESS_LIMIT.0 - 1, ADDRESS_LIMIT.0 + 1), range(0, u64::MAX), range(u64::MAX - 9, u64::MAX)]
    {
        let refused = SpaceError::BeyondAddressLimit { range: bad.to_pages() };
        assert!(space.map(anonymous(bad)).is_err_and(|error| error == refused) || bad.to_pages().is_empty());
    }
    assert!(matches!(space.set_break(range(0, u64::MAX)), Err(SpaceError::BeyondAddressLimit { .. })));
    assert!(matches!(space.remap(top, range(1 << 60, 1 << 61)), Err(SpaceError::BeyondAddressLimit { .. })));
    assert_eq!(space.unmap(range(0, u64::MAX)), Ok(vec![top]));
    let mut implicit = AddressSpace::implicit(HugePagePolicy::Never);
    assert!(implicit.fault(ADDRESS_LIMIT, false, false).is_err());
    assert!(implicit.fault(VirtAddr(ADDRESS_LIMIT.0 - 1), false, false).is_ok());
}

#[test]
fn protection_is_checked_as_x86_linux_does() {
    let protection =
        |bits: u32| Protection { read: bits & 4 != 0, write: bits & 2 != 0, execute: bits & 1 != 0 };
    // Load, store, fetch; a store-only or execute-only mapping can be read.
    let allowed = [
        (0b000, [false, false, false]),
        (0b001, [true, false, true]),
        (0b010, [true, true, false]),
        (0b011, [true, true, true]),
        (0b100, [true, false, false]),
        (0b101, [true, false, true]),
        (0b110, [true, true, false]),
        (0b111, [true, true, true]),
    ];
    for (bits, expected) in allowed {
        let mut space = AddressSpace::new(HugePagePolicy::Never);
        space.map(Mapping { protection: protection(bits), ..anonymous(pages(1, 2)) }).unwrap();
        let addr = VirtAddr(PAGE_BYTES + 8);
        let got =
            [(false, false), (true, false), (false, true)].map(|(w, x)| space.fault(addr, w, x).is_ok());
        assert_eq!(got, expected, "{}", protection(bits));
    }
    let mut space = AddressSpace::new(HugePagePolicy::Never);
    assert_eq!(space.fault(VirtAddr(0), true, false), Err(FaultError::Unmapped { addr: VirtAddr(0) }));
    space.map(Mapping { protection: READ, ..anonymous(pages(1, 2)) }).unwrap();
    let text = space.fault(VirtAddr(0x1008), true, false).unwrap_err().to_string();
    assert_eq!(text, "store to 0x1008, but the mapping [0x1000, 0x2000) allows only r--");
    // The remembered VMA must not outlive a change.
    assert!(space.fault(VirtAddr(0x1008), false, false).is_ok());
    space.protect(pages(1, 2), NONE).unwrap();
    assert!(space.fault(VirtAddr(0x1008), false, false).is_err());
    space.unmap(pages(1, 2)).unwrap();
    assert_eq!(
        space.fault(VirtAddr(0x1008), false, false),
        Err(FaultError::Unmapped { addr: VirtAddr(0x1008) })
    );
}

#[test]
fn huge_pages_are_offered_exactly_where_they_fit() {
    const SLOT: u64 = 2 * MIB;
    let base: &[PageSize] = &[PageSize::Size4K];
    let huge: &[PageSize] = &[PageSize::Size2M, PageSize::Size4K];
    // VMA in bytes relative to slot 10; address relative to it; what is offered.
    let cases = [
        (0, SLOT, 0, huge),
        (0, SLOT, SLOT - 1, huge),
        (0, SLOT - PAGE_BYTES, 0, base),
        (PAGE_BYTES, SLOT, PAGE_BYTES, base),
        (PAGE_BYTES, SLOT, SLOT - 1, base),
        (0, SLOT + PAGE_BYTES, SLOT - 1, huge),
        (0, SLOT + PAGE_BYTES, SLOT, base),
        (PAGE_BYTES, 2 * SLOT, SLOT - 1, base),
        (PAGE_BYTES, 2 * SLOT, SLOT, huge),
        (PAGE_BYTES, 2 * SLOT, 2 * SLOT - 1, huge),
        (PAGE_BYTES, 2 * SLOT - PAGE_BYTES, SLOT, base),
        (0, 3 * SLOT, SLOT, huge),
        (MIB, MIB + SLOT, SLOT - 1, base),
        (MIB, MIB + SLOT, SLOT, base),
    ];
    for (start, end, addr, expected) in cases {
        let at = |offset: u64| VirtAddr(10 * SLOT + offset);
        let mut space = AddressSpace::new(HugePagePolicy::Always);
        space.map(anonymous(VirtRange::new(at(start), at(end)))).unwrap();
        let plan = space.fault(at(addr), true, false).unwrap();
        assert_eq!(plan.page_sizes, expected, "[{start:#x}, {end:#x}) at {addr:#x}");
    }
}

#[test]
fn huge_pages_follow_policy_advice_and_kind() {
    use HugePagePolicy::{Always, Madvise, Never};
    let wide = range(0, 4 * MIB);
    let offers_huge = |policy, mapping: Mapping, advice: Option<Advice>| {
        let mut space = AddressSpace::new(policy);
        space.map(mapping).unwrap();
        if let Some(advice) = advice {
            space.advise(wide, advice).unwrap();
        }
        space.fault(VirtAddr(0), false, false).unwrap().page_sizes.contains(&PageSize::Size2M)
    };
    let cases =
        [(Never, [false, false, false]), (Madvise, [false, true, false]), (Always, [true, true, false])];
    for (policy, expected) in cases {
        let got = [None, Some(Advice::HugePage), Some(Advice::NoHugePage)]
            .map(|advice| offers_huge(policy, anonymous(wide), advice));
        assert_eq!(got, expected, "{policy:?}");
    }
    let advised = Some(Advice::HugePage);
    assert!(!offers_huge(Always, Mapping { backing: Backing::File, ..anonymous(wide) }, advised));
    assert!(!offers_huge(Always, Mapping { shared: true, ..anonymous(wide) }, advised));
    // Explicit huge pages need no policy, take no advice and never fall back.
    for (size, wide) in [(PageSize::Size2M, wide), (PageSize::Size1G, range(0, GIB))] {
        let mut space = AddressSpace::new(Never);
        space.map(Mapping { huge: Some(size), ..anonymous(wide) }).unwrap();
        space.advise(wide, Advice::NoHugePage).unwrap();
        assert_eq!(space.fault(VirtAddr(0), true, false).unwrap().page_sizes, [size]);
    }
}

/// A page may reach beyond its mapping, but not over memory of another kind.
#[test]
fn explicit_pages_cover_their_slots_where_no_other_memory_is() {
    const ALL: &[PageSize] = &[PageSize::Size1G, PageSize::Size2M, PageSize::Size4K];
    let sizes = |most, others: Option<VirtRange>| {
        let mut space = AddressSpace::new(HugePagePolicy::Explicit(most));
        space.map(anonymous(range(5 * MIB, 5 * MIB + PAGE_BYTES))).unwrap();
        space.map(anonymous(range(GIB - PAGE_BYTES, GIB))).unwrap();
        if let Some(others) = others {
            space.map(Mapping { backing: Backing::File, ..anonymous(others) }).unwrap();
            assert_eq!(space.fault(others.start, false, false).unwrap().page_sizes, [PageSize::Size4K]);
        }
        space.fault(VirtAddr(5 * MIB), true, false).unwrap().page_sizes
    };
    assert_eq!(sizes(PageSize::Size1G, None), ALL);
    assert_eq!(sizes(PageSize::Size2M, None), &ALL[1..]);
    let (far, near, beyond) = (range(7 * MIB, 8 * MIB), range(4 * MIB, 5 * MIB), range(GIB, 2 * GIB));
    assert_eq!(sizes(PageSize::Size1G, Some(far)), &ALL[1..]);
    assert_eq!(sizes(PageSize::Size1G, Some(near)), &ALL[2..]);
    assert_eq!(sizes(PageSize::Size2M, Some(near)), &ALL[2..]);
    assert_eq!(sizes(PageSize::Size1G, Some(beyond)), ALL);
}

/// Ends of mappings need no multiples of a base page; explicit sizes of another granule are not to be had.
#[test]
fn other_granules_have_their_own_sizes() {
    for (granule, base, large) in [
        (Granule::Size16K, PageSize::Size16K, PageSize::Size32M),
        (Granule::Size64K, PageSize::Size64K, PageSize::Size512M),
    ] {
        let mut space = AddressSpace::new(HugePagePolicy::Always).with_granule(granule);
        space.map(anonymous(range(large.bytes() - PAGE_BYTES, 3 * large.bytes() - PAGE_BYTES))).unwrap();
        let mut sizes = |addr| space.fault(VirtAddr(addr), true, false).unwrap().page_sizes;
        assert_eq!(sizes(large.bytes() - 8), [base]);
        assert_eq!(sizes(2 * large.bytes() - 8), [large, base]);
        assert_eq!(sizes(2 * large.bytes()), [base]);
        let slots = space.advise(range(0, 4 * large.bytes()), Advice::Collapse);
        assert_eq!(slots, Ok(vec![range(large.bytes(), 2 * large.bytes())]));
        let explicit = range(8 * GIB, 8 * GIB + MIB);
        space.map(Mapping { huge: Some(PageSize::Size2M), ..anonymous(explicit) }).unwrap();
        assert_eq!(space.fault(explicit.start, true, false).unwrap().page_sizes, [base]);
        assert_eq!(space.fork().fault(explicit.start, true, false).unwrap().page_sizes, [base]);
    }
}

#[test]
fn advice_splits_and_collapse_answers_whole_slots() {
    let mut space = AddressSpace::new(HugePagePolicy::Madvise);
    space.map(anonymous(range(MIB, 9 * MIB))).unwrap();
    assert_eq!(space.advise(range(4 * MIB, 6 * MIB), Advice::NoHugePage), Ok(vec![]));
    assert_eq!(space.vma_count(), 3);
    let collapsible = space.advise(range(0, 16 * MIB), Advice::Collapse);
    assert_eq!(collapsible, Ok(vec![range(2 * MIB, 4 * MIB), range(6 * MIB, 8 * MIB)]));
    assert_eq!(space.advise(range(3 * MIB, 4 * MIB), Advice::Collapse), Ok(vec![]));
    assert_eq!(space.advise(range(0, 16 * MIB), Advice::DontNeed), Ok(vec![range(MIB, 9 * MIB)]));
    assert_eq!(space.vma_count(), 3, "dropping pages changes no mapping");
    space.advise(range(0, 16 * MIB), Advice::HugePage).unwrap();
    assert_eq!(space.vma_count(), 1);
}

#[test]
fn a_stack_grows_down_to_its_limit_and_keeps_its_distance() {
    let top = 0x7fff_0000_0000;
    let stack = range(top - 4 * PAGE_BYTES, top);
    let grown = |addr: u64, below: Option<Mapping>| {
        let mut space = AddressSpace::new(HugePagePolicy::Never);
        space.map_stack(anonymous(stack)).unwrap();
        if let Some(below) = below {
            space.map(below).unwrap();
        }
        let result = space.fault(VirtAddr(addr), true, false);
        result.map(|plan| plan.vma.range)
    };
    let lowest = top - STACK_LIMIT_BYTES;
    let unmapped = |addr| Err(FaultError::Unmapped { addr: VirtAddr(addr) });
    assert_eq!(grown(stack.start.0 - 8, None), Ok(range(stack.start.0 - PAGE_BYTES, top)));
    assert_eq!(grown(lowest + 5, None), Ok(range(lowest, top)));
    assert_eq!(grown(lowest - 1, None), unmapped(lowest - 1));
    assert_eq!(grown(top, None), unmapped(top), "it does not grow up");

    let addr = top - 2 * MIB;
    let below = |gap: u64| anonymous(range(addr - gap - PAGE_BYTES, addr - gap));
    assert!(grown(addr, Some(below(STACK_GUARD_BYTES))).is_ok());
    assert_eq!(grown(addr, Some(below(STACK_GUARD_BYTES - PAGE_BYTES))), unmapped(addr));
    assert!(grown(addr, Some(Mapping { protection: NONE, ..below(0) })).is_ok(), "a guard page may touch");
    // Something between the address and the stack: the stack cannot pass it.
    assert_eq!(grown(addr, Some(anonymous(range(addr + MIB, addr + MIB + PAGE_BYTES)))), unmapped(addr));
}

#[test]
fn an_implicit_space_maps_granules_around_what_is_there() {
    let mut space = AddressSpace::implicit(HugePagePolicy::Always);
    let plan = space.fault(VirtAddr(5 * MIB), true, false).unwrap();
    assert_eq!(plan.vma.range, range(4 * MIB, 6 * MIB));
    assert_eq!(plan.page_sizes, [PageSize::Size2M, PageSize::Size4K]);
    assert!(space.fault(VirtAddr(5 * MIB), false, true).is_ok(), "nothing is known of protections");
    assert_eq!((space.implicit_mappings(), space.vma_count()), (1, 1));
    space.fault(VirtAddr(7 * MIB), true, false).unwrap();
    space.fault(VirtAddr(3 * MIB), true, false).unwrap();
    assert_eq!(ranges(&space), [range(2 * MIB, 8 * MIB)]);
    // A source may announce some of its mappings all the same.
    space.map(Mapping { protection: READ, ..anonymous(range(9 * MIB, 9 * MIB + PAGE_BYTES)) }).unwrap();
    space.map(anonymous(range(11 * MIB, 12 * MIB))).unwrap();
    let plan = space.fault(VirtAddr(8 * MIB), true, false).unwrap();
    assert_eq!(plan.vma.range, range(2 * MIB, 9 * MIB), "cut short by the announced mapping");
    assert_eq!(plan.page_sizes, [PageSize::Size4K]);
    let plan = space.fault(VirtAddr(10 * MIB), true, false).unwrap();
    assert_eq!(plan.vma.range, range(10 * MIB, 11 * MIB));
    assert!(space.fault(VirtAddr(9 * MIB), true, false).is_err(), "announced protection counts");
    assert_eq!(space.implicit_mappings(), 5);
    assert_eq!(space.mapped_bytes(), 9 * MIB + PAGE_BYTES);
}

#[test]
fn an_implicit_space_has_no_limit_on_its_mappings() {
    let mut space = AddressSpace::implicit(HugePagePolicy::Never);
    for n in 0..=MAX_MAPPINGS as u64 {
        space.fault(VirtAddr(n * 4 * MIB), true, false).unwrap();
    }
    assert_eq!(space.vma_count(), MAX_MAPPINGS + 1);
    space.map(Mapping { protection: READ, ..anonymous(pages(1, 2)) }).unwrap();
    assert_eq!(space.vma_count(), MAX_MAPPINGS + 3);
}

/// Which page of a file is where follows cuts and moves.
#[test]
fn a_part_of_a_mapping_shows_the_pages_that_it_showed() {
    let mut space = AddressSpace::new(HugePagePolicy::Never);
    let object = Some(ObjectPages { object: ObjectId(7), first: 100 });
    space.map(Mapping { backing: Backing::File, object, ..anonymous(pages(10, 30)) }).unwrap();
    space.map(Mapping { object, ..anonymous(pages(40, 41)) }).unwrap();
    let shown = |space: &AddressSpace, page: u64| {
        let vma = space.find(VirtAddr(page * PAGE_BYTES)).expect("it is mapped");
        vma.object_page(Vpn(page)).map(|(object, page)| (object.0, page))
    };
    assert_eq!((shown(&space, 10), shown(&space, 29)), (Some((7, 100)), Some((7, 119))));
    assert_eq!(shown(&space, 40), None, "private anonymous memory shows nothing");
    space.protect(pages(15, 20), READ).unwrap();
    assert_eq!((space.vma_count(), shown(&space, 15)), (4, Some((7, 105))));
    space.protect(pages(15, 20), Protection::READ_WRITE).unwrap();
    assert_eq!(space.vma_count(), 2, "the parts are one again");
    space.remap(pages(12, 14), pages(1, 5)).unwrap();
    assert_eq!(
        (shown(&space, 1), shown(&space, 4), shown(&space, 14)),
        (Some((7, 102)), Some((7, 105)), Some((7, 104)))
    );
}

/// What a child gets follows the program's advice, and locks stay with the parent.
#[test]
fn a_forked_space_has_what_the_advice_leaves_it() {
    let mut parent = AddressSpace::new(HugePagePolicy::Never);
    parent.map(anonymous(pages(1, 9))).unwrap();
    parent.advise(pages(3, 5), Advice::DontFork).unwrap();
    parent.advise(pages(5, 6), Advice::WipeOnFork).unwrap();
    assert_eq!(parent.advise(pages(7, 8), Advice::Lock), Ok(vec![pages(7, 8)]));
    assert_eq!(parent.vma_count(), 6);
    let child = parent.fork();
    assert_eq!(ranges(&child), [pages(1, 3), pages(5, 6), pages(6, 9)], "without a lock, neighbours merge");
    assert_eq!(child.mapped_bytes(), 6 * PAGE_BYTES);
    assert!(child.find(VirtAddr(5 * PAGE_BYTES)).unwrap().wipe_on_fork);
    parent.advise(pages(1, 9), Advice::DoFork).unwrap();
    parent.advise(pages(1, 9), Advice::KeepOnFork).unwrap();
    assert_eq!(ranges(&parent.fork()), [pages(1, 9)]);
}

#[test]
fn a_forked_space_is_its_own() {
    let mut parent = AddressSpace::new(HugePagePolicy::Never);
    parent.map(anonymous(pages(1, 9))).unwrap();
    let mut child = parent.fork();
    child.unmap(pages(2, 3)).unwrap();
    assert_eq!(ranges(&parent), [pages(1, 9)]);
    assert!(parent.fault(VirtAddr(2 * PAGE_BYTES), true, false).is_ok());
    assert!(child.fault(VirtAddr(2 * PAGE_BYTES), true, false).is_err());
}
