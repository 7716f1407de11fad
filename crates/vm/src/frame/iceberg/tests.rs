//! Against the rules spelled out, and the utilisation that the paper prints.

use proptest::prelude::*;

use super::*;
use crate::addr::{Asid, Vpn};
use crate::hash::{PageHash, Tabulation, Xxh64};
use crate::random::mix;

fn page(number: u64) -> PageKey {
    PageKey { asid: Asid(3), page: Vpn(number) }
}

fn families(seed: u64) -> [PageHash; 2] {
    [PageHash::Tabulation(Tabulation::new(seed)), PageHash::Xxh64(Xxh64::new(seed))]
}

#[test]
fn impossible_shapes_are_refused() {
    let shape = IcebergShape::mosaic(64);
    let possible = |shape| Iceberg::new(shape, Pfn(1), Xxh64::new(0)).is_ok();
    assert!(possible(shape));
    assert!(possible(IcebergShape { back: 0, choices: 0, ..shape }));
    for wrong in [
        IcebergShape { front: 0, ..shape },
        IcebergShape { front: 256, ..shape },
        IcebergShape { back: 256, ..shape },
        IcebergShape { back: 0, ..shape },
        IcebergShape { choices: 0, ..shape },
        IcebergShape { choices: 17, ..shape },
        IcebergShape { buckets: 6, ..shape },
        IcebergShape { buckets: 1 << 26, ..shape },
    ] {
        assert!(!possible(wrong), "{wrong:?}");
    }
}

#[test]
fn disjoint_choices_lie_in_ranges_of_their_own() {
    let frames = Iceberg::new(IcebergShape::mosaic(16_384), Pfn(1), Xxh64::new(0)).unwrap();
    for number in 0..20_000 {
        for (choice, bucket) in (0..).zip(frames.back_buckets(page(number))) {
            // The prototype's arithmetic: ranges of floor(16384 / 6) + 1, the last clamped.
            assert!((choice * 2731..(choice + 1) * 2731).contains(&bucket) && bucket < 16_384);
        }
    }
}

#[test]
fn free_frames_of_a_yard_are_taken_in_the_order_of_their_release() {
    let shape = IcebergShape { front: 3, back: 0, choices: 0, ranges: BackRanges::Disjoint, buckets: 1 };
    let mut frames = Iceberg::new(shape, Pfn(1), Xxh64::new(0)).unwrap();
    let take = |frames: &mut Iceberg<Xxh64>| frames.take_front(page(9));
    assert_eq!([0; 4].map(|_| take(&mut frames)), [Some(0), Some(1), Some(2), None]);
    for frame in [1, 2, 0] {
        frames.release(frame);
    }
    assert_eq!([0; 4].map(|_| take(&mut frames)), [Some(1), Some(2), Some(0), None]);
}

#[test]
#[should_panic(expected = "frame 5 is given back but not in use")]
fn a_frame_is_given_back_once() {
    Iceberg::new(IcebergShape::mosaic(8), Pfn(1), Xxh64::new(0)).unwrap().release(5);
}

/// The placement rules over plain lists.
struct Naive {
    /// By yard: free frames in their order.
    free: Vec<[Vec<u32>; 2]>,
}

impl Naive {
    fn new(shape: IcebergShape) -> Self {
        // Each bucket begins with another slot.
        let rotated = |bucket: u32, start: u32, slots: u32| {
            (0..slots)
                .map(|slot| start + (slot + (mix(bucket.into()) % u64::from(slots)) as u32) % slots)
                .collect::<Vec<_>>()
        };
        let bucket = |bucket: u32| {
            let first = bucket * shape.bucket_frames();
            [rotated(bucket, first, shape.front), rotated(bucket, first + shape.front, shape.back)]
        };
        Self { free: (0..shape.buckets).map(bucket).collect() }
    }

    fn take(&mut self, front: u32, backs: &[u32]) -> Option<u32> {
        let mut yard = (front, 0);
        if self.free[front as usize][0].is_empty() {
            let free = |&&back: &&u32| self.free[back as usize][1].len();
            let most = backs.iter().map(|back| free(&back)).max()?;
            yard = (*backs.iter().rfind(|back| free(back) == most)?, 1);
        }
        let queue = &mut self.free[yard.0 as usize][yard.1];
        (!queue.is_empty()).then(|| queue.remove(0))
    }

    fn release(&mut self, shape: IcebergShape, frame: u32) {
        let (bucket, at) = (frame / (shape.front + shape.back), frame % (shape.front + shape.back));
        self.free[bucket as usize][usize::from(at >= shape.front)].push(frame);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn placement_equals_the_rules_and_codes_name_their_frames(
        seed in any::<u64>(),
        tabulation in any::<bool>(),
        front in 1u32..20,
        back in 1u32..9,
        choices in 1u32..8,
        common in any::<bool>(),
    ) {
        let ranges = if common { BackRanges::Common } else { BackRanges::Disjoint };
        let shape = IcebergShape { front, back, choices, ranges, buckets: 12 };
        let hash = families(seed)[usize::from(tabulation)].clone();
        let mut frames = Iceberg::new(shape, Pfn(7), hash).unwrap();
        let mut naive = Naive::new(shape);
        let mut resident: Vec<(PageKey, u32)> = Vec::new();
        let mut random = seed | 1;
        for step in 0..1_500 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            let number = random >> 40;
            if number % 3 == 0 && !resident.is_empty() {
                let (key, frame) = resident.swap_remove(number as usize / 3 % resident.len());
                prop_assert_eq!(frames.release(frame), key);
                naive.release(shape, frame);
                prop_assert_eq!(frames.owner(frame), None);
            } else {
                let key = PageKey { asid: Asid(step % 5), page: Vpn(number) };
                let backs: Vec<u32> = frames.back_buckets(key).collect();
                let expected = naive.take(frames.front_bucket(key), &backs);
                prop_assert_eq!(frames.take_free(key), expected);
                if let Some(frame) = expected {
                    prop_assert!(resident.iter().all(|&(_, other)| other != frame));
                    resident.push((key, frame));
                }
            }
            prop_assert_eq!(frames.used(), resident.len() as u64);
        }
        for (key, frame) in resident {
            let code = frames.cpfn(key, frame).expect("a frame of this page");
            prop_assert_eq!(frames.translate(key, code), Some(frame));
            prop_assert_eq!(frames.frame(frames.pfn(frame)), Some(frame));
        }
    }
}

/// Share of memory in use when the first page finds all of its frames taken.
fn first_conflict(shape: IcebergShape, hash: PageHash, pages: impl Iterator<Item = u64>) -> f64 {
    let mut frames = Iceberg::new(shape, Pfn(1), hash).unwrap();
    for number in pages {
        if frames.take_free(page(number)).is_none() {
            return frames.used() as f64 / shape.frames() as f64;
        }
    }
    panic!("no conflict");
}

/// Mosaic Pages, IEEE Micro 2024: 98.03 % at 2^20 frames, whatever the workload. At 2^17, as here, an independent model
/// gives 0.9811 with a spread of 0.0009 to 0.0024, and 0.9769 with the back buckets in one common range.
#[test]
fn the_first_conflict_comes_at_98_percent() {
    let mut means = Vec::new();
    for ranges in [BackRanges::Disjoint, BackRanges::Common] {
        let shape = IcebergShape { ranges, ..IcebergShape::mosaic(2048) };
        let mut all = Vec::new();
        for seed in 0..8 {
            for hash in families(seed) {
                all.push(first_conflict(shape, hash.clone(), 5 << 20..));
                let scattered = (0..).map(|number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 28);
                all.push(first_conflict(shape, hash, scattered));
            }
        }
        means.push(all.iter().sum::<f64>() / all.len() as f64);
        assert!(all.iter().all(|share| (0.965..0.99).contains(share)), "{all:?}");
    }
    let [disjoint, common] = means[..] else { unreachable!() };
    assert!((disjoint - 0.9811).abs() < 0.0015, "{disjoint}");
    assert!((0.003..0.007).contains(&(disjoint - common)), "{disjoint} {common}");
}

/// The setting of the paper's Figure 3, with pages scattered one by one: an independent model has 0.14, 0.29, 0.44, 0.60,
/// 0.72 and 0.81 for 4 to 128 ways. Iceberg's 104 frames to choose from beat them all.
#[test]
fn sets_of_many_ways_use_less_memory_than_iceberg() {
    const FRAMES: u32 = 8192;
    let scattered = |seed: u64| {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 28
        })
    };
    let mean = |share: &dyn Fn(u64) -> f64| (1..=20).map(share).sum::<f64>() / 20.0;
    let mut before = 0.0;
    for (ways, expected) in [(4, 0.14), (8, 0.29), (16, 0.44), (32, 0.60), (64, 0.72), (128, 0.81)] {
        let shape = IcebergShape::partitioned(ways, FRAMES / ways);
        let share = mean(&|seed| first_conflict(shape, PageHash::LowBits, scattered(seed)));
        assert!((share - expected).abs() < 0.04 && share > before, "{ways} ways: {share}");
        before = share;
    }
    let shape = IcebergShape::mosaic(FRAMES / 64);
    let iceberg = mean(&|seed| first_conflict(shape, families(seed)[0].clone(), scattered(seed)));
    assert!(iceberg > 0.97, "{iceberg}");
}
