//! What the cycles of a core are charged to.

use super::state::{Charged, Finer};

/// The cycles in which nothing was dispatched, until the next instruction retires.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopped {
    /// Those of a misprediction.
    pub(super) branch: u64,
    /// Those in which a line of instructions was not there, and of these, those of its translation.
    pub(super) fetch: u64,
    pub(super) translation: u64,
    /// Those in which the store buffer was full.
    pub(super) stores: u64,
}

/// The cycles that a load waited for beyond a hit, and where it found its data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    /// Those of its translation, and of these, those of a farther level of the TLB.
    pub(super) walk: u64,
    pub(super) tlb: u64,
    /// Those of its data, and of these, those in which memory was handing over other lines.
    pub(super) miss: u64,
    pub(super) queue: u64,
    pub(super) level: usize,
}

/// The cycles of a core, by what they were charged to.
#[derive(Clone, Debug, Default)]
pub(super) struct Charges {
    compute: u64,
    branch: u64,
    fetch: u64,
    walk: u64,
    memory: u64,
    finer: Finer,
    pub(super) slots: Slots,
}

/// The slots of dispatch that instructions took.
///
/// `taken - charged` is not a counter of its own beside `taken`: the compiler adds to two such neighbours with one vector instruction, which waits
/// for the store of the one that has been changed alone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slots {
    taken: u64,
    /// Those in cycles that were charged, to computing or to something else.
    charged: u64,
    /// Of these, those in cycles of something else: they take no time of their own.
    hidden: u64,
}

impl Slots {
    /// Notes that an instruction took so many slots.
    #[inline(always)]
    pub(super) fn take(&mut self, slots: u8) {
        self.taken += u64::from(slots);
    }

    /// Charges as many slots as there are in cycles.
    #[inline(always)]
    fn charge(&mut self, cycles: u64, width: u64) {
        self.charged = self.taken.min(self.charged + cycles * width);
    }

    /// Hides as many slots as there are in other cycles.
    fn hide(&mut self, cycles: u64, width: u64) {
        let before = self.charged;
        self.charge(cycles, width);
        self.hidden += self.charged - before;
    }
}

impl Stopped {
    /// Returns whether there are such cycles.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.branch | self.fetch | self.stores != 0
    }
}

impl Waited {
    /// Returns whether the load took longer than a hit.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.walk | self.miss != 0
    }
}

impl Charges {
    /// Charges cycles by which retirement advances, before which dispatch had stopped, with a load that waited.
    pub(super) fn charge(&mut self, advance: u64, stopped: Stopped, waited: Waited, width: u64) {
        let branch = advance.min(stopped.branch);
        let fetch = (advance - branch).min(stopped.fetch);
        self.finer.translation += share(fetch, stopped.translation, stopped.fetch);
        let rest = advance - branch - fetch;
        // Others may have hidden a part of what the load took beyond a hit: the rest is divided as the whole.
        let load = rest.min(waited.walk + waited.miss);
        let walk = share(load, waited.walk, waited.walk + waited.miss);
        // A store buffer that is full waits for lines.
        let stores = (rest - load).min(stopped.stores);
        self.finer.tlb += share(walk, waited.tlb, waited.walk);
        self.finer.queue += share(load - walk, waited.queue, waited.miss);
        self.finer.levels[waited.level] += load - walk;
        let compute = rest - load - stores;
        self.branch += branch;
        self.fetch += fetch;
        self.walk += walk;
        self.memory += load - walk + stores;
        self.slots.hide(advance - compute, width);
        self.compute(compute, width);
    }

    /// Charges cycles to computing.
    #[inline(always)]
    pub(super) fn compute(&mut self, cycles: u64, width: u64) {
        self.compute += cycles;
        self.slots.charge(cycles, width);
    }

    /// Returns the time so far.
    pub(super) fn charged(&self, cycle_ps: u64, width: u64) -> Charged {
        let ps = |cycles: u64| cycles * cycle_ps;
        let Slots { charged, hidden, .. } = self.slots;
        Charged {
            compute_ps: ps(self.compute),
            branch_ps: ps(self.branch),
            fetch_ps: ps(self.fetch),
            walk_ps: ps(self.walk),
            memory_ps: ps(self.memory),
            width_ps: ps(charged - hidden) / width,
            finer: self.finer.map(ps),
        }
    }
}

impl Finer {
    fn map(&self, of: impl Fn(u64) -> u64) -> Self {
        let Self { tlb, translation, queue, levels } = *self;
        Self { tlb: of(tlb), translation: of(translation), queue: of(queue), levels: levels.map(of) }
    }
}

/// Returns `wait * part / whole`, rounded down; 0 of nothing.
#[inline]
pub(super) fn share(wait: u64, part: u64, whole: u64) -> u64 {
    if part == 0 { 0 } else { (u128::from(wait) * u128::from(part) / u128::from(whole)) as u64 }
}
