//! Where control goes: directions, return stack, targets of indirect branches, and the branches that the front end knows.

use pagewalk_code::Flow;

use super::buffer::{Buffer, Known};
use super::predictor::{Branch, Predictor};
use crate::spec::settings::TargetsSpec;

/// Return addresses that are kept; the oldest is lost. AMD, "Software Optimization Guide for the AMD Family 19h Processors".
const RETURNS: usize = 32;
/// Entries of the table of indirect targets, and of the one that also knows the way to the branch. Assumed.
const INDIRECT: usize = 1 << 11;

/// What a branch costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fetched {
    /// Whether the core went the wrong way.
    pub(super) mispredicted: bool,
    /// Cycles in which nothing is fetched, where the way was right.
    pub(super) bubble: u64,
    /// Whether the branch was taken.
    pub(super) taken: bool,
}

/// The last instruction of a block.
#[derive(Clone, Debug)]
pub(super) struct Last {
    flow: Flow,
    at: u64,
    /// The address behind it.
    behind: u64,
    branch: Branch,
}

impl Last {
    pub(super) fn new(flow: Flow, at: u64, behind: u64) -> Self {
        Self { flow, at, behind, branch: Branch::new(at) }
    }

    /// Returns the way of a conditional branch that it did not take to the next block.
    pub(super) fn other_way(&self, next: u64) -> Option<u64> {
        match self.flow {
            Flow::Conditional { target } => Some(if next == target { self.behind } else { target }),
            _ => None,
        }
    }
}

/// The front end's knowledge of where control goes.
#[derive(Clone, Debug)]
pub(super) struct Targets {
    directions: Predictor,
    returns: [u64; RETURNS],
    top: usize,
    /// By address, and by address and the targets before it: a branch and its target.
    indirect: [Box<[(u64, u64)]>; 2],
    path: u64,
    /// None if all branches are known.
    buffer: Option<Buffer>,
}

impl Targets {
    pub(super) fn new(spec: Option<&TargetsSpec>) -> Self {
        let table = || vec![(0, 0); INDIRECT].into_boxed_slice();
        Self {
            directions: Predictor::new(),
            returns: [0; RETURNS],
            top: 0,
            indirect: [table(), table()],
            path: 0,
            buffer: spec.map(Buffer::new),
        }
    }

    /// Follows the last instruction of a block to the next one.
    #[inline(always)]
    pub(super) fn follow(&mut self, last: &Last, next: u64) -> Fetched {
        let &Last { flow, at: branch, behind, .. } = last;
        let taken = match flow {
            Flow::FallThrough => false,
            Flow::Conditional { target } => next == target,
            _ => next != behind,
        };
        let right = match flow {
            Flow::Conditional { .. } => self.directions.branch(&last.branch, taken),
            Flow::FallThrough | Flow::Jump { .. } | Flow::Repeat | Flow::Stop => true,
            // A handler of a signal.
            Flow::Next => !taken,
            Flow::Call { .. } => {
                self.push(behind);
                true
            }
            Flow::IndirectCall => {
                self.push(behind);
                self.indirect(branch, next)
            }
            Flow::IndirectJump => self.indirect(branch, next),
            Flow::Return => self.pop() == next,
        };
        if !taken || flow == Flow::Repeat {
            return Fetched { mispredicted: !right, bubble: 0, taken: false };
        }
        let known = match &mut self.buffer {
            Some(buffer) => buffer.look_up(branch, matches!(flow, Flow::Conditional { .. })),
            None => Known::Place { bubble: 0 },
        };
        let more = match flow {
            Flow::Conditional { .. } | Flow::Jump { .. } => 0,
            _ => 1,
        };
        let (is_foreseen, bubble) = match (known, flow) {
            (Known::Place { bubble }, _) => (true, bubble),
            // The core does not know that there is a branch until it is executed.
            (Known::Nothing { .. }, Flow::Conditional { .. } | Flow::IndirectJump | Flow::IndirectCall) => {
                (false, 0)
            }
            (Known::Nothing { bubble }, _) => (true, bubble),
        };
        Fetched { mispredicted: !right || !is_foreseen, bubble: bubble + more, taken: true }
    }

    fn push(&mut self, address: u64) {
        self.top = (self.top + 1) % RETURNS;
        self.returns[self.top] = address;
    }

    fn pop(&mut self) -> u64 {
        let address = self.returns[self.top];
        self.top = (self.top + RETURNS - 1) % RETURNS;
        address
    }

    /// Predicts and learns the target of an indirect branch; returns whether the prediction was right.
    fn indirect(&mut self, branch: u64, target: u64) -> bool {
        let hash = |value: u64| (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize % INDIRECT;
        let (alone, on_path) = (hash(branch), hash(branch ^ self.path.rotate_left(20)));
        let [by_address, by_path] = &mut self.indirect;
        let predicted = match by_path[on_path] {
            (known, target) if known == branch => target,
            _ => by_address[alone].1,
        };
        by_address[alone] = (branch, target);
        by_path[on_path] = (branch, target);
        self.path = self.path << 7 ^ target >> 2;
        predicted == target
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::settings::Pairs;

    fn targets() -> Targets {
        Targets::new(Some(&TargetsSpec { entries: 64, ways: 4, pairs: Pairs::None, unknown: 14, far: None }))
    }

    #[test]
    fn returns_go_where_their_calls_were() {
        let mut targets = targets();
        for round in 0..3 {
            for call in [0x1000, 0x2000] {
                let flow = Flow::Call { target: 0x9000 };
                assert!(!targets.follow(&Last::new(flow, call, call + 5), 0x9000).mispredicted);
                let fetched = targets.follow(&Last::new(Flow::Return, 0x9010, 0x9011), call + 5);
                assert!(!fetched.mispredicted && fetched.taken, "round {round}");
            }
        }
        assert!(targets.follow(&Last::new(Flow::Return, 0x9010, 0x9011), 0x5000).mispredicted);
    }

    #[test]
    fn indirect_jumps_in_turn_are_learnt_and_a_new_branch_costs_a_bubble() {
        let mut targets = targets();
        let mut wrong = 0;
        for round in 0..100_u64 {
            let target = 0x3000 + round % 3 * 0x100;
            let jump = Last::new(Flow::IndirectJump, 0x1000, 0x1002);
            wrong += u64::from(targets.follow(&jump, target).mispredicted);
        }
        assert!(wrong < 20, "{wrong}");
    }

    #[test]
    fn a_branch_that_is_not_known_costs_a_bubble_or_is_mispredicted() {
        let mut targets = targets();
        let jump = Last::new(Flow::Jump { target: 0x4000 }, 0x2000, 0x2005);
        let call = Last::new(Flow::Call { target: 0x4000 }, 0x2010, 0x2015);
        for (last, first, then) in [(jump, 14, 0), (call, 15, 1)] {
            let bubbles = [0; 3].map(|_| targets.follow(&last, 0x4000).bubble);
            assert_eq!(bubbles, [first, then, then]);
        }
        let branch = Last::new(Flow::Conditional { target: 0x4000 }, 0x2020, 0x2022);
        let fetched = [0x2022, 0x4000].map(|next| targets.follow(&branch, next));
        assert_eq!(fetched.map(|fetched| (fetched.taken, fetched.bubble)), [(false, 0), (true, 0)]);
        assert!(fetched[1].mispredicted);
        let learnt = (0..9).map(|_| targets.follow(&branch, 0x4000).mispredicted).last();
        assert_eq!(learnt, Some(false));
    }
}
