//! The processor that the kernel runs on: a core, the clock, and the translation hardware of all cores.

use pagewalk_vm::addr::{Asid, PhysAddr, Vpn};
use pagewalk_vm::table::PageTable;
use pagewalk_vm::tier::FlashPage;

use crate::kernel::{Processor, Worker};
use crate::metrics::KernelStep;
use crate::mmu::Mmu;
use crate::time::{Clock, Transfer, Waiter};

/// A core on which the kernel runs.
pub(super) struct Running<'a, T: PageTable, C> {
    mmu: &'a mut Mmu<T>,
    clock: &'a mut C,
    core: usize,
    worker: Worker,
}

impl<'a, T: PageTable, C: Clock> Running<'a, T, C> {
    /// Returns the processor of a kernel that runs for the program on a core.
    #[inline(always)]
    pub(super) fn program(mmu: &'a mut Mmu<T>, clock: &'a mut C, core: usize) -> Self {
        Self { mmu, clock, core, worker: Worker::Program }
    }
}

impl<T: PageTable, C: Clock> Processor for Running<'_, T, C> {
    fn cores(&self) -> usize {
        self.mmu.cores()
    }

    fn core(&self) -> usize {
        self.core
    }

    fn run_as(&mut self, worker: Worker) {
        self.worker = worker;
    }

    fn work(&mut self, step: KernelStep, ps: u64) {
        match &mut self.worker {
            Worker::Program => self.clock.kernel(self.core, step, ps),
            Worker::Between => drop(self.clock.daemon(Some(self.core), 0, step, ps)),
            Worker::Beside { now_ps } => *now_ps = self.clock.daemon(None, *now_ps, step, ps),
        }
    }

    fn write(&mut self, step: KernelStep, to: (PhysAddr, u64), ps: u64) {
        match self.worker {
            Worker::Program => self.clock.kernel_write(self.core, step, to, ps),
            // A daemon has no core whose caches it would use.
            Worker::Between | Worker::Beside { .. } => self.work(step, ps),
        }
    }

    fn now(&mut self) -> u64 {
        match self.worker {
            Worker::Program | Worker::Between => self.clock.now(self.core),
            Worker::Beside { now_ps } => now_ps,
        }
    }

    fn swap_in(&mut self, now_ps: u64) -> Transfer {
        self.clock.swap_in(now_ps)
    }

    fn swap_out(&mut self, now_ps: u64) -> Transfer {
        self.clock.swap_out(now_ps)
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        self.mmu.invalidate(asid, vpn);
    }

    fn flush(&mut self, asid: Asid) {
        self.mmu.flush(asid);
    }

    fn flush_walk_caches(&mut self, asid: Asid) {
        self.mmu.flush_walk_caches(asid);
    }

    fn forget_repetitions(&mut self) {
        self.mmu.forget_repetitions();
    }

    fn is_in_memory(&mut self, page: FlashPage, write: bool) -> bool {
        self.clock.is_in_memory(page, write)
    }

    fn fetch(&mut self, page: FlashPage, waiter: Waiter) {
        self.clock.fetch(self.core, page, waiter);
    }

    fn take_left(&mut self) -> Vec<FlashPage> {
        self.clock.take_left()
    }
}
