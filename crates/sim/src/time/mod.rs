//! From what happened to how long it took.
//!
//! The machine reports each stage of a reference to a [`Clock`]. A counts run has [`NoClock`], which compiles to
//! nothing; a timed run has [`IntervalClock`].

mod cache;
mod calendar;
mod device;
mod dram;
mod interval;
mod mesh;
mod pool;
mod queue;
#[cfg(test)]
mod tests;
mod tiered;

pub use cache::{Cache, CacheCounts, MemoryHierarchy, MemoryReference};
pub use device::{Flash, FlashCounts, Transfer};
pub use dram::{Dram, DramCounts, DramRequest};
pub use interval::IntervalClock;
pub use mesh::Mesh;
pub use queue::EventQueue;
pub use tiered::{Requester, Waiter, Woken};

use pagewalk_vm::addr::PhysAddr;
use pagewalk_vm::table::WalkRead;
use pagewalk_vm::tier::FlashPage;

use crate::metrics::{KernelStep, Rows, Span};
use crate::spec::settings::MachineSpec;

/// Hears of every stage of every reference, in order.
///
/// # Contract
///
/// Per access: [`begin`](Self::begin); then [`tlb_hit`](Self::tlb_hit) if the first level did not hit at once, or
/// [`walk`](Self::walk) once or more with [`kernel`](Self::kernel) between them; then [`data`](Self::data).
pub trait Clock: Send {
    /// Whether physical addresses are wanted: a counts run skips what only time needs.
    const TIMED: bool;

    /// The clocks of a machine whose physical addresses end at `end`.
    fn new(spec: &MachineSpec, end: PhysAddr) -> Self;

    /// The accesses that follow on `core` belong to so many instructions. None: the source does not count them.
    fn segment(&mut self, core: usize, instructions: Option<u64>, accesses: u64);

    /// The next access on `core` is dispatched.
    fn begin(&mut self, core: usize);

    /// The last access on `core` is dispatched once more, without the instructions before it.
    fn begin_again(&mut self, core: usize);

    /// Its translation was found in TLB level `level`, 0 for the nearest.
    fn tlb_hit(&mut self, core: usize, level: usize);

    /// Every TLB level missed and the page table was walked; `cached` tells whether walk caches were asked. An entry may
    /// lie in a page that is not in DRAM: then the walk ends there.
    fn walk(&mut self, core: usize, reads: impl Iterator<Item = WalkRead>, cached: bool) -> Option<Missed>;

    /// The kernel, or hardware in its place, took so long for a step; everything before it has finished.
    fn kernel(&mut self, core: usize, step: KernelStep, ps: u64);

    /// Waits until `until_ps`, for a step.
    fn wait(&mut self, core: usize, step: KernelStep, until_ps: u64);

    /// The core's time, with everything before it finished; always 0 where there is none.
    fn now(&mut self, core: usize) -> u64;

    /// How far a core is, with work in flight; always 0 where there is no time.
    fn time(&self, core: usize) -> u64;

    /// Whether something of the machine's own is due, at `due_ps`, before the next access.
    fn is_due(&self, core: usize, due_ps: u64) -> bool;

    /// A daemon worked so long for a step, from `start_ps` on at the earliest; returns until when. Its core is its own, or
    /// `core`, which waits.
    fn daemon(&mut self, core: Option<usize>, start_ps: u64, step: KernelStep, ps: u64) -> u64;

    /// A page is wanted from the swap device, at `now_ps`.
    fn swap_in(&mut self, now_ps: u64) -> Transfer;

    /// A page goes to the swap device, from `now_ps` on.
    fn swap_out(&mut self, now_ps: u64) -> Transfer;

    /// The access itself, at its physical address; it may find that its page is not in DRAM.
    fn data(&mut self, core: usize, addr: PhysAddr, write: bool) -> Option<Missed>;

    /// Whose the accesses of a core are from now on.
    fn request_as(&mut self, core: usize, who: Requester);

    /// When something happens in memory without a core; the end of time if nothing does.
    fn memory_next_ps(&self) -> u64;

    /// Lets happen what is due in memory by `until_ps`, until someone is woken; says when that was.
    fn memory_advance(&mut self, until_ps: u64) -> Option<(u64, Woken)>;

    /// The core's time, with everything before it finished; the core itself goes on.
    fn retired(&self, core: usize) -> u64;

    /// A page is used without time.
    fn touch(&mut self, page: FlashPage, write: bool);

    /// Where the kernel manages a tier: a walk, or a first store, uses a page. Whether it is in memory.
    fn is_in_memory(&mut self, page: FlashPage, write: bool) -> bool;

    /// Where the kernel manages a tier: it asks for a page, now.
    fn fetch(&mut self, core: usize, page: FlashPage, waiter: Waiter);

    /// Where the kernel manages a tier: pages that left since the last call.
    fn take_left(&mut self) -> Vec<FlashPage>;

    /// Waits on every core until everything in flight has finished: a phase begins.
    fn settle(&mut self);

    /// What was measured so far; outstanding work counts as finished.
    fn rows(&self, rows: &mut Rows);

    /// The last steps, in the order in which they were made.
    fn spans(&self) -> Vec<Span>;
}

/// An access that found its page not in DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    /// The page.
    pub page: FlashPage,
    /// When the core hears of it.
    pub signal_ps: u64,
    /// What it may do.
    pub kind: MissKind,
}

/// What a core may do whose access found its page not in DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissKind {
    /// Anything else: the page is on its way, and the access must be made again.
    Away,
    /// Wait: the access is completed when the page is there.
    Synchronous,
    /// Wait: the controller did not take the access yet.
    Stalled,
    /// Fault: the kernel has to ask for the page.
    Fault,
}

/// No time at all.
#[derive(Clone, Copy, Debug)]
pub struct NoClock;

impl Clock for NoClock {
    const TIMED: bool = false;

    fn new(_: &MachineSpec, _: PhysAddr) -> Self {
        Self
    }

    #[inline(always)]
    fn segment(&mut self, _: usize, _: Option<u64>, _: u64) {}
    #[inline(always)]
    fn begin(&mut self, _: usize) {}
    fn begin_again(&mut self, _: usize) {}
    #[inline(always)]
    fn tlb_hit(&mut self, _: usize, _: usize) {}
    #[inline(always)]
    fn walk(&mut self, _: usize, _: impl Iterator<Item = WalkRead>, _: bool) -> Option<Missed> {
        None
    }
    #[inline(always)]
    fn kernel(&mut self, _: usize, _: KernelStep, _: u64) {}
    #[inline(always)]
    fn wait(&mut self, _: usize, _: KernelStep, _: u64) {}
    #[inline(always)]
    fn now(&mut self, _: usize) -> u64 {
        0
    }
    fn time(&self, _: usize) -> u64 {
        0
    }
    #[inline(always)]
    fn is_due(&self, _: usize, _: u64) -> bool {
        false
    }
    fn daemon(&mut self, _: Option<usize>, _: u64, _: KernelStep, _: u64) -> u64 {
        0
    }
    fn swap_in(&mut self, _: u64) -> Transfer {
        Transfer::default()
    }
    fn swap_out(&mut self, _: u64) -> Transfer {
        Transfer::default()
    }
    #[inline(always)]
    fn data(&mut self, _: usize, _: PhysAddr, _: bool) -> Option<Missed> {
        None
    }
    fn request_as(&mut self, _: usize, _: Requester) {}
    fn memory_next_ps(&self) -> u64 {
        u64::MAX
    }
    fn memory_advance(&mut self, _: u64) -> Option<(u64, Woken)> {
        None
    }
    fn retired(&self, _: usize) -> u64 {
        0
    }
    fn touch(&mut self, _: FlashPage, _: bool) {}
    #[inline(always)]
    fn is_in_memory(&mut self, _: FlashPage, _: bool) -> bool {
        true
    }
    fn fetch(&mut self, _: usize, _: FlashPage, _: Waiter) {}
    fn take_left(&mut self) -> Vec<FlashPage> {
        Vec::new()
    }
    fn settle(&mut self) {}
    fn rows(&self, _: &mut Rows) {}
    fn spans(&self) -> Vec<Span> {
        Vec::new()
    }
}
