//! Waiting for pages that are not in DRAM.

use pagewalk_vm::addr::VirtAddr;
use pagewalk_vm::table::PageTable;
use pagewalk_vm::tier::FlashPage;

use super::{Engine, NotMade};
use crate::error::MachineError;
use crate::metrics::KernelStep;
use crate::time::{Clock, MissKind, Missed, Requester, Waiter};

impl<T: PageTable, C: Clock> Engine<T, C> {
    /// Lets the running core wait for the page of an access that has not happened, without anything else to do, until the access is done.
    #[cold]
    pub(super) fn wait_for(
        &mut self,
        addr: VirtAddr,
        write: bool,
        not_made: Box<NotMade>,
    ) -> Result<(), MachineError> {
        let core = self.core;
        let waiter = Requester::waiting(core, None).waiter;
        let mut made = Err(not_made);
        while let Err(not_made) = made {
            let Missed { page, signal_ps, kind } = match *not_made {
                NotMade::Missed(missed) => missed,
                NotMade::Failed(error) => return Err(error),
            };
            if kind == MissKind::Fault {
                let (kernel, mut processor) = self.parts();
                kernel.begin_page_in(&mut processor, page, waiter);
            } else {
                self.clock.wait(core, KernelStep::Miss, signal_ps);
            }
            let (at_ps, woken) = loop {
                let next_ps = self.clock.memory_next_ps();
                assert!(next_ps < u64::MAX, "core {core} waits for {page:?}, and nothing is under way");
                if let Some((at_ps, woken)) = self.clock.memory_advance(next_ps)
                    && woken.waiter == waiter
                {
                    break (at_ps, woken);
                }
            };
            self.forget_left();
            self.end_wait(kind, at_ps);
            let granted = (kind == MissKind::Synchronous).then_some(woken.page);
            self.clock.request_as(core, Requester::waiting(core, granted));
            self.clock.begin_again(core);
            self.mmu.count_accesses(core, 1);
            self.counts.repeated += 1;
            made = self.attempt(addr, write);
        }
        self.clock.request_as(core, Requester::waiting(core, None));
        Ok(())
    }

    /// Notes that the running core has waited for a page until `at_ps`.
    pub(crate) fn end_wait(&mut self, kind: MissKind, at_ps: u64) {
        let step = if kind == MissKind::Stalled { KernelStep::Stall } else { KernelStep::Read };
        self.clock.wait(self.core, step, at_ps);
        if kind == MissKind::Fault {
            self.end_page_in();
        }
    }

    /// Lets the kernel ask for a page on flash.
    pub(crate) fn begin_page_in(&mut self, page: FlashPage, waiter: Waiter) {
        let (kernel, mut processor) = self.parts();
        kernel.begin_page_in(&mut processor, page, waiter);
    }

    /// Lets the kernel enter a page that has come from flash.
    pub(crate) fn end_page_in(&mut self) {
        let (kernel, mut processor) = self.parts();
        kernel.end_page_in(&mut processor);
    }

    /// Removes the translations of pages that left the tier.
    pub(crate) fn forget_left(&mut self) {
        let (kernel, mut processor) = self.parts();
        kernel.forget_left(&mut processor);
    }
}
