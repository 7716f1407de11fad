//! The pipeline of one core.

use super::charges::{Charges, Waited};
use super::plan::{Operation, Plan, Planned};
use super::renaming::Results;
use super::scheduler::{Enters, Waits};
use super::speculation::{Speculation, Wrong};
use super::state::{Back, Current, Design, Execution, Front, Place, Repetition};
use super::units::{Unit, Work};

/// Bytes of a repeated string instruction that are executed together. If it stores, two times so many are dispatched in a cycle, and once so many leave
/// the store buffer: measured on Zen 4.
const REPEATED_BYTES: u32 = 32;
/// The cycles before the first of them, where the instruction stores: measured on Zen 4.
const REPEATING_BEGINS: u64 = 24;

/// The pipeline of one core.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) design: Design,
    pub(super) front: Front,
    pub(super) execution: Execution,
    pub(super) back: Back,
    pub(super) place: Place,
    pub(super) current: Current,
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
        self.place.repetition.goes_on = before.is_some_and(|before| before.last.is_repeated_by(plan.addr));
        if !self.place.repetition.goes_on {
            let slots = self.front.taken.fetch(plan);
            if let Some(before) = before {
                self.follow(before, plan, slots, done);
            }
            self.front.taken.pending = slots;
        }
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
                let (behind, dispatch) = (ended.behind(), front.dispatch);
                self.speculation.go_wrong(Wrong { behind, to, right: next.addr, dispatch, until: redirect });
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
        let &Planned { ref making, address, is_complex, .. } = planned;
        self.place.making = Some(*making);
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
        let issued = match self.current.joins {
            true => ready,
            false => self.execution.begin(making.unit, ready, 1),
        };
        self.current.issued = issued;
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
        let enters = Enters { operation: false, access: true };
        let dispatched = self.take_dispatch(1, Results::NONE, enters, Waits::Loads, false);
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

    /// Completes the next instruction of the block, whose accesses have been made.
    #[inline(always)]
    fn complete_operation(&mut self, plan: &Plan, operation: &Operation) {
        let dispatched = match self.current.dispatched {
            Some(dispatched) => dispatched,
            None => self.dispatch_without_access(operation),
        };
        let computed = self.compute(plan, operation, dispatched);
        let Current { issued, stored, mut owned, line, missed, .. } = self.current;
        if self.current.joins && missed.is_none() && !self.current.waited.is_any() {
            self.execution.forwarding.leave(self.back.drain.cycle());
            self.current.dispatched = None;
            return self.place.go_on(computed);
        }
        if operation.work.unit.is_none() && issued > 0 {
            let begins = if stored > 0 { issued.max(computed) } else { issued };
            self.execution.schedulers.take(operation.work.waits, dispatched, begins);
        }
        let done = computed.max(stored);
        if stored > 0 {
            if let Some(missed) = missed {
                owned = self.back.owned.there(missed, line, owned, self.back.drain.cycle());
            }
            let drained = self.back.leave(line, self.back.retire.cycle().max(done).max(owned));
            if operation.repeated_bytes > 0 {
                self.back.drain.fill(drained);
            }
            if missed.is_some() {
                self.back.owned.left(line, drained);
            }
            self.back.stores.push(drained);
            self.execution.forwarding.leave(drained);
        }
        self.retire(done);
        self.place.go_on(computed);
    }

    /// Apart from what most accesses take.
    #[inline(never)]
    fn dispatch_without_access(&mut self, operation: &Operation) -> u64 {
        self.dispatch(operation)
    }

    /// Dispatches an instruction.
    #[inline(always)]
    fn dispatch(&mut self, operation: &Operation) -> u64 {
        if operation.repeated_bytes > 0 {
            return self.dispatch_repetition(operation);
        }
        let dispatched = self.take_dispatch(
            operation.slots,
            operation.work.results,
            operation.work.enters,
            operation.work.waits,
            operation.stores,
        );
        self.current = Current { dispatched: Some(dispatched), ..Current::default() };
        dispatched
    }

    /// Dispatches a repetition of a string instruction, which may be executed together with the one before it.
    #[inline(never)]
    fn dispatch_repetition(&mut self, operation: &Operation) -> u64 {
        let bytes = u32::from(operation.repeated_bytes);
        let Repetition { goes_on, room } = &mut self.place.repetition;
        let joins = *goes_on && *room >= bytes;
        *room = if joins { *room } else { REPEATED_BYTES.max(bytes) } - bytes;
        let mut slots = u8::from(!joins);
        if operation.stores && !joins {
            slots = self.design.width.div_ceil(2) as u8;
            if !*goes_on {
                let begins = self.front.dispatch.cycle() + REPEATING_BEGINS;
                self.front.dispatch.begin(begins);
            }
        }
        let Work { enters, waits, results, .. } = operation.work;
        let stores = operation.stores && !joins;
        let dispatched = self.take_dispatch(slots, results, enters, waits, stores);
        let joins = joins && operation.stores;
        self.current = Current { dispatched: Some(dispatched), joins, ..Current::default() };
        dispatched
    }

    #[inline(always)]
    fn take_dispatch(
        &mut self,
        slots: u8,
        results: Results,
        enters: Enters,
        waits: Waits,
        stores: bool,
    ) -> u64 {
        let mut from = self.front.dispatch.cycle().max(self.back.window.free());
        from = from.max(self.back.renaming.take(results, self.back.retire.cycle()));
        if slots > 0 {
            from = self.execution.schedulers.free(waits, from);
        }
        if stores {
            let free = self.back.stores.free();
            self.front.stopped.stores += free.saturating_sub(from);
            from = from.max(free);
        }
        let from = self.front.begins(from);
        if slots == 0 {
            return from;
        }
        self.charges.slots.take(slots);
        let slot = self.front.dispatch.take_all(slots, from);
        let dispatched = self.execution.schedulers.enter(enters, waits, slot);
        self.front.entered(slot, dispatched);
        dispatched
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
                self.execution.simple(operation, dispatched, from, is_held)
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
            start = self.execution.begin_special(&work, unit, dispatched, (start, self.current.loaded > 0));
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
    pub(super) fn retire(&mut self, done: u64) {
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
