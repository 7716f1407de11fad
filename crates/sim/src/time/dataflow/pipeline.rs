//! The pipeline of one core.

use pagewalk_code::Flow;

use super::Reference;
use super::order::InOrder;
use super::plan::{Operation, Plan, Planned};
use super::state::{Back, Charged, Current, Design, Execution, Front, LEVELS, Place};
use super::units::Unit;

/// Forwarding of a store's data in cycles: where a core foresees it, which is an address relative to the stack, or the place from which
/// the instruction got its data last time; and elsewhere. Measured on Zen 3: docs/time.md.
const FORESEEN: u64 = 1;
const FORWARDED: u64 = 5;
/// Bytes of a repeated string instruction that take a slot of dispatch. Assumed.
const REPEATED_BYTES: u32 = 32;

/// The pipeline of one core.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    design: Design,
    front: Front,
    execution: Execution,
    back: Back,
    place: Place,
    current: Current,
    /// The cycles charged to computing, branches, walks, memory and fetch.
    charged: [u64; 5],
    /// The cycles charged to memory, by the place where a load found its data.
    levels: [u64; LEVELS],
    /// The slots of dispatch in the cycles charged to computing.
    slots: u64,
}

const COMPUTE: usize = 0;
const BRANCH: usize = 1;
const WALK: usize = 2;
const MEMORY: usize = 3;
const FETCH: usize = 4;

impl Pipeline {
    pub(super) fn new(design: Design) -> Self {
        let (front, execution, back) = (Front::new(&design), Execution::new(&design), Back::new(&design));
        let (place, current) = (Place::default(), Current::default());
        Self {
            design,
            front,
            execution,
            back,
            place,
            current,
            charged: [0; 5],
            levels: [0; LEVELS],
            slots: 0,
        }
    }

    /// Returns the number of the block that is under execution.
    pub(super) fn block(&self) -> Option<usize> {
        self.place.block
    }

    /// Returns the address of the instruction that makes the access that was issued last; 0 if that is not known.
    pub(super) fn instruction(&self) -> u64 {
        self.place.planned.map_or(0, |planned| planned.at)
    }

    pub(super) fn dispatched(&self) -> u64 {
        self.front.dispatch.cycle
    }

    pub(super) fn retired(&self) -> u64 {
        self.back.retire.cycle
    }

    /// Lets everything that was dispatched before the current instruction retire; returns when that is.
    pub(super) fn drain(&mut self) -> u64 {
        let before = self.back.retire.cycle;
        self.back.retire.cycle = before.max(self.front.dispatch.cycle);
        self.charge(self.back.retire.cycle - before, 0, 0);
        self.back.retire.cycle
    }

    pub(super) fn charged(&self, cycle_ps: u64) -> Charged {
        let [compute_ps, branch_ps, walk_ps, memory_ps, fetch_ps] =
            self.charged.map(|cycles| cycles * cycle_ps);
        let width_ps = self.slots * cycle_ps / u64::from(self.design.width);
        let levels_ps = self.levels.map(|cycles| cycles * cycle_ps);
        Charged { compute_ps, branch_ps, fetch_ps, walk_ps, memory_ps, width_ps, levels_ps }
    }

    /// Goes on with nothing in flight from a cycle on.
    pub(super) fn resume(&mut self, cycle: u64) {
        for order in [&mut self.front.dispatch, &mut self.back.retire] {
            *order = InOrder { cycle: cycle.max(order.cycle), taken: 0 };
        }
        self.front.lines.asked = self.front.lines.asked.max(cycle);
        self.current.dispatched = self.current.dispatched.map(|before| before.max(cycle));
    }

    /// Begins a block that makes so many accesses, at the instruction that makes the one behind so many; none if nothing is known of its
    /// instructions.
    pub(super) fn begin(&mut self, block: Option<(usize, &Plan)>, accesses: usize, made: usize) {
        let before = self.place.ended.take();
        self.place = Place { repeated_bytes: self.place.repeated_bytes, ..Place::default() };
        let Some((number, plan)) = block else { return };
        if let Some((flow, branch, behind, done)) = before {
            self.follow(flow, branch, behind, plan.addr, done);
        }
        self.place.block = Some(number);
        self.place.accesses = accesses as u32;
        if !plan.accesses.is_empty() {
            self.place.left = plan.times(0, self.place.accesses);
        }
        if made == 0 {
            return;
        }
        for _ in 0..made {
            self.next_planned(plan);
        }
        let (entry, left) = (self.place.entry, self.place.left);
        if let Some(next) = self.next_planned(plan) {
            (self.place.entry, self.place.left) = (entry, left);
            self.place.instruction = next.instruction as usize;
        }
    }

    /// Leaves the block and its instructions, none of which are done.
    pub(super) fn abandon(&mut self) {
        self.place = Place { done: self.place.done, ..Place::default() };
        self.current = Current::default();
    }

    /// Goes on to the next line; returns the cycle in which the front end asks for it.
    #[inline]
    pub(super) fn fetch(&mut self) -> u64 {
        let Front { dispatch, redirect, lines, .. } = &mut self.front;
        let asked = (lines.asked + 1).max(*redirect).max(lines.dispatched.free());
        lines.dispatched.push(dispatch.cycle);
        lines.asked = asked;
        asked
    }

    /// Lets the instructions that follow wait for the line that was asked for last.
    #[inline]
    pub(super) fn fetched(&mut self, there: u64) {
        self.front.lines.there = self.front.lines.there.max(there);
    }

    /// The front end goes from a branch, which was done at a time, to the next block.
    fn follow(&mut self, flow: Flow, branch: u64, behind: u64, next: u64, done: u64) {
        let fetched = self.front.targets.follow(flow, branch, behind, next);
        if fetched.mispredicted && self.design.spec.are_branches_predicted {
            self.front.lost = self.design.spec.misprediction.into();
            self.front.redirect = self.front.redirect.max(done + self.front.lost);
        } else if fetched.taken && self.design.spec.are_branches_predicted {
            // The rest of the group is not fetched.
            self.front.dispatch.taken = self.design.width;
            if fetched.bubble > 0 {
                self.front.dispatch =
                    InOrder { cycle: self.front.dispatch.cycle + fetched.bubble, taken: self.design.width };
            }
        }
    }

    /// Executes what is left of a block: accesses that were not made are those of instructions that a fault or the end of a recording
    /// cut off.
    pub(super) fn finish(&mut self, plan: &Plan) {
        self.complete_up_to(plan, plan.operations.len());
        self.place.ended = Some((plan.flow(), plan.branch(), plan.end, self.place.done));
        self.place.block = None;
    }

    /// Goes on to the instruction of the next access; returns the cycle in which the access is issued.
    pub(super) fn issue(&mut self, plan: Option<&Plan>) -> u64 {
        let Some(plan) = plan else { return self.issue_unplanned() };
        let Some(planned) = self.next_planned(plan) else {
            if let Some(operation) = plan.operations.get(self.place.instruction)
                && self.current.dispatched.is_some()
            {
                self.complete_operation(plan, operation);
            }
            return self.issue_unplanned();
        };
        self.place.planned = Some(planned);
        let number = planned.instruction as usize;
        self.complete_up_to(plan, number);
        let operation = &plan.operations[number];
        let dispatched = self.dispatched_of(operation);
        let ready = (dispatched + 1).max(self.execution.ready.of(planned.address, &plan.sets));
        let unit = if planned.store { Unit::Store } else { Unit::Load };
        if planned.store {
            self.compute(plan, operation, dispatched);
        }
        self.place.issued = self.execution.begin(unit, ready, 1);
        self.place.issued
    }

    /// Completes the instructions of the block before one, all of whose accesses have been made.
    #[inline]
    fn complete_up_to(&mut self, plan: &Plan, number: usize) {
        while self.place.instruction < number {
            let operation = &plan.operations[self.place.instruction];
            if operation.is_plain() {
                self.execute_plain(plan, operation);
            } else {
                self.complete_operation(plan, operation);
            }
        }
    }

    /// Executes an instruction that makes no access.
    #[inline]
    fn execute_plain(&mut self, plan: &Plan, operation: &Operation) {
        let dispatched = self.take_dispatch(operation.takes_slot, false);
        let mut start = (dispatched + 1).max(self.execution.ready.of(operation.reads, &plan.sets));
        if let Some(unit) = operation.work.unit {
            start = self.execution.begin(unit, start, operation.work.latency);
        }
        let done = start + u64::from(operation.work.latency);
        self.execution.ready.write(operation.writes, &plan.sets, done);
        self.retire(done, 0, 0);
        self.place.done = done;
        self.place.instruction += 1;
    }

    /// An access that no instruction is known to make: it waits for nothing.
    fn issue_unplanned(&mut self) -> u64 {
        self.place.planned = None;
        let dispatched = self.take_dispatch(true, false);
        self.current = Current { dispatched: Some(dispatched), ..Current::default() };
        self.place.issued = self.execution.units.take(Unit::Load, dispatched + 1, 1);
        self.place.issued
    }

    /// Issues a further part of the access that was issued last: it waits for another turn of the unit.
    pub(super) fn issue_part(&mut self) -> u64 {
        let is_store = self.place.planned.is_some_and(|planned| planned.store);
        let unit = if is_store { Unit::Store } else { Unit::Load };
        self.place.issued = self.execution.units.take(unit, self.place.issued, 1);
        self.place.issued
    }

    /// Takes the entry of the plan that makes the next access.
    #[inline]
    fn next_planned(&mut self, plan: &Plan) -> Option<Planned> {
        loop {
            let planned = plan.accesses.get(self.place.entry)?;
            if self.place.left > 0 {
                self.place.left -= 1;
                return Some(*planned);
            }
            self.place.entry += 1;
            if self.place.entry < plan.accesses.len() {
                self.place.left = plan.times(self.place.entry, self.place.accesses);
            }
        }
    }

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
        let waited = cycles(reference.done_ps.saturating_sub(issued_ps));
        if reference.write {
            self.complete_store(reference.addr, translation, waited);
        } else {
            self.complete_load(reference, translation, waited);
        }
        if self.place.planned.is_none() {
            let Current { loaded, stored, walked, missed, .. } = self.current;
            self.retire(loaded.max(stored), walked, missed);
            self.execution.forwarding.leave(self.back.retire.cycle);
        }
    }

    fn complete_store(&mut self, addr: u64, translation: u64, waited: u64) {
        let issued = self.place.issued;
        let data = self.current.computed.unwrap_or(issued);
        self.execution.forwarding.store(addr, data);
        let Current { stored, owned, walked, .. } = &mut self.current;
        *stored = data.max(issued + translation + 1).max(*stored);
        *owned = (issued + waited).max(*owned);
        *walked = translation.max(*walked);
    }

    fn complete_load(&mut self, reference: &Reference, translation: u64, waited: u64) {
        let addr = reference.addr;
        let translated = self.place.issued + translation;
        let mut done = self.place.issued + waited;
        let mut missed = waited.saturating_sub(self.design.nearest + translation);
        if let Some(ready) = self.execution.forwarding.find(addr, translated) {
            let repeats = self.execution.forwarding.repeats(self.instruction(), addr);
            let is_foreseen = repeats || self.place.planned.is_some_and(|planned| planned.on_stack);
            let latency = if is_foreseen { FORESEEN } else { FORWARDED };
            (done, missed) = (ready.max(translated) + latency, 0);
        }
        if done >= self.current.loaded {
            let current = &mut self.current;
            (current.loaded, current.walked, current.missed) = (done, translation, missed);
            current.level = reference.level.min(LEVELS - 1);
        }
    }

    /// Completes the next instruction of the block, whose accesses have been made.
    fn complete_operation(&mut self, plan: &Plan, operation: &Operation) {
        let dispatched = self.dispatched_of(operation);
        let computed = self.compute(plan, operation, dispatched);
        let Current { stored, owned, walked, missed, .. } = self.current;
        let done = computed.max(stored);
        if stored > 0 {
            let drained = self.back.drain.take(self.back.retire.cycle.max(done).max(owned), 1);
            self.back.stores.push(drained);
            self.execution.forwarding.leave(drained);
        }
        self.retire(done, walked, missed);
        self.place.done = computed;
        self.place.instruction += 1;
    }

    /// Dispatches an instruction, if that has not been done.
    #[inline]
    fn dispatched_of(&mut self, operation: &Operation) -> u64 {
        if let Some(dispatched) = self.current.dispatched {
            return dispatched;
        }
        let mut takes_slot = operation.takes_slot;
        if operation.repeated_bytes > 0 {
            self.place.repeated_bytes += u32::from(operation.repeated_bytes);
            takes_slot = self.place.repeated_bytes >= REPEATED_BYTES;
            self.place.repeated_bytes %= REPEATED_BYTES;
        }
        let dispatched = self.take_dispatch(takes_slot, operation.stores);
        self.current = Current { dispatched: Some(dispatched), ..Current::default() };
        dispatched
    }

    #[inline]
    fn take_dispatch(&mut self, takes_slot: bool, stores: bool) -> u64 {
        let mut from = self.front.dispatch.cycle.max(self.back.window.free());
        if stores {
            let free = self.back.stores.free();
            self.front.full += free.saturating_sub(from);
            from = from.max(free);
        }
        from = from.max(self.front.redirect);
        let lines = &mut self.front.lines;
        if lines.there > from {
            lines.missing += lines.there - from;
            from = lines.there;
        }
        if !takes_slot {
            return from;
        }
        self.front.slots += 1;
        self.front.dispatch.take(from, self.design.width)
    }

    /// Returns when the result of an instruction, whose loads are done, is there.
    fn compute(&mut self, plan: &Plan, operation: &Operation, dispatched: u64) -> u64 {
        if let Some(computed) = self.current.computed {
            return computed;
        }
        let work = operation.work;
        let ready = self.execution.ready.of(operation.reads, &plan.sets);
        let mut start = (dispatched + 1).max(self.current.loaded).max(ready);
        if work.is_serial {
            start = start.max(self.back.retire.cycle);
        }
        if let Some(unit) = work.unit {
            // On an in-order core, too, the operation behind a load waits for it, and others begin meanwhile.
            let has_begun = self.current.loaded > 0;
            start = match has_begun {
                true => self.execution.units.take(unit, start, work.latency),
                false => self.execution.begin(unit, start, work.latency),
            };
        }
        let done = if operation.is_zero { dispatched } else { start + u64::from(work.latency) };
        self.execution.ready.write(operation.writes, &plan.sets, done);
        if work.is_serial {
            self.front.redirect = self.front.redirect.max(done);
        }
        self.current.computed = Some(done);
        done
    }

    /// Retires the current instruction, which waited for so many cycles of a walk, and of a miss, and charges the time by which retirement
    /// advances.
    #[inline]
    fn retire(&mut self, done: u64, walked: u64, missed: u64) {
        let before = self.back.retire.cycle;
        let retired = self.back.retire.take(done, self.design.spec.retire_width);
        // An in-order core holds an instruction back until it begins, and no longer.
        self.back.window.push(if self.design.spec.is_in_order { self.execution.begun } else { retired });
        self.current.dispatched = None;
        if retired > before {
            self.charge(retired - before, walked, missed);
        }
    }

    /// Charges cycles by which retirement advances with an instruction that waited for so many of a walk, and of a miss.
    #[inline]
    fn charge(&mut self, advance: u64, walked: u64, missed: u64) {
        let branch = advance.min(std::mem::take(&mut self.front.lost));
        let fetch = (advance - branch).min(std::mem::take(&mut self.front.lines.missing));
        let rest = advance - branch - fetch;
        // Others may have hidden a part of what the load took beyond a hit: the rest is divided as the whole.
        let waited = rest.min(walked + missed);
        let walk = share(waited, walked, walked + missed);
        // A store buffer that is full waits for lines.
        let full = (rest - waited).min(std::mem::take(&mut self.front.full));
        let memory = waited - walk + full;
        self.levels[self.current.level] += waited - walk;
        let compute = rest - memory - walk;
        // What was dispatched in the other cycles takes no time of its own.
        let width = u64::from(self.design.width);
        let pending = self.front.slots.saturating_sub((advance - compute) * width);
        let taken = pending.min(compute * width);
        (self.slots, self.front.slots) = (self.slots + taken, pending - taken);
        let parts = [(BRANCH, branch), (FETCH, fetch), (MEMORY, memory), (WALK, walk), (COMPUTE, compute)];
        for (part, cycles) in parts {
            self.charged[part] += cycles;
        }
    }
}

/// Returns `wait * part / whole`, rounded down; 0 of nothing.
#[inline]
fn share(wait: u64, part: u64, whole: u64) -> u64 {
    if part == 0 { 0 } else { (u128::from(wait) * u128::from(part) / u128::from(whole)) as u64 }
}
