//! Random requests of many threads, with arrivals and writes in any order, against the [`Model`] and a [`World`] of data.

use std::collections::BTreeMap;

use super::model::Model;
use super::world::{Access, World};
use super::*;
use crate::random::SplitMix64;

struct Trace {
    tier: Tier<u32>,
    model: Model,
    world: World,
    random: SplitMix64,
    pages: u64,
    writes: u64,
    /// Of 16 steps, so many are accesses; the rest are flash's.
    busy: u64,
    /// Whether threads that were woken always get their page.
    forced: bool,
    /// The model's slots, by the tier's.
    slots: BTreeMap<SlotIndex, SlotIndex>,
    effects: Step,
    stalls: u64,
}

impl Trace {
    /// A tiny cache, so that everything fills up.
    fn random(seed: u64) -> Self {
        let mut random = SplitMix64::of_item(seed, 0);
        let mut any = |choices: &[u32]| choices[random.below(choices.len() as u64) as usize];
        let design = TierDesign {
            sets: any(&[1, 1, 2, 4]),
            ways: any(&[1, 2, 3, 4, 5, 9]),
            index_shift: any(&[0, 2]),
            replacement: [Replacement::Lru, Replacement::Nru][any(&[0, 0, 1]) as usize],
            miss_status: MissStatusShape { sets: any(&[1, 2, 4]), ways: any(&[1, 2, 4]) },
            evict_buffer: any(&[1, 1, 2, 4, 8]),
            queue: any(&[1, 2, 4, 16]),
            partition: Partition::default(),
        };
        let pages = u64::from(design.frames() * any(&[1, 2, 3]) + 1) << design.index_shift;
        let threads = any(&[2, 8, 64]) as usize;
        Self {
            model: Model::new(&design),
            world: World::new(&design, threads),
            pages,
            writes: any(&[1, 4, 7]).into(),
            busy: any(&[4, 8, 12]).into(),
            forced: any(&[0, 1]) == 1,
            tier: tier(design),
            random,
            slots: BTreeMap::new(),
            effects: Vec::new(),
            stalls: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// One request, one arrival or one write. Tells whether it was a request.
    fn step(&mut self) -> bool {
        let (reading, writing) = (self.world.reading.len(), self.world.writing.len());
        if self.random.below(16) < self.busy {
            let thread = self.below(self.world.waiting.len());
            if self.world.waiting[thread].is_none() {
                self.request(thread);
                return true;
            }
        }
        // Whatever comes, in any order.
        if reading + writing > 0 {
            let at = self.below(reading + writing);
            let event =
                if at < reading { self.world.finish_read(at) } else { self.world.finish_write(at - reading) };
            self.happens(event);
        }
        false
    }

    fn request(&mut self, thread: usize) {
        let again = self.world.again[thread];
        let access = again.unwrap_or_else(|| {
            // Half of the accesses go to a quarter of the pages.
            let page = self.random.below(self.pages) / (1 + 3 * self.random.below(2));
            Access { page, write: self.random.below(8) < self.writes }
        });
        let Access { page, write } = access;
        let frame = self.tier.lookup(P(page), write);
        assert_eq!(frame, self.model.lookup(page, write).map(F), "look-up of {page}");
        assert_eq!(self.tier.accepts(), self.model.accepts());
        if let Some(frame) = frame {
            self.world.again[thread] = None;
            self.world.access(frame, access);
            return;
        }
        let now = again.is_some() && (self.forced || self.random.below(2) == 0);
        let completes = if now { Completion::Now { write } } else { LATER };
        let event = Event::Miss { page: P(page), waiter: thread as u32, completes };
        if self.tier.accepts() {
            self.world.again[thread] = None;
            self.world.waiting[thread] = Some((access, completes));
            self.happens(event);
        } else {
            // The frontside stalls.
            self.stalls += 1;
            let refused = self.tier.step(event, &mut self.effects);
            assert_eq!(refused, Err(EventError::QueueFull { depth: self.tier.design().queue }));
        }
    }

    fn happens(&mut self, event: Event<u32>) {
        self.tier.step(event, &mut self.effects).unwrap();
        let mut expected = self.model.step(event);
        assert_eq!(self.effects.len(), expected.len(), "{:?}, expected {expected:?}", self.effects);
        for (effect, expected) in self.effects.drain(..).zip(&mut expected) {
            // The same slot, whatever its number.
            match (effect, &mut *expected) {
                (Effect::Copy { slot, .. }, Effect::Copy { slot: of_model, .. }) => {
                    self.slots.insert(slot, std::mem::replace(of_model, slot));
                }
                (
                    Effect::Restore { slot, .. } | Effect::Write { slot, .. },
                    Effect::Restore { slot: of_model, .. } | Effect::Write { slot: of_model, .. },
                ) => {
                    assert_eq!(self.slots[&slot], *of_model, "{effect:?}");
                    *of_model = slot;
                }
                _ => {}
            }
            assert_eq!(effect, *expected);
            self.world.perform(effect);
        }
    }

    /// Lets everything end, in any order.
    fn drain(&mut self) {
        self.busy = 0;
        while self.world.reading.len() + self.world.writing.len() > 0 {
            self.step();
        }
        self.tier.check();
        self.world.check_drained(&self.tier);
    }
}

/// Traces with this many requests together. Every reason to wait, and every way of a page, must have been seen often.
fn run(traces: u64, requests: u64) {
    let mut sums = [0; 11];
    for seed in 0..traces {
        let mut trace = Trace::random(seed);
        let mut asked = 0;
        let mut steps = 0;
        while asked < requests / traces {
            asked += u64::from(trace.step());
            steps += 1;
            if steps % 16 == 0 {
                trace.tier.check();
            }
        }
        trace.drain();
        let counts = trace.tier.counts();
        for (sum, count) in sums.iter_mut().zip([
            counts.merged,
            counts.raced,
            counts.reads,
            counts.writes,
            counts.restores,
            counts.discards,
            counts.copies,
            counts.blocked_by_miss_status,
            counts.blocked_by_ways,
            counts.blocked_by_evict_buffer,
            trace.stalls,
        ]) {
            *sum += count;
        }
        assert_eq!(trace.world.wakes, counts.merged + counts.raced + counts.reads + counts.restores);
    }
    println!("of {requests}: {sums:?}");
    assert!(sums.iter().all(|&sum| sum > requests / 1000), "too few of something: {sums:?}");
}

#[test]
fn a_million_requests_lose_no_page_and_wake_every_waiter_once() {
    run(500, 1_000_000);
}

#[test]
#[ignore = "long: `make soak`"]
fn ten_million_requests_lose_no_page_and_wake_every_waiter_once() {
    run(2000, 10_000_000);
}
