//! Schedulers that have units of their own.
//!
//! Instructions of a kind enter the schedulers that have a unit for them in turn, and wait for the units of the one that they entered even while those of others
//! are idle. What needs something else than these units (loads, stores, branches, divisions) has a place here, too.

use super::scheduler::{CYCLES, Waits};
use crate::spec::settings::DataflowSpec;

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
    /// The cycle in which an instruction entered last.
    cycle: u64,
    /// The instructions that wait then, and as many more as it takes for the highest bit to be set where all places are taken.
    filled: u32,
    /// What `filled` is where none waits.
    empty: u32,
    /// The highest bits of the schedulers that take no further operation in the cycle.
    entered: u32,
    /// The lowest bit of the scheduler that took the last instruction.
    last: u32,
    /// By kind, the scheduler that took the last instruction of the kind: the one behind it is asked first.
    turns: [u32; Waits::KINDS],
    /// By cycle, which units begin an operation in it, and how much else leaves its place.
    begins: Box<[u32; CYCLES]>,
    kinds: [Kind; Waits::KINDS],
}

/// What an instruction that waits for something needs.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The highest bits of the schedulers that it may enter.
    eligible: u32,
    /// By scheduler, the bits of the units that do it.
    units: u32,
    /// All bits, if a scheduler takes one of them in a cycle.
    once: u32,
    /// The first kind that needs the same units: they take turns together.
    turn: u32,
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

    /// Creates two schedulers for vectors, each of which has a unit that multiplies and one that adds and permutes.
    pub(super) fn of_vectors(spec: &DataflowSpec) -> Self {
        let first = |units: u32| LOWEST & low_bytes(units.min(2));
        Self::new(spec.vector_scheduler / 2, false, |waits| match waits {
            Waits::FloatMultiplications => (first(spec.float_multiply_units), 1),
            Waits::FloatAdditions => (first(spec.float_units), 2),
            Waits::Shuffles if spec.shuffle_units > 3 => (first(2), 3),
            Waits::Shuffles => (first(spec.shuffle_units), 2),
            Waits::Transfers => (first(spec.cross_units), 2),
            Waits::VectorDivisions => (first(1), 0),
            _ => (first(2), 3),
        })
    }

    /// Creates schedulers of so many places each, where `kind` says which of them have units for what waits, and which. Of operations each may take
    /// one in a cycle, of accesses as many as there are.
    fn new(places: u32, takes_one: bool, kind: impl Fn(Waits) -> (u32, u32)) -> Self {
        let kinds = Waits::ALL.map(|waits| {
            let (eligible, units) = kind(waits);
            let is_access = matches!(waits, Waits::Loads | Waits::Stores);
            let once = if takes_one && !is_access { u32::MAX } else { 0 };
            Kind { eligible: eligible << 7, units: eligible * units, once, turn: 0 }
        });
        let turn = |kind: &Kind| kinds.iter().position(|other| other.units == kind.units).unwrap_or(0) as u32;
        let kinds = kinds.map(|kind| Kind { turn: turn(&kind), ..kind });
        let empty = LOWEST * (0x80 - places);
        Self {
            cycle: 0,
            filled: empty,
            empty,
            entered: 0,
            last: 0,
            turns: [0; Waits::KINDS],
            begins: Box::new([0; CYCLES]),
            kinds,
        }
    }

    /// Lets an instruction enter a scheduler, in a cycle at the earliest, and not before the last one did; returns when it does.
    #[inline(always)]
    pub(super) fn enter(&mut self, waits: Waits, cycle: u64) -> u64 {
        let Kind { eligible, once, turn, .. } = self.kinds[waits as usize];
        if cycle > self.cycle {
            self.pass(cycle);
        }
        let mut open = eligible & !(self.filled | (self.entered & once));
        if open == 0 {
            open = self.wait(eligible);
        }
        let last = &mut self.turns[turn as usize % Waits::KINDS];
        let next = *last + 8;
        let turns = open.rotate_right(next).trailing_zeros() & 0x18;
        *last = (next + turns) & 0x18;
        self.last = *last;
        self.entered |= (0x80 << self.last) & once;
        self.cycle
    }

    /// Goes on to the first cycle behind the one of the last instruction in which one of some schedulers has a place; returns the highest bits of those
    /// that have.
    #[inline(never)]
    fn wait(&mut self, eligible: u32) -> u32 {
        self.pass(self.cycle + 1);
        while eligible & !self.filled == 0 {
            self.skip_empty(self.cycle + CYCLES as u64);
            self.pass_next();
        }
        eligible & !self.filled
    }

    /// Goes on to a cycle: those leave that have begun.
    #[inline(always)]
    fn pass(&mut self, cycle: u64) {
        self.entered = 0;
        if self.filled == self.empty {
            self.cycle = cycle;
            return;
        }
        self.pass_next();
        if self.cycle < cycle {
            self.pass_further(cycle);
        }
    }

    /// Goes on to the next cycle.
    #[inline(always)]
    fn pass_next(&mut self) {
        self.cycle += 1;
        let begun = std::mem::take(&mut self.begins[self.cycle as usize % CYCLES]);
        self.filled -= (begun & LOWEST) + ((begun >> 1) & LOWEST) + ((begun >> 2) & ELSES);
    }

    /// Goes on to a cycle that may be far.
    #[inline(never)]
    fn pass_further(&mut self, cycle: u64) {
        while self.cycle < cycle && self.filled != self.empty {
            self.skip_empty(cycle);
            if self.cycle < cycle {
                self.pass_next();
            }
        }
        self.cycle = cycle;
    }

    /// Passes cycles in which nothing begins, four at once, up to one at most: while a miss is waited for, most are such.
    #[inline(always)]
    fn skip_empty(&mut self, end: u64) {
        let mut next = (self.cycle + 1) as usize % CYCLES;
        while self.cycle + 4 <= end && next.is_multiple_of(4) && self.begins[next..next + 4] == [0; 4] {
            self.cycle += 4;
            next = (next + 4) % CYCLES;
        }
    }

    /// Takes a unit of the scheduler that was entered last, from a cycle on; returns when.
    #[inline(always)]
    pub(super) fn begin(&mut self, waits: Waits, ready: u64) -> u64 {
        let units = self.kinds[waits as usize].units & (3 << self.last);
        let begins = &mut self.begins[ready as usize % CYCLES];
        let free = units & !*begins;
        if free == 0 || ready - self.cycle >= CYCLES as u64 {
            return self.begin_behind(units, ready);
        }
        *begins |= free & free.wrapping_neg();
        self.filled += 1 << self.last;
        ready
    }

    /// Takes one of some units behind a cycle in which none is free; returns when. What begins later than is in view has a unit, and leaves its place early.
    #[inline(never)]
    fn begin_behind(&mut self, units: u32, ready: u64) -> u64 {
        let mut cycle = ready;
        while cycle - self.cycle < CYCLES as u64 {
            let begins = &mut self.begins[cycle as usize % CYCLES];
            let free = units & !*begins;
            if free != 0 {
                *begins |= free & free.wrapping_neg();
                self.filled += 1 << self.last;
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
        let is_in_view = begins.wrapping_sub(self.cycle + 1) < CYCLES as u64 - 1;
        if is_in_view && (*place >> self.last) & MOST_ELSE < MOST_ELSE {
            *place += ELSE << self.last;
            self.filled += 1 << self.last;
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

    const ADD: Waits = Waits::FloatAdditions;
    const MULTIPLY: Waits = Waits::FloatMultiplications;

    /// When instructions of these kinds begin that enter at the beginning, and are ready in the fifth cycle.
    fn begun<const COUNT: usize>(units: &mut OwnUnits, kinds: [Waits; COUNT]) -> [u64; COUNT] {
        kinds.map(|waits| {
            units.enter(waits, 0);
            units.begin(waits, 5)
        })
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
        assert_eq!(begun(&mut units, [ADD, ADD, MULTIPLY, MULTIPLY, ADD, ADD]), [5, 5, 5, 5, 6, 6]);
        assert_eq!(begun(&mut units, [Waits::Vectors; 4]), [6, 6, 7, 7]);
    }

    #[test]
    fn each_kind_takes_turns_by_itself() {
        let mut units = OwnUnits::of_vectors(&zen4());
        // If all kinds took turns together, these would have one unit each.
        assert_eq!(begun(&mut units, [ADD, MULTIPLY, ADD, MULTIPLY]), [5; 4]);
        // What permutes needs the units that add.
        assert_eq!(begun(&mut units, [ADD, Waits::Shuffles, Waits::Shuffles, ADD]), [6, 6, 7, 7]);
    }

    #[test]
    fn what_begins_later_than_is_in_view_leaves_early() {
        let mut units = OwnUnits::of_general(&zen4());
        for _ in 0..1_000 {
            let cycle = units.enter(Waits::Operations, 0);
            assert_eq!(units.begin(Waits::Operations, cycle + 10_000), cycle + 10_000);
            units.take(cycle + 10_000);
        }
        assert_eq!(units.filled, units.empty);
        // More accesses than can be counted in a cycle.
        (0..96).for_each(|_| {
            units.enter(Waits::Loads, 0);
            units.take(2_000);
        });
        assert_eq!(units.enter(Waits::Operations, 5_000), 5_000);
        assert_eq!(units.filled, units.empty);
    }
}
