//! `fork`: a child gets its parent's mappings, and shares the frames of the private ones.

use pagewalk_trace::ProcessId;
use pagewalk_vm::addr::{VirtRange, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::space::Vma;
use pagewalk_vm::table::Leaf;

use super::books::settle;
use super::change::{SPACE_END, new_process};
use super::context::Context;
use super::residents::{Change, tell};
use crate::error::MachineError;

/// Gives the child the mappings of the process, and the pages of its private ones.
pub(super) fn fork(cx: &mut Context<'_>, child: ProcessId) -> Result<(), MachineError> {
    settle(cx, Vpn(0), SPACE_END.page())?;
    let space = cx.process().space.fork();
    let copied: Vec<Vma> = space.vmas().filter(|vma| !vma.shared && !vma.wipe_on_fork).copied().collect();
    // Advice may have cut a mapping inside a huge page, which then belongs to both parts.
    if !space.has_explicit_pages() {
        copied.iter().try_for_each(|vma| cx.split_edges(vma.range))?;
    }
    let child = new_process(cx, child, Some(space))?;
    let mut protected = Vec::new();
    for vma in copied {
        share_pages(cx, child, vma.range, &mut protected)?;
    }
    cx.shoot_down(&protected);
    Ok(())
}

/// Shares the pages of `range` of the process with a child. Pages that lose the right to be written to go to `protected`.
fn share_pages(
    cx: &mut Context<'_>,
    child: usize,
    range: VirtRange,
    protected: &mut Vec<Vpn>,
) -> Result<(), MachineError> {
    let (start, end) = (range.start.page(), range.end.page());
    let (asid, child_asid) = (cx.asid(), cx.state.processes[child].asid);
    let mut entries = cx.entries(start, end);
    entries.retain(|(_, leaf, _)| !cx.state.frames.is_given(leaf.frame));
    // A page that lies in several mappings came with the first.
    let has = |page| cx.find_of(child, page).is_some();
    entries.retain(|&(page, ..)| page >= start || !has(page));
    // What a file can bring again is left to the child's faults, unless there are copies among it (`vma_needs_copy`).
    if entries.iter().all(|(_, leaf, _)| cx.state.frames.shared().is_cached(leaf.frame))
        && cx.state.swap.space.pages(asid, start, end).is_empty()
    {
        return Ok(());
    }
    // First, so that no page moves while the child's table grows.
    for &(page, leaf, _) in &entries {
        let other = PageKey { asid: child_asid, page };
        cx.state.frames.share(leaf.frame, PageKey { asid, page }, other);
        if leaf.writable {
            cx.update(page, |leaf| leaf.writable = false);
            protected.push(page);
        }
    }
    let mut of_child = cx.of(child);
    for (page, leaf, level) in entries {
        of_child.enter(page, Leaf { writable: false, ..leaf }, level)?;
    }
    tell(cx, start, end, Change::Share(child_asid));
    Ok(())
}
