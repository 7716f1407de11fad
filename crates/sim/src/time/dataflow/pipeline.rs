//! The pipeline of one core.

use super::Reference;
use super::charges::{Charges, Waited};
use super::forwarding::Found;
use super::plan::{Operation, Plan, Planned};
use super::speculation::{Speculation, Wrong};
use super::state::{Back, Current, Design, Execution, Front, LEVELS, Place};
use super::units::Unit;
use crate::spec::settings::LatenciesSpec;

/// The cycles that an operation on memory takes at least from its store to the load of the next one, measured on Zen 3 (docs/time.md).
const MODIFIED: u64 = 1;
/// The cycles from the time at which a store leaves the store buffer that a load takes which wants more bytes than it has.
const FORWARDED_BY_CACHE: u64 = 17;
/// log2 of the bytes of a line.
const LINE_SHIFT: u32 = 6;
/// Bytes of a repeated string instruction that take a slot of dispatch. Assumed.
const REPEATED_BYTES: u32 = 32;

/// The pipeline of one core.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) design: Design,
    pub(super) front: Front,
    pub(super) execution: Execution,
    pub(super) back: Back,
    pub(super) place: Place,
    current: Current,
    pub(super) charges: Charges,
    pub(super) speculation: Speculation,
}

impl Pipeline {
    pub(super) fn new(design: Design) -> Self {
        let (front, execution, back) = (Front::new(&design), Execution::new(&design), Back::new(&design));
        let (place, current, charges) = (Place::default(), Current::default(), Charges::default());
        Self { design, front, execution, back, place, current, charges, speculation: Speculation::default() }
    }

    /// Returns the address of the instruction that makes the access that was issued last; 0 if that is not known.
    pub(super) fn instruction(&self) -> u64 {
        self.place.making.map_or(0, |making| making.at)
    }

    pub(super) fn retired(&self) -> u64 {
        self.back.retire.cycle()
    }

    /// Lets everything that was dispatched before the current instruction retire; returns when that is.
    pub(super) fn drain(&mut self) -> u64 {
        let (before, dispatched) = (self.back.retire.cycle(), self.front.dispatch.cycle());
        if dispatched > before {
            self.back.retire.begin(dispatched);
        }
        self.charge(dispatched.saturating_sub(before), Waited::default());
        before.max(dispatched)
    }

    /// Goes on with nothing in flight from a cycle on.
    pub(super) fn resume(&mut self, cycle: u64) {
        for order in [&mut self.front.dispatch, &mut self.back.retire] {
            order.begin(cycle.max(order.cycle()));
        }
        self.front.lines.asked = self.front.lines.asked.max(cycle);
        self.speculation = Speculation::default();
        self.current.dispatched = self.current.dispatched.map(|before| before.max(cycle));
    }

    /// Begins a block that makes so many accesses, at the instruction that makes the one behind so many; none if nothing is known of its
    /// instructions. The block before it, if one is known, has been finished.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        (block, before): (Option<(usize, &Plan)>, Option<&Plan>),
        accesses: usize,
        made: usize,
    ) {
        let done = self.place.begin(block.map(|(number, _)| number), accesses as u32);
        let Some((_, plan)) = block else { return };
        let slots = self.front.taken.fetch(plan);
        if let Some(before) = before {
            self.follow(before, plan, slots, done);
        }
        self.front.taken.pending = slots;
        if !plan.accesses.is_empty() {
            self.place.left = plan.times(0, self.place.accesses);
        }
        if made > 0 {
            self.skip(plan, made);
        }
    }

    /// Goes on to the instruction that makes the access behind so many.
    #[cold]
    fn skip(&mut self, plan: &Plan, made: usize) {
        for _ in 0..made {
            self.place.next_planned(plan);
        }
        let (entry, left) = (self.place.entry, self.place.left);
        if let Some(next) = self.place.next_planned(plan) {
            (self.place.entry, self.place.left) = (entry, left);
            self.place.instruction = next.instruction as usize;
        }
    }

    /// Leaves the block and its instructions, none of which are done.
    pub(super) fn abandon(&mut self) {
        self.place = Place { done: self.place.done, ..Place::default() };
        self.current = Current::default();
        self.speculation = Speculation::default();
    }

    /// The front end goes from the end of a block, which was done at a time, to the next one, for which it takes so many slots.
    #[inline(always)]
    fn follow(&mut self, ended: &Plan, next: &Plan, slots: u32, done: u64) {
        let fetched = self.front.targets.follow(&ended.last, next.addr);
        if !self.design.spec.are_branches_predicted {
            return;
        }
        let front = &mut self.front;
        let late = front.taken.late(next, slots);
        let dispatched = front.dispatch.cycle();
        if fetched.mispredicted {
            front.stopped.branch = self.design.spec.misprediction.into();
            let redirect = done + front.stopped.branch;
            if self.design.spec.are_wrong_ways_followed
                && !self.design.spec.is_in_order
                && let Some(to) = ended.last.other_way(next.addr)
            {
                let (block, dispatch) = (ended.addr, front.dispatch);
                self.speculation.go_wrong(Wrong { block, to, dispatch, until: redirect });
            }
            front.redirect = front.redirect.max(redirect + late);
            front.taken.begin(redirect);
            return;
        }
        let bubble = fetched.taken.then_some(fetched.bubble);
        let begins = front.taken.take(dispatched, bubble) + late;
        if begins > dispatched {
            front.dispatch.begin(begins);
        }
    }

    /// Executes what is left of a block: accesses that were not made are those of instructions that a fault or the end of a recording
    /// cut off.
    #[inline]
    pub(super) fn finish(&mut self, plan: &Plan) {
        self.complete_up_to(plan, plan.operations.len());
        self.place.block = None;
    }

    /// Goes on to the instruction of the next access; returns the cycle in which the access is issued.
    #[inline(always)]
    pub(super) fn issue(&mut self, plan: Option<&Plan>) -> u64 {
        let Some(plan) = plan else { return self.issue_unplanned(None) };
        let Some(planned) = self.place.next_planned(plan) else { return self.issue_unplanned(Some(plan)) };
        let Planned { making, address, is_complex, .. } = *planned;
        self.place.making = Some(making);
        let number = planned.instruction as usize;
        self.complete_up_to(plan, number);
        let operation = &plan.operations[number];
        let dispatched = match self.current.dispatched {
            Some(dispatched) => dispatched,
            None => self.dispatch(operation),
        };
        let mut ready = (dispatched + 1).max(self.execution.ready.of(address, &plan.sets));
        if is_complex {
            ready += u64::from(self.design.spec.complex_address);
        }
        if making.store {
            self.compute(plan, operation, dispatched);
        }
        let issued = self.execution.begin(making.unit, ready, 1);
        self.place.issue(issued);
        match self.speculation.is_on() && !making.store {
            true => self.speculation.issue(operation, address, plan, self.back.window.free()).min(issued),
            false => issued,
        }
    }

    /// Completes the instructions of the block before one, all of whose accesses have been made.
    #[inline(always)]
    fn complete_up_to(&mut self, plan: &Plan, number: usize) {
        while self.place.instruction < number {
            let operation = &plan.operations[self.place.instruction];
            match operation.plain as usize {
                _ if self.speculation.is_on() => {
                    let room = self.back.window.free();
                    self.complete_operation(plan, operation);
                    self.speculation.execute(operation, plan, room);
                }
                0 => self.complete_operation(plan, operation),
                plain => self.execute_plain(plan, number.min(self.place.instruction + plain)),
            }
        }
    }

    /// An access that no instruction is known to make: it waits for nothing.
    #[inline(never)]
    fn issue_unplanned(&mut self, plan: Option<&Plan>) -> u64 {
        if let Some(plan) = plan
            && let Some(operation) = plan.operations.get(self.place.instruction)
            && self.current.dispatched.is_some()
        {
            self.complete_operation(plan, operation);
        }
        self.place.making = None;
        let dispatched = self.take_dispatch(true, false);
        self.current = Current { dispatched: Some(dispatched), ..Current::default() };
        let issued = self.execution.units.take(Unit::LOAD, dispatched + 1, 1);
        self.place.issue(issued)
    }

    /// Issues a further part of the access that was issued last: it waits for another turn of the unit.
    pub(super) fn issue_part(&mut self) -> u64 {
        let unit = self.place.making.map_or(Unit::LOAD, |making| making.unit);
        let issued = self.execution.units.take(unit, self.place.issued, 1);
        self.place.issue(issued)
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
        let mut waited = cycles(reference.done_ps.saturating_sub(issued_ps));
        if !reference.write && self.speculation.is_on() {
            waited = waited.max(nearest);
            self.speculation.load(reference.done_ps.div_ceil(cycle_ps));
        }
        if reference.write {
            self.complete_store(reference.addr, translation, waited);
        } else {
            let queue = cycles(reference.queued_ps);
            self.complete_load(reference, translation, waited, queue);
        }
        if self.place.making.is_none() {
            let Current { loaded, stored, .. } = self.current;
            self.retire(loaded.max(stored));
            self.execution.forwarding.leave(self.back.retire.cycle());
        }
    }

    fn complete_store(&mut self, addr: u64, translation: u64, waited: u64) {
        let Place { issued, tlb, .. } = self.place;
        let data = self.current.computed.unwrap_or(issued);
        self.execution.forwarding.store(self.place.bytes_at(addr), data);
        let Current { stored, owned, line, waited: own, .. } = &mut self.current;
        *line = addr >> LINE_SHIFT;
        *stored = data.max(issued + translation + 1).max(*stored);
        *owned = (issued + waited).max(*owned);
        if translation > own.walk {
            (own.walk, own.tlb) = (translation, tlb.min(translation));
        }
    }

    fn complete_load(&mut self, reference: &Reference, translation: u64, waited: u64, queue: u64) {
        let Place { issued, tlb, .. } = self.place;
        let addr = reference.addr;
        let translated = issued + translation;
        let mut done = issued + waited;
        let mut miss = waited.saturating_sub(self.design.nearest + translation);
        match self.execution.forwarding.find(self.place.bytes_at(addr), translated) {
            None => {}
            Some(Found::Whole { ready, behind, is_same }) => {
                if behind == 0 {
                    self.back.hand_over();
                }
                let latency = self.forwarding_latency(behind, is_same);
                (done, miss) = (ready.max(translated) + latency, 0);
            }
            Some(Found::Part { left }) => (done, miss) = (left.max(translated) + FORWARDED_BY_CACHE, 0),
        }
        if done >= self.current.loaded {
            let level = reference.level.min(LEVELS - 1);
            self.current.loaded = done;
            let (tlb, queue) = (tlb.min(translation), queue.min(miss));
            self.current.waited = Waited { walk: translation, tlb, miss, queue, level };
        }
    }

    /// Returns the cycles that a load takes to get its data from a store, the one in front of so many others.
    #[inline]
    fn forwarding_latency(&mut self, behind: u64, is_same: bool) -> u64 {
        let LatenciesSpec { foreseen_forward, forward, vector_forward, .. } = self.design.spec.latencies;
        let Some(making) = self.place.making else { return forward.into() };
        let repeats = self.execution.forwarding.repeats(making.at, behind);
        match is_same && (repeats || making.on_stack) {
            _ if making.to_vector => vector_forward.into(),
            true if making.modifies => MODIFIED.max(foreseen_forward.into()),
            true => foreseen_forward.into(),
            false => forward.into(),
        }
    }

    /// Completes the next instruction of the block, whose accesses have been made.
    #[inline(always)]
    fn complete_operation(&mut self, plan: &Plan, operation: &Operation) {
        let dispatched = match self.current.dispatched {
            Some(dispatched) => dispatched,
            None => self.dispatch_without_access(operation),
        };
        let computed = self.compute(plan, operation, dispatched);
        let Current { stored, owned, line, .. } = self.current;
        let done = computed.max(stored);
        if stored > 0 {
            let drained = self.back.leave(line, self.back.retire.cycle().max(done).max(owned));
            self.back.stores.push(drained);
            self.execution.forwarding.leave(drained);
        }
        self.retire(done);
        self.place.done = computed;
        self.place.instruction += 1;
    }

    /// Apart from what most accesses take.
    #[inline(never)]
    fn dispatch_without_access(&mut self, operation: &Operation) -> u64 {
        self.dispatch(operation)
    }

    /// Dispatches an instruction.
    #[inline(always)]
    fn dispatch(&mut self, operation: &Operation) -> u64 {
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

    #[inline(always)]
    fn take_dispatch(&mut self, takes_slot: bool, stores: bool) -> u64 {
        let mut from = self.front.dispatch.cycle().max(self.back.window.free());
        if stores {
            let free = self.back.stores.free();
            self.front.stopped.stores += free.saturating_sub(from);
            from = from.max(free);
        }
        let from = self.front.begins(from);
        if !takes_slot {
            return from;
        }
        self.charges.slots.take();
        self.front.dispatch.take(from)
    }

    /// Returns when the result of an instruction, whose loads are done, is there.
    #[inline(always)]
    fn compute(&mut self, plan: &Plan, operation: &Operation, dispatched: u64) -> u64 {
        if let Some(computed) = self.current.computed {
            return computed;
        }
        let from = (dispatched + 1).max(self.current.loaded);
        let done = match operation.is_simple {
            true => {
                // On an in-order core, too, the operation behind a load waits for it, and others begin meanwhile.
                let is_held = self.execution.is_in_order && self.current.loaded == 0;
                self.execution.simple(operation, from, is_held)
            }
            false => self.compute_special(plan, operation, dispatched, from),
        };
        self.current.computed = Some(done);
        done
    }

    /// The same of an operation that is not simple.
    #[inline(never)]
    fn compute_special(&mut self, plan: &Plan, operation: &Operation, dispatched: u64, from: u64) -> u64 {
        let work = operation.work;
        let ready = self.execution.ready.of(operation.reads, &plan.sets);
        let mut start = from.max(ready);
        if work.is_serial {
            start = start.max(self.back.retire.cycle());
        }
        if let Some(unit) = work.unit {
            let has_begun = self.current.loaded > 0;
            start = match has_begun {
                true => self.execution.units.take(unit, start, work.holds),
                false => self.execution.begin(unit, start, work.holds),
            };
        }
        let done = if operation.is_zero { dispatched } else { start + u64::from(work.latency) };
        self.execution.ready.write(operation.writes, &plan.sets, done);
        if work.is_serial {
            self.front.redirect = self.front.redirect.max(done);
        }
        done
    }

    /// Retires the current instruction, and charges the time by which retirement advances.
    #[inline(always)]
    fn retire(&mut self, done: u64) {
        let before = self.back.retire.cycle();
        let retired = self.back.retire.take(done);
        // An in-order core holds an instruction back until it begins, and no longer.
        self.back.window.push(if self.design.spec.is_in_order { self.execution.begun } else { retired });
        self.current.dispatched = None;
        if self.current.waited.is_any() || self.front.stopped.is_any() {
            self.charge_what_waited(retired - before);
        } else {
            self.charges.compute(retired - before, self.design.width);
        }
    }

    /// Charges the time by which retirement advances, if it does, where something waited or had stopped.
    #[inline(never)]
    fn charge_what_waited(&mut self, advance: u64) {
        if advance > 0 {
            self.charge(advance, self.current.waited);
        }
    }

    fn charge(&mut self, advance: u64, waited: Waited) {
        let stopped = std::mem::take(&mut self.front.stopped);
        self.charges.charge(advance, stopped, waited, self.design.width);
    }
}
