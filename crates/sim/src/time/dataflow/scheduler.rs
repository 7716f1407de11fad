//! Places in the schedulers, in which dispatched instructions wait for their registers and for a unit.
//!
//! An instruction has a place from its dispatch until it begins; if all places are taken, dispatch stops. One that begins in the cycle behind its
//! dispatch, as many do, leaves before it is missed, and is not counted.

use super::units::Unit;
use crate::spec::settings::DataflowSpec;

/// Cycles that are kept in view: an instruction that begins later leaves its place too early.
const CYCLES: usize = 1 << 12;

/// The kinds of instructions that may have a scheduler of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// Operations on general registers, and stores.
    Operations = 0,
    /// Operations on vectors.
    Vectors = 1,
    /// Loads.
    Loads = 2,
}

impl Waits {
    /// Returns the scheduler of an operation that takes a unit, or none.
    pub(super) fn of(unit: Option<Unit>) -> Self {
        match unit.is_some_and(Unit::is_of_vectors) {
            true => Self::Vectors,
            false => Self::Operations,
        }
    }
}

/// What an instruction has of which only some enter the schedulers in a cycle: an operation on general registers, accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Enters {
    pub(super) operation: bool,
    pub(super) access: bool,
}

/// The schedulers of a core.
#[derive(Clone, Debug)]
pub(super) struct Schedulers {
    schedulers: [Scheduler; 3],
    /// By what waits, the scheduler.
    shared: [Waits; 3],
    operations: Doors,
    accesses: Doors,
}

/// The ways into schedulers, of which each is taken once in a cycle.
#[derive(Clone, Copy, Debug)]
struct Doors {
    number: u32,
    /// The last cycle in which one was taken, and how many were.
    cycle: u64,
    taken: u32,
}

impl Doors {
    /// Creates so many; of 0, there is always another.
    fn new(number: u32) -> Self {
        Self { number: if number > 0 { number } else { u32::MAX }, cycle: 0, taken: 0 }
    }

    /// Takes one in a cycle, or in the next one if all are taken; returns in which.
    #[inline(always)]
    fn take(&mut self, cycle: u64) -> u64 {
        if cycle > self.cycle {
            (self.cycle, self.taken) = (cycle, 1);
        } else if self.taken < self.number {
            self.taken += 1;
        } else {
            (self.cycle, self.taken) = (self.cycle + 1, 1);
        }
        self.cycle
    }
}

/// One scheduler.
#[derive(Clone, Debug)]
struct Scheduler {
    places: u32,
    /// The instructions that wait at `until`, and have been dispatched.
    waiting: u32,
    until: u64,
    /// By cycle, how many begin in it.
    begins: Box<[u8; CYCLES]>,
}

impl Schedulers {
    /// Creates the schedulers of a core, which are empty. On an in-order core the window is the only place to wait.
    pub(super) fn new(spec: &DataflowSpec) -> Self {
        let of = |places: u32| Scheduler::new(if spec.is_in_order { 0 } else { places });
        let own = |waits: Waits, places: u32| if places > 0 { waits } else { Waits::Operations };
        Self {
            schedulers: [of(spec.scheduler), of(spec.vector_scheduler), of(spec.load_scheduler)],
            shared: [
                Waits::Operations,
                own(Waits::Vectors, spec.vector_scheduler),
                own(Waits::Loads, spec.load_scheduler),
            ],
            operations: Doors::new(spec.dispatched_operations),
            accesses: Doors::new(spec.dispatched_accesses),
        }
    }

    /// Lets an instruction enter that has a slot of dispatch in a cycle; returns when it does: then, or in the next cycle.
    #[inline(always)]
    pub(super) fn enter(&mut self, enters: Enters, cycle: u64) -> u64 {
        let operation = if enters.operation { self.operations.take(cycle) } else { cycle };
        if enters.access { self.accesses.take(operation) } else { operation }
    }

    /// Returns whether all places may be taken.
    #[inline(always)]
    pub(super) fn is_full(&self, waits: Waits) -> bool {
        let scheduler = &self.schedulers[self.shared[waits as usize] as usize];
        scheduler.waiting >= scheduler.places
    }

    /// Returns when there is a place, from a cycle on.
    #[inline(always)]
    pub(super) fn free(&mut self, waits: Waits, from: u64) -> u64 {
        match self.is_full(waits) {
            true => self.schedulers[self.shared[waits as usize] as usize].free(from),
            false => from,
        }
    }

    /// Takes a place for an instruction that was dispatched in one cycle, and begins in another.
    #[inline(always)]
    pub(super) fn take(&mut self, waits: Waits, dispatched: u64, begins: u64) {
        if begins > dispatched + 1 {
            self.schedulers[self.shared[waits as usize] as usize].take(dispatched, begins);
        }
    }
}

impl Scheduler {
    /// Creates a scheduler of so many places; of 0, it has as many as are wanted.
    fn new(places: u32) -> Self {
        let places = if places > 0 { places } else { u32::MAX };
        Self { places, waiting: 0, until: 0, begins: Box::new([0; CYCLES]) }
    }

    #[inline(never)]
    fn free(&mut self, from: u64) -> u64 {
        self.pass(from);
        while self.waiting >= self.places {
            self.pass(self.until + 1);
        }
        self.until.max(from)
    }

    /// Lets those leave that have begun at a cycle.
    fn pass(&mut self, cycle: u64) {
        let passed = cycle.saturating_sub(self.until);
        if self.waiting == 0 || passed >= CYCLES as u64 {
            self.begins.fill(0);
            self.waiting = 0;
        } else {
            for begun in self.until + 1..=cycle {
                self.waiting -= u32::from(std::mem::take(&mut self.begins[begun as usize % CYCLES]));
            }
        }
        self.until = self.until.max(cycle);
    }

    #[inline(never)]
    fn take(&mut self, dispatched: u64, begins: u64) {
        if self.places == u32::MAX {
            return;
        }
        if begins >= self.until + CYCLES as u64 {
            self.pass(dispatched);
        }
        let begins = begins.min(self.until + CYCLES as u64 - 1);
        let place = &mut self.begins[begins as usize % CYCLES];
        if begins > self.until && *place < u8::MAX {
            *place += 1;
            self.waiting += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_when_one_that_waits_begins() {
        let mut scheduler = Scheduler::new(2);
        scheduler.take(0, 10);
        assert_eq!(scheduler.waiting, 1);
        scheduler.take(0, 10_000);
        assert_eq!((scheduler.free(3), scheduler.waiting), (10, 1));
        scheduler.take(10, 12);
        // One that begins later than is kept in view leaves early.
        assert_eq!((scheduler.free(20), scheduler.free(30)), (20, 30));
        scheduler.take(30, 40);
        assert_eq!(scheduler.free(31), 40);
        assert_eq!(scheduler.free(100_000), 100_000);
        assert_eq!(scheduler.waiting, 0);
        let mut without = Scheduler::new(0);
        (0..1000).for_each(|_| without.take(0, 10_000));
        assert_eq!(without.waiting, 0);
    }
}
