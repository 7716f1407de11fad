//! The contract of frame allocators, for every registered kind.

use std::collections::BTreeMap;

use pagewalk_vm::addr::{Asid, PAGE_BYTES, PageSize, Pfn, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::random::SplitMix64;
use pagewalk_vm::reclaim::PagePool;

use super::{FRAMES, FrameKind};
use crate::spec::key::{Kind, Shape};

/// A kind with memories of 32 MiB and the defaults of its other keys.
fn kind(name: &str) -> FrameKind {
    let variant = FRAMES.0.iter().find(|variant| variant.key.name == name).expect("a registered kind");
    let Shape::Table(keys) = variant.key.shape else { panic!("{name} has keys") };
    let sizes = keys.iter().filter(|key| matches!(key.shape, Shape::Value(Kind::Bytes { .. })));
    let sizes: String = sizes.map(|key| format!("{} = \"32MiB\"\n", key.name)).collect();
    let text = format!("name = \"x\"\n[frames.{name}]\n{sizes}");
    crate::spec::parse(&text, "example.toml").unwrap_or_else(|error| panic!("{error}")).paging.frames
}

fn each_kind(check: impl Fn(&str, &FrameKind, PagePool)) {
    for variant in FRAMES.0 {
        let kind = kind(variant.key.name);
        check(variant.key.name, &kind, kind.pool(None, 1));
    }
}

/// The owner of every frame, by the first frame of its block.
#[derive(Default)]
struct Model {
    blocks: BTreeMap<Pfn, u32>,
}

impl Model {
    fn take(&mut self, first: Pfn, order: u32) {
        assert!(first.0 > 0 && first.0.is_multiple_of(1 << order), "{first} of order {order}");
        let below = self.blocks.range(..Pfn(first.0 + (1 << order))).next_back();
        assert!(
            below.is_none_or(|(below, order)| below.0 + (1 << order) <= first.0),
            "{first} has two owners"
        );
        self.blocks.insert(first, order);
    }

    /// The first block from a frame on, round memory.
    fn any(&self, from: Pfn) -> Option<(Pfn, u32)> {
        let found = self.blocks.range(from..).next().or_else(|| self.blocks.first_key_value());
        found.map(|(&first, &order)| (first, order))
    }

    fn frames(&self) -> u64 {
        self.blocks.values().map(|order| 1 << order).sum()
    }
}

#[test]
fn no_frame_has_two_owners_and_all_come_back() {
    each_kind(|name, kind, mut pool| {
        assert_eq!((pool.total_frames() + 1) * PAGE_BYTES, kind.memory_bytes(), "{name}: all but frame 0");
        let memory = pool.ordinary_mut();
        let total = memory.allocator().total_frames();
        let mut random = SplitMix64::new(3);
        let mut model = Model::default();
        let mut refusals = 0;
        for step in 0..20_000 {
            if random.below(100) < if step < 10_000 { 75 } else { 45 } {
                // Small blocks are common, as in a kernel.
                let order = random.below(1 << 9).max(1).ilog2().abs_diff(8);
                match memory.alloc(order) {
                    Ok(first) => model.take(first, order),
                    Err(full) => {
                        assert!(full.largest_free_order < Some(order), "{name}: {full}");
                        assert_eq!((full.order, full.free_frames), (order, total - model.frames()), "{name}");
                        refusals += 1;
                    }
                }
            } else if let Some((first, order)) = model.any(Pfn(random.below(total))) {
                // A block is given back as it was taken, or in two halves.
                model.blocks.remove(&first);
                if order > 0 && random.below(4) == 0 {
                    memory.split(first, order, order - 1);
                    memory.free(first.add(1 << (order - 1)), order - 1);
                    memory.free(first, order - 1);
                } else {
                    memory.free(first, order);
                }
            }
            assert_eq!(memory.allocator().free_frames(), total - model.frames(), "{name}, step {step}");
        }
        assert!(refusals > 100, "{name}: memory was never full");
        while memory.alloc(0).map(|frame| model.take(frame, 0)).is_ok() {}
        assert_eq!(model.frames(), total, "{name}: every frame can be had");
        model.blocks.iter().for_each(|(&first, &order)| memory.free(first, order));
        assert_eq!(memory.allocator().free_frames(), total, "{name}");
        assert_eq!(memory.allocator().unusable_free_index(0), Some(0.0), "{name}");
        assert!(memory.alloc(9).is_ok(), "{name}: large blocks can be had again");
        assert!(memory.alloc(18).is_err() && memory.alloc(40).is_err(), "{name}: more than there is");
    });
}

#[test]
fn pages_get_frames_of_their_own_and_give_them_back() {
    each_kind(|name, kind, mut pool| {
        let mut again = kind.pool(None, 1);
        let free = pool.free_frames();
        let mut frames = BTreeMap::new();
        for page in 0..2_000 {
            let key = PageKey { asid: Asid(1), page: Vpn(page * 7) };
            let taken = pool.take_movable(key).unwrap_or_else(|full| panic!("{name}: {full}"));
            assert_eq!(
                again.take_movable(key).as_ref(),
                Ok(&taken),
                "{name}: the same calls, the same frames"
            );
            assert_eq!(frames.insert(taken.frame, key), None, "{name}: {} has two pages", taken.frame);
        }
        for (order, size) in [(0, PageSize::Size4K), (9, PageSize::Size2M)] {
            let first = pool.take_kept(size).unwrap_or_else(|full| panic!("{name}: {full}"));
            assert!(
                frames.range(first..first.add(1 << order)).next().is_none(),
                "{name}: {first} has a page"
            );
            pool.give_page(first, size);
        }
        frames.keys().for_each(|&frame| pool.give_page(frame, PageSize::Size4K));
        assert_eq!(pool.free_frames(), free, "{name}");
    });
}

#[test]
fn a_block_that_was_not_taken_cannot_be_given_back() {
    for variant in FRAMES.0 {
        let freed = std::panic::catch_unwind(|| {
            let mut pool = kind(variant.key.name).pool(None, 1);
            let first = pool.ordinary_mut().alloc(3).expect("memory");
            pool.ordinary_mut().free(first, 2);
        });
        assert!(freed.is_err(), "{}", variant.key.name);
    }
}
