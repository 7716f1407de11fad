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
        if self.front.is_free() && !self.front.stopped.is_any() && !self.design.spec.is_in_order {
            return self.execute_run::<Free>(plan, end);
        }
        self.execute_plain_otherwise(plan, end);
    }

    /// The same on an in-order core, or where the front end stops or has stopped.
    #[inline(never)]
    fn execute_plain_otherwise(&mut self, plan: &Plan, end: usize) {
        if self.design.spec.is_in_order {
            self.execute_run::<InOrder>(plan, end);
        } else if self.front.is_free() {
            self.execute_run::<Stopped>(plan, end);
        } else {
            // Behind the next one, the front end goes on.
            self.execute_run::<Stopping>(plan, self.place.instruction + 1);
        }
    }

    #[inline(always)]
    fn execute_run<R: Run>(&mut self, plan: &Plan, end: usize) {
        let Self { design, front, execution, back, place, charges, .. } = self;
        let width = design.width;
        let (mut done, mut before) = (place.done, back.retire.cycle());
        let mut window = back.window.turn();
        for operation in &plan.operations[place.instruction..end] {
            let mut dispatched = window.free();
            if R::STOPS {
                dispatched = front.begins(dispatched.max(front.dispatch.cycle()));
            }
            if operation.takes_slot {
                charges.slots.take();
                dispatched = front.dispatch.take(dispatched);
            } else {
                dispatched = dispatched.max(front.dispatch.cycle());
            }
            done = execution.simple(operation, dispatched + 1, R::IS_IN_ORDER);
            let retired = back.retire.take(done);
            // An in-order core holds an instruction back until it begins, and no longer.
            window.push(if R::IS_IN_ORDER { execution.begun } else { retired });
            if R::HAS_STOPPED && retired > before && front.stopped.is_any() {
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

/// What a run of plain instructions has to mind.
trait Run {
    /// Instructions begin in order.
    const IS_IN_ORDER: bool = false;
    /// More than the slots of dispatch and the window may hold an instruction back.
    const STOPS: bool = false;
    /// Dispatch had stopped, for which nothing has been charged yet.
    const HAS_STOPPED: bool = Self::STOPS;
}

/// On an out-of-order core that goes on: nothing.
struct Free;
/// Dispatch had stopped, and goes on.
struct Stopped;
/// Dispatch stops.
struct Stopping;
/// An in-order core.
struct InOrder;

impl Run for Free {}

impl Run for Stopped {
    const HAS_STOPPED: bool = true;
}

impl Run for Stopping {
    const STOPS: bool = true;
}

impl Run for InOrder {
    const IS_IN_ORDER: bool = true;
    const STOPS: bool = true;
}
