//! What becomes of the accesses of instructions: when a load has its data, from a store or from a cache, and when a store is done.

use super::Reference;
use super::charges::Waited;
use super::foresight::Formed;
use super::forwarding::Found;
use super::owned::Missed;
use super::pipeline::Pipeline;
use super::plan::Making;
use super::state::{Current, Design, LEVELS, Place};
use crate::spec::settings::LatenciesSpec;
use crate::time::cache::LINE_SHIFT;

/// The cycles from the time at which a store leaves the store buffer that a load takes which wants more bytes than it has. Measured on Zen 4,
/// docs/time.md.
const FORWARDED_BY_CACHE: u64 = 19;

impl Pipeline {
    /// Completes the access that was issued last.
    #[inline]
    pub(super) fn complete(&mut self, reference: &Reference) {
        let Design { cycle_ps, nearest_ps, nearest, .. } = self.design;
        let issued_ps = self.place.issued * cycle_ps;
        // The usual case needs no division.
        let cycles = |ps: u64| {
            if ps == 0 {
                0
            } else if ps == nearest_ps {
                nearest
            } else {
                ps.div_ceil(cycle_ps)
            }
        };
        let translation = cycles(reference.translated_ps.saturating_sub(issued_ps));
        let mut waited = cycles(reference.done_ps.saturating_sub(issued_ps));
        if !reference.write && self.speculation.is_on() {
            waited = waited.max(nearest);
            self.speculation.load(reference.done_ps.div_ceil(cycle_ps));
        }
        if reference.write {
            self.complete_store(reference, translation, waited);
        } else {
            let queue = cycles(reference.queued_ps);
            self.complete_load(reference, translation, waited, queue);
        }
        if self.place.making.is_none() {
            let Current { loaded, stored, .. } = self.current;
            self.retire(loaded.max(stored));
            self.execution.forwarding.leave(self.back.retire.cycle());
        }
    }

    fn complete_store(&mut self, reference: &Reference, translation: u64, waited: u64) {
        let &Reference { addr, level, alone_ps, .. } = reference;
        let nearest = self.design.nearest;
        let Place { issued, tlb, .. } = self.place;
        let data = self.current.computed.unwrap_or(issued);
        self.execution.forwarding.store(
            self.place.bytes_at(addr),
            data,
            self.execution.formed(self.place.making),
        );
        let Current { stored, owned, line, missed, waited: own, .. } = &mut self.current;
        *line = addr >> LINE_SHIFT;
        *stored = data.max(issued + translation + 1).max(*stored);
        *owned = (issued + waited).max(*owned);
        if level > 0 {
            // Nothing waits for what a load takes to get its data from the nearest cache.
            let latency = alone_ps.div_ceil(self.design.cycle_ps).saturating_sub(nearest);
            *missed = Some(Missed { asked: issued + translation, latency });
        }
        if translation > own.walk {
            (own.walk, own.tlb) = (translation, tlb.min(translation));
        }
    }

    fn complete_load(&mut self, reference: &Reference, translation: u64, waited: u64, queue: u64) {
        let Place { issued, tlb, .. } = self.place;
        let addr = reference.addr;
        let translated = issued + translation;
        let is_of_vector = self.place.making.is_some_and(|making| making.of_vector);
        let vector = if is_of_vector { u64::from(self.design.spec.latencies.vector_load) } else { 0 };
        let mut done = issued + waited + vector;
        let mut miss = waited.saturating_sub(self.design.nearest + translation);
        match self.execution.forwarding.find(self.place.bytes_at(addr), translated) {
            None => {}
            Some(Found::Whole { ready, behind, is_same, formed }) => {
                if behind == 0 {
                    self.back.hand_over();
                }
                let latency = self.forwarding_latency(is_same, behind, formed);
                (done, miss) = (ready.max(translated) + latency, 0);
            }
            Some(Found::Part { left }) => {
                (done, miss) = (left.max(translated) + FORWARDED_BY_CACHE + vector, 0);
            }
        }
        if done >= self.current.loaded {
            let level = reference.level.min(LEVELS - 1);
            self.current.loaded = done;
            let (tlb, queue) = (tlb.min(translation), queue.min(miss));
            self.current.waited = Waited { walk: translation, tlb, miss, queue, level };
        }
    }

    /// Returns the cycles that a load takes to get its data from a store, the one in front of so many others, whose address was formed so.
    #[inline]
    fn forwarding_latency(&mut self, is_same: bool, behind: u64, store: Formed) -> u64 {
        let LatenciesSpec { foreseen_forward, counter_forward, forward, vector_forward, .. } =
            self.design.spec.latencies;
        let of = self.execution.formed(self.place.making);
        let latency = match self.place.making {
            None => forward,
            Some(Making { of_vector: true, .. }) => vector_forward,
            Some(Making { is_renamed: true, modifies, at, .. })
                if is_same
                    && store != Formed::OF_VECTOR
                    && self.execution.foresight.foresees(at, of, behind, store) =>
            {
                if modifies {
                    counter_forward
                } else {
                    foreseen_forward
                }
            }
            Some(_) => forward,
        };
        latency.into()
    }
}
