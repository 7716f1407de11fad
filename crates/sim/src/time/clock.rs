//! The interface of time, as a machine uses it.

use pagewalk_trace::{BlockId, Code};
use pagewalk_vm::addr::{PhysAddr, VirtAddr};
use pagewalk_vm::table::WalkRead;
use pagewalk_vm::tier::FlashPage;

use super::{Missed, Requester, Transfer, Waiter, Woken};
use crate::metrics::{KernelStep, Rows, Span};
use crate::spec::settings::MachineSpec;

/// The time of a machine: of its cores, its swap device, and its tiered memory.
pub trait Clock: CoreTime + Devices + TierTime + Send {
    /// Whether physical addresses are wanted: a counts run skips what only time needs.
    const TIMED: bool;

    /// Creates the clocks of a machine whose physical addresses end at `end`; the source may say which blocks are executed.
    fn new(spec: &MachineSpec, end: PhysAddr, gives_blocks: bool) -> Self;

    /// Adds what was measured so far; outstanding work counts as finished.
    fn rows(&self, rows: &mut Rows);

    /// Returns the last steps, in the order in which they were made.
    fn spans(&self) -> Vec<Span>;
}

/// The way in which a page walk begins, which decides what its first reference waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkBegin {
    /// With walk caches, after a miss of every TLB level.
    WalkCaches,
    /// At the root without walk caches, after a miss of every TLB level.
    Root,
    /// In a further table, where the walk of the table before it ended: the walker goes on by itself.
    Continued,
}

impl WalkBegin {
    /// Returns the beginning of a walk after a miss of every TLB level, with walk caches or without.
    pub fn after_miss(with_walk_caches: bool) -> Self {
        if with_walk_caches { Self::WalkCaches } else { Self::Root }
    }
}

/// Hears of every stage of every reference, in order.
///
/// # Contract
///
/// Per access: [`begin`](Self::begin); then [`tlb_hit`](Self::tlb_hit) if the first level did not hit at once, or
/// [`walk`](Self::walk) once or more with [`kernel`](Self::kernel) between them; then [`data`](Self::data).
pub trait CoreTime {
    /// Notes that the accesses that follow on `core` belong to so many instructions. None: the source does not count them.
    fn segment(&mut self, core: usize, instructions: Option<u64>, accesses: u64);

    /// Takes the instructions of a block, before any core executes it.
    fn code(&mut self, code: &Code);

    /// Returns whether the executed blocks are of use.
    fn follows_blocks(&self) -> bool;

    /// Notes that `core` begins to execute a block, which makes the next so many accesses.
    fn execute(&mut self, core: usize, block: BlockId, accesses: usize);

    /// Notes that `core` executes a block again from an access on, so many of whose accesses have been made: it left the block there for
    /// another one. The access is dispatched.
    fn execute_from(&mut self, core: usize, block: BlockId, accesses: usize, made: usize);

    /// Lets `core` throw away what is in flight, and leave the block that it executes.
    fn abandon(&mut self, core: usize);

    /// Returns the time from the moment at which a core throws away what it has in flight to the first instruction that comes instead; none of a
    /// core that executes no instructions.
    fn refill_ps(&self) -> Option<u64>;

    /// Lets `core` fetch a line of the block that it begins to execute: up to [`fetched`](Self::fetched), what is told is about that line's
    /// translation.
    fn begin_fetch(&mut self, core: usize);

    /// Sends the fetch to its physical address, which is in DRAM.
    fn fetched(&mut self, core: usize, addr: PhysAddr);

    /// Dispatches the next access on `core`.
    fn begin(&mut self, core: usize);

    /// Returns whether what `core` did last is the load of an instruction that stores to the same place; false if that is not known.
    fn modifies(&self, core: usize) -> bool;

    /// Dispatches a further part of the last access on `core`.
    fn begin_part(&mut self, core: usize);

    /// Dispatches the last access on `core` once more, without the instructions before it.
    fn begin_again(&mut self, core: usize);

    /// Notes that the access's translation was found in TLB level `level`, 0 for the nearest.
    fn tlb_hit(&mut self, core: usize, level: usize);

    /// Notes that the access, whose walk follows, goes to a physical address. Has no effect on time.
    fn expect(&self, core: usize, addr: PhysAddr);

    /// Notes that the page table was walked, or a further table after it. An entry may lie in a page that is not in DRAM: then the walk
    /// ends there.
    fn walk(
        &mut self,
        core: usize,
        reads: impl Iterator<Item = WalkRead>,
        begins: WalkBegin,
    ) -> Option<Missed>;

    /// Notes that the page table was walked in the background: it takes a walker and goes through the caches, behind what the access has
    /// done so far, and the access does not wait. Every entry is in DRAM.
    fn walk_beside(&mut self, core: usize, reads: impl Iterator<Item = WalkRead>, begins: WalkBegin);

    /// Sends the access to a virtual address, which has been translated, to the physical one; it may find that its page is not in DRAM.
    fn data(&mut self, core: usize, addr: (VirtAddr, PhysAddr), write: bool) -> Option<Missed>;

    /// Spends the time of the kernel, or of hardware in its place, for a step; everything before it has finished.
    fn kernel(&mut self, core: usize, step: KernelStep, ps: u64);

    /// Spends the time of a step in which the kernel writes so many bytes from an address on: `ps`, or as long as memory takes to give their
    /// lines. With DRAM as a cache over flash it is always `ps`.
    fn kernel_write(&mut self, core: usize, step: KernelStep, to: (PhysAddr, u64), ps: u64);

    /// Lets the core wait until `until_ps`, for a step.
    fn wait(&mut self, core: usize, step: KernelStep, until_ps: u64);

    /// Lets the core do nothing until `until_ps`: no thread was there.
    fn idle(&mut self, core: usize, until_ps: u64);

    /// Spends a daemon's time for a step, from `start_ps` on at the earliest; returns until when. Its core is its own, or `core`,
    /// which waits.
    fn daemon(&mut self, core: Option<usize>, start_ps: u64, step: KernelStep, ps: u64) -> u64;

    /// Returns the core's time, with everything before it finished; always 0 where there is none.
    fn now(&mut self, core: usize) -> u64;

    /// Returns how far a core is, with work in flight; always 0 where there is no time.
    fn time(&self, core: usize) -> u64;

    /// Returns the core's time, with everything before it finished; the core itself goes on.
    fn retired(&self, core: usize) -> u64;

    /// Returns whether something of the machine's own is due, at `due_ps`, before the next access.
    fn is_due(&self, core: usize, due_ps: u64) -> bool;

    /// Lets every core wait until everything in flight has finished: a phase begins.
    fn settle(&mut self);
}

/// The timing of the swap device.
pub trait Devices {
    /// Requests a page from the swap device, at `now_ps`.
    fn swap_in(&mut self, now_ps: u64) -> Transfer;

    /// Sends a page to the swap device, from `now_ps` on.
    fn swap_out(&mut self, now_ps: u64) -> Transfer;
}

/// DRAM as a cache over flash; a machine without it has every page in memory.
pub trait TierTime {
    /// Makes this requester the one of a core's accesses from now on.
    fn request_as(&mut self, core: usize, who: Requester);

    /// Returns when something happens in memory without a core; the end of time if nothing does.
    fn memory_next_ps(&self) -> u64;

    /// Lets happen what is due in memory by `until_ps`, until a waiter is woken; returns when that was.
    fn memory_advance(&mut self, until_ps: u64) -> Option<(u64, Woken)>;

    /// Uses a page without time.
    fn touch(&mut self, page: FlashPage, write: bool);

    /// Returns whether a page is in memory that a walk, or a first store, uses, where the kernel manages a tier. Returns whether it
    /// is in memory.
    fn is_in_memory(&mut self, page: FlashPage, write: bool) -> bool;

    /// Asks for a page now, where the kernel manages a tier.
    fn fetch(&mut self, core: usize, page: FlashPage, waiter: Waiter);

    /// Returns the pages that left since the last call, where the kernel manages a tier.
    fn take_left(&mut self) -> Vec<FlashPage>;
}
