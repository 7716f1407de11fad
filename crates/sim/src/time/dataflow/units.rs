//! Execution units: which an operation needs, how long it takes, and when one is free.

use pagewalk_code::Class;

use crate::spec::settings::DataflowSpec;

/// Cycles that are kept in view; units are asked for within a window's time of each other.
const CYCLES: usize = 1 << 12;

/// Bits of the number of units of a kind that are taken in a cycle; a machine file allows 64.
const TAKEN_BITS: u32 = 7;
const TAKEN: u64 = (1 << TAKEN_BITS) - 1;
/// Bits of all kinds; the bits of a cycle's number that tell it from others in the same place stand above.
const CYCLE_SHIFT: u32 = TAKEN_BITS * KINDS as u32;

/// The kinds of units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// Loads of addresses.
    Load,
    /// Addresses of stores.
    Store,
    /// Operations of one cycle on general registers, and branches.
    Integer,
    /// Multiplications of general registers.
    Multiply,
    /// Floating-point operations.
    Float,
    /// Other operations on vectors.
    Vector,
    /// Divisions and roots, one at a time.
    Divide,
}

/// The number of kinds that take an operation a cycle: all but the last.
const KINDS: usize = 6;

/// What an operation of a class takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// The unit; none for what renaming does, and for loads and stores alone.
    pub(super) unit: Option<Unit>,
    /// Cycles from the sources to the result.
    pub(super) latency: u32,
    /// Whether it begins when all before it have retired, and all behind it wait.
    pub(super) is_serial: bool,
}

/// Returns what an operation of a class takes.
///
/// Latencies in cycles: AMD, "Software Optimization Guide for the AMD Family 19h Processors" (56665), instruction latencies, and
/// `docs/time.md` for those that were measured; of microcode, assumed. `system` are those of the kernel's entry.
pub(super) const fn work(class: Class, system: u32) -> Work {
    let (unit, latency, is_serial) = match class {
        Class::Nop | Class::Zero | Class::Move | Class::LoadStore => (None, 0, false),
        Class::Integer | Class::Lea | Class::Shift | Class::BitScan | Class::Condition | Class::Branch => {
            (Some(Unit::Integer), 1, false)
        }
        Class::LeaComplex => (Some(Unit::Integer), 2, false),
        Class::Multiply => (Some(Unit::Multiply), 3, false),
        Class::Divide32 => (Some(Unit::Divide), 10, false),
        Class::Divide64 => (Some(Unit::Divide), 11, false),
        Class::FloatAdd | Class::FloatMultiply => (Some(Unit::Float), 3, false),
        Class::FloatMultiplyAdd => (Some(Unit::Float), 4, false),
        Class::FloatDivide => (Some(Unit::Divide), 13, false),
        Class::FloatSquareRoot => (Some(Unit::Divide), 20, false),
        Class::FloatCompare | Class::VectorInteger | Class::VectorMove | Class::Shuffle => {
            (Some(Unit::Vector), 1, false)
        }
        Class::Convert | Class::Cross | Class::VectorMultiply => (Some(Unit::Vector), 3, false),
        Class::Crypto => (Some(Unit::Vector), 4, false),
        Class::X87 => (Some(Unit::Float), 5, false),
        Class::X87Divide => (Some(Unit::Divide), 20, false),
        Class::String => (None, 0, false),
        Class::Locked => (Some(Unit::Integer), 17, true),
        Class::Fence => (None, 20, true),
        Class::System => (None, system, true),
        Class::Unknown => (None, 1, false),
    };
    Work { unit, latency, is_serial }
}

/// The units of a core, by the cycles in which they are taken.
#[derive(Clone, Debug)]
pub(super) struct Units {
    /// By kind: how many there are; none where there is always another.
    counts: Option<[u64; KINDS]>,
    /// By the low bits of a cycle's number: its high bits, above how many units of each kind are taken in it.
    taken: Box<[u64; CYCLES]>,
    divider_free: u64,
}

impl Units {
    pub(super) fn new(spec: &DataflowSpec) -> Self {
        let counts = [
            spec.load_units,
            spec.store_units,
            spec.integer_units,
            spec.multiply_units,
            spec.float_units,
            spec.vector_units,
        ];
        let counts = spec.are_units_limited.then_some(counts.map(u64::from));
        Self { counts, taken: Box::new([0; CYCLES]), divider_free: 0 }
    }

    /// Takes a unit for a cycle from `at` on; returns when. A division holds its unit for its whole latency.
    #[inline]
    pub(super) fn take(&mut self, unit: Unit, at: u64, latency: u32) -> u64 {
        let Some(counts) = &self.counts else { return at };
        if unit == Unit::Divide {
            let start = at.max(self.divider_free);
            self.divider_free = start + u64::from(latency);
            return start;
        }
        let most = counts[unit as usize];
        let shift = TAKEN_BITS * unit as u32;
        let mut cycle = at;
        loop {
            let slot = &mut self.taken[cycle as usize % CYCLES];
            let empty = (cycle / CYCLES as u64) << CYCLE_SHIFT;
            if *slot >> CYCLE_SHIFT != empty >> CYCLE_SHIFT {
                *slot = empty;
            }
            if *slot >> shift & TAKEN < most {
                *slot += 1 << shift;
                return cycle;
            }
            cycle += 1;
        }
    }
}
