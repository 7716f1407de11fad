//! What system calls write into a program's memory. The kernel stores through the program's own page table: a page that is not there,
//! or may not be written to, faults as for a store of the program (Linux, `copy_to_user`).
//!
//! DEVIATION: the stores themselves take no time, leave no lines in caches and no translations in TLBs; a page that lies on flash, under
//! a kernel that manages it, comes when the program uses it.

use pagewalk_vm::addr::VirtRange;

use super::context::Context;
use super::fault::bring;
use crate::error::MachineError;

/// Writes to a range, up to a page that is not mapped or may not be written to, where the call itself would end. A call whose very
/// first page is not mapped wrote to a mapping that the front-end missed: the program's own access will tell of it.
pub(super) fn kernel_write(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    let range = range.to_pages();
    let mut vpn = range.start.page();
    while vpn < range.end.page() && cx.process().space.find(vpn.addr()).is_some() {
        let Some((leaf, next)) = bring(cx, vpn, true)? else { return Ok(()) };
        if !leaf.dirty {
            cx.update(vpn, |leaf| leaf.dirty = true);
        }
        vpn = next;
    }
    Ok(())
}
