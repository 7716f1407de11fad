//! A job at work: its accesses, its instructions, and the stack of the thread that runs it.

use pagewalk_trace::{Access, Event};
use pagewalk_vm::addr::VirtAddr;

use super::sites;
use crate::code::Site;
use crate::emit::{Emitter, Stop};
use crate::random::SplitMix64;
use crate::space::AddressSpace;

/// A thread's stack, as server programs with very many threads have it.
pub(crate) const STACK_BYTES: u64 = 16 << 10;
/// What a job uses of it: the frames of a few functions (assumed).
const LINES: u64 = 24;
const LINE_BYTES: u64 = 64;
/// Arguments and registers that a job stores when it is entered: two arguments, a return address, and the six registers
/// that a function of the System V calling convention must keep.
pub(super) const ENTRY_STORES: u64 = 9;
/// Instructions between two accesses to the stack (assumed), and how many such accesses a job has at most, beside those on
/// entry: longer jobs touch it less often.
const STACK_INSTRUCTIONS: u64 = 60;
const MOST_STACK_ACCESSES: u64 = 100;

/// Instructions of a copy of a few words (assumed), which moves 16 bytes at a time.
const COPY_INSTRUCTIONS: u64 = 10;
const COPY_BYTES: u64 = 16;

/// The stack that every job finds at the same addresses.
pub(super) struct ThreadStack {
    /// The lowest of the lines that jobs use: those at the upper end.
    lines: VirtAddr,
}

impl ThreadStack {
    /// Maps it and announces it.
    pub(super) fn new(space: &mut AddressSpace, out: &mut Emitter<'_>) -> Self {
        let range = space.map(STACK_BYTES, out);
        out.mark(Event::ThreadStack(range));
        Self { lines: VirtAddr(range.end.0 - LINES * LINE_BYTES) }
    }
}

/// What the jobs of a phase have in common.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) work: u64,
    pub(super) is_thin: bool,
}

/// What a server does for one client.
///
/// Values that do not fit into registers are stored on the stack and loaded again a little later; `compute` does that
/// at even distances, over all the lines in turn.
pub(crate) struct Job<'a, 'b> {
    /// How many jobs came before.
    pub(crate) number: u64,
    /// Random numbers of this job's own.
    pub(crate) random: SplitMix64,
    out: &'a mut Emitter<'b>,
    stack: &'a ThreadStack,
    /// Instructions beside the data structure's own: all, and those yet to come.
    work: u64,
    work_left: u64,
    /// Instructions between two accesses to the stack, and those since the last one.
    interval: u64,
    since: u64,
    stack_accesses: u64,
    /// Instructions that are executed, and not counted yet.
    ahead: u64,
}

impl<'a, 'b> Job<'a, 'b> {
    /// Enters job `number` of a stream. If it is thin, it does not touch the stack.
    #[inline]
    pub(super) fn begin(
        number: u64,
        plan: Plan,
        arrival_ps: Option<u64>,
        stack: &'a ThreadStack,
        out: &'a mut Emitter<'b>,
    ) -> Result<Self, Stop> {
        out.begin_job(arrival_ps);
        if !plan.is_thin {
            out.block(&sites::ENTER)?;
            // From the upper end downwards, as a stack grows.
            let top = stack.lines.0 + LINES * LINE_BYTES;
            (1..=ENTRY_STORES).try_for_each(|word| out.store(VirtAddr(top - 8 * word), 8))?;
        }
        Ok(Self {
            number,
            random: random_of(plan.seed, number),
            out,
            stack,
            work: plan.work,
            work_left: plan.work,
            interval: if plan.is_thin { u64::MAX } else { interval(plan.work) },
            since: 0,
            stack_accesses: 0,
            ahead: 0,
        })
    }

    /// Does what is left of the work beside, and leaves the job.
    #[inline]
    pub(super) fn end(mut self) -> Result<(), Stop> {
        self.compute(self.work_left)?;
        self.out.end_job();
        Ok(())
    }

    /// A load of `bytes` at `addr`, near where the job is.
    #[inline(always)]
    pub(crate) fn load(&mut self, addr: VirtAddr, bytes: u32) -> Result<(), Stop> {
        self.access(Access::load(addr, bytes), &sites::LOAD)
    }

    /// A store of `bytes` at `addr`, near where the job is.
    #[inline(always)]
    pub(crate) fn store(&mut self, addr: VirtAddr, bytes: u32) -> Result<(), Stop> {
        self.access(Access::store(addr, bytes), &sites::STORE)
    }

    /// A load of `bytes` at `addr`, near where the job is, that says where the job goes on.
    #[inline(always)]
    pub(crate) fn follow(&mut self, addr: VirtAddr, bytes: u32) -> Result<(), Stop> {
        self.access(Access::load(addr, bytes), &sites::FOLLOW)
    }

    /// Goes to where a key says.
    #[inline(always)]
    pub(crate) fn seek(&mut self) -> Result<(), Stop> {
        self.execute(&sites::SEEK)
    }

    /// Branches by a value that was loaded.
    #[inline(always)]
    pub(crate) fn decide(&mut self, is_yes: bool) -> Result<(), Stop> {
        self.execute(&sites::DECIDE)?;
        if is_yes { self.execute(&sites::YES) } else { Ok(()) }
    }

    /// Makes an access by one of the sites for each size.
    #[inline(always)]
    fn access(&mut self, access: Access, sites: &'static [Site; sites::SIZES]) -> Result<(), Stop> {
        if self.out.wants_blocks() {
            self.execute(&sites[access.size_log2() as usize])?;
        }
        self.out.push(access)
    }

    /// Executes a site whose instructions are those of [`Job::compute`].
    #[inline(always)]
    fn execute(&mut self, site: &'static Site) -> Result<(), Stop> {
        self.ahead += site.instructions();
        self.out.enter(site)
    }

    /// Executes computing instructions beside those that were executed ahead.
    #[cold]
    #[inline(never)]
    fn execute_rest(&mut self, instructions: u64) -> Result<(), Stop> {
        let ahead = self.ahead.min(instructions);
        self.ahead -= ahead;
        let mut left = instructions - ahead;
        while left > 0 {
            let log2 = left.ilog2().min(sites::SIZES as u32 - 1);
            self.out.enter(&sites::COMPUTE[log2 as usize])?;
            left -= 1 << log2;
        }
        Ok(())
    }

    /// Copies `bytes` from a record to the client's message, or from there to the record; the message is in registers.
    pub(crate) fn copy(&mut self, addr: VirtAddr, bytes: u64, is_store: bool) -> Result<(), Stop> {
        self.compute(COPY_INSTRUCTIONS)?;
        (0..bytes).step_by(COPY_BYTES as usize).try_for_each(|at| {
            let part = COPY_BYTES.min(bytes - at) as u32;
            if is_store { self.store(addr.add(at), part) } else { self.load(addr.add(at), part) }
        })
    }

    /// Executes `instructions` of a basic operation, with the accesses to the stack that fall to them.
    #[inline(always)]
    pub(crate) fn compute(&mut self, instructions: u64) -> Result<(), Stop> {
        self.out.work(instructions);
        if self.out.wants_blocks() {
            self.execute_rest(instructions)?;
        }
        self.since += instructions;
        if self.since >= self.interval { self.touch_stack() } else { Ok(()) }
    }

    /// Executes one of `parts` equal parts of the work beside the data structure's own. What a job leaves undone, it does
    /// at its end.
    #[inline(always)]
    pub(crate) fn compute_part(&mut self, parts: u64) -> Result<(), Stop> {
        let instructions = (self.work / parts).min(self.work_left);
        self.work_left -= instructions;
        self.compute(instructions)
    }

    #[inline(never)]
    fn touch_stack(&mut self) -> Result<(), Stop> {
        while self.since >= self.interval {
            self.since -= self.interval;
            // Each line is stored to and then loaded from; once all are, they are only loaded.
            let turn = self.stack_accesses / 2;
            let line = turn % LINES;
            let addr = self.stack.lines.add(line * LINE_BYTES + 8 * (line % 8));
            let is_store = self.stack_accesses.is_multiple_of(2) && turn < LINES;
            self.stack_accesses += 1;
            if is_store {
                self.execute(&sites::SPILL)?;
                self.out.store(addr, 8)?;
            } else {
                self.execute(&sites::REFILL)?;
                self.out.load(addr, 8)?;
            }
        }
        Ok(())
    }
}

/// The random numbers of job `number`: what its client asks for.
pub(super) const fn random_of(seed: u64, number: u64) -> SplitMix64 {
    SplitMix64::of_item(seed, number)
}

/// Instructions between two accesses to the stack in jobs with so much work beside.
fn interval(work: u64) -> u64 {
    STACK_INSTRUCTIONS.max(work / MOST_STACK_ACCESSES)
}

/// About how many accesses to the stack a job of so many instructions has, `work` of them beside its data structure's.
pub(super) fn stack_accesses(instructions: u64, work: u64) -> u64 {
    ENTRY_STORES + instructions / interval(work)
}

/// A job to try things out with, whose accesses are dropped.
#[cfg(test)]
pub(crate) fn with_job<R>(f: impl FnOnce(&mut Job<'_, '_>) -> R) -> R {
    let mut sink = |_: &mut pagewalk_trace::Batch| std::ops::ControlFlow::Continue(());
    let mut out = Emitter::new(&mut sink);
    let mut space = AddressSpace::new(&mut out);
    let stack = ThreadStack::new(&mut space, &mut out);
    let plan = Plan { seed: 1, work: 0, is_thin: false };
    f(&mut Job::begin(0, plan, None, &stack, &mut out).unwrap())
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::{Access, Batch};

    use super::*;

    /// The accesses and the instructions of one job.
    fn emitted(work: u64, f: impl FnOnce(&mut Job<'_, '_>)) -> (Vec<Access>, u64) {
        let (mut accesses, mut instructions) = (Vec::new(), 0);
        let mut sink = |batch: &mut Batch| {
            accesses.extend_from_slice(&batch.accesses);
            for mark in &batch.marks {
                if let Event::Instructions(count) = mark.event {
                    instructions += count;
                }
            }
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let stack = ThreadStack::new(&mut space, &mut out);
        let plan = Plan { seed: 1, work, is_thin: false };
        let mut job = Job::begin(0, plan, None, &stack, &mut out).unwrap();
        f(&mut job);
        job.end().unwrap();
        out.finish().unwrap();
        (accesses, instructions)
    }

    #[test]
    fn a_job_does_all_its_work_and_touches_its_stack_on_the_way() {
        for (work, most) in [(0, 10), (2000, 50), (5000, 100), (1_000_000, 120)] {
            let (accesses, instructions) = emitted(work, |job| {
                (0..3).for_each(|_| job.compute_part(7).unwrap());
                job.compute(100).unwrap();
            });
            assert_eq!(instructions, ENTRY_STORES + work + 100);
            assert_eq!(accesses.len() as u64, stack_accesses(work + 100, work), "{work}");
            assert!(accesses.len() <= most, "{work}: {} accesses", accesses.len());
        }
    }

    #[test]
    fn a_word_of_the_stack_is_stored_before_it_is_loaded() {
        let (accesses, _) = emitted(6000, |_| {});
        let mut stored = std::collections::BTreeSet::new();
        let mut lines = std::collections::BTreeSet::new();
        for access in accesses {
            lines.insert(access.addr().0 / LINE_BYTES);
            assert!(access.is_write() || stored.contains(&access.addr()), "{access:?}");
            if access.is_write() {
                stored.insert(access.addr());
            }
        }
        assert_eq!(lines.len() as u64, LINES);
    }
}
