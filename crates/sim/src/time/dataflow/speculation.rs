//! What a core does on a wrong way that comes back to the right one.
//!
//! A branch that waits for memory and was predicted wrongly sends the core a wrong way until it is done. Often that way soon comes
//! to instructions of the right way, too: behind a condition, or at the next turn of a loop. From there on the core executes what it will
//! execute again, and asks for the lines of all loads whose addresses do not depend on what only one of both ways does. So its misses
//! overlap, as if the branch had been foreseen.
//!
//! A source gives the right way only. The wrong one is gone along in the blocks that are known, from each to the one that followed it
//! last. When the right way comes to an instruction of the wrong one, both are together. Registers that either has written before are
//! unknown from then on; the others, and what is computed of them, have the times of the wrong way. Eyerman et al., "Simulating
//! Wrong-Path Instructions in Decoupled Functional-First Simulation", ISPASS 2023, find addresses of wrong ways so.
//!
//! Left out: lines that only the wrong way asks for, units and the store buffer, and data that one way stores and the other loads.

use arrayvec::ArrayVec;
use rustc_hash::FxHashMap;

use super::order::InOrder;
use super::plan::{Operation, Plan};
use super::ready::{Names, Ready};

/// The least cycles for which a branch leads astray that are looked at: a hit in the second cache is no loss.
const LONG: u64 = 64;
/// Blocks of a wrong way that are gone along, and blocks of the right way in which it may come back.
const BLOCKS: usize = 8;
/// The time of a value that the wrong way does not have.
const UNKNOWN: u64 = u64::MAX / 4;

/// The known blocks: by number, and numbers by address.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    plans: Vec<Option<Box<Plan>>>,
    by_address: FxHashMap<u64, usize>,
    /// By number, the address of the block that followed last.
    next: Vec<u64>,
}

impl Blocks {
    /// Takes the plan of a block with this number; those of a number out of order are left out.
    pub(super) fn take(&mut self, number: usize, plan: Option<Box<Plan>>) {
        if number > self.plans.len() {
            return;
        }
        if let Some(plan) = &plan {
            self.by_address.insert(plan.addr, number);
        }
        match self.plans.get_mut(number) {
            Some(known) => *known = plan,
            None => {
                self.plans.push(plan);
                self.next.push(0);
            }
        }
    }

    /// Returns the plan of a block, if it is known.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Plan> {
        self.plans.get(number).and_then(Option::as_deref)
    }

    /// Notes which block follows one.
    #[inline]
    pub(super) fn follow(&mut self, number: usize, next: u64) {
        if let Some(last) = self.next.get_mut(number) {
            *last = next;
        }
    }

    /// Returns the numbers of the blocks that a core comes to from a branch on, until it is at the branch again: behind that, another turn of a
    /// loop would be taken for this one. Of a branch that closes a loop, that goes for the whole loop; and a core that wrongly stays in the loop
    /// leaves it at the branch if it did so last.
    fn way(&self, branch: &Wrong) -> ArrayVec<usize, BLOCKS> {
        let (mut way, mut address) = (ArrayVec::new(), branch.to);
        let loop_begins = branch.to.min(branch.right);
        let mut stays = branch.to < branch.behind;
        while let Some(&number) = self.by_address.get(&address)
            && let Some(plan) = self.get(number).filter(|plan| plan.addr == address)
        {
            let ends_with_branch = plan.behind() == branch.behind;
            let is_of_loop = plan.addr < branch.behind && loop_begins < plan.behind();
            let leaves = stays && ends_with_branch && self.next[number] == branch.right;
            let is_another_turn = !leaves && (ends_with_branch || (is_of_loop && !stays));
            if is_another_turn || way.try_push(number).is_err() {
                break;
            }
            stays &= !leaves;
            address = self.next[number];
        }
        way
    }
}

/// A branch that was predicted wrongly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrong {
    /// The address behind it.
    pub(super) behind: u64,
    /// Where the core goes, and where it should.
    pub(super) to: u64,
    pub(super) right: u64,
    /// The slots of dispatch up to the branch.
    pub(super) dispatch: InOrder,
    /// When the core comes back.
    pub(super) until: u64,
}

/// What a core does on wrong ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Speculation {
    /// The branch at which it has just gone wrong.
    wrong: Option<Wrong>,
    way: Option<Box<WrongWay>>,
}

/// A wrong way, and the instruction under execution there.
#[derive(Clone, Debug)]
struct WrongWay {
    until: u64,
    dispatch: InOrder,
    ready: Ready,
    /// Its blocks, while the right way has not come to any of them; it may do so in as many.
    apart: Option<ArrayVec<usize, BLOCKS>>,
    blocks_left: usize,
    /// Instructions of the block that only the right way comes to.
    skipped: usize,
    /// When the instruction was dispatched, when its last access asked for its line, and when the last of its loads was there.
    dispatched: Option<u64>,
    asked: Option<u64>,
    loaded: u64,
}

impl Speculation {
    /// Returns whether there is a wrong way, or may be one.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.way.is_some() || self.wrong.is_some()
    }

    /// Goes wrong at a branch, before the block that the right way begins then.
    pub(super) fn go_wrong(&mut self, wrong: Wrong) {
        self.wrong = Some(wrong);
    }

    /// The right way comes to a block, if it is known; `ready` are the values of registers there.
    #[inline(never)]
    pub(super) fn arrive(&mut self, block: Option<&Plan>, ready: &Ready, blocks: &Blocks) {
        if let Some(wrong) = self.wrong.take() {
            match &mut self.way {
                // On a wrong way, the core goes wrong at the same branches.
                Some(way) => way.part(&wrong, blocks),
                None => self.way = WrongWay::new(&wrong, ready, blocks),
            }
        }
        let goes_on = |way: &mut Box<WrongWay>| block.is_some_and(|block| way.arrive(block, blocks));
        if !self.way.as_mut().is_some_and(goes_on) {
            self.way = None;
        }
    }

    /// Issues a load whose address needs some registers; returns when it asks for its line on the wrong way, if it does there, and the end of time
    /// otherwise. There is room in the window from a time on.
    pub(super) fn issue(&mut self, operation: &Operation, address: Names, plan: &Plan, room: u64) -> u64 {
        let asked = self.way.as_mut().and_then(|way| way.issue(operation, address, plan, room));
        asked.unwrap_or(u64::MAX)
    }

    /// Notes when the load that was issued last is done.
    pub(super) fn load(&mut self, done: u64) {
        if let Some(way) = &mut self.way {
            let done = if way.asked.take().is_some() { done } else { UNKNOWN };
            way.loaded = way.loaded.max(done);
        }
    }

    /// Executes an instruction, all of whose loads have been made.
    #[inline(never)]
    pub(super) fn execute(&mut self, operation: &Operation, plan: &Plan, room: u64) {
        if !self.way.as_mut().is_some_and(|way| way.execute(operation, plan, room)) {
            self.way = None;
        }
    }
}

impl WrongWay {
    /// Begins a wrong way, if it is known and long enough; `ready` are the values before it.
    fn new(wrong: &Wrong, ready: &Ready, blocks: &Blocks) -> Option<Box<Self>> {
        let &Wrong { dispatch, until, .. } = wrong;
        if until <= dispatch.cycle() + LONG {
            return None;
        }
        let mut begun = Box::new(Self {
            until,
            dispatch,
            ready: ready.clone(),
            apart: None,
            blocks_left: 0,
            skipped: 0,
            dispatched: None,
            asked: None,
            loaded: 0,
        });
        begun.part(wrong, blocks);
        Some(begun)
    }

    /// Goes another way than the right one, unless it already does.
    fn part(&mut self, branch: &Wrong, blocks: &Blocks) {
        if self.apart.is_none() {
            (self.apart, self.blocks_left) = (Some(blocks.way(branch)), BLOCKS);
        }
    }

    /// Returns whether both ways are together.
    #[inline]
    fn is_together(&self) -> bool {
        self.apart.is_none() && self.skipped == 0
    }

    /// The right way comes to a block; returns whether the wrong one has come to it, or still can.
    fn arrive(&mut self, block: &Plan, blocks: &Blocks) -> bool {
        // An instruction that was cut off is none of either.
        (self.dispatched, self.asked, self.loaded, self.skipped) = (None, None, 0, 0);
        let Some(way) = self.apart.take() else { return true };
        let plans = || way.iter().filter_map(|number| blocks.get(*number));
        for (place, plan) in plans().enumerate() {
            // The blocks of both ways may begin at different instructions.
            let Some((skipped, joined)) = block.meets(plan) else { continue };
            for before in plans().take(place) {
                self.pass(before, before.operations.len());
            }
            self.pass(plan, joined);
            self.skipped = skipped;
            return true;
        }
        self.forget(block, block.operations.len());
        self.blocks_left -= 1;
        let goes_on = self.blocks_left > 0 && !way.is_empty();
        self.apart = Some(way);
        goes_on
    }

    /// Passes the first instructions of a block that only the wrong way comes to.
    fn pass(&mut self, plan: &Plan, operations: usize) {
        for operation in plan.operations[..operations].iter().filter(|operation| operation.slots > 0) {
            self.dispatch(operation, 0);
            self.dispatched = None;
        }
        self.forget(plan, operations);
    }

    /// Forgets what the first instructions of a block write, which only one way comes to.
    fn forget(&mut self, plan: &Plan, operations: usize) {
        for operation in &plan.operations[..operations] {
            self.ready.write(operation.writes, &plan.sets, UNKNOWN);
        }
    }

    /// Dispatches the instruction under execution, for which there is room in the window from a time on; returns when.
    fn dispatch(&mut self, operation: &Operation, room: u64) -> u64 {
        let dispatched = self.dispatched.unwrap_or_else(|| match operation.slots {
            0 => self.dispatch.cycle().max(room),
            slots => self.dispatch.take_all(slots, room),
        });
        self.dispatched = Some(dispatched);
        dispatched
    }

    fn issue(&mut self, operation: &Operation, address: Names, plan: &Plan, room: u64) -> Option<u64> {
        if !self.is_together() {
            return None;
        }
        let issued = (self.dispatch(operation, room) + 1).max(self.ready.of(address, &plan.sets));
        self.asked = (issued < self.until).then_some(issued);
        self.asked
    }

    /// Executes an instruction; returns whether the core is still on the wrong way.
    fn execute(&mut self, operation: &Operation, plan: &Plan, room: u64) -> bool {
        if self.apart.is_some() {
            return true;
        }
        if self.skipped > 0 {
            self.ready.write(operation.writes, &plan.sets, UNKNOWN);
            self.skipped -= 1;
            return true;
        }
        let dispatched = self.dispatch(operation, room);
        let start = (dispatched + 1).max(self.loaded).max(self.ready.of(operation.reads, &plan.sets));
        let done = if operation.is_zero { dispatched } else { start + u64::from(operation.work.latency) };
        self.ready.write(operation.writes, &plan.sets, done.min(UNKNOWN));
        (self.dispatched, self.asked, self.loaded) = (None, None, 0);
        dispatched < self.until
    }
}
