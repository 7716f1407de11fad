//! The instructions that the front end has taken for dispatch.

use super::decoded::Decoded;
use super::plan::Plan;
use super::state::Design;

/// Instructions that wait for dispatch at most: the micro-operation queue of Zen 2, as far as is known also that of Zen 3. AnandTech, "AMD Zen 2
/// Microarchitecture Analysis", 2019.
const QUEUE: u64 = 72;

/// The instructions that the front end has taken for dispatch, some slots in a cycle, of which one that is decoded already takes one.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// The cycle of the last one, and how many slots were taken in it.
    cycle: u64,
    count: u32,
    /// The most in a cycle.
    width: u32,
    /// Cycles by which the front end is ahead of dispatch at most.
    ahead: u64,
    /// The slots of the block that is under execution.
    pub(super) pending: u32,
    /// None if all instructions are decoded as fast as they are fetched.
    decoded: Option<Decoded>,
}

impl Taken {
    pub(super) fn new(design: &Design) -> Self {
        let width = u64::from(design.spec.fetch_width).max(design.width) as u32;
        let decoded = design.decoded.as_ref().map(|decoded| Decoded::new(decoded, width));
        Self { cycle: 0, count: 0, width, ahead: QUEUE / design.width, pending: 0, decoded }
    }

    /// Returns the slots that a block takes.
    #[inline(always)]
    pub(super) fn fetch(&mut self, plan: &Plan) -> u32 {
        match &mut self.decoded {
            Some(decoded) => decoded.look_up(plan),
            None => plan.dispatched,
        }
    }

    /// Returns the cycles by which the instructions of a block are there later because they are decoded.
    #[inline(always)]
    pub(super) fn late(&self, plan: &Plan, slots: u32) -> u64 {
        if slots == plan.dispatched { 0 } else { u64::from((slots - plan.dispatched) / self.width) }
    }

    /// Takes the instructions of the block that is under execution, the last of which has been dispatched in a cycle; returns the first
    /// cycle in which those behind it can be. A taken branch at the end ends the cycle, and so many more.
    #[inline(always)]
    pub(super) fn take(&mut self, dispatched: u64, bubble: Option<u64>) -> u64 {
        self.count += self.pending;
        while self.count > self.width {
            (self.cycle, self.count) = (self.cycle + 1, self.count - self.width);
        }
        if let Some(bubble) = bubble {
            (self.cycle, self.count) = (self.cycle + 1 + bubble, 0);
        }
        let least = dispatched.saturating_sub(self.ahead);
        if self.cycle < least {
            (self.cycle, self.count) = (least, 0);
        }
        self.cycle
    }

    /// Begins anew, at a cycle.
    #[inline]
    pub(super) fn begin(&mut self, cycle: u64) {
        (self.cycle, self.count) = (cycle, 0);
    }
}
