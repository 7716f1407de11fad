//! What system calls write into a program's memory. The kernel stores through the program's own page table: a page that is not there,
//! or may not be written to, faults as for a store of the program (Linux, `copy_to_user`).
//!
//! On a machine whose caches hear of the kernel's writes, copying takes as long as zeroing, and the core finds in its caches what was
//! written. DEVIATION: what is copied comes from nowhere: of a file, from memory that has no frames here. On other machines the stores take no
//! time and leave no lines in caches. On all, they leave no translations in TLBs, and a page that lies on flash, under a kernel that manages
//! it, comes when the program uses it.

use pagewalk_vm::addr::{PAGE_BYTES, VirtRange, Vpn};

use super::context::Context;
use super::fault::bring;
use super::writes::{are_cached, write_bytes};
use crate::error::MachineError;
use crate::metrics::KernelStep;

/// Writes to a range, up to a page that is not mapped or may not be written to, where the call itself would end. A call whose very
/// first page is not mapped wrote to a mapping that the front-end missed: the program's own access will tell of it.
pub(super) fn kernel_write(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    let (written, range) = (range, range.to_pages());
    let mut vpn = range.start.page();
    while vpn < range.end.page() && cx.process().space.find(vpn.addr()).is_some() {
        let Some((leaf, next)) = bring(cx, vpn, true)? else { return Ok(()) };
        if !leaf.dirty {
            cx.update(vpn, |leaf| leaf.dirty = true);
        }
        let to = VirtRange::new(vpn.addr(), next.addr()).intersect(written);
        copy(cx, vpn, to);
        vpn = next;
    }
    Ok(())
}

/// Copies into a part of the page that holds `vpn`.
fn copy(cx: &mut Context<'_>, vpn: Vpn, to: VirtRange) {
    if !are_cached(cx) || to.is_empty() {
        return;
    }
    let ps = cx.state.spec.kernel.zero_page_ps * to.bytes() / PAGE_BYTES;
    let (page, leaf, _) = cx.entry(vpn);
    let at = leaf.frame.addr().add(to.start.0 - page.addr().0);
    write_bytes(cx, KernelStep::Copy, (at, to.bytes()), ps);
}
