//! What a core does when a page is not in DRAM but on the flash under it.

use pagewalk_vm::addr::{Pfn, VirtAddr, Vpn};
use pagewalk_vm::table::PageTable;
use pagewalk_vm::tier::FlashPage;
use rustc_hash::FxHashMap;

use super::step::Refused;
use super::{Machine, MachineError};
use crate::metrics::KernelStep;
use crate::spec::settings::TierManager;
use crate::time::{Clock, MissKind, Missed, Requester, Waiter};

/// What a kernel keeps that manages a tier.
#[derive(Default)]
pub(super) struct TierBooks {
    /// Whose page is in memory, or on its way.
    owners: FxHashMap<FlashPage, (usize, Vpn)>,
    /// By core: what interrupts took of its time and it has not noticed yet.
    stolen_ps: Vec<u64>,
}

impl TierBooks {
    pub(super) fn new(cores: u32) -> Self {
        Self { owners: FxHashMap::default(), stolen_ps: vec![0; cores as usize] }
    }
}

impl<T: PageTable, C: Clock> Machine<T, C> {
    /// A walk found a frame: with a tier that the kernel manages, its page may still be on flash.
    #[inline(always)]
    pub(super) fn page_in(&mut self, vpn: Vpn, frame: Pfn, write: bool) -> Result<(), Refused> {
        if C::TIMED && self.tier_by_kernel { self.page_in_by_kernel(vpn, frame, write) } else { Ok(()) }
    }

    #[cold]
    fn page_in_by_kernel(&mut self, vpn: Vpn, frame: Pfn, write: bool) -> Result<(), Refused> {
        let page = FlashPage(frame.0);
        self.tier_books.owners.insert(page, (self.process, vpn));
        if self.clock.is_in_memory(page, write) {
            return Ok(());
        }
        let signal_ps = self.clock.now(self.core);
        Err(Refused::Missed(Missed { page, signal_ps, kind: MissKind::Fault }))
    }

    /// The first half of a page fault: the kernel asks for the page, and others leave for it.
    pub(super) fn begin_page_in(&mut self, page: FlashPage, waiter: Waiter) {
        let paging = self.spec.kernel.paging.clone();
        for (step, ps) in [
            (KernelStep::Trap, paging.trap_ps),
            (KernelStep::Find, paging.find_ps),
            (KernelStep::Allocate, paging.allocate_ps),
            (KernelStep::Request, paging.request_ps),
        ] {
            self.clock.kernel(self.core, step, ps);
        }
        self.counts.major_faults += 1;
        self.clock.fetch(self.core, page, waiter);
        let left = self.pages_left();
        self.clock.kernel(self.core, KernelStep::Evict, left * paging.evict_ps);
    }

    /// The second half: the page's entry, and the books.
    pub(super) fn end_page_in(&mut self) {
        let paging = &self.spec.kernel.paging;
        let (enter_ps, book_ps) = (paging.enter_ps, paging.book_ps);
        self.clock.kernel(self.core, KernelStep::Enter, enter_ps);
        self.clock.kernel(self.core, KernelStep::Book, book_ps);
    }

    /// The translations of pages that left go, on every core; how many pages that were.
    pub(super) fn pages_left(&mut self) -> u64 {
        let left = self.clock.take_left();
        let interrupt_ps = match self.spec.tier.as_ref().map(|tier| &tier.manager) {
            Some(TierManager::Kernel { interrupt_ps }) => *interrupt_ps,
            _ => 0,
        };
        for page in &left {
            // A page that nobody has walked to since it came is in no TLB; the kernel does not know that.
            if let Some((process, vpn)) = self.tier_books.owners.remove(page) {
                let process = &mut self.processes[process];
                process.table.update(&mut self.tables.memory, vpn, |leaf| leaf.dirty = false);
                self.cores.iter_mut().for_each(|core| core.invalidate(process.asid, vpn));
            }
            for sharer in self.frames.sharers(Pfn(page.0)) {
                self.cores.iter_mut().for_each(|core| core.invalidate(sharer.asid, sharer.page));
            }
            self.counts.shootdowns += 1;
            for (core, stolen_ps) in self.tier_books.stolen_ps.iter_mut().enumerate() {
                *stolen_ps += if core == self.core { 0 } else { interrupt_ps };
            }
        }
        left.len() as u64
    }

    /// A core notices what interrupts took of its time.
    #[inline]
    pub(super) fn notice_interrupts(&mut self) {
        if self.tier_by_kernel {
            let ps = std::mem::take(&mut self.tier_books.stolen_ps[self.core]);
            if ps > 0 {
                self.clock.kernel(self.core, KernelStep::Shootdown, ps);
            }
        }
    }

    /// The core waits for a page, without anything else to do, until its access is done.
    #[cold]
    pub(super) fn wait_for(
        &mut self,
        addr: VirtAddr,
        write: bool,
        first: Missed,
    ) -> Result<(), MachineError> {
        let waiter = Requester::waiting(self.core, None).waiter;
        let mut missed = Some(first);
        while let Some(Missed { page, signal_ps, kind }) = missed {
            let core = self.core;
            if kind == MissKind::Fault {
                self.begin_page_in(page, waiter);
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
            self.pages_left();
            let step = if kind == MissKind::Stalled { KernelStep::Stall } else { KernelStep::Read };
            self.clock.wait(core, step, at_ps);
            let granted = (kind == MissKind::Synchronous).then_some(woken.page);
            if kind == MissKind::Fault {
                self.end_page_in();
            }
            self.clock.request_as(core, Requester::waiting(core, granted));
            self.clock.begin_again(core);
            self.cores[core].accesses += 1;
            self.counts.repeated += 1;
            missed = self.attempt(addr, write)?;
        }
        self.clock.request_as(self.core, Requester::waiting(self.core, None));
        Ok(())
    }
}
