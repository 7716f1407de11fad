//! One suite for every geometry, a toy included; walks against the closed form.

use std::collections::BTreeMap;

use super::*;
use crate::addr::{Asid, Pfn, PhysAddr, Vpn};
use crate::frame::Cpfn;

/// Three levels of four entries: small enough to fill completely.
#[derive(Debug, Clone)]
enum Toy {}

impl Geometry for Toy {
    const LEVELS: u32 = 3;
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

struct Frames(u64);

impl Frames {
    fn next(&mut self) -> Option<Pfn> {
        self.0 += 1;
        Some(Pfn(self.0))
    }
}

/// Data frames aligned to any level, away from the tables' frames.
fn data_frame<G: Geometry>(number: u64, level: u32) -> Pfn {
    match G::IS_COMPRESSED {
        true => Pfn::of_code(Cpfn((number % 255) as u16)),
        false => Pfn((1 << 27) + number * G::leaf_pages(level)),
    }
}

fn conformance<G: Geometry>() {
    let mut memory = SparseMemory::new();
    let mut frames = Frames(0);
    let mut table = Radix::<G>::new(frames.next().unwrap(), &mut memory);
    let mut model: BTreeMap<(u64, u32), Leaf> = BTreeMap::new();
    let mut state = 88_172_645_463_325_252u64;
    let mut random = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let reach = G::end().0.min(G::leaf_pages(1) * 40);
    for step in 0..6_000 {
        let level = random(u64::from(G::MAX_LEAF_LEVEL.min(1)) + 1) as u32;
        let pages = G::leaf_pages(level);
        let vpn = Vpn(random(reach) / pages * pages);
        let overlaps = |key: &(u64, u32)| key.0 < vpn.0 + pages && vpn.0 < key.0 + G::leaf_pages(key.1);
        if random(4) > 0 {
            let leaf = Leaf { writable: random(2) == 0, ..Leaf::data(data_frame::<G>(step, level)) };
            let taken = model.keys().any(overlaps);
            let vacant = table.is_vacant(&memory, vpn, level);
            // An empty node left in the way refuses a large page; unmapping frees empty nodes, so none is left.
            assert_eq!(vacant, !taken, "step {step}");
            let mapped = table.map(&mut memory, vpn, leaf, level, || frames.next());
            assert_eq!(mapped.is_ok(), !taken, "step {step}: {mapped:?}");
            if !taken {
                model.insert((vpn.0, level), leaf);
            }
        } else {
            let end = Vpn(vpn.0 + random(20) * G::leaf_pages(0) + 1);
            let mut seen = vec![];
            table.visit(
                &mut memory,
                vpn,
                end,
                |at, leaf, level| {
                    seen.push(((at.0, level), leaf));
                    None
                },
                |_| {},
            );
            let expected: Vec<_> = model
                .extract_if(.., |key, _| key.0 < end.0 && vpn.0 < key.0 + G::leaf_pages(key.1))
                .collect();
            assert_eq!(seen, expected, "step {step}");
        }
    }
    for vpn in 0..reach {
        let expected = model.iter().find(|(k, _)| k.0 <= vpn && vpn < k.0 + G::leaf_pages(k.1));
        let found = table.find(&memory, Vpn(vpn));
        assert_eq!(found, expected.map(|(k, leaf)| (*leaf, k.1)));
    }
    let mut freed = 0;
    table.visit(&mut memory, Vpn(0), G::end(), |_, _, _| None, |_| freed += 1);
    assert!(freed > 0);
    assert_eq!(table.nodes(), 1, "only the root is left");
}

#[test]
fn every_geometry_equals_a_map() {
    conformance::<Toy>();
    conformance::<X86_64>();
    conformance::<X86_64La57>();
    conformance::<Sv39>();
    conformance::<Sv48>();
    conformance::<X86_64Toc>();
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
    check::<Sv39>();
    check::<Sv48>();
}

/// A walk's references are the levels above the leaf plus one, minus what the walk cache saved.
#[test]
fn walk_references_equal_levels_minus_walk_cache_hits() {
    fn check<G: Geometry>() {
        let root_level = G::LEVELS - 1;
        for leaf_level in 0..=G::MAX_LEAF_LEVEL {
            for cached in 0..G::LEVELS {
                // `cached` non-leaf levels, counted from the root, have a walk cache.
                let mut entries = vec![0; root_level as usize];
                entries[..(cached as usize).min(root_level as usize)].fill(4);
                let mut cache = WalkCache::new::<G>(&entries, None).unwrap();
                let mut memory = SparseMemory::new();
                let mut frames = Frames(0);
                let mut table = Radix::<G>::new(frames.next().unwrap(), &mut memory);
                let vpn = Vpn(0);
                let leaf = Leaf::data(data_frame::<G>(1, leaf_level));
                table.map(&mut memory, vpn, leaf, leaf_level, || frames.next()).unwrap();
                let walk = |cache: &mut WalkCache, table: &Radix<G>| {
                    let start = cache.lookup(Asid(0), vpn);
                    let walk = match start {
                        Some(WalkStart { level, node }) => table.walk_from(&memory, vpn, level, node),
                        None => table.walk(&memory, vpn),
                    };
                    cache.fill(Asid(0), vpn, &walk);
                    assert_eq!(walk.end, WalkEnd::Leaf { leaf, level: leaf_level });
                    walk.references.len() as u32
                };
                let full = G::LEVELS - leaf_level;
                assert_eq!(walk(&mut cache, &table), full, "cold");
                let pointers = full - 1;
                let saved = cached.min(pointers);
                assert_eq!(walk(&mut cache, &table), full - saved, "leaf {leaf_level}, {cached} cached");
                cache.flush(Some(Asid(0)));
                assert_eq!(walk(&mut cache, &table), full, "after a flush");
            }
        }
    }
    check::<Toy>();
    check::<X86_64>();
    check::<X86_64La57>();
    check::<Sv39>();
    check::<Sv48>();
    check::<X86_64Toc>();
}

/// Pages share words, and a run of any arity reads as its pages do, one by one.
#[test]
fn a_table_of_contents_is_a_quarter_of_a_conventional_leaf_table() {
    let mut memory = SparseMemory::new();
    let mut frames = Frames(0);
    let mut table = Radix::<X86_64Toc>::new(frames.next().unwrap(), &mut memory);
    let leaf_of = |page: u64| Leaf {
        writable: page.is_multiple_of(3),
        dirty: page.is_multiple_of(5),
        frame: if page.is_multiple_of(7) { Pfn(0) } else { Pfn::of_code(Cpfn((page % 104) as u16)) },
        ..Leaf::data(Pfn(0))
    };
    let is_mapped = |page: u64| !page.is_multiple_of(11);
    for page in (0..4_096).filter(|&page| is_mapped(page)) {
        table.map(&mut memory, Vpn(page), leaf_of(page), 0, || frames.next()).unwrap();
    }
    assert_eq!(table.nodes(), 3 + 2, "2048 pages a leaf table");
    for arity in [1, 2, 4, 8, 16, 32, 64] {
        for base in (0..4_096).step_by(arity) {
            let walk = table.walk(&memory, Vpn(base));
            let last = walk.references[walk.references.len() - 1];
            let run = table.leaf_run(&memory, &last, Vpn(base), arity);
            let pages = (base..base + arity as u64).map(|page| is_mapped(page).then(|| leaf_of(page)));
            assert!(run.eq(pages), "{arity} pages from {base}");
        }
    }
    table.visit(&mut memory, Vpn(0), Vpn(2_048), |_, _, _| None, |_| {});
    assert_eq!(table.nodes(), 3 + 1);
}

#[test]
fn walks_read_the_addresses_the_architecture_says() {
    let mut memory = SparseMemory::new();
    let mut frames = Frames(0x10);
    let mut table = Radix::<X86_64>::new(Pfn(0x10), &mut memory);
    let vpn = Vpn(0x7_f123_4567);
    table.map(&mut memory, vpn, Leaf::data(Pfn(0x999)), 0, || frames.next()).unwrap();
    let walk = table.walk(&memory, vpn);
    let expected =
        [(3, 0x10, 39), (2, 0x11, 30), (1, 0x12, 21), (0, 0x13, 12)].map(|(level, frame, shift)| {
            let index = vpn.addr().0 >> shift & 511;
            (level, PhysAddr((frame << 12) + 8 * index))
        });
    let got: Vec<_> = walk.references.iter().map(|r| (r.level, r.addr)).collect();
    assert_eq!(got, expected);
}

#[test]
fn splitting_a_large_page_keeps_every_translation() {
    let mut memory = SparseMemory::new();
    let mut frames = Frames(0);
    let mut table = Radix::<X86_64>::new(frames.next().unwrap(), &mut memory);
    let leaf = Leaf { dirty: true, ..Leaf::data(Pfn(1 << 18)) };
    table.map(&mut memory, Vpn(1 << 18), leaf, 2, || frames.next()).unwrap();
    assert!(table.split(&mut memory, Vpn((1 << 18) + 5), || None).is_err());
    assert!(table.split(&mut memory, Vpn((1 << 18) + 5), || frames.next()).unwrap());
    assert!(table.split(&mut memory, Vpn((1 << 18) + 5), || frames.next()).unwrap());
    let (piece, level) = table.find(&memory, Vpn((1 << 18) + 5)).unwrap();
    assert_eq!((piece.frame, piece.dirty, level), (Pfn((1 << 18) + 5), true, 0));
    let (piece, level) = table.find(&memory, Vpn((1 << 18) + 700)).unwrap();
    assert_eq!((piece.frame, level), (Pfn((1 << 18) + 512), 1));
    assert!(!table.split(&mut memory, Vpn(3), || None).unwrap(), "nothing is mapped there");
}

#[test]
fn running_out_of_frames_is_an_error_and_maps_nothing() {
    let mut memory = SparseMemory::new();
    let mut table = Radix::<X86_64>::new(Pfn(1), &mut memory);
    let mut left = 2;
    let mut new_node = || {
        left -= 1;
        (left >= 0).then(|| Pfn(10 + left as u64))
    };
    let mapped = table.map(&mut memory, Vpn(3), Leaf::data(Pfn(99)), 0, &mut new_node);
    assert_eq!(mapped, Err(MapError::OutOfFrames { level: 0 }));
    assert_eq!(table.find(&memory, Vpn(3)), None);
    assert_eq!(table.nodes(), 3, "the two nodes made so far are accounted for");
}

#[test]
fn update_writes_only_what_changed() {
    let mut memory = SparseMemory::new();
    let mut frames = Frames(0);
    let mut table = Radix::<Sv39>::new(frames.next().unwrap(), &mut memory);
    table.map(&mut memory, Vpn(7), Leaf::data(Pfn(70)), 0, || frames.next()).unwrap();
    let before = table.update(&mut memory, Vpn(7), |leaf| leaf.dirty = true).unwrap();
    assert!(!before.0.dirty);
    assert!(table.find(&memory, Vpn(7)).unwrap().0.dirty);
    assert_eq!(table.update(&mut memory, Vpn(8), |leaf| leaf.dirty = true), None);
}
