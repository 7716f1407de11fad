//! Places in the schedulers, in which dispatched instructions wait for their registers and for a unit.
//!
//! An instruction has a place from its dispatch until it begins; if all places are taken, dispatch stops. One that begins in the cycle behind its
//! dispatch, as many do, leaves before it is missed, and is not counted.

use super::order::Ring;
use super::own_units::OwnUnits;
use super::units::{Unit, Units, Work};
use crate::spec::settings::DataflowSpec;

/// Cycles that are kept in view: an instruction that begins later leaves its place too early.
pub(super) const CYCLES: usize = 1 << 12;

/// What instructions wait in schedulers for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// A unit of general registers: any, one of those that shift, one of those that multiply.
    Operations = 0,
    Shifts = 1,
    Multiplications = 2,
    /// A unit for branches.
    Branches = 3,
    /// What stores need.
    Stores = 4,
    /// What loads need.
    Loads = 5,
    /// A unit for vectors: any, or one of those that add, multiply or permute them, or transfer from and to them.
    Vectors = 6,
    FloatAdditions = 7,
    FloatMultiplications = 8,
    Shuffles = 9,
    Transfers = 10,
    /// The unit that divides vectors.
    VectorDivisions = 11,
    /// What another instruction, together with which it is executed, waits for.
    Nothing = 12,
}

impl Waits {
    pub(super) const KINDS: usize = 13;
    pub(super) const ALL: [Self; Self::KINDS] = [
        Self::Operations,
        Self::Shifts,
        Self::Multiplications,
        Self::Branches,
        Self::Stores,
        Self::Loads,
        Self::Vectors,
        Self::FloatAdditions,
        Self::FloatMultiplications,
        Self::Shuffles,
        Self::Transfers,
        Self::VectorDivisions,
        Self::Nothing,
    ];

    /// Returns whether it waits for a unit of general registers.
    #[inline(always)]
    fn is_for_general(self) -> bool {
        self as usize <= Self::Multiplications as usize
    }

    /// Returns whether it waits where operations on general registers do.
    #[inline(always)]
    fn is_beside_general(self) -> bool {
        self as usize <= Self::Loads as usize
    }

    /// Returns whether it is an operation on vectors.
    #[inline(always)]
    pub(super) fn is_for_vectors(self) -> bool {
        (Self::Vectors as usize..=Self::VectorDivisions as usize).contains(&(self as usize))
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
    /// Those for all, for vectors, and for loads.
    schedulers: [Scheduler; 3],
    /// By what waits, the scheduler.
    shared: [u8; Waits::KINDS],
    /// Those that have units of their own, instead.
    own: Option<Box<Own>>,
    operations: Doors,
    accesses: Doors,
}

/// Schedulers that have units of their own.
#[derive(Clone, Debug)]
struct Own {
    general: OwnUnits,
    vectors: Queued,
}

/// Schedulers for vectors, and the places in front of them, where operations cannot begin: they go on from there in order.
#[derive(Clone, Debug)]
struct Queued {
    schedulers: OwnUnits,
    /// When those in the last so many places went on.
    gone: Ring,
    /// When the last one did.
    last: u64,
}

impl Queued {
    fn new(spec: &DataflowSpec) -> Self {
        let gone = Ring::new(spec.vector_queue.max(1) as usize);
        Self { schedulers: OwnUnits::of_vectors(spec), gone, last: 0 }
    }

    /// Lets an operation enter that is dispatched in a cycle; returns when it is.
    #[inline(always)]
    fn enter(&mut self, waits: Waits, cycle: u64) -> u64 {
        let cycle = cycle.max(self.gone.free());
        self.last = self.schedulers.enter(waits, cycle);
        self.gone.push(self.last);
        cycle
    }

    /// Returns when the operation that entered last can begin, which is ready in a cycle: it has left the places in front by then.
    #[inline(always)]
    fn ready(&self, ready: u64) -> u64 {
        ready.max(self.last + 1)
    }
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

/// The numbers of schedulers.
const ALL: u8 = 0;
const VECTORS: u8 = 1;
const LOADS: u8 = 2;

impl Schedulers {
    /// Creates the schedulers of a core, which are empty. On an in-order core the window is the only place to wait.
    pub(super) fn new(spec: &DataflowSpec) -> Self {
        let of = |places: u32| Scheduler::new(if spec.is_in_order { 0 } else { places });
        let mut shared = [ALL; Waits::KINDS];
        if spec.vector_scheduler > 0 {
            shared[Waits::Vectors as usize..=Waits::VectorDivisions as usize].fill(VECTORS);
        }
        if spec.load_scheduler > 0 {
            shared[Waits::Loads as usize] = LOADS;
        }
        let own = spec.have_schedulers_own_units && spec.are_units_limited && !spec.is_in_order;
        Self {
            // Where schedulers have no units of their own, the places of the queue are like all others.
            schedulers: [
                of(spec.scheduler),
                of(spec.vector_scheduler.saturating_add(spec.vector_queue)),
                of(spec.load_scheduler),
            ],
            shared,
            own: own
                .then(|| Box::new(Own { general: OwnUnits::of_general(spec), vectors: Queued::new(spec) })),
            operations: Doors::new(spec.dispatched_operations),
            accesses: Doors::new(spec.dispatched_accesses),
        }
    }

    /// Lets an instruction enter that has a slot of dispatch in a cycle; returns when it does: then, or in the first cycle behind it in which it can.
    #[inline(always)]
    pub(super) fn enter(&mut self, enters: Enters, waits: Waits, cycle: u64) -> u64 {
        let cycle = if enters.access { self.accesses.take(cycle) } else { cycle };
        match &mut self.own {
            None if enters.operation => self.operations.take(cycle),
            None => cycle,
            Some(own) if waits.is_beside_general() => own.general.enter(waits, cycle),
            Some(own) if waits.is_for_vectors() => own.vectors.enter(waits, cycle),
            Some(_) => cycle,
        }
    }

    /// Returns whether all places may be taken which an instruction needs before it has a slot of dispatch.
    #[inline(always)]
    pub(super) fn is_full(&self, waits: Waits) -> bool {
        self.own.is_none() && self.schedulers[usize::from(self.shared[waits as usize])].is_full()
    }

    /// Returns when there is such a place, from a cycle on.
    #[inline(always)]
    pub(super) fn free(&mut self, waits: Waits, from: u64) -> u64 {
        match self.is_full(waits) {
            true => self.schedulers[usize::from(self.shared[waits as usize])].free(from),
            false => from,
        }
    }

    /// Takes a unit for an operation that was dispatched in one cycle and is ready in another one; returns when it begins.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        (unit, waits): (Unit, Waits),
        units: &mut Units,
        dispatched: u64,
        ready: u64,
    ) -> u64 {
        match &mut self.own {
            Some(own) if waits.is_for_general() => own.general.begin(waits, ready),
            Some(own) if waits.is_for_vectors() => {
                let ready = own.vectors.ready(ready);
                own.vectors.schedulers.begin(waits, ready)
            }
            _ => {
                let begins = units.by_cycle().take(unit, ready);
                self.take(waits, dispatched, begins);
                begins
            }
        }
    }

    /// The same of a unit that an operation holds for some cycles.
    pub(super) fn begin_held(
        &mut self,
        work: &Work,
        unit: Unit,
        units: &mut Units,
        dispatched: u64,
        ready: u64,
    ) -> u64 {
        let ready = match &self.own {
            Some(own) if work.waits.is_for_vectors() => own.vectors.ready(ready),
            _ => ready,
        };
        let begins = units.take(unit, ready, work.holds);
        self.take(work.waits, dispatched, begins);
        begins
    }

    /// Takes a place for an instruction that was dispatched in one cycle, and begins in another.
    #[inline(always)]
    pub(super) fn take(&mut self, waits: Waits, dispatched: u64, begins: u64) {
        match &mut self.own {
            Some(own) if waits.is_beside_general() => own.general.take(begins),
            Some(own) if waits.is_for_vectors() => own.vectors.schedulers.take(begins),
            None if begins > dispatched + 1 && waits != Waits::Nothing => {
                self.schedulers[usize::from(self.shared[waits as usize])].take(dispatched, begins);
            }
            _ => {}
        }
    }
}

impl Scheduler {
    /// Creates a scheduler of so many places; of 0, it has as many as are wanted.
    fn new(places: u32) -> Self {
        let places = if places > 0 { places } else { u32::MAX };
        Self { places, waiting: 0, until: 0, begins: Box::new([0; CYCLES]) }
    }

    /// Returns whether all places may be taken.
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.waiting >= self.places
    }

    /// Returns when there is a place, from a cycle on.
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
    use pagewalk_code::Class;

    use super::super::units::work;
    use super::*;
    use crate::spec;

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

    #[test]
    fn what_is_in_the_queue_for_vectors_does_not_begin() {
        let machine = spec::load("zen4").expect("a built-in machine");
        let own = machine.core.dataflow.expect("a model");
        let (mut schedulers, mut units) = (Schedulers::new(&own), Units::new(&own));
        let enters = Enters { operation: false, access: false };
        for _ in 0..64 {
            assert_eq!(schedulers.enter(enters, Waits::Vectors, 0), 0);
            assert_eq!(schedulers.begin((Unit::LOAD, Waits::Vectors), &mut units, 0, 1_000) / 1_000, 1);
        }
        let divides = work(Class::FloatDivide, &own.latencies, 0);
        assert_eq!(schedulers.enter(enters, divides.waits, 0), 0);
        assert_eq!(schedulers.begin_held(&divides, Unit::DIVIDE, &mut units, 0, 1), 1_001);
    }
}
