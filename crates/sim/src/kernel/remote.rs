//! Pages leave to the accelerator.

use pagewalk_vm::fault::PageId;
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::table::Leaf;

use super::accelerator::Accelerated;
use super::context::Context;
use crate::metrics::KernelStep;

/// Returns the accelerator of a machine that has one.
pub(super) fn of<'c>(cx: &'c mut Context<'_>) -> &'c mut Accelerated {
    cx.state.accelerator.as_mut().expect("a machine with an accelerator")
}

/// Makes the entry of a page that has lost its frame remote, if it has a copy; if that is old, the device sends the page.
pub(super) fn leave(cx: &mut Context<'_>, page: PageKey, leaf: Leaf, written: bool) {
    let Some(slot) = cx.state.swap.space.slot(page) else { return };
    let id = u32::try_from(slot + 1).ok().and_then(PageId::new).expect("the machine file was checked");
    of(cx).leave(page, leaf, id);
    if !written {
        return;
    }
    while let Some(done_ps) = of(cx).eviction_room_ps() {
        cx.work_until(KernelStep::Write, done_ps);
        let now_ps = cx.now().max(done_ps);
        of(cx).complete(now_ps);
    }
    of(cx).begin_eviction(id, leaf.frame);
    let (request_ps, waits) = (of(cx).costs().request_ps, of(cx).costs().waits_for_evictions);
    cx.work(KernelStep::Write, request_ps);
    let done_ps = cx.swap_out().done_ps;
    of(cx).note_eviction(id, done_ps);
    if waits {
        cx.work_until(KernelStep::Write, done_ps);
        of(cx).complete(done_ps);
    }
}
