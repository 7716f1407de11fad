//! The processor that kernel code runs on.

use pagewalk_vm::addr::{Asid, PhysAddr, Vpn};
use pagewalk_vm::tier::FlashPage;

use crate::metrics::KernelStep;
use crate::time::{Transfer, Waiter};

/// The processor that kernel code runs on: its time, the devices behind it, and the translation hardware of all cores,
/// which the kernel tells what it has changed.
///
/// The kernel never reads a clock of its own, so the same kernel code runs with time and without, and a test can put a
/// list of calls in the processor's place.
pub(crate) trait Processor {
    /// Returns the number of cores.
    fn cores(&self) -> usize;

    /// Returns the core that the kernel runs on.
    fn core(&self) -> usize;

    /// Lets the work of the kernel take this worker's time from now on.
    fn run_as(&mut self, worker: Worker);

    /// Lets the worker work so long for a step.
    fn work(&mut self, step: KernelStep, ps: u64);

    /// Lets the worker write so many bytes from an address on, which takes `ps` if its caches have them.
    fn write(&mut self, step: KernelStep, to: (PhysAddr, u64), ps: u64);

    /// Returns the worker's time, with everything before it finished.
    fn now(&mut self) -> u64;

    /// Lets the swap device begin to read a page at `now_ps`.
    fn swap_in(&mut self, now_ps: u64) -> Transfer;

    /// Lets the swap device begin to write a page at `now_ps`.
    fn swap_out(&mut self, now_ps: u64) -> Transfer;

    /// Removes the translation of a page from every core.
    fn invalidate(&mut self, asid: Asid, vpn: Vpn);

    /// Removes all translations of an address space from every core, and its part of the walk caches.
    fn flush(&mut self, asid: Asid);

    /// Removes an address space from every core's walk caches.
    fn flush_walk_caches(&mut self, asid: Asid);

    /// Lets the next reference to every page count, also where it only repeats the one before.
    fn forget_repetitions(&mut self);

    /// Uses a page of a tier that the kernel manages; returns whether it is in memory.
    fn is_in_memory(&mut self, page: FlashPage, write: bool) -> bool;

    /// Asks for a page of a tier that the kernel manages, for a waiter.
    fn fetch(&mut self, page: FlashPage, waiter: Waiter);

    /// Returns the pages that have left such a tier since the last call.
    fn take_left(&mut self) -> Vec<FlashPage>;
}

/// The worker whose time the kernel's work takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Worker {
    /// The program, on its core.
    Program,
    /// A daemon, on the program's core.
    Between,
    /// A daemon on a core of its own, which is as late as this.
    Beside { now_ps: u64 },
}
