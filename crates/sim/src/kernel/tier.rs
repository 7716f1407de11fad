//! DRAM as a cache over flash where the kernel manages it: pages come by page faults.

use pagewalk_vm::addr::{Pfn, Vpn};
use pagewalk_vm::tier::FlashPage;
use rustc_hash::FxHashMap;

use super::context::Context;
use crate::metrics::KernelStep;
use crate::time::Waiter;

/// The state of a kernel that manages a tier.
pub(super) struct KernelTier {
    /// The process and the page of it that each page in memory, or on its way, belongs to.
    owners: FxHashMap<FlashPage, (usize, Vpn)>,
    /// By core: the time that interrupts took and that the core has not noticed yet.
    stolen_ps: Vec<u64>,
    /// The time that a shootdown takes on each of the other cores.
    interrupt_ps: u64,
}

impl KernelTier {
    pub(super) fn new(cores: u32, interrupt_ps: u64) -> Self {
        Self { owners: FxHashMap::default(), stolen_ps: vec![0; cores as usize], interrupt_ps }
    }

    /// Notes that a walk found the frame of a page: the page may still be on flash.
    pub(super) fn note_owner(&mut self, page: FlashPage, process: usize, vpn: Vpn) {
        self.owners.insert(page, (process, vpn));
    }

    /// Takes what interrupts took of a core's time.
    #[inline]
    pub(super) fn take_stolen_ps(&mut self, core: usize) -> u64 {
        std::mem::take(&mut self.stolen_ps[core])
    }
}

/// Does the first half of a page fault: the kernel asks for the page, and others leave for it.
pub(super) fn begin_page_in(cx: &mut Context<'_>, tier: &mut KernelTier, page: FlashPage, waiter: Waiter) {
    let paging = cx.state.spec.kernel.paging.clone();
    for (step, ps) in [
        (KernelStep::Trap, paging.trap_ps),
        (KernelStep::Find, paging.find_ps),
        (KernelStep::Allocate, paging.allocate_ps),
        (KernelStep::Request, paging.request_ps),
    ] {
        cx.work(step, ps);
    }
    cx.state.counts.faults.major += 1;
    cx.processor.fetch(page, waiter);
    let left = take_left(cx, tier);
    cx.work(KernelStep::Evict, left * paging.evict_ps);
}

/// Does the second half: the page's entry, and the books.
pub(super) fn end_page_in(cx: &mut Context<'_>) {
    cx.work(KernelStep::Enter, cx.state.spec.kernel.paging.enter_ps);
    cx.work(KernelStep::Book, cx.state.spec.kernel.paging.book_ps);
}

/// Removes the translations of pages that left, on every core; returns how many pages that were.
pub(super) fn take_left(cx: &mut Context<'_>, tier: &mut KernelTier) -> u64 {
    let left = cx.processor.take_left();
    for page in &left {
        // A page to which no walk has led since it came is in no TLB; the kernel does not know that.
        if let Some((process, vpn)) = tier.owners.remove(page) {
            let mut owner = cx.of(process);
            owner.update(vpn, |leaf| leaf.dirty = false);
            let asid = owner.asid();
            owner.processor.invalidate(asid, vpn);
        }
        for sharer in cx.state.frames.shared().pages(Pfn(page.0)) {
            cx.processor.invalidate(sharer.asid, sharer.page);
        }
        cx.state.counts.changes.shootdowns += 1;
        for (core, stolen_ps) in tier.stolen_ps.iter_mut().enumerate() {
            *stolen_ps += if core == cx.processor.core() { 0 } else { tier.interrupt_ps };
        }
    }
    left.len() as u64
}
