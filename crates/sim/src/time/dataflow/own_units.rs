//! Schedulers that have units of their own.
//!
//! Instructions enter the schedulers that have a unit for them in turn, and wait for the units of the one that they entered even while those of others
//! are idle. What needs something else than these units (loads, stores, branches, divisions) has a place here, too.

use super::scheduler::Waits;
use crate::spec::settings::DataflowSpec;

/// Cycles that are kept in view: an instruction that begins later leaves its place too early.
const CYCLES: usize = 1 << 12;
/// In the eight bits of each scheduler, the lowest one.
const LOWEST: u32 = 0x0101_0101;
/// Of the bits of a scheduler in a cycle, two are its units'. Those above them count what else begins: one, and as much as can be counted.
const ELSE: u32 = 1 << 2;
const MOST_ELSE: u32 = 0xfc;
/// The bits of all such counts, where they begin at the lowest bit.
const ELSES: u32 = LOWEST * (MOST_ELSE >> 2);

/// Schedulers with units of their own, each of which has eight bits in the numbers below.
#[derive(Clone, Debug)]
pub(super) struct OwnUnits {
    /// The instructions that wait at `until`, and have been dispatched.
    waiting: u32,
    until: u64,
    /// By cycle, which units begin an operation in it, and how much else leaves its place.
    begins: Box<[u32; CYCLES]>,
    /// What reaches the highest bit where it is added to as many as there are places.
    room: u32,
    kinds: [Kind; Waits::KINDS],
    /// The cycle of the last instruction that entered, and the highest bits of the schedulers that take no further operation in it.
    cycle: u64,
    entered: u32,
    /// The lowest bit of the scheduler that took the last instruction: the next one is asked first.
    last: u32,
    /// Whether a scheduler takes one operation in a cycle.
    takes_one: bool,
}

/// What an instruction that waits for something needs.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The highest bits of the schedulers that it may enter.
    eligible: u32,
    /// By scheduler, the bits of the units that do it.
    units: u32,
    is_access: bool,
}

impl OwnUnits {
    /// Creates one scheduler for each unit of general registers. The first of them shift and multiply, the last ones have a unit for branches beside
    /// their own, and all but one of them issue accesses.
    pub(super) fn of_general(spec: &DataflowSpec) -> Self {
        let count = spec.integer_units;
        let first = |units: u32| LOWEST & low_bytes(units.min(count));
        let all = first(count);
        Self::new(spec.scheduler / count, true, |waits| match waits {
            Waits::Shifts => (first(spec.shift_units), 1),
            Waits::Multiplications => (first(spec.multiply_units), 1),
            Waits::Branches => (all & !first(count.saturating_sub(spec.branch_units)), 0),
            Waits::Loads | Waits::Stores => (first(spec.memory_units), 0),
            _ => (all, 1),
        })
    }

    /// Creates two schedulers for vectors, each of which has a unit that multiplies and one that adds. One of either permutes.
    pub(super) fn of_vectors(spec: &DataflowSpec) -> Self {
        let first = |units: u32| LOWEST & low_bytes(units.min(2));
        Self::new(spec.vector_scheduler / 2, false, |waits| match waits {
            Waits::FloatMultiplications => (first(spec.float_multiply_units), 1),
            Waits::FloatAdditions => (first(spec.float_units), 2),
            Waits::Shuffles if spec.shuffle_units > 3 => (first(2), 3),
            Waits::Shuffles => (first(spec.shuffle_units), 1),
            Waits::Transfers => (first(spec.cross_units), 2),
            Waits::VectorDivisions => (first(1), 0),
            _ => (first(2), 3),
        })
    }

    /// Creates schedulers of so many places each, where `kind` says which of them have units for what waits, and which.
    fn new(places: u32, takes_one: bool, kind: impl Fn(Waits) -> (u32, u32)) -> Self {
        let kinds = Waits::ALL.map(|waits| {
            let (eligible, units) = kind(waits);
            Kind {
                eligible: eligible << 7,
                units: eligible * units,
                is_access: matches!(waits, Waits::Loads | Waits::Stores),
            }
        });
        let room = LOWEST * (0x80 - places);
        Self {
            waiting: 0,
            until: 0,
            begins: Box::new([0; CYCLES]),
            room,
            kinds,
            cycle: 0,
            entered: 0,
            last: 0,
            takes_one,
        }
    }

    /// Lets an instruction enter a scheduler, in a cycle at the earliest, and not before the last one did; returns when it does.
    #[inline(always)]
    pub(super) fn enter(&mut self, waits: Waits, cycle: u64) -> u64 {
        if cycle > self.cycle {
            (self.cycle, self.entered) = (cycle, 0);
        }
        let kind = self.kinds[waits as usize];
        self.pass(self.cycle);
        let mut entered = if kind.is_access { 0 } else { self.entered };
        if kind.eligible & !(entered | (self.waiting + self.room)) == 0 {
            self.wait(kind.eligible);
            entered = 0;
        }
        let open = kind.eligible & !(entered | (self.waiting + self.room));
        let next = self.last + 8;
        let turns = open.rotate_right(next).trailing_zeros() & 0x18;
        self.last = (next + turns) & 0x18;
        if self.takes_one && !kind.is_access {
            self.entered |= 0x80 << self.last;
        }
        self.cycle
    }

    /// Goes on to the first cycle behind the one of the last instruction in which one of some schedulers has a place.
    #[inline(never)]
    fn wait(&mut self, eligible: u32) {
        (self.cycle, self.entered) = (self.cycle + 1, 0);
        self.pass(self.cycle);
        while eligible & !(self.waiting + self.room) == 0 {
            self.cycle += 1;
            self.pass(self.cycle);
        }
    }

    /// Lets those leave that have begun at a cycle.
    #[inline(always)]
    fn pass(&mut self, cycle: u64) {
        while self.until < cycle && self.waiting != 0 {
            self.until += 1;
            let begun = std::mem::take(&mut self.begins[self.until as usize % CYCLES]);
            self.waiting -= (begun & LOWEST) + ((begun >> 1) & LOWEST) + ((begun >> 2) & ELSES);
        }
        self.until = self.until.max(cycle);
    }

    /// Takes a unit of the scheduler that was entered last, from a cycle on; returns when.
    #[inline(always)]
    pub(super) fn begin(&mut self, waits: Waits, ready: u64) -> u64 {
        let units = self.kinds[waits as usize].units & (3 << self.last);
        let (mut cycle, end) = (ready, self.until + CYCLES as u64);
        while cycle < end {
            let free = units & !self.begins[cycle as usize % CYCLES];
            if free != 0 {
                self.begins[cycle as usize % CYCLES] |= free & free.wrapping_neg();
                self.waiting += 1 << self.last;
                break;
            }
            cycle += 1;
        }
        cycle
    }

    /// Lets an instruction keep its place until a cycle, which needs something else than these units.
    #[inline(always)]
    pub(super) fn take(&mut self, begins: u64) {
        let place = &mut self.begins[begins as usize % CYCLES];
        let is_in_view = begins > self.until && begins < self.until + CYCLES as u64;
        if is_in_view && (*place >> self.last) & MOST_ELSE < MOST_ELSE {
            *place += ELSE << self.last;
            self.waiting += 1 << self.last;
        }
    }
}

/// Returns a number whose lowest so many bytes are set.
fn low_bytes(count: u32) -> u32 {
    u32::MAX.checked_shl(8 * count).map_or(u32::MAX, |above| !above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    fn zen4() -> DataflowSpec {
        spec::load("zen4").expect("a built-in machine").core.dataflow.expect("a model")
    }

    /// When instructions of a kind enter that are dispatched as soon as they can be, each of which is ready at a time.
    fn entered(units: &mut OwnUnits, waits: Waits, count: u64, ready: u64) -> Vec<u64> {
        let mut cycle = 0;
        let enter = |_| {
            cycle = units.enter(waits, cycle);
            units.begin(waits, ready);
            cycle
        };
        (0..count).map(enter).collect()
    }

    #[test]
    fn a_kind_has_the_places_of_its_units() {
        for (waits, places, a_cycle) in
            [(Waits::Operations, 96, 4), (Waits::Shifts, 48, 2), (Waits::Multiplications, 24, 1)]
        {
            let mut units = OwnUnits::of_general(&zen4());
            let entered = entered(&mut units, waits, places + 1, 1_000);
            let expected: Vec<u64> = (0..places).map(|number| number / a_cycle).chain([1_000]).collect();
            assert_eq!(entered, expected, "{waits:?}");
        }
        let mut units = OwnUnits::of_vectors(&zen4());
        let entered = entered(&mut units, Waits::FloatAdditions, 65, 1_000);
        assert_eq!(entered, [vec![0; 64], vec![1_000]].concat());
    }

    #[test]
    fn an_operation_waits_for_the_unit_of_its_scheduler() {
        let mut units = OwnUnits::of_general(&zen4());
        // Four schedulers in turn; the fifth operation is in the one of the first, which waits, and the unit of which it takes meanwhile.
        let begun: Vec<u64> = [10, 1, 1, 1, 1, 2]
            .into_iter()
            .map(|ready| {
                units.enter(Waits::Operations, 0);
                units.begin(Waits::Operations, ready)
            })
            .collect();
        assert_eq!(begun, [10, 1, 1, 1, 1, 2]);
        // A unit that is taken is waited for, and the multiplier is one of them.
        units.enter(Waits::Multiplications, 2);
        assert_eq!(units.begin(Waits::Multiplications, 20), 20);
        units.enter(Waits::Multiplications, 2);
        assert_eq!(units.begin(Waits::Multiplications, 20), 21);
    }

    #[test]
    fn vectors_have_a_unit_that_adds_and_one_that_multiplies_in_each_scheduler() {
        let mut units = OwnUnits::of_vectors(&zen4());
        let mut begin = |waits: Waits| {
            units.enter(waits, 0);
            units.begin(waits, 5)
        };
        let (add, multiply) = (Waits::FloatAdditions, Waits::FloatMultiplications);
        assert_eq!([add, add, multiply, multiply, add, add].map(&mut begin), [5, 5, 5, 5, 6, 6]);
        assert_eq!([Waits::Vectors; 4].map(begin), [6, 6, 7, 7]);
    }

    #[test]
    fn what_begins_later_than_is_in_view_leaves_early() {
        let mut units = OwnUnits::of_general(&zen4());
        for _ in 0..1_000 {
            let cycle = units.enter(Waits::Operations, 0);
            assert_eq!(units.begin(Waits::Operations, cycle + 10_000), cycle + 10_000);
            units.take(cycle + 10_000);
        }
        assert_eq!(units.waiting, 0);
        // More accesses than can be counted in a cycle.
        (0..96).for_each(|_| {
            units.enter(Waits::Loads, 0);
            units.take(2_000);
        });
        assert_eq!(units.enter(Waits::Operations, 5_000), 5_000);
        assert_eq!(units.waiting, 0);
    }
}
