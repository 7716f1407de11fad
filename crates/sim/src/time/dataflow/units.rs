//! Execution units: which an operation needs, how long it takes, and when one is free.

use std::num::NonZeroU64;

use pagewalk_code::Class;

use super::renaming::Results;
use super::scheduler::{Enters, Waits};
use crate::spec::settings::{DataflowSpec, LatenciesSpec};

/// Cycles that are kept in view; units are asked for within a window's time of each other.
const CYCLES: usize = 1 << 12;

/// Bits of the number of units of a kind that are taken in a cycle; a machine file allows 8.
const TAKEN_BITS: u32 = 4;
/// The number at which all are taken: the number of a kind with fewer units begins above 0.
const ALL: u64 = 1 << (TAKEN_BITS - 1);
/// The kinds that take an operation a cycle. A cycle is told from others in its place for 2^20 cycles.
const KINDS: u32 = 14;
/// Bits of all kinds; the bits of a cycle's number that tell it from others in the same place stand above.
const CYCLE_SHIFT: u32 = TAKEN_BITS * KINDS;

/// A kind of units, as one of it is added to the numbers of a cycle; or two kinds, if only some units of a kind do an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unit(NonZeroU64);

impl Unit {
    /// Loads.
    pub(super) const LOAD: Self = Self::OF_LOADS.and(Self::OF_MEMORY);
    const OF_LOADS: Self = Self::kind(0);
    /// Addresses of stores.
    pub(super) const STORE: Self = Self::OF_STORES.and(Self::OF_MEMORY);
    const OF_STORES: Self = Self::kind(1);
    /// Loads and stores.
    const OF_MEMORY: Self = Self::kind(13);
    /// Operations of one cycle on general registers.
    const INTEGER: Self = Self::kind(2);
    /// Multiplications of general registers.
    const MULTIPLY: Self = Self::kind(3);
    /// Branches.
    const BRANCH: Self = Self::kind(4);
    /// Operations on vectors.
    const VECTOR: Self = Self::kind(5);
    /// Loads to vectors.
    pub(super) const VECTOR_LOAD: Self = Self::LOAD.and(Self::OF_VECTOR_LOADS);
    const OF_VECTOR_LOADS: Self = Self::kind(6);
    /// Stores of vectors.
    pub(super) const VECTOR_STORE: Self = Self::STORE.and(Self::OF_VECTOR_STORES);
    const OF_VECTOR_STORES: Self = Self::kind(7);
    /// Shifts, bit tests, and moves that depend on the flags.
    const SHIFT: Self = Self::INTEGER.and(Self::OF_SHIFTS);
    const OF_SHIFTS: Self = Self::kind(8);
    /// Additions of floating-point numbers.
    const FLOAT: Self = Self::VECTOR.and(Self::OF_FLOATS);
    const OF_FLOATS: Self = Self::kind(9);
    /// Multiplications of floating-point numbers.
    const FLOAT_MULTIPLY: Self = Self::VECTOR.and(Self::OF_FLOAT_MULTIPLICATIONS);
    const OF_FLOAT_MULTIPLICATIONS: Self = Self::kind(10);
    /// Permutations of vectors.
    const SHUFFLE: Self = Self::VECTOR.and(Self::OF_SHUFFLES);
    const OF_SHUFFLES: Self = Self::kind(11);
    /// Transfers from and to vectors.
    const CROSS: Self = Self::VECTOR.and(Self::OF_TRANSFERS);
    const OF_TRANSFERS: Self = Self::kind(12);
    /// Divisions and roots, one at a time.
    pub(super) const DIVIDE: Self = Self(NonZeroU64::MAX);
    /// Atomic operations, one at a time.
    const LOCK: Self = match NonZeroU64::new(u64::MAX - 1) {
        Some(lock) => Self(lock),
        None => unreachable!(),
    };

    const fn kind(number: u32) -> Self {
        match NonZeroU64::new(1 << (TAKEN_BITS * number)) {
            Some(one) if number < KINDS => Self(one),
            _ => unreachable!(),
        }
    }

    /// Returns whether an operation holds the unit for several cycles.
    pub(super) fn is_held(self) -> bool {
        self == Self::DIVIDE || self == Self::LOCK
    }

    /// Returns what takes one of each of two kinds.
    const fn and(self, other: Self) -> Self {
        match self.0.checked_add(other.0.get()) {
            Some(both) => Self(both),
            None => unreachable!(),
        }
    }

    /// Returns so many units of the kind.
    const fn times(self, count: u64) -> u64 {
        self.0.get() * count
    }
}

/// What an operation of a class takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// The unit; none for what renaming does, and for loads and stores alone.
    pub(super) unit: Option<Unit>,
    /// What of it enters the schedulers, and where it waits until it begins.
    pub(super) enters: Enters,
    pub(super) waits: Waits,
    /// What it writes to registers that a core may run out of; of a class alone that is not known.
    pub(super) results: Results,
    /// Cycles from the sources to the result.
    pub(super) latency: u32,
    /// Cycles for which a division, or an atomic operation, holds its unit.
    pub(super) holds: u32,
    /// Whether it begins when all before it have retired, and all behind it wait.
    pub(super) is_serial: bool,
}

/// Cycles of an operation of the x87 unit, and of a slow one: AMD, "Software Optimization Guide for the AMD Family 19h Processors" (56665),
/// instruction latencies.
const X87: u32 = 5;
const X87_SLOW: u32 = 20;
/// Cycles of an atomic operation beyond its load. Assumed.
const LOCKED: u32 = 4;

/// Returns the cycles of an operation that goes from vectors to general registers, if it is of a class that may go either way.
pub(super) fn latency_back(class: Class, own: &LatenciesSpec) -> Option<u32> {
    match class {
        Class::Cross => Some(own.cross_back),
        Class::CrossConvert => Some(own.cross_convert_back),
        _ => None,
    }
}

/// Returns what an operation of a class takes on a core with such latencies, where `system` cycles are those of the kernel's entry. One between
/// general registers and vectors goes to the vectors.
pub(super) fn work(class: Class, own: &LatenciesSpec, system: u32) -> Work {
    let (unit, latency) = match class {
        Class::Nop | Class::Zero | Class::Move | Class::LoadStore | Class::String => (None, 0),
        Class::Integer | Class::Lea | Class::BitScan => (Some(Unit::INTEGER), 1),
        Class::LeaComplex => (Some(Unit::INTEGER), own.three_part_address),
        Class::Shift | Class::Condition => (Some(Unit::SHIFT), 1),
        Class::Branch => (Some(Unit::BRANCH), 1),
        Class::Multiply => (Some(Unit::MULTIPLY), own.multiply),
        Class::Divide32 => (Some(Unit::DIVIDE), own.divide),
        Class::Divide64 => (Some(Unit::DIVIDE), own.long_divide),
        Class::FloatAdd => (Some(Unit::FLOAT), own.float_add),
        Class::FloatMultiply => (Some(Unit::FLOAT_MULTIPLY), own.float_multiply),
        Class::FloatMultiplyAdd => (Some(Unit::FLOAT_MULTIPLY), own.fused_multiply_add),
        Class::FloatDivide => (Some(Unit::DIVIDE), own.float_divide),
        Class::FloatSquareRoot => (Some(Unit::DIVIDE), own.square_root),
        Class::FloatCompare => (Some(Unit::FLOAT), own.float_compare),
        Class::VectorInteger | Class::VectorMove => (Some(Unit::VECTOR), 1),
        Class::Shuffle => (Some(Unit::SHUFFLE), 1),
        Class::Convert => (Some(Unit::SHUFFLE), own.convert),
        Class::VectorMultiply => (Some(Unit::SHUFFLE), own.vector_multiply),
        Class::Cross => (Some(Unit::CROSS), own.cross),
        Class::CrossConvert => (Some(Unit::CROSS), own.cross_convert),
        Class::Crypto => (Some(Unit::VECTOR), own.crypto),
        Class::X87 => (Some(Unit::FLOAT), X87),
        Class::X87Divide => (Some(Unit::DIVIDE), X87_SLOW),
        Class::Locked => (Some(Unit::LOCK), LOCKED),
        Class::Fence => (None, own.barrier),
        Class::System => (None, system),
        Class::Unknown => (None, 1),
    };
    let holds = match class {
        Class::Divide32 => own.divide_interval,
        Class::Divide64 => own.long_divide_interval,
        Class::FloatDivide => own.float_divide_interval,
        Class::FloatSquareRoot => own.square_root_interval,
        Class::Locked => own.atomic_interval,
        _ => latency,
    };
    let is_serial = matches!(class, Class::Fence | Class::System);
    let waits = match (class, unit) {
        (Class::FloatDivide | Class::FloatSquareRoot | Class::X87Divide, _) => Waits::VectorDivisions,
        (_, Some(Unit::SHIFT)) => Waits::Shifts,
        (_, Some(Unit::MULTIPLY)) => Waits::Multiplications,
        (_, Some(Unit::BRANCH)) => Waits::Branches,
        (_, Some(Unit::VECTOR)) => Waits::Vectors,
        (_, Some(Unit::FLOAT)) => Waits::FloatAdditions,
        (_, Some(Unit::FLOAT_MULTIPLY)) => Waits::FloatMultiplications,
        (_, Some(Unit::SHUFFLE)) => Waits::Shuffles,
        (_, Some(Unit::CROSS)) => Waits::Transfers,
        _ => Waits::Operations,
    };
    let operation = unit.is_some() && !waits.is_for_vectors();
    let (enters, results) = (Enters { operation, access: false }, Results::NONE);
    Work { unit, enters, waits, results, latency, holds, is_serial }
}

/// The units of a core, by the cycles in which they are taken.
#[derive(Clone, Debug)]
pub(super) struct Units {
    /// The numbers of a cycle in which none is taken.
    idle: u64,
    /// The bits that tell that all units of a kind are taken; none where there is always another.
    limits: u64,
    /// By the low bits of a cycle's number: its high bits, above the numbers of units that are taken in it.
    taken: Box<[u64; CYCLES]>,
    /// When the divider is free, and when another atomic operation can begin.
    divides: u64,
    locks: u64,
}

impl Units {
    pub(super) fn new(spec: &DataflowSpec) -> Self {
        let counts = [
            (Unit::OF_LOADS, spec.load_units),
            (Unit::OF_STORES, spec.store_units),
            (Unit::OF_MEMORY, spec.memory_units),
            (Unit::INTEGER, spec.integer_units),
            (Unit::MULTIPLY, spec.multiply_units),
            (Unit::BRANCH, spec.branch_units),
            (Unit::VECTOR, spec.vector_units),
            (Unit::OF_VECTOR_LOADS, spec.vector_load_units),
            (Unit::OF_VECTOR_STORES, spec.vector_store_units),
            (Unit::OF_SHIFTS, spec.shift_units),
            (Unit::OF_FLOATS, spec.float_units),
            (Unit::OF_FLOAT_MULTIPLICATIONS, spec.float_multiply_units),
            (Unit::OF_SHUFFLES, spec.shuffle_units),
            (Unit::OF_TRANSFERS, spec.cross_units),
        ];
        let idle = counts.iter().map(|&(unit, count)| unit.times(ALL - u64::from(count))).sum();
        let limits = counts.iter().map(|&(unit, _)| unit.times(ALL)).sum();
        Self {
            idle,
            limits: if spec.are_units_limited { limits } else { 0 },
            taken: Box::new([idle; CYCLES]),
            divides: 0,
            locks: 0,
        }
    }

    /// Takes a unit for a cycle from `at` on; returns when. A division or an atomic operation holds it for longer.
    #[inline]
    pub(super) fn take(&mut self, unit: Unit, at: u64, holds: u32) -> u64 {
        if !unit.is_held() {
            return self.by_cycle().take(unit, at);
        }
        if self.limits == 0 {
            return at;
        }
        let free = if unit == Unit::DIVIDE { &mut self.divides } else { &mut self.locks };
        let start = at.max(*free);
        *free = start + u64::from(holds);
        start
    }

    /// Returns those that take an operation a cycle.
    #[inline]
    pub(super) fn by_cycle(&mut self) -> ByCycle<'_> {
        ByCycle { idle: self.idle, limits: self.limits, taken: &mut self.taken }
    }
}

/// The units that take an operation a cycle.
pub(super) struct ByCycle<'a> {
    idle: u64,
    limits: u64,
    taken: &'a mut [u64; CYCLES],
}

impl ByCycle<'_> {
    /// Takes a unit from a cycle on; returns when.
    #[inline(always)]
    pub(super) fn take(&mut self, unit: Unit, from: u64) -> u64 {
        if self.take_at(unit, from) { from } else { self.take_behind(unit, from) }
    }

    /// Takes a unit in a cycle, if one is left; returns whether one was.
    #[inline(always)]
    fn take_at(&mut self, unit: Unit, cycle: u64) -> bool {
        let slot = &mut self.taken[cycle as usize % CYCLES];
        let idle = (cycle / CYCLES as u64) << CYCLE_SHIFT | self.idle;
        let is_of_cycle = *slot ^ idle < 1 << CYCLE_SHIFT;
        let taken = if is_of_cycle { *slot } else { idle };
        let is_left = taken & unit.times(ALL) & self.limits == 0;
        if is_left {
            *slot = taken + unit.times(1);
        }
        is_left
    }

    /// Takes a unit behind a cycle in which none is left; returns when. Apart, because the usual way is shorter without a loop.
    #[cold]
    #[inline(never)]
    fn take_behind(&mut self, unit: Unit, cycle: u64) -> u64 {
        let mut cycle = cycle + 1;
        while !self.take_at(unit, cycle) {
            cycle += 1;
        }
        cycle
    }
}
