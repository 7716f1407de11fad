//! One test for each rule and each exceptional case, then random traces with data in the pages, against an independent model
//! (`trace.rs`).

mod design;
mod evicting;
mod mapping;
mod missing;
mod model;
mod progress;
mod trace;
mod world;

use super::*;

/// Effects of waiters that are numbers.
type Step = Vec<Effect<u32>>;

const P: fn(u64) -> FlashPage = FlashPage;
const F: fn(u32) -> FrameIndex = FrameIndex;
const LATER: Completion = Completion::Later;
const NOW: Completion = Completion::Now { write: false };
const NOW_WRITE: Completion = Completion::Now { write: true };

/// One set of `ways`, a miss status of one set, all pages of one controller.
fn small(ways: u32, miss_ways: u32, evict_buffer: u32, queue: u32) -> TierDesign {
    TierDesign {
        sets: 1,
        ways,
        index_shift: 0,
        miss_status: MissStatusShape { sets: 1, ways: miss_ways },
        evict_buffer,
        queue,
        ..TierDesign::default()
    }
}

fn tier(design: TierDesign) -> Tier<u32> {
    Tier::new(design).unwrap()
}

fn step(tier: &mut Tier<u32>, event: Event<u32>) -> Step {
    let mut effects = Vec::new();
    tier.step(event, &mut effects).unwrap();
    tier.check();
    effects
}

fn miss(tier: &mut Tier<u32>, page: u64, waiter: u32, completes: Completion) -> Step {
    step(tier, Event::Miss { page: P(page), waiter, completes })
}

fn arrive(tier: &mut Tier<u32>, page: u64) -> Step {
    step(tier, Event::Arrived { page: P(page) })
}

fn written(tier: &mut Tier<u32>, page: u64) -> Step {
    step(tier, Event::Written { page: P(page) })
}

/// A miss and its arrival; nothing stands in the way.
fn fetch(tier: &mut Tier<u32>, page: u64, completes: Completion) -> Step {
    let mut effects = miss(tier, page, 0, completes);
    effects.extend(arrive(tier, page));
    effects
}

fn read(page: u64, frame: u32) -> Effect<u32> {
    Effect::Read { page: P(page), frame: F(frame) }
}

fn copy(page: u64, frame: u32, slot: u16) -> Effect<u32> {
    Effect::Copy { page: P(page), frame: F(frame), slot: SlotIndex(slot) }
}

fn discard(page: u64, frame: u32) -> Effect<u32> {
    Effect::Discard { page: P(page), frame: F(frame) }
}

fn install(page: u64, frame: u32) -> Effect<u32> {
    Effect::Install { page: P(page), frame: F(frame) }
}

fn restore(page: u64, slot: u16, frame: u32) -> Effect<u32> {
    Effect::Restore { page: P(page), slot: SlotIndex(slot), frame: F(frame) }
}

fn write(page: u64, slot: u16) -> Effect<u32> {
    Effect::Write { page: P(page), slot: SlotIndex(slot) }
}

fn wake(waiter: u32, completes: Completion, page: u64, frame: u32) -> Effect<u32> {
    Effect::Wake { waiter, completes, page: P(page), frame: F(frame) }
}
