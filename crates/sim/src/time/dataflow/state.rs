//! What the pipeline of a core has, and what it is about.

use super::charges::{Stopped, Waited, share};
use super::foresight::{Foresight, Formed};
use super::forwarding::{Bytes, Forwarding};
use super::order::{InOrder, Ring};
use super::owned::{Missed, Owned};
use super::plan::{Making, Operation, Plan, Planned};
use super::ready::Ready;
use super::renaming::Renaming;
use super::scheduler::Schedulers;
use super::taken::Taken;
use super::targets::Targets;
use super::units::{Unit, Units, Work};
use crate::spec::settings::{CacheSpec, CoreSpec, DataflowSpec, DecodedSpec, FetchSpec};

/// The widths, sizes and latencies of a pipeline.
#[derive(Clone, Debug)]
pub(super) struct Design {
    pub(super) spec: DataflowSpec,
    pub(super) width: u64,
    pub(super) window: usize,
    pub(super) cycle_ps: u64,
    pub(super) nearest_ps: u64,
    /// The cycles of a hit in the nearest cache.
    pub(super) nearest: u64,
    /// Lines that the front end may be ahead.
    pub(super) ahead: usize,
    /// The cache of decoded instructions, if it is known.
    pub(super) decoded: Option<DecodedSpec>,
    /// The nearest cache, if there is one.
    pub(super) first: Option<CacheSpec>,
}

impl Design {
    pub(super) fn new(
        core: &CoreSpec,
        spec: &DataflowSpec,
        fetch: Option<&FetchSpec>,
        nearest_ps: u64,
        first: Option<&CacheSpec>,
    ) -> Self {
        Self {
            spec: spec.clone(),
            first: first.cloned(),
            width: core.width.into(),
            window: core.window as usize,
            cycle_ps: core.cycle_ps,
            nearest_ps,
            nearest: nearest_ps.div_ceil(core.cycle_ps),
            ahead: fetch.map_or(1, |fetch| fetch.ahead as usize),
            decoded: fetch.and_then(|fetch| fetch.decoded.clone()),
        }
    }
}

/// The places where a load finds its data: as many caches as a machine file has at most, and memory.
pub(super) const LEVELS: usize = 5;
/// The number of no line of memory.
const NO_LINE: u64 = u64::MAX;

/// The time of a core by its use, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::time) struct Charged {
    pub(in crate::time) compute_ps: u64,
    pub(in crate::time) branch_ps: u64,
    pub(in crate::time) fetch_ps: u64,
    pub(in crate::time) walk_ps: u64,
    pub(in crate::time) memory_ps: u64,
    /// Of computing, what instructions take that are dispatched as fast as the core can.
    pub(super) width_ps: u64,
    /// In picoseconds.
    pub(super) finer: Finer,
}

/// Parts of the cycles of walks, fetch and memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Finer {
    /// Of walks, what a farther level of the TLB took.
    pub(super) tlb: u64,
    /// Of fetch, what the translation of lines took.
    pub(super) translation: u64,
    /// Of memory, what memory took to hand over other lines.
    pub(super) queue: u64,
    /// Of memory, by the place where loads found their data; the rest waited for stores to leave.
    pub(super) levels: [u64; LEVELS],
}

/// The instruction that is under execution.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Current {
    /// When it was dispatched, if it was.
    pub(super) dispatched: Option<u64>,
    /// Whether it is a repetition that is executed together with the one before it.
    pub(super) joins: bool,
    /// When the last of its loads was there, and what that load waited for.
    pub(super) loaded: u64,
    pub(super) waited: Waited,
    /// When its last access was issued; 0 if it has none.
    pub(super) issued: u64,
    /// When its result was there, if it has been computed.
    pub(super) computed: Option<u64>,
    /// When the last of its stores was done; 0 if it has none.
    pub(super) stored: u64,
    /// When the last line that it stores to is there, and its address.
    pub(super) owned: u64,
    pub(super) line: u64,
    /// What is known of that line if the nearest cache does not have it.
    pub(super) missed: Option<Missed>,
}

/// The front end: what is dispatched when.
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) dispatch: InOrder,
    pub(super) taken: Taken,
    pub(super) targets: Targets,
    /// The first cycle in which the right way is dispatched, after a misprediction.
    pub(super) redirect: u64,
    pub(super) lines: Lines,
    pub(super) stopped: Stopped,
}

/// The lines of instructions that the front end fetches.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    /// When the last one was asked for.
    pub(super) asked: u64,
    /// By line, when the instructions before it had been dispatched.
    pub(super) dispatched: Ring,
    /// When the last one that is needed is there, and the cycles of its translation and of all beyond a hit.
    pub(super) there: u64,
    pub(super) translation: u64,
    pub(super) waited: u64,
}

/// The execution of instructions, in any order.
#[derive(Clone, Debug)]
pub(super) struct Execution {
    pub(super) ready: Ready,
    pub(super) units: Units,
    pub(super) forwarding: Forwarding,
    pub(super) foresight: Foresight,
    pub(super) schedulers: Schedulers,
    /// When the last instruction began.
    pub(super) begun: u64,
    pub(super) is_in_order: bool,
}

/// The back end: instructions and stores leave in order.
#[derive(Clone, Debug)]
pub(super) struct Back {
    pub(super) retire: InOrder,
    pub(super) window: Ring,
    pub(super) drain: InOrder,
    /// The line of the store that left the store buffer last.
    drained: u64,
    pub(super) stores: Ring,
    pub(super) owned: Owned,
    pub(super) renaming: Renaming,
}

/// Where the program is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) block: Option<usize>,
    pub(super) instruction: usize,
    /// The entry of the plan that makes the next access, and how many it has left.
    pub(super) entry: usize,
    pub(super) left: u32,
    pub(super) accesses: u32,
    /// The access that was issued last, if it is one of the plan's, and when.
    pub(super) making: Option<Making>,
    pub(super) issued: u64,
    /// The cycles in which a farther level of the TLB translated its address.
    pub(super) tlb: u64,
    /// When the last instruction was done.
    pub(super) done: u64,
    pub(super) repetition: Repetition,
}

/// A string instruction that repeats itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repetition {
    /// Whether the block is a further one of the instruction before it.
    pub(super) goes_on: bool,
    /// The bytes of further ones that can be executed together with it.
    pub(super) room: u32,
}

impl Place {
    /// Goes to the beginning of a block that makes so many accesses; returns when the last instruction of the one before was done.
    #[inline]
    pub(super) fn begin(&mut self, block: Option<usize>, accesses: u32) -> u64 {
        (self.block, self.instruction) = (block, 0);
        (self.entry, self.left, self.accesses) = (0, 0, accesses);
        self.making = None;
        (self.issued, self.tlb) = (0, 0);
        std::mem::take(&mut self.done)
    }

    /// Takes the entry of the plan that makes the next access.
    #[inline]
    pub(super) fn next_planned<'a>(&mut self, plan: &'a Plan) -> Option<&'a Planned> {
        loop {
            let planned = plan.accesses.get(self.entry)?;
            if self.left > 0 {
                self.left -= 1;
                return Some(planned);
            }
            self.entry += 1;
            if self.entry < plan.accesses.len() {
                self.left = plan.times(self.entry, self.accesses);
            }
        }
    }

    /// Goes on to the next instruction, behind one that was done at a time.
    #[inline(always)]
    pub(super) fn go_on(&mut self, done: u64) {
        self.done = done;
        self.instruction += 1;
    }

    /// Returns the bytes at an address that the access which was issued last is about.
    #[inline(always)]
    pub(super) fn bytes_at(&self, addr: u64) -> Bytes {
        Bytes { addr, count: self.making.map_or(0, |making| making.bytes) }
    }

    /// Notes when an access is issued; returns that.
    #[inline]
    pub(super) fn issue(&mut self, issued: u64) -> u64 {
        (self.issued, self.tlb) = (issued, 0);
        issued
    }
}

impl Front {
    pub(super) fn new(design: &Design) -> Self {
        let lines =
            Lines { asked: 0, dispatched: Ring::new(design.ahead), there: 0, translation: 0, waited: 0 };
        Self {
            dispatch: InOrder::new(design.width),
            taken: Taken::new(design),
            targets: Targets::new(design.spec.targets.as_ref()),
            redirect: 0,
            lines,
            stopped: Stopped::default(),
        }
    }

    /// Goes on to the next line; returns the cycle in which the front end asks for it.
    #[inline]
    pub(super) fn fetch(&mut self) -> u64 {
        let Self { dispatch, redirect, lines, .. } = self;
        let asked = (lines.asked + 1).max(*redirect).max(lines.dispatched.free());
        lines.dispatched.push(dispatch.cycle());
        lines.asked = asked;
        asked
    }

    /// Lets the instructions that follow wait for the line that was asked for last, which had its translation at a time.
    #[inline]
    pub(super) fn fetched(&mut self, translated: u64, there: u64) {
        let lines = &mut self.lines;
        if there > lines.there {
            lines.there = there;
            let since = |cycle: u64| cycle.saturating_sub(lines.asked);
            (lines.translation, lines.waited) = (since(translated), since(there));
        }
    }

    /// Goes on to when the instruction which took slots in a cycle enters the schedulers: then, or later.
    #[inline(always)]
    pub(super) fn entered(&mut self, cycle: u64, entered: u64) {
        if entered > cycle {
            self.dispatch.begin(entered);
            self.dispatch.take(entered);
        }
    }

    /// Returns whether nothing stops the next instruction from being dispatched, or has stopped the last one.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.redirect.max(self.lines.there) <= self.dispatch.cycle() && !self.stopped.is_any()
    }

    /// Returns when the next instruction can be dispatched, for which nothing else waits from a cycle on: on the right way, when its
    /// line is there.
    #[inline]
    pub(super) fn begins(&mut self, from: u64) -> u64 {
        let from = from.max(self.redirect);
        if self.lines.there <= from {
            return from;
        }
        let stopped = self.lines.there - from;
        self.stopped.fetch += stopped;
        self.stopped.translation += share(stopped, self.lines.translation, self.lines.waited);
        self.lines.there
    }
}

impl Execution {
    pub(super) fn new(design: &Design) -> Self {
        Self {
            ready: Ready::new(),
            units: Units::new(&design.spec),
            forwarding: Forwarding::new(design.spec.store_buffer),
            foresight: Foresight::new(design.spec.renamed_stores, design.spec.foreseen_loads),
            schedulers: Schedulers::new(&design.spec),
            begun: 0,
            is_in_order: design.spec.is_in_order,
        }
    }

    /// Executes a simple operation, which was dispatched in one cycle, from another one on; returns when its result is there. One that is held does not begin before the one
    /// before it, as on an in-order core.
    #[inline(always)]
    pub(super) fn simple(&mut self, operation: &Operation, dispatched: u64, from: u64, is_held: bool) -> u64 {
        let Self { ready, units, schedulers, begun, .. } = self;
        let mut start = from.max(ready.of_few(operation.reads));
        if let Some(unit) = operation.work.unit {
            let at = if is_held { start.max(*begun) } else { start };
            start = schedulers.begin((unit, operation.work.waits), units, dispatched, at);
            if is_held {
                *begun = start;
            }
        }
        let done = start + u64::from(operation.work.latency);
        ready.write_few(operation.writes, done);
        done
    }

    /// Returns what the address of an access is formed of, if an instruction is known to make it.
    #[inline]
    pub(super) fn formed(&self, making: Option<Making>) -> Formed {
        match making {
            None => Formed::NONE,
            Some(Making { of_vector: true, .. }) => Formed::OF_VECTOR,
            Some(Making { named, .. }) => Formed { names: named, ready: self.ready.of_few(named) },
        }
    }

    /// Takes a unit for an operation that is not simple, which was dispatched in one cycle and is ready in another one, and of which nothing or
    /// a load has begun; returns when it begins.
    pub(super) fn begin_special(
        &mut self,
        work: &Work,
        unit: Unit,
        dispatched: u64,
        (ready, has_begun): (u64, bool),
    ) -> u64 {
        let from = if self.is_in_order && !has_begun { ready.max(self.begun) } else { ready };
        let Self { units, schedulers, .. } = self;
        let begins = match unit.is_held() {
            true => schedulers.begin_held(work, unit, units, dispatched, from),
            false => schedulers.begin((unit, work.waits), units, dispatched, from),
        };
        if !has_begun {
            self.begun = begins;
        }
        begins
    }

    /// Takes a unit for an instruction that is ready to begin; returns when. On an in-order core it does not begin before the one before
    /// it.
    #[inline]
    pub(super) fn begin(&mut self, unit: Unit, ready: u64, holds: u32) -> u64 {
        let from = if self.is_in_order { ready.max(self.begun) } else { ready };
        self.begun = self.units.take(unit, from, holds);
        self.begun
    }
}

impl Back {
    /// Lets a store leave the store buffer, at a time at the earliest; returns when. Stores to one line that follow each other leave together.
    #[inline]
    pub(super) fn leave(&mut self, line: u64, from: u64) -> u64 {
        if line != std::mem::replace(&mut self.drained, line) {
            self.drain.fill(self.drain.cycle());
        }
        self.drain.take(from)
    }

    /// Notes that a load got its data from the last store: no other leaves together with it. On Zen 4 two stores to one line leave in a cycle,
    /// and with a load of what was stored behind each of them, one does.
    #[inline]
    pub(super) fn hand_over(&mut self) {
        self.drained = NO_LINE;
    }

    pub(super) fn new(design: &Design) -> Self {
        Self {
            retire: InOrder::new(design.spec.retire_width.into()),
            window: Ring::new(design.window),
            drain: InOrder::new(design.spec.drain.into()),
            drained: NO_LINE,
            stores: Ring::new(design.spec.store_buffer as usize),
            owned: Owned::new(design.first.as_ref()),
            renaming: Renaming::new(&design.spec),
        }
    }
}
