//! TLBs against naive models, closed forms and the counting rules of the Mosaic paper.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::*;
use crate::sets::Replacement;

const ASID: Asid = Asid(1);

/// A page table with every page of `present` mapped to some frame.
struct Pages {
    present: FxHashSet<u64>,
}

impl Pages {
    fn translation(vpn: u64) -> Translation {
        Translation::new(Pfn(vpn * 7 % 1_000_003 + 1), PageSize::Size4K, true, false)
    }

    /// Looks up, and on a miss fills with all present neighbours of a run of `cluster` pages. First touch maps.
    fn access(&mut self, tlbs: &mut Tlbs, vpn: u64, cluster: u64) -> bool {
        if let Some(hit) = tlbs.lookup(ASID, Vpn(vpn)) {
            assert_eq!(hit.translation, Self::translation(vpn), "page {vpn:#x}");
            return true;
        }
        self.present.insert(vpn);
        let base = vpn & !(cluster - 1);
        let words: Vec<u64> = (base..base + cluster)
            .map(|v| if self.present.contains(&v) { Self::translation(v).to_word() } else { 0 })
            .collect();
        let fill = Fill {
            vpn: Vpn(vpn),
            translation: Self::translation(vpn),
            cluster: &words,
            cluster_base: Vpn(base),
        };
        tlbs.fill(ASID, &fill);
        false
    }
}

fn mosaic(entries: u32, ways: u32, arity: u32) -> Tlbs {
    let array = Mosaic::new(entries, ways, Replacement::Lru, arity).unwrap();
    Tlbs::new(vec![Tlb::new(vec![array.into()])])
}

fn plain(entries: u32, ways: u32) -> Tlbs {
    let array = SetAssociative::new(entries, ways, Replacement::Lru, &[PageSize::Size4K]).unwrap();
    Tlbs::new(vec![Tlb::new(vec![array.into()])])
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 as u128 * bound as u128) >> 64) as u64
    }
}

/// The naive mosaic TLB: a list of (run, valid pages) a set, newest first.
struct NaiveMosaic {
    sets: Vec<Vec<(u64, BTreeSet<u64>)>>,
    ways: usize,
    arity: u64,
    present: BTreeSet<u64>,
}

impl NaiveMosaic {
    fn access(&mut self, vpn: u64) -> bool {
        let run = vpn / self.arity;
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(run % count) as usize];
        self.present.insert(vpn);
        if let Some(place) = set.iter().position(|(r, _)| *r == run) {
            let mut entry = set.remove(place);
            let hit = !entry.1.insert(vpn);
            set.insert(0, entry);
            return hit;
        }
        let valid = self.present.range(run * self.arity..(run + 1) * self.arity).copied().collect();
        set.insert(0, (run, valid));
        set.truncate(self.ways);
        false
    }
}

#[test]
fn misses_equal_the_naive_list_reference_by_reference() {
    for arity in [1, 2, 4, 8, 16, 32, 64] {
        for (entries, ways) in [(64, 1), (64, 4), (96, 6), (128, 128)] {
            let mut tlbs = mosaic(entries, ways, arity);
            let mut pages = Pages { present: FxHashSet::default() };
            let mut naive = NaiveMosaic {
                sets: vec![vec![]; (entries / ways) as usize],
                ways: ways as usize,
                arity: arity.into(),
                present: BTreeSet::new(),
            };
            let mut random = Random(77);
            for step in 0..30_000u64 {
                // A mixture of a moving window and far jumps.
                let vpn =
                    if random.below(3) == 0 { random.below(20_000) } else { step / 16 + random.below(64) };
                let hit = pages.access(&mut tlbs, vpn, arity.into());
                assert_eq!(hit, naive.access(vpn), "arity {arity}, {entries}/{ways}, step {step}");
            }
        }
    }
}

#[test]
fn arity_one_is_a_plain_tlb() {
    let (mut a, mut b) = (mosaic(256, 8, 1), plain(256, 8));
    let mut pages = Pages { present: FxHashSet::default() };
    let mut random = Random(3);
    for _ in 0..50_000 {
        let vpn = random.below(1_000);
        assert_eq!(pages.access(&mut a, vpn, 1), pages.access(&mut b, vpn, 1));
    }
}

#[test]
fn a_uniform_stream_misses_at_the_closed_form() {
    // All pages are touched once beforehand, so that no first-touch miss is counted.
    const PAGES: u64 = 200_000;
    for arity in [1u32, 4, 8, 16, 32, 64] {
        let mut tlbs = mosaic(1024, 1024, arity);
        let mut pages = Pages { present: (0..PAGES).collect() };
        let mut random = Random(11);
        for _ in 0..40_000 {
            pages.access(&mut tlbs, random.below(PAGES), arity.into());
        }
        let before = tlbs.levels()[0].counts().misses;
        // The standard deviation of the rate is 0.0007 at most.
        const COUNTED: u64 = 500_000;
        for _ in 0..COUNTED {
            pages.access(&mut tlbs, random.below(PAGES), arity.into());
        }
        let rate = (tlbs.levels()[0].counts().misses - before) as f64 / COUNTED as f64;
        let expected = 1.0 - 1024.0 * f64::from(arity) / PAGES as f64;
        assert!((rate - expected).abs() < 0.0028, "arity {arity}: {rate} against {expected}");
    }
}

#[test]
fn a_first_touch_pass_misses_on_every_page_at_every_arity() {
    for arity in [1, 4, 8, 16, 32, 64] {
        let mut tlbs = mosaic(1024, 8, arity);
        let mut pages = Pages { present: FxHashSet::default() };
        for vpn in 5_000..15_000 {
            for _ in 0..3 {
                pages.access(&mut tlbs, vpn, arity.into());
            }
        }
        assert_eq!(tlbs.levels()[0].counts().misses, 10_000, "arity {arity}");
        assert_eq!(tlbs.levels()[0].counts().hits, 20_000);
    }
}

#[test]
fn misses_never_increase_with_arity_or_with_size_when_fully_associative() {
    let stream: Vec<u64> = {
        let mut random = Random(5);
        (0..60_000u64).map(|i| if i % 2 == 0 { random.below(4_000) } else { i / 32 % 2_500 }).collect()
    };
    let misses = |entries: u32, arity: u32| {
        let mut tlbs = mosaic(entries, entries, arity);
        let mut pages = Pages { present: FxHashSet::default() };
        stream.iter().filter(|&&vpn| !pages.access(&mut tlbs, vpn, arity.into())).count()
    };
    for entries in [64, 300, 1024] {
        let by_arity: Vec<_> = [1, 2, 4, 8, 16, 32, 64].map(|arity| misses(entries, arity)).into();
        assert!(by_arity.is_sorted_by(|a, b| a >= b), "{entries} entries: {by_arity:?}");
    }
    for arity in [1, 8] {
        let by_size: Vec<_> = [16, 65, 256, 300, 1024].map(|entries| misses(entries, arity)).into();
        assert!(by_size.is_sorted_by(|a, b| a >= b), "arity {arity}: {by_size:?}");
    }
}

#[test]
fn invalidating_one_page_leaves_its_run_and_frees_an_empty_entry() {
    let mut tlbs = mosaic(8, 8, 4);
    let mut pages = Pages { present: (0..8).collect() };
    pages.access(&mut tlbs, 1, 4);
    tlbs.invalidate(ASID, Vpn(2));
    assert!(tlbs.lookup(ASID, Vpn(3)).is_some());
    assert!(tlbs.lookup(ASID, Vpn(2)).is_none());
    assert_eq!(tlbs.levels()[0].counts().sub_entry_misses, 1);
    for vpn in [0, 1, 3] {
        tlbs.invalidate(ASID, Vpn(vpn));
    }
    assert!(tlbs.lookup(ASID, Vpn(1)).is_none());
    assert_eq!(tlbs.levels()[0].counts().sub_entry_misses, 1, "the entry is gone, so this is a whole miss");
}

#[test]
fn address_spaces_do_not_see_each_other() {
    let mut tlbs = plain(64, 4);
    tlbs.fill(Asid(1), &Fill::single(Vpn(9), Pages::translation(9)));
    assert!(tlbs.lookup(Asid(2), Vpn(9)).is_none());
    tlbs.fill(Asid(2), &Fill::single(Vpn(9), Pages::translation(10)));
    tlbs.flush(Some(Asid(1)));
    assert!(tlbs.lookup(Asid(1), Vpn(9)).is_none());
    assert_eq!(tlbs.lookup(Asid(2), Vpn(9)).unwrap().translation, Pages::translation(10));
}

#[test]
fn one_array_holds_several_page_sizes() {
    let sizes = [PageSize::Size4K, PageSize::Size2M];
    let array = SetAssociative::new(16, 4, Replacement::Lru, &sizes).unwrap();
    let mut tlbs = Tlbs::new(vec![Tlb::new(vec![array.into()])]);
    let huge = Translation::new(Pfn(512), PageSize::Size2M, true, false);
    tlbs.fill(ASID, &Fill::single(Vpn(1024 + 77), huge));
    tlbs.fill(ASID, &Fill::single(Vpn(5), Pages::translation(5)));
    let hit = tlbs.lookup(ASID, Vpn(1024 + 3)).unwrap();
    assert_eq!(hit.translation.frame_of(Vpn(1024 + 3)), Pfn(515));
    // A 1 GiB page has no array of its own: it enters as one 4 KiB piece.
    let giant = Translation::new(Pfn(1 << 18), PageSize::Size1G, true, false);
    tlbs.fill(ASID, &Fill::single(Vpn((5 << 18) + 9), giant));
    assert_eq!(tlbs.lookup(ASID, Vpn((5 << 18) + 9)).unwrap().translation.frame(), Pfn((1 << 18) + 9));
    assert!(tlbs.lookup(ASID, Vpn((5 << 18) + 10)).is_none());
}

#[test]
fn a_mosaic_array_chops_large_pages_unless_another_array_holds_them() {
    let huge = Translation::new(Pfn(1024), PageSize::Size2M, false, false);
    let mut chopping = mosaic(16, 4, 8);
    chopping.fill(ASID, &Fill::single(Vpn(512 + 9), huge));
    for vpn in 512 + 8..512 + 16 {
        let hit = chopping.lookup(ASID, Vpn(vpn)).unwrap();
        assert_eq!(hit.translation.frame_of(Vpn(vpn)), Pfn(1024 + vpn - 512));
    }
    assert!(chopping.lookup(ASID, Vpn(512 + 16)).is_none());

    let small = Mosaic::new(16, 4, Replacement::Lru, 8).unwrap();
    let large = SetAssociative::new(4, 4, Replacement::Lru, &[PageSize::Size2M]).unwrap();
    let mut split = Tlbs::new(vec![Tlb::new(vec![small.into(), large.into()])]);
    split.fill(ASID, &Fill::single(Vpn(512 + 9), huge));
    assert!(split.lookup(ASID, Vpn(512 + 400)).is_some());
}

#[test]
fn a_second_level_hit_refills_the_whole_run_above() {
    let level = |entries| Tlb::new(vec![Mosaic::new(entries, 4, Replacement::Lru, 4).unwrap().into()]);
    let mut tlbs = Tlbs::new(vec![level(4), level(64)]);
    let mut pages = Pages { present: (0..400).collect() };
    for vpn in (0..200).step_by(4) {
        pages.access(&mut tlbs, vpn, 4);
    }
    let hit = tlbs.lookup(ASID, Vpn(150)).expect("the second level holds the run");
    assert_eq!(hit.level, 1);
    assert_eq!(tlbs.lookup(ASID, Vpn(149)).unwrap().level, 0);
}

/// Fully associative with LRU: what leaves the first level is the newest of the second.
#[test]
fn an_exclusive_second_level_makes_one_list_of_both() {
    let full = |entries| {
        let array = SetAssociative::new(entries, entries, Replacement::Lru, &[PageSize::Size4K]);
        Tlb::new(vec![array.unwrap().into()])
    };
    for (first, second) in [(1, 1), (8, 24), (16, 100), (40, 8)] {
        let mut tlbs = Tlbs::new(vec![full(first), full(second).with_inclusion(Inclusion::Exclusive)]);
        let mut one = Tlbs::new(vec![full(first + second)]);
        let mut list: Vec<u64> = Vec::new();
        let mut random = Random(u64::from(first));
        for step in 0..40_000u64 {
            let vpn = if random.below(3) == 0 { random.below(200) } else { step / 16 + random.below(40) };
            let place = list.iter().position(|&page| page == vpn);
            place.map(|place| list.remove(place));
            list.insert(0, vpn);
            let expected = place.and_then(|place| match place as u32 {
                place if place < first => Some(0),
                place if place < first + second => Some(1),
                _ => None,
            });
            let hit = tlbs.lookup(ASID, Vpn(vpn));
            assert_eq!(hit.map(|hit| hit.level), expected, "{first} and {second} entries, step {step}");
            if hit.is_none() {
                tlbs.fill(ASID, &Fill::single(Vpn(vpn), Pages::translation(vpn)));
            }
            let mut pages = Pages { present: FxHashSet::default() };
            assert_eq!(pages.access(&mut one, vpn, 1), hit.is_some());
            if step % 5_001 == 0 {
                tlbs.flush(None);
                one.flush(None);
                list.clear();
            }
        }
    }
}

#[test]
fn loads_and_stores_have_first_levels_of_their_own() {
    let level = |entries| {
        let array = SetAssociative::new(entries, entries, Replacement::Lru, &[PageSize::Size4K]);
        Tlb::new(vec![array.unwrap().into()])
    };
    let mut tlbs = Tlbs::new(vec![level(2), level(64)]).with_first_level_for_stores(level(1));
    let mut access = |is_store, vpn| {
        tlbs.select(is_store);
        let hit = tlbs.lookup(ASID, Vpn(vpn)).map(|hit| hit.level);
        if hit.is_none() {
            tlbs.fill(ASID, &Fill::single(Vpn(vpn), Pages::translation(vpn)));
        }
        hit
    };
    let (load, store) = (false, true);
    let accesses =
        [(load, 1), (store, 1), (store, 1), (load, 1), (store, 2), (load, 1), (store, 1), (load, 2)];
    let expected = [None, Some(1), Some(0), Some(0), None, Some(0), Some(1), Some(1)];
    assert_eq!(accesses.map(|(is_store, vpn)| access(is_store, vpn)), expected);
    assert_eq!((tlbs.counts(0).hits, tlbs.counts(0).misses), (3, 5));
    assert_eq!((tlbs.counts(1).hits, tlbs.counts(1).misses), (3, 2));
    for is_store in [load, store] {
        tlbs.invalidate(ASID, Vpn(1));
        tlbs.select(is_store);
        assert_eq!(tlbs.lookup(ASID, Vpn(1)), None, "it left both");
    }
}

#[test]
fn a_farther_hierarchy_hands_a_whole_run_on() {
    let level = |entries| Tlb::new(vec![Mosaic::new(entries, 4, Replacement::Lru, 4).unwrap().into()]);
    let (mut near, mut far) = (Tlbs::new(vec![level(4)]), Tlbs::new(vec![level(64)]));
    let mut pages = Pages { present: (0..64).collect() };
    pages.access(&mut far, 9, 4);
    assert_eq!(near.lookup(ASID, Vpn(10)), None);
    let hit = far.lookup(ASID, Vpn(10)).expect("the run is there");
    far.hand_on(hit, ASID, Vpn(10), &mut near);
    assert_eq!(near.lookup(ASID, Vpn(8)).map(|hit| hit.translation), Some(Pages::translation(8)));
}

/// A third level that is not exclusive is filled as always.
#[test]
fn an_entry_that_moves_up_is_no_longer_below() {
    let full = |entries| {
        let sizes = [PageSize::Size4K, PageSize::Size2M];
        let array = SetAssociative::new(entries, entries, Replacement::Lru, &sizes);
        Tlb::new(vec![array.unwrap().into()])
    };
    let mut tlbs = Tlbs::new(vec![full(1), full(2).with_inclusion(Inclusion::Exclusive), full(64)]);
    let huge = Translation::new(Pfn(512), PageSize::Size2M, true, false);
    tlbs.fill(ASID, &Fill::single(Vpn(512 + 7), huge));
    tlbs.fill(ASID, &Fill::single(Vpn(5), Pages::translation(5)));
    let levels = |tlbs: &mut Tlbs, pages: &[u64]| -> Vec<Option<u32>> {
        pages.iter().map(|&page| tlbs.lookup(ASID, Vpn(page)).map(|hit| hit.level)).collect()
    };
    assert_eq!(levels(&mut tlbs, &[512 + 300, 512 + 7, 5, 5]), [Some(1), Some(0), Some(1), Some(0)]);
    for page in 6..9 {
        tlbs.fill(ASID, &Fill::single(Vpn(page), Pages::translation(page)));
    }
    assert_eq!(levels(&mut tlbs, &[5, 5]), [Some(2), Some(0)]);
    tlbs.invalidate(ASID, Vpn(5));
    assert_eq!(levels(&mut tlbs, &[5, 8, 7]), [None, Some(1), Some(1)]);
}

#[test]
fn the_bank_equals_eight_separate_tlbs_and_its_scalar_twin() {
    let mut bank = LruBank::new();
    let mut scalar = LruBank::new().scalar();
    let mut tlbs: Vec<_> = (0..8).map(|k| plain(128 << k, 8)).collect();
    let mut random = Random(21);
    let stream: Vec<Vpn> = (0..120_000u64)
        .map(|i| {
            let far = [0x5_5555_5000, 0x7_ffff_0000, 0x7_f123_0000][random.below(3) as usize];
            Vpn(far + if random.below(2) == 0 { random.below(3_000) } else { i / 8 % 9_000 })
        })
        .collect();
    bank.access(&stream, |page| page);
    scalar.access(&stream, |page| page);
    let curve = bank.curve();
    assert_eq!(curve, scalar.curve());
    for (tlb, (entries, misses)) in tlbs.iter_mut().zip(curve) {
        let mut pages = Pages { present: FxHashSet::default() };
        for vpn in &stream {
            pages.access(tlb, vpn.0, 1);
        }
        assert_eq!(tlb.levels()[0].counts().misses, misses, "{entries} entries");
    }
    assert!(curve.is_sorted_by(|a, b| a.1 >= b.1));
}

#[test]
fn translations_and_keys_tell_all_page_sizes_apart() {
    let mut keys = BTreeSet::new();
    for size in PageSize::EVERY {
        let frame = Pfn(5 * size.base_pages());
        let translation = Translation::new(frame, size, true, false).with_other(0x2a).dirtied();
        assert_eq!((translation.size(), translation.frame(), translation.other()), (size, frame, 0x2a));
        assert!(translation.is_writable() && translation.is_dirty());
        assert_eq!(translation.is_small(), size == PageSize::Size4K);
        let last = Vpn(size.base_pages() - 1);
        assert_eq!(translation.frame_of(last), Pfn(frame.0 + last.0));
        for other in PageSize::EVERY {
            let same = Translation::new(Pfn(1 << 18), other, false, true).has_size_of(translation);
            assert_eq!(same, size == other, "{size} and {other}");
        }
        for asid in [Asid(0), Asid(0xfff)] {
            let most = (1 << 40) - 1;
            assert_eq!(key_asid(key(asid, size, most)), asid);
            assert!([0, most].iter().all(|&number| keys.insert(key(asid, size, number))));
        }
    }
    assert!(keys.last() < Some(&(1 << crate::sets::KEY_BITS)));
}

#[test]
fn an_array_of_larger_base_pages_holds_them_whole() {
    let array = |pages: &[PageSize]| SetAssociative::new(8, 8, Replacement::Lru, pages).unwrap();
    let asid = Asid(1);
    let hit = |array: &mut SetAssociative, vpn: u64| match array.lookup(asid, Vpn(vpn)) {
        Lookup::Hit(translation) => Some((translation.size(), translation.frame_of(Vpn(vpn)))),
        _ => None,
    };
    let mut both = array(&[PageSize::Size16K, PageSize::Size32M]);
    let small = Translation::new(Pfn(40), PageSize::Size16K, true, false);
    let large = Translation::new(Pfn(1 << 13), PageSize::Size32M, true, false);
    both.fill(asid, &Fill::single(Vpn(6), small));
    both.fill(asid, &Fill::single(Vpn(3 << 13 | 9), large));
    assert_eq!(hit(&mut both, 7), Some((PageSize::Size16K, Pfn(43))));
    assert_eq!(hit(&mut both, 8), None);
    assert_eq!(hit(&mut both, (3 << 13) + 1), Some((PageSize::Size32M, Pfn((1 << 13) + 1))));
    both.set_dirty(asid, Vpn(4));
    assert!(matches!(both.lookup(asid, Vpn(5)), Lookup::Hit(translation) if translation.is_dirty()));
    both.invalidate(asid, Vpn(5));
    assert_eq!((hit(&mut both, 6), both.is_empty()), (None, false));
    both.flush(Some(asid));
    assert!(both.is_empty());
    // Without an array for large pages, their pieces are base pages.
    let mut tlbs = Tlbs::new(vec![Tlb::new(vec![array(&[PageSize::Size16K]).into()])]);
    tlbs.fill(asid, &Fill::single(Vpn(3 << 13 | 9), large));
    let piece = tlbs.lookup(asid, Vpn(3 << 13 | 11)).unwrap().translation;
    assert_eq!((piece.size(), piece.frame()), (PageSize::Size16K, Pfn((1 << 13) + 8)));
    assert_eq!(tlbs.lookup(asid, Vpn(3 << 13 | 12)), None);
}
