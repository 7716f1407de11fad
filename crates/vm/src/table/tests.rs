//! One suite for every geometry, a toy included; walks against the closed form.

mod conformance;

use std::ops::RangeInclusive;

use conformance::{Store, conformance};

use super::classic::{Chained, Classic, ClassicDesign, OpenAddressing};
use super::cuckoo::{NoChunk, Policy};
use super::hashed::{HashedDesign, HashedTable};
use super::*;
use crate::addr::{Asid, Pfn, PhysAddr, Vpn};
use crate::frame::Cpfn;

/// Three levels of four entries: small enough to fill completely.
#[derive(Debug, Clone)]
enum Toy {}

impl Geometry for Toy {
    const INDEX_BITS: u32 = 2;
    const MAX_LEAF_LEVEL: u32 = 1;

    fn table(frame: Pfn) -> u64 {
        frame.0 << 8 | 1
    }

    fn leaf(leaf: Leaf, _: u32) -> u64 {
        leaf.frame.0 << 8 | 2 | u64::from(leaf.writable) << 2 | u64::from(leaf.dirty) << 3
    }

    fn decode(raw: u64, _: u32) -> Entry {
        match raw & 3 {
            1 => Entry::Table(Pfn(raw >> 8)),
            2 => Entry::Leaf(Leaf {
                writable: raw & 4 != 0,
                dirty: raw & 8 != 0,
                ..Leaf { frame: Pfn(raw >> 8), accessed: false, executable: false, ..Leaf::data(Pfn(0)) }
            }),
            _ => Entry::Empty,
        }
    }
}

/// Data frames aligned to any level, away from the tables' frames.
fn data_frame<G: Geometry>(number: u64, level: u32) -> Pfn {
    match G::IS_COMPRESSED {
        true => Pfn::of_code(Cpfn((number % 255) as u16)),
        false => Pfn((1 << 27) + number * G::leaf_pages(level)),
    }
}

#[test]
fn every_page_table_equals_a_map() {
    fn radix<G: Geometry + Send>(levels: RangeInclusive<u32>) {
        for levels in levels.map(Levels) {
            conformance::<Radix<G>>(&levels, G::end(levels).0, G::leaf_pages, data_frame::<G>);
        }
    }
    radix::<Toy>(3..=3);
    radix::<X86_64>(3..=5);
    radix::<RiscV>(3..=5);
    radix::<Arm16K>(3..=4);
    radix::<Arm64K>(2..=3);
    radix::<X86_64Toc>(4..=4);
    // Every third page has an ordinary frame.
    let either = |number: u64, level: u32| match number.is_multiple_of(3) {
        true => data_frame::<X86_64>(number, level),
        false => data_frame::<X86_64Toc>(number, level),
    };
    conformance::<Contents>(&(), X86_64Toc::end(Levels(4)).0, X86_64Toc::leaf_pages, either);
    for (policy, chunk_bytes) in
        [(Policy::ELASTIC, vec![]), (Policy::MEMORY_EFFICIENT, vec![8 << 10, 1 << 20])]
    {
        let design = HashedDesign { policy: Policy { first_slots: 16, ..policy }, chunk_bytes, crc: false };
        conformance::<HashedTable>(&design, HASHED_END.0, X86_64::leaf_pages, data_frame::<X86_64>);
    }
    let design = ClassicDesign { first_slots: 4, upsize_above: 600 };
    conformance::<Classic<OpenAddressing>>(&design, HASHED_END.0, X86_64::leaf_pages, data_frame::<X86_64>);
    conformance::<Classic<Chained>>(&design, HASHED_END.0, X86_64::leaf_pages, data_frame::<X86_64>);
}

#[test]
fn entries_survive_encoding_in_every_geometry() {
    fn check<G: Geometry>() {
        for bits in 0..32u32 {
            let on = |bit: u32| bits >> bit & 1 == 1;
            let leaf = Leaf {
                frame: Pfn(0x12_3456_7800 >> 4),
                readable: true,
                writable: on(1),
                executable: on(2),
                accessed: on(3),
                dirty: on(4),
            };
            assert_eq!(G::decode(G::leaf(leaf, 1), 1), Entry::Leaf(leaf));
            assert_eq!(G::decode(G::leaf(leaf, 0), 0), Entry::Leaf(leaf));
        }
        assert_eq!(G::decode(G::table(Pfn(0xabcde)), 1), Entry::Table(Pfn(0xabcde)));
        assert_eq!(G::decode(0, 0), Entry::Empty);
    }
    check::<X86_64>();
    check::<RiscV>();
    check::<Arm16K>();
    check::<Arm64K>();
}

#[test]
fn the_granules_reach_as_far_as_their_architecture_says() {
    fn bits<G: Geometry>(levels: u32) -> (u32, u64, u64) {
        (G::end(Levels(levels)).addr().0.ilog2(), G::leaf_pages(0) * 4096, G::leaf_pages(1) * 4096)
    }
    assert_eq!(bits::<Arm16K>(3), (47, 16 << 10, 32 << 20));
    assert_eq!(bits::<Arm16K>(4), (58, 16 << 10, 32 << 20));
    assert_eq!(bits::<Arm64K>(2), (42, 64 << 10, 512 << 20));
    assert_eq!(bits::<Arm64K>(3), (55, 64 << 10, 512 << 20));
    assert_eq!(bits::<RiscV>(3), (39, 4096, 2 << 20));
    assert_eq!(bits::<X86_64>(4), (48, 4096, 2 << 20));
    assert_eq!(bits::<X86_64>(5), (57, 4096, 2 << 20));
}

/// A walk's references are the levels above the leaf plus one, minus what the walk cache saved.
#[test]
fn walk_references_equal_levels_minus_walk_cache_hits() {
    fn check<G: Geometry + Send>(levels: u32) {
        let root_level = levels - 1;
        for leaf_level in 0..=G::MAX_LEAF_LEVEL.min(root_level) {
            for cached in 0..levels {
                // `cached` non-leaf levels, counted from the root, have a walk cache.
                let mut entries = vec![0; root_level as usize];
                entries[..(cached as usize).min(root_level as usize)].fill(4);
                let mut cache = WalkCache::new::<G>(&entries, None).unwrap();
                let mut store = Store::new();
                let mut table = Radix::<G>::new(&Levels(levels), 0, &mut store).unwrap();
                let vpn = Vpn(0);
                let leaf = Leaf::data(data_frame::<G>(1, leaf_level));
                table.map(&mut store, vpn, leaf, leaf_level).unwrap();
                let walk = |cache: &mut WalkCache, table: &Radix<G>| {
                    let walk = table.walk(&store, Asid(0), vpn, Some(cache));
                    assert_eq!(walk.end, WalkEnd::Leaf { leaf, level: leaf_level });
                    walk.references().len() as u32
                };
                let full = levels - leaf_level;
                assert_eq!(walk(&mut cache, &table), full, "cold");
                let pointers = full - 1;
                let saved = cached.min(pointers);
                assert_eq!(walk(&mut cache, &table), full - saved, "leaf {leaf_level}, {cached} cached");
                cache.flush(Some(Asid(0)));
                assert_eq!(walk(&mut cache, &table), full, "after a flush");
            }
        }
    }
    check::<Toy>(3);
    for levels in 3..=5 {
        check::<X86_64>(levels);
        check::<RiscV>(levels);
    }
    check::<Arm16K>(3);
    check::<Arm16K>(4);
    check::<Arm64K>(2);
    check::<Arm64K>(3);
    check::<X86_64Toc>(4);
}

/// Pages share words, and a run of any arity reads as its pages do, one by one.
#[test]
fn a_table_of_contents_is_a_quarter_of_a_conventional_leaf_table() {
    let mut store = Store::new();
    let mut table = Radix::<X86_64Toc>::new(&Levels(4), 0, &mut store).unwrap();
    let leaf_of = |page: u64| Leaf {
        writable: page.is_multiple_of(3),
        dirty: page.is_multiple_of(5),
        frame: if page.is_multiple_of(7) { Pfn(0) } else { Pfn::of_code(Cpfn((page % 104) as u16)) },
        ..Leaf::data(Pfn(0))
    };
    let is_mapped = |page: u64| !page.is_multiple_of(11);
    for page in (0..4_096).filter(|&page| is_mapped(page)) {
        table.map(&mut store, Vpn(page), leaf_of(page), 0).unwrap();
    }
    assert_eq!(table.nodes(), 3 + 2, "2048 pages a leaf table");
    for arity in [1, 2, 4, 8, 16, 32, 64] {
        for base in (0..4_096).step_by(arity) {
            let walk = table.walk(&store, Asid(0), Vpn(base), None);
            let run = table.leaf_run(&store, &walk, Vpn(base), arity);
            let pages = (base..base + arity as u64).map(|page| is_mapped(page).then(|| leaf_of(page)));
            assert!(run.eq(pages), "{arity} pages from {base}");
        }
    }
    table.visit(&mut store, Vpn(0), Vpn(2_048), |_, _, _| None);
    assert_eq!(table.nodes(), 3 + 1);
}

#[test]
fn walks_read_the_addresses_the_architecture_says() {
    let mut store = Store::new();
    let mut table = Radix::<X86_64>::new(&Levels(4), 0, &mut store).unwrap();
    let vpn = Vpn(0x7_f123_4567);
    table.map(&mut store, vpn, Leaf::data(Pfn(0x999)), 0).unwrap();
    let walk = table.walk(&store, Asid(0), vpn, None);
    let expected =
        [(3, 0x10, 39), (2, 0x11, 30), (1, 0x12, 21), (0, 0x13, 12)].map(|(level, frame, shift)| {
            let index = vpn.addr().0 >> shift & 511;
            (level, PhysAddr((frame << 12) + 8 * index))
        });
    let got: Vec<_> = walk.references().map(|r| (r.level, r.addr)).collect();
    assert_eq!(got, expected);
}

#[test]
fn splitting_a_large_page_keeps_every_translation() {
    let mut store = Store::new();
    let mut table = Radix::<X86_64>::new(&Levels(4), 0, &mut store).unwrap();
    let leaf = Leaf { dirty: true, ..Leaf::data(Pfn(1 << 18)) };
    table.map(&mut store, Vpn(1 << 18), leaf, 2).unwrap();
    let left = std::mem::take(&mut store.left);
    assert_eq!(table.split(&mut store, Vpn((1 << 18) + 5)), Err(MapError::NoMemory(NoChunk { bytes: 4096 })));
    store.left = left;
    assert!(table.split(&mut store, Vpn((1 << 18) + 5)).unwrap());
    assert!(table.split(&mut store, Vpn((1 << 18) + 5)).unwrap());
    let (piece, level) = table.find(&store, Vpn((1 << 18) + 5)).unwrap();
    assert_eq!((piece.frame, piece.dirty, level), (Pfn((1 << 18) + 5), true, 0));
    let (piece, level) = table.find(&store, Vpn((1 << 18) + 700)).unwrap();
    assert_eq!((piece.frame, level), (Pfn((1 << 18) + 512), 1));
    assert!(!table.split(&mut store, Vpn(3)).unwrap(), "nothing is mapped there");
}

#[test]
fn running_out_of_frames_is_an_error_and_maps_nothing() {
    let mut store = Store::of(3);
    let mut table = Radix::<X86_64>::new(&Levels(4), 0, &mut store).unwrap();
    let mapped = table.map(&mut store, Vpn(3), Leaf::data(Pfn(99)), 0);
    assert_eq!(mapped, Err(MapError::NoMemory(NoChunk { bytes: 4096 })));
    assert_eq!(table.find(&store, Vpn(3)), None);
    assert_eq!(table.nodes(), 3, "the two nodes made so far are accounted for");
    table.release(&mut store);
    assert_eq!(store.used, 0, "and given back");
}

#[test]
fn update_writes_only_what_changed() {
    let mut store = Store::new();
    let mut table = Radix::<RiscV>::new(&Levels(3), 0, &mut store).unwrap();
    table.map(&mut store, Vpn(7), Leaf::data(Pfn(70)), 0).unwrap();
    let before = table.update(&mut store, Vpn(7), |leaf| leaf.dirty = true).unwrap();
    assert!(!before.0.dirty);
    assert!(table.find(&store, Vpn(7)).unwrap().0.dirty);
    assert_eq!(table.update(&mut store, Vpn(8), |leaf| leaf.dirty = true), None);
}
