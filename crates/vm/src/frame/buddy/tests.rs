use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::addr::PageSize;
use crate::random::SplitMix64;

const ORDERS: usize = MAX_ORDER as usize + 1;

/// The obvious allocator: the set of free frames, and what was handed out.
struct Model {
    free: BTreeSet<u64>,
    taken: BTreeMap<u64, u32>,
    frames: u64,
}

impl Model {
    fn new(frames: u64) -> Self {
        Self { free: (1..frames).collect(), taken: BTreeMap::new(), frames }
    }

    /// Whether any aligned block of `order` is free as a whole.
    fn can_alloc(&self, order: u32) -> bool {
        let size = 1u64 << order;
        (0..self.frames / size)
            .any(|block| self.free.range(block * size..(block + 1) * size).count() as u64 == size)
    }

    fn take(&mut self, first: u64, order: u32) {
        assert_eq!(first % (1 << order), 0, "frame {first:#x} is not aligned to order {order}");
        for frame in first..first + (1 << order) {
            assert!(self.free.remove(&frame), "frame {frame:#x} has two owners");
        }
        self.taken.insert(first, order);
    }

    fn give_back(&mut self, first: u64) -> u32 {
        let order = self.taken.remove(&first).unwrap();
        self.free.extend(first..first + (1 << order));
        order
    }

    /// Free blocks by order, found by cutting every run of free frames into the largest aligned blocks that no
    /// free buddy could extend.
    fn free_blocks(&self) -> [u64; ORDERS] {
        let mut blocks = [0; ORDERS];
        let mut rest = self.free.clone();
        while let Some(&first) = rest.first() {
            let largest = (0..=MAX_ORDER)
                .rev()
                .find(|&order| {
                    first.is_multiple_of(1 << order)
                        && (first..first + (1 << order)).all(|f| rest.contains(&f))
                })
                .unwrap();
            rest = rest.split_off(&(first + (1 << largest)));
            blocks[largest as usize] += 1;
        }
        blocks
    }
}

fn free_blocks(allocator: &BuddyAllocator) -> [u64; ORDERS] {
    std::array::from_fn(|order| allocator.free_blocks(order as u32))
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(u32),
    /// Block by block, a few behind the last one too.
    AllocAt(u64, u32),
    Free(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u32..8).prop_map(Step::Alloc),
        (0u64..310, 0u32..6).prop_map(|(frame, order)| Step::AllocAt(frame >> order << order, order)),
        any::<prop::sample::Index>().prop_map(Step::Free)
    ]
}

proptest! {
    #[test]
    fn it_behaves_like_a_set_of_frames(frames in 2u64..300, steps in prop::collection::vec(step(), 0..200)) {
        let mut allocator = BuddyAllocator::new(frames * PAGE_BYTES).unwrap();
        let fresh = free_blocks(&allocator);
        let mut model = Model::new(frames);
        for step in steps {
            match step {
                Step::Alloc(order) => match allocator.alloc(order) {
                    Ok(pfn) => model.take(pfn.0, order),
                    Err(error) => {
                        prop_assert!(!model.can_alloc(order), "order {order} is free but was refused");
                        prop_assert_eq!(error.order, order);
                        prop_assert_eq!(error.free_frames, model.free.len() as u64);
                        prop_assert_eq!(error.largest_free_order, (0..order).rev().find(|&o| model.can_alloc(o)));
                    }
                },
                Step::AllocAt(first, order) => {
                    let is_free = (first..first + (1 << order)).all(|frame| model.free.contains(&frame));
                    prop_assert_eq!(allocator.alloc_at(Pfn(first), order), is_free, "{} of order {}", first, order);
                    if is_free {
                        model.take(first, order);
                    }
                },
                Step::Free(which) => if !model.taken.is_empty() {
                    let first = *model.taken.keys().nth(which.index(model.taken.len())).unwrap();
                    let order = model.give_back(first);
                    allocator.free(Pfn(first), order);
                },
            }
            prop_assert_eq!(allocator.free_frames(), model.free.len() as u64);
            prop_assert_eq!(free_blocks(&allocator), model.free_blocks());
        }
        for (first, order) in std::mem::take(&mut model.taken) {
            allocator.free(Pfn(first), order);
        }
        prop_assert_eq!(free_blocks(&allocator), fresh, "coalescing restores the fresh memory");
        prop_assert_eq!(allocator.free_frames(), allocator.total_frames());
    }
}

#[test]
fn a_million_random_steps_never_give_a_frame_two_owners() {
    const FRAMES: u64 = 50_001;
    let mut allocator = BuddyAllocator::new(FRAMES * PAGE_BYTES).unwrap();
    let fresh = free_blocks(&allocator);
    let mut random = SplitMix64::new(1);
    let mut owned = vec![false; FRAMES as usize];
    let mut blocks: Vec<(Pfn, u32)> = Vec::new();
    let (mut in_use, mut refusals) = (0, 0);
    for _ in 0..1_000_000 {
        if random.below(100) < 52 {
            // Small blocks are common, as in a kernel; order 12 is rare.
            let order = random.below(1 << 13).max(1).ilog2().abs_diff(12);
            match allocator.alloc(order) {
                Ok(first) => {
                    for frame in first.0..first.0 + (1 << order) {
                        assert!(!std::mem::replace(&mut owned[frame as usize], true), "frame {frame:#x}");
                    }
                    assert!(first.0 >= FIRST_FRAME && first.0.is_multiple_of(1 << order));
                    in_use += 1 << order;
                    blocks.push((first, order));
                }
                Err(error) => {
                    assert!(error.largest_free_order < Some(order));
                    refusals += 1;
                }
            }
        } else if !blocks.is_empty() {
            let (first, order) = blocks.swap_remove(random.below(blocks.len() as u64) as usize);
            owned[first.0 as usize..][..1 << order].fill(false);
            in_use -= 1 << order;
            allocator.free(first, order);
        }
        assert_eq!(allocator.free_frames(), FRAMES - 1 - in_use);
    }
    assert!(refusals > 1000, "memory was never full: {refusals} refusals");
    for (first, order) in blocks {
        allocator.free(first, order);
    }
    assert_eq!(free_blocks(&allocator), fresh);
}

/// Blocks of an order that are a whole number of words, and smaller ones behind them: an allocation of these met the end of the
/// larger order's words.
#[test]
fn every_frame_can_be_asked_for_whatever_the_size() {
    for frames in 2..1_100 {
        let mut allocator = BuddyAllocator::new(frames * PAGE_BYTES).unwrap();
        for frame in (0..frames + 70).rev() {
            assert_eq!(
                allocator.alloc_at(Pfn(frame), 0),
                (1..frames).contains(&frame),
                "{frame} of {frames}"
            );
        }
        assert_eq!(allocator.free_frames(), 0);
    }
}

#[test]
fn every_frame_but_the_first_is_handed_out_once_lowest_first() {
    for frames in [2, 3, 64, 1000, 4097] {
        let mut allocator = BuddyAllocator::new(frames * PAGE_BYTES).unwrap();
        assert_eq!(allocator.total_frames(), frames - 1);
        let handed_out: BTreeSet<u64> = (1..frames).map(|_| allocator.alloc(0).unwrap().0).collect();
        assert_eq!(handed_out, (1..frames).collect());
        let error = allocator.alloc(0).unwrap_err();
        assert_eq!(error, OutOfFrames { order: 0, free_frames: 0, largest_free_order: None });
    }
    let mut allocator = BuddyAllocator::new(1 << 30).unwrap();
    assert!(
        (1..10_000).all(|frame| allocator.alloc(0) == Ok(Pfn(frame))),
        "a fresh memory fills from the bottom"
    );
}

#[test]
fn the_three_page_sizes_fit_their_orders() {
    let mut allocator = BuddyAllocator::new(4 << 30).unwrap();
    let gib = PageSize::Size1G.base_pages();
    // The gibibyte of frame 0 cannot be had whole.
    for n in 1..4 {
        assert_eq!(allocator.alloc(18), Ok(Pfn(n * gib)));
    }
    let error = allocator.alloc(18).unwrap_err();
    assert_eq!(error, OutOfFrames { order: 18, free_frames: gib - 1, largest_free_order: Some(17) });
    assert_eq!(allocator.alloc(19).unwrap_err().order, 19);
    assert_eq!(allocator.alloc(40).unwrap_err().order, 40);
    assert_eq!(allocator.alloc(9), Ok(Pfn(512)));
    // Freed neighbours of the largest order stay two blocks.
    for n in 1..4 {
        allocator.free(Pfn(n * gib), 18);
    }
    assert_eq!((allocator.free_blocks(18), allocator.largest_free_order()), (3, Some(18)));
    let text = error.to_string();
    assert!(text.contains("order 18 (1048576 KiB)") && text.contains("262143 frames are free"), "{text}");
}

#[test]
fn a_tebibyte_is_cheap_to_set_up() {
    let mut allocator = BuddyAllocator::new(MAX_MEMORY_BYTES).unwrap();
    assert_eq!(allocator.free_blocks(18), 1023);
    let top = (0..1023).map(|_| allocator.alloc(18).unwrap()).last().unwrap();
    assert_eq!(top.0, (1 << 28) - (1 << 18));
}

#[test]
fn impossible_sizes_are_refused() {
    for memory_bytes in [0, 1, 4096, 8191, (1 << 30) + 1, MAX_MEMORY_BYTES + 4096, u64::MAX] {
        let error = BuddyAllocator::new(memory_bytes).unwrap_err();
        assert!(error.to_string().contains(&memory_bytes.to_string()));
    }
}

/// The message of the panic that this free causes.
fn free_panic(allocator: &BuddyAllocator, first: u64, order: u32) -> String {
    let mut allocator = allocator.clone();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| allocator.free(Pfn(first), order)));
    *result.expect_err("this free must panic").downcast::<String>().unwrap()
}

#[test]
fn a_wrong_free_panics_with_the_numbers() {
    let mut allocator = BuddyAllocator::new(1000 * PAGE_BYTES).unwrap();
    let block = allocator.alloc(4).unwrap().0;
    assert!(free_panic(&allocator, block, 3).contains("it was taken with order 4"));
    while allocator.alloc(4).unwrap() != Pfn(64) {}
    assert!(free_panic(&allocator, 64, 6).contains("it was taken with order 4"));
    assert!(free_panic(&allocator, block + 1, 4).contains("not aligned to order 4"));
    assert!(free_panic(&allocator, block + 8, 3).contains("no block was taken there"));
    assert!(free_panic(&allocator, 0, 0).contains("no block was taken there"));
    assert!(free_panic(&allocator, 1000, 0).contains("memory has 0x3e8 frames"));
    assert!(free_panic(&allocator, 992, 5).contains("no block was taken there"));
    assert!(free_panic(&allocator, u64::MAX - 15, 4).contains("memory has"));
    assert!(free_panic(&allocator, 0, 19).contains("order 19 is above 18"));
    allocator.free(Pfn(block), 4);
    assert!(free_panic(&allocator, block, 4).contains("freed twice?"));
}

#[test]
fn fragmentation_indices_follow_their_definitions() {
    let mut allocator = BuddyAllocator::new(1024 * PAGE_BYTES).unwrap();
    // Frames 1 to 511 lie in blocks of orders 0 to 8, frames 512 to 1023 in one of order 9.
    assert_eq!(allocator.unusable_free_index(9), Some(511.0 / 1023.0));
    assert_eq!(allocator.unusable_free_index(0), Some(0.0));
    assert_eq!(allocator.fragmentation_index(9), None, "it would succeed");
    // Take everything, then give every second frame back: 512 free frames, no two together.
    let frames: Vec<Pfn> = (0..1023).map(|_| allocator.alloc(0).unwrap()).collect();
    assert_eq!(allocator.unusable_free_index(9), None);
    assert_eq!(allocator.fragmentation_index(9), None);
    for &frame in frames.iter().filter(|frame| frame.0 % 2 == 1) {
        allocator.free(frame, 0);
    }
    assert_eq!(allocator.free_frames(), 512);
    assert_eq!(allocator.unusable_free_index(1), Some(1.0));
    assert_eq!(allocator.fragmentation_index(1), Some(1.0 - 256.0 / 512.0));
    assert_eq!(allocator.fragmentation_index(9), Some(1.0 - 1.0 / 512.0));
}

/// The contract of every allocator.
#[test]
fn blocks_come_through_the_trait() {
    fn take_and_return(frames: &mut dyn FrameAllocator) {
        let huge = frames.alloc(9).unwrap();
        assert!(huge.0.is_multiple_of(512));
        let base = frames.alloc(0).unwrap();
        assert!(base.0 > 0 && !(huge.0..huge.0 + 512).contains(&base.0), "frame {base} has two owners");
        assert_eq!(frames.free_frames(), frames.total_frames() - 513);
        assert_eq!(frames.alloc(18).unwrap_err().order, 18);
        assert!(!frames.alloc_at(huge, 0), "it is in use");
        frames.split(huge, 9, 8);
        frames.free(huge, 8);
        frames.free(huge.add(256), 8);
        assert!(frames.alloc_at(huge, 9), "both parts are free");
        frames.free(huge, 9);
        frames.free(base, 0);
        assert_eq!(frames.free_frames(), frames.total_frames());
        assert_eq!(frames.unusable_free_index(0), Some(0.0));
    }
    take_and_return(&mut BuddyAllocator::new(16 << 20).unwrap());
}

#[test]
fn the_parts_of_a_split_block_are_freed_one_by_one_and_merge_again() {
    let mut allocator = BuddyAllocator::new(16 << 20).unwrap();
    let fresh = free_blocks(&allocator);
    let huge = allocator.alloc(9).unwrap();
    let free = allocator.free_frames();
    allocator.split(huge, 9, 0);
    assert_eq!(allocator.free_frames(), free, "splitting frees nothing");
    assert!(free_panic(&allocator, huge.0, 9).contains("it was taken with order 0"));
    for frame in huge.0..huge.0 + 512 {
        assert_ne!(allocator.alloc(0), Ok(Pfn(frame)), "a part is still in use");
    }
    let mut allocator = BuddyAllocator::new(16 << 20).unwrap();
    let huge = allocator.alloc(9).unwrap();
    allocator.split(huge, 9, 0);
    for frame in huge.0..huge.0 + 512 {
        allocator.free(Pfn(frame), 0);
    }
    assert_eq!(free_blocks(&allocator), fresh);
}

#[test]
#[should_panic(expected = "not aligned to order 9")]
fn a_split_inside_a_block_is_refused() {
    let mut allocator = BuddyAllocator::new(16 << 20).unwrap();
    let huge = allocator.alloc(9).unwrap();
    allocator.split(huge.add(1), 9, 0);
}

#[test]
fn a_scattered_allocator_draws_among_equals_and_hands_out_every_frame_once() {
    let mut buddy = BuddyAllocator::new(8 << 20).expect("memory").scattered(1);
    // Every other frame is free: 1,024 blocks of order 0.
    let all: Vec<Pfn> = (0..buddy.total_frames()).map(|_| buddy.alloc(0).expect("a frame")).collect();
    all.iter().filter(|frame| frame.0 % 2 == 0).for_each(|&frame| buddy.free(frame, 0));
    let mut drawn: Vec<u64> = (0..buddy.free_frames()).map(|_| buddy.alloc(0).expect("a frame").0).collect();
    let rising = drawn.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((400..600).contains(&rising), "{rising}");
    drawn.sort_unstable();
    assert!(drawn.into_iter().eq((1..1_024).map(|half| 2 * half)));
    assert!(buddy.alloc(0).is_err());
}
