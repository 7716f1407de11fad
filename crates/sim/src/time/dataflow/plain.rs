//! Instructions that make no access and take what most take: the shortest way through the pipeline.
//!
//! Most instructions are of this kind. What is needed of the pipeline for each is kept in a few local variables, not in memory.

use super::charges::Waited;
use super::pipeline::Pipeline;
use super::plan::Plan;

impl Pipeline {
    /// Executes the next instructions of a block, all of which are plain, up to one.
    #[inline]
    pub(super) fn execute_plain(&mut self, plan: &Plan, end: usize) {
        match self.design.spec.is_in_order {
            true => self.execute_run::<true>(plan, end),
            false => self.execute_run::<false>(plan, end),
        }
    }

    fn execute_run<const IS_IN_ORDER: bool>(&mut self, plan: &Plan, end: usize) {
        let Self { design, front, execution, back, place, charges, .. } = self;
        let (width, retire_width) = (design.width, design.spec.retire_width);
        let (mut dispatch, mut retire, mut begun) = (front.dispatch, back.retire, execution.begun);
        let (mut done, mut before, mut slots) = (place.done, retire.cycle(), 0);
        let (begins, mut units) = (front.redirect.max(front.lines.there), execution.units.by_cycle());
        let mut window = back.window.turn();
        for operation in &plan.operations[place.instruction..end] {
            let mut dispatched = dispatch.cycle().max(window.free());
            if begins > dispatched {
                dispatched = front.begins(dispatched);
            }
            if operation.takes_slot {
                slots += 1;
                dispatched = dispatch.take(dispatched, width);
            }
            let mut start = (dispatched + 1).max(execution.ready.of_few(operation.reads));
            if let Some(unit) = operation.work.unit {
                let from = if IS_IN_ORDER { start.max(begun) } else { start };
                start = units.take(unit, from);
                begun = start;
            }
            done = start + u64::from(operation.work.latency);
            execution.ready.write_few(operation.writes, done);
            let retired = retire.take(done, retire_width);
            // An in-order core holds an instruction back until it begins, and no longer.
            window.push(if IS_IN_ORDER { begun } else { retired });
            if retired > before {
                charges.dispatched(std::mem::take(&mut slots));
                if front.stopped.is_any() {
                    let stopped = std::mem::take(&mut front.stopped);
                    charges.charge(retired - before, stopped, Waited::default(), width);
                } else {
                    charges.compute(retired - before, width);
                }
                before = retired;
            }
        }
        charges.dispatched(slots);
        (front.dispatch, back.retire, execution.begun) = (dispatch, retire, begun);
        (place.instruction, place.done) = (end, done);
    }
}
