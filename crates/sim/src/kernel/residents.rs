//! The components that keep state of every page beside the page table, and must hear when pages of an address space change.
//!
//! Entries of the page table are changed by the code that makes the change: it knows what they become. Everything that
//! stands *beside* the table (copies on the swap device, pages that were read ahead, pages that are remote) is a resident
//! of the list below. A change is told to all of them at once, so that no caller can forget one.

use pagewalk_trace::Protection;
use pagewalk_vm::addr::{Asid, PageSize, Pfn, Vpn};
use pagewalk_vm::frame::PageKey;

use super::accelerator::Accelerated;
use super::context::Context;
use super::state::State;
use super::swap::Swap;

/// A change of pages of an address space.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// The pages are gone.
    Drop,
    /// The pages begin at this page now.
    Move(Vpn),
    /// The pages belong to another address space, too.
    Share(Asid),
    /// The pages have another protection.
    Protect(Protection),
    /// The pages' contents may be lost from now on (`MADV_FREE`); copies on the swap device are dropped page by page.
    Free,
}

/// A component that keeps state of pages beside the page table.
trait Resident {
    /// Pages `[start, end)` of an address space change. Returns the frames that are free now.
    fn change(&mut self, asid: Asid, start: Vpn, end: Vpn, change: Change) -> Vec<Pfn>;
}

/// Pages that were read ahead: nothing has used them, and nothing is lost with them.
impl Resident for Swap {
    fn change(&mut self, asid: Asid, start: Vpn, end: Vpn, change: Change) -> Vec<Pfn> {
        match change {
            Change::Drop => {
                self.space.discard(asid, start, end);
                self.drop_cached(asid, start, end)
            }
            Change::Move(target) => {
                self.space.rename(asid, start, end, target);
                self.drop_cached(asid, start, end)
            }
            Change::Free => self.drop_cached(asid, start, end),
            Change::Share(child) => {
                for page in self.space.pages(asid, start, end) {
                    self.space.share(PageKey { asid, page }, PageKey { asid: child, page });
                }
                Vec::new()
            }
            Change::Protect(_) => Vec::new(),
        }
    }
}

/// Remote pages: they have no frames here.
impl Resident for Accelerated {
    fn change(&mut self, asid: Asid, start: Vpn, end: Vpn, change: Change) -> Vec<Pfn> {
        match change {
            Change::Drop | Change::Free => self.forget_remote(asid, start, end),
            Change::Move(target) => self.move_remote(asid, start, end, target),
            Change::Share(child) => self.share_remote(asid, child, start, end),
            Change::Protect(protection) => self.protect_remote(asid, start, end, protection),
        }
        Vec::new()
    }
}

/// Tells every resident that pages `[start, end)` of the process change.
pub(super) fn tell(cx: &mut Context<'_>, start: Vpn, end: Vpn, change: Change) {
    let asid = cx.asid();
    let State { swap, accelerator, frames, .. } = &mut *cx.state;
    let accelerator = accelerator.as_mut().map(|of| of as &mut dyn Resident);
    let residents: [Option<&mut dyn Resident>; 2] = [Some(swap), accelerator];
    for resident in residents.into_iter().flatten() {
        let freed = resident.change(asid, start, end, change);
        freed.into_iter().for_each(|frame| frames.give_page(frame, PageSize::Size4K));
    }
}
