//! Where control goes: directions, return stack, targets of indirect branches, and the branches that the front end knows.

use pagewalk_code::Flow;

use super::buffer::{Buffer, Known};
use super::predictor::{Branch, Predictor};
use crate::spec::settings::TargetsSpec;

/// Return addresses that are kept; the oldest is lost. AMD, "Software Optimization Guide for the AMD Family 19h Processors".
const RETURNS: usize = 32;
/// Entries of the table of indirect targets, and of the one that also knows the way to the branch. Assumed.
const INDIRECT: usize = 1 << 11;

/// Valgrind loads a program itself below this address, and libraries and all else above it. Where Linux loads them, they are 2^46 bytes apart.
const IMAGE_END: u64 = 64 << 20;

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

    /// Returns whether the block at an address is a further repetition of it.
    pub(super) fn is_repeated_by(&self, next: u64) -> bool {
        self.flow == Flow::Repeat && next == self.at
    }

    /// Returns the way of a conditional branch that it did not take to the next block.
    pub(super) fn other_way(&self, next: u64) -> Option<u64> {
        match self.flow {
            Flow::Conditional { target } => Some(if next == target { self.behind } else { target }),
            _ => None,
        }
    }
}

/// Where an indirect branch goes whose target does not stand in its entry of the branch target buffer, so that the tables of indirect targets have to
/// give it.
#[derive(Clone, Copy, Debug)]
struct Elsewhere {
    /// Cycles in which nothing is fetched behind it.
    bubble: u64,
    /// An entry has so many bits of a target, and those above are the branch's own.
    reach: u32,
}

impl Elsewhere {
    fn new(spec: Option<&TargetsSpec>) -> Self {
        spec.map_or(Self { bubble: 0, reach: u64::BITS }, |spec| Self {
            bubble: spec.elsewhere.into(),
            reach: spec.reach,
        })
    }

    /// Returns the cycles behind a branch that went to one target the last time, and now goes to another, or to the same.
    fn bubble(self, branch: u64, last: u64, target: u64) -> u64 {
        if last == target && self.reaches(branch, target) { 0 } else { self.bubble }
    }

    fn reaches(self, branch: u64, target: u64) -> bool {
        let Some(differ) = (branch ^ target).checked_shr(self.reach) else { return true };
        differ == 0 && (branch < IMAGE_END) == (target < IMAGE_END)
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
    elsewhere: Elsewhere,
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
            elsewhere: Elsewhere::new(spec),
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
        let (right, elsewhere) = match flow {
            Flow::Conditional { .. } => (self.directions.branch(&last.branch, taken), 0),
            Flow::FallThrough | Flow::Jump { .. } | Flow::Repeat | Flow::Stop => (true, 0),
            // A handler of a signal.
            Flow::Next => (!taken, 0),
            Flow::Call { .. } => {
                self.push(behind);
                (true, 0)
            }
            Flow::IndirectCall => {
                self.push(behind);
                self.indirect(branch, next)
            }
            Flow::IndirectJump => self.indirect(branch, next),
            Flow::Return => (self.pop() == next, 0),
        };
        if !taken || flow == Flow::Repeat {
            return Fetched { mispredicted: !right, bubble: 0, taken: false };
        }
        let known = match &mut self.buffer {
            Some(buffer) => buffer.look_up(branch, matches!(flow, Flow::Conditional { .. })),
            None => Known::Place { bubble: 0 },
        };
        let more = match flow {
            Flow::Conditional { .. } | Flow::Jump { .. } | Flow::IndirectJump => 0,
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
        Fetched { mispredicted: !right || !is_foreseen, bubble: bubble + more + elsewhere, taken: true }
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

    /// Predicts and learns the target of an indirect branch; returns whether the prediction was right, and for how many cycles nothing is fetched behind
    /// it.
    fn indirect(&mut self, branch: u64, target: u64) -> (bool, u64) {
        let hash = |value: u64| (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize % INDIRECT;
        let (alone, on_path) = (hash(branch), hash(branch ^ self.path.rotate_left(20)));
        let [by_address, by_path] = &mut self.indirect;
        let predicted = match by_path[on_path] {
            (known, target) if known == branch => target,
            _ => by_address[alone].1,
        };
        let bubble = self.elsewhere.bubble(branch, by_address[alone].1, target);
        by_address[alone] = (branch, target);
        by_path[on_path] = (branch, target);
        self.path = self.path << 7 ^ target >> 2;
        (predicted == target, bubble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::settings::Pairs;

    fn targets() -> Targets {
        Targets::new(Some(&TargetsSpec {
            entries: 64,
            ways: 4,
            pairs: Pairs::None,
            unknown: 14,
            elsewhere: 3,
            reach: 37,
            far: None,
        }))
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
    fn an_indirect_branch_to_another_target_or_out_of_reach_costs_a_bubble() {
        let mut targets = targets();
        const IN_PROGRAM: u64 = 0x10_8000;
        const ELSEWHERE: u64 = 0x7f00_0010_8000;
        let mut last_bubble = |flow, branch, way: &[u64]| {
            let last = Last::new(flow, branch, branch + 2);
            let fetched: Vec<_> =
                (0..300).map(|round| targets.follow(&last, way[round % way.len()])).collect();
            assert!(!fetched[299].mispredicted);
            fetched[299].bubble
        };
        for from in [IN_PROGRAM, ELSEWHERE] {
            let [near, other] = [from + 0x1000, from + 0x2000];
            assert_eq!(last_bubble(Flow::IndirectJump, from, &[near]), 0);
            assert_eq!(last_bubble(Flow::IndirectJump, from, &[near, other]), 3);
            assert_eq!(last_bubble(Flow::IndirectCall, from, &[near]), 1, "a call costs one itself");
            assert_eq!(last_bubble(Flow::IndirectCall, from, &[from ^ 1 << 37]), 4);
        }
        assert_eq!(last_bubble(Flow::IndirectJump, ELSEWHERE, &[ELSEWHERE ^ 1 << 36]), 0);
        assert_eq!(last_bubble(Flow::IndirectJump, IN_PROGRAM, &[0x484_0000]), 3, "a library under Valgrind");
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
