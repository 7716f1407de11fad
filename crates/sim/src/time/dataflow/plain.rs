//! Instructions that make no access and take what most take: the shortest way through the pipeline.
//!
//! Most instructions are of this kind.

use super::charges::Waited;
use super::pipeline::Pipeline;
use super::plan::Plan;

impl Pipeline {
    /// Executes the next instructions of a block, all of which are plain, up to one.
    #[inline(always)]
    pub(super) fn execute_plain(&mut self, plan: &Plan, end: usize) {
        if self.front.is_free() && !self.design.spec.is_in_order {
            return self.execute_run::<false, true>(plan, end);
        }
        self.execute_plain_otherwise(plan, end);
    }

    /// The same on an in-order core, or where the front end has stopped.
    #[inline(never)]
    fn execute_plain_otherwise(&mut self, plan: &Plan, end: usize) {
        match self.design.spec.is_in_order {
            true => self.execute_run::<true, false>(plan, end),
            // Behind the next one, the front end usually goes on.
            false => self.execute_run::<false, false>(plan, self.place.instruction + 1),
        }
    }

    /// `IS_FREE`: nothing but the slots of dispatch and the window holds an instruction back.
    #[inline(always)]
    fn execute_run<const IS_IN_ORDER: bool, const IS_FREE: bool>(&mut self, plan: &Plan, end: usize) {
        let Self { design, front, execution, back, place, charges, .. } = self;
        let width = design.width;
        let (mut done, mut before) = (place.done, back.retire.cycle());
        let mut window = back.window.turn();
        for operation in &plan.operations[place.instruction..end] {
            let mut dispatched = window.free().max(back.renaming.take(operation.work.results, before));
            if !IS_FREE {
                dispatched = front.begins(dispatched.max(front.dispatch.cycle()));
            }
            if operation.slots > 0 {
                if execution.schedulers.is_full(operation.work.waits) {
                    dispatched = execution
                        .schedulers
                        .free(operation.work.waits, dispatched.max(front.dispatch.cycle()));
                }
                charges.slots.take(operation.slots);
                let slot = front.dispatch.take_all(operation.slots, dispatched);
                dispatched = execution.schedulers.enter(operation.work.enters, operation.work.waits, slot);
                front.entered(slot, dispatched);
            } else {
                dispatched = dispatched.max(front.dispatch.cycle());
            }
            done = execution.simple(operation, dispatched, dispatched + 1, IS_IN_ORDER);
            let retired = back.retire.take(done);
            // An in-order core holds an instruction back until it begins, and no longer.
            window.push(if IS_IN_ORDER { execution.begun } else { retired });
            if !IS_FREE && retired > before && front.stopped.is_any() {
                let stopped = std::mem::take(&mut front.stopped);
                charges.charge(retired - before, stopped, Waited::default(), width);
            } else {
                charges.compute(retired - before, width);
            }
            before = retired;
        }
        (place.instruction, place.done) = (end, done);
    }
}
