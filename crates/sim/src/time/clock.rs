//! What a machine asks of time.

use pagewalk_vm::addr::PhysAddr;
use pagewalk_vm::table::WalkRead;
use pagewalk_vm::tier::FlashPage;

use super::{Missed, Requester, Transfer, Waiter, Woken};
use crate::metrics::{KernelStep, Rows, Span};
use crate::spec::settings::MachineSpec;

/// The time of a machine: of its cores, its swap device, and its tiered memory.
pub trait Clock: CoreTime + Devices + TierTime + Send {
    /// Whether physical addresses are wanted: a counts run skips what only time needs.
    const TIMED: bool;

    /// Creates the clocks of a machine whose physical addresses end at `end`.
    fn new(spec: &MachineSpec, end: PhysAddr) -> Self;

    /// Adds what was measured so far; outstanding work counts as finished.
    fn rows(&self, rows: &mut Rows);

    /// Returns the last steps, in the order in which they were made.
    fn spans(&self) -> Vec<Span>;
}

/// Hears of every stage of every reference, in order.
///
/// # Contract
///
/// Per access: [`begin`](Self::begin); then [`tlb_hit`](Self::tlb_hit) if the first level did not hit at once, or
/// [`walk`](Self::walk) once or more with [`kernel`](Self::kernel) between them; then [`data`](Self::data).
pub trait CoreTime {
    /// The accesses that follow on `core` belong to so many instructions. None: the source does not count them.
    fn segment(&mut self, core: usize, instructions: Option<u64>, accesses: u64);

    /// The next access on `core` is dispatched.
    fn begin(&mut self, core: usize);

    /// The last access on `core` is dispatched once more, without the instructions before it.
    fn begin_again(&mut self, core: usize);

    /// The access's translation was found in TLB level `level`, 0 for the nearest.
    fn tlb_hit(&mut self, core: usize, level: usize);

    /// Every TLB level missed and the page table was walked; `cached` tells whether walk caches were asked. An entry may
    /// lie in a page that is not in DRAM: then the walk ends there.
    fn walk(&mut self, core: usize, reads: impl Iterator<Item = WalkRead>, cached: bool) -> Option<Missed>;

    /// The access goes to its physical address; it may find that its page is not in DRAM.
    fn data(&mut self, core: usize, addr: PhysAddr, write: bool) -> Option<Missed>;

    /// The kernel, or hardware in its place, took so long for a step; everything before it has finished.
    fn kernel(&mut self, core: usize, step: KernelStep, ps: u64);

    /// The core waits until `until_ps`, for a step.
    fn wait(&mut self, core: usize, step: KernelStep, until_ps: u64);

    /// A daemon worked so long for a step, from `start_ps` on at the earliest; returns until when. Its core is its own, or
    /// `core`, which waits.
    fn daemon(&mut self, core: Option<usize>, start_ps: u64, step: KernelStep, ps: u64) -> u64;

    /// Returns the core's time, with everything before it finished; always 0 where there is none.
    fn now(&mut self, core: usize) -> u64;

    /// Returns how far a core is, with work in flight; always 0 where there is no time.
    fn time(&self, core: usize) -> u64;

    /// Returns the core's time, with everything before it finished; the core itself goes on.
    fn retired(&self, core: usize) -> u64;

    /// Returns whether something of the machine's own is due, at `due_ps`, before the next access.
    fn is_due(&self, core: usize, due_ps: u64) -> bool;

    /// Every core waits until everything in flight has finished: a phase begins.
    fn settle(&mut self);
}

/// The timing of the swap device.
pub trait Devices {
    /// A page is wanted from the swap device, at `now_ps`.
    fn swap_in(&mut self, now_ps: u64) -> Transfer;

    /// A page goes to the swap device, from `now_ps` on.
    fn swap_out(&mut self, now_ps: u64) -> Transfer;
}

/// DRAM as a cache over flash; a machine without it has every page in memory.
pub trait TierTime {
    /// The accesses of a core are this requester's from now on.
    fn request_as(&mut self, core: usize, who: Requester);

    /// Returns when something happens in memory without a core; the end of time if nothing does.
    fn memory_next_ps(&self) -> u64;

    /// Lets happen what is due in memory by `until_ps`, until a waiter is woken; returns when that was.
    fn memory_advance(&mut self, until_ps: u64) -> Option<(u64, Woken)>;

    /// A page is used without time.
    fn touch(&mut self, page: FlashPage, write: bool);

    /// Where the kernel manages a tier: a walk, or a first store, uses a page. Returns whether it is in memory.
    fn is_in_memory(&mut self, page: FlashPage, write: bool) -> bool;

    /// Where the kernel manages a tier: it asks for a page, now.
    fn fetch(&mut self, core: usize, page: FlashPage, waiter: Waiter);

    /// Where the kernel manages a tier: returns the pages that left since the last call.
    fn take_left(&mut self) -> Vec<FlashPage>;
}
