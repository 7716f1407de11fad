//! The clock of one core.

use std::collections::VecDeque;

use super::walkers::Walkers;
use crate::spec::settings::MachineSpec;
use crate::time::pool::Pool;

/// Fractions of an instruction and of a picosecond are kept in 1/65,536.
pub(super) const FRACTION_BITS: u32 = 16;

/// An access in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    /// The place of the access among the instructions.
    pub(super) instruction: u64,
    pub(super) finish_ps: u64,
    /// Time from dispatch to finish, and the part of it that was translation.
    pub(super) latency_ps: u64,
    pub(super) walk_ps: u64,
}

/// The clock of one core.
#[derive(Clone, Debug)]
pub(super) struct CoreClock {
    pub(super) now_ps: u64,
    now_fraction: u64,
    /// Instructions dispatched, in 1/65,536.
    pub(super) instruction: u64,
    pub(super) pace: Pace,
    /// When the current access has its translation.
    pub(super) translated_ps: u64,
    /// When the last walk in the background ended.
    pub(super) walked_beside_ps: u64,
    pub(super) in_flight: VecDeque<InFlight>,
    /// The outstanding-miss registers of the core.
    pub(super) registers: Pool,
    /// The page walkers of the core.
    pub(super) walkers: Walkers,
    pub(super) spent: Spent,
}

/// The instructions and the time that an access stands for, besides itself; in 1/65,536.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// The instructions of an access.
    pub(super) instructions: u64,
    /// The picoseconds of computing of an access.
    pub(super) compute: u64,
}

/// The time of a core by its use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) compute_ps: u64,
    pub(super) walk_ps: u64,
    pub(super) memory_ps: u64,
    pub(super) fault_ps: u64,
}

impl CoreClock {
    pub(super) fn new(spec: &MachineSpec) -> Self {
        Self {
            now_ps: 0,
            now_fraction: 0,
            instruction: 0,
            pace: Pace::default(),
            translated_ps: 0,
            walked_beside_ps: 0,
            in_flight: VecDeque::new(),
            registers: Pool::new(spec.core.outstanding),
            walkers: Walkers::new(&spec.translation.walker),
            spent: Spent::default(),
        }
    }

    /// Waits until `entry` has finished, and charges it.
    #[inline]
    pub(super) fn wait_for(&mut self, entry: InFlight) {
        let Some(wait) = entry.finish_ps.checked_sub(self.now_ps).filter(|&wait| wait > 0) else { return };
        let walk = if entry.walk_ps == 0 { 0 } else { share(wait, entry.walk_ps, entry.latency_ps) };
        self.spent.walk_ps += walk;
        self.spent.memory_ps += wait - walk;
        self.now_ps = entry.finish_ps;
    }

    /// Waits until everything in flight has finished.
    pub(super) fn drain(&mut self) {
        while let Some(entry) = self.in_flight.pop_front() {
            self.wait_for(entry);
        }
    }

    /// Computes for so long, in 1/65,536 of a picosecond.
    pub(super) fn advance(&mut self, compute: u64) {
        self.now_fraction += compute;
        let whole = self.now_fraction >> FRACTION_BITS;
        self.now_fraction &= (1 << FRACTION_BITS) - 1;
        self.now_ps += whole;
        self.spent.compute_ps += whole;
    }

    /// Returns the finishing time if everything in flight were waited for now, and the split of that wait.
    pub(super) fn drained(&self) -> Self {
        let mut clock = self.clone();
        clock.drain();
        clock
    }
}

/// Returns `wait_ps * part_ps / whole_ps`, rounded down; at most `wait_ps`, because the part is.
#[inline]
fn share(wait_ps: u64, part_ps: u64, whole_ps: u64) -> u64 {
    match wait_ps.checked_mul(part_ps) {
        Some(product) => product / whole_ps,
        None => (u128::from(wait_ps) * u128::from(part_ps) / u128::from(whole_ps)) as u64,
    }
}
