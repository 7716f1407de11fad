//! The program's advice on ranges of its memory (`madvise`, `mlock`, flags of `mmap`), and what happens to their pages.

use pagewalk_trace::Advice;
use pagewalk_vm::addr::{PageSize, Pfn, VirtRange, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::reclaim::Victim;
use pagewalk_vm::table::Leaf;

use super::books::settle;
use super::change::{check_call, drop_range, remove_shown};
use super::context::{Context, pages_of};
use super::fault::bring;
use super::read_ahead::read_before_use;
use super::reclaim::page_out;
use super::residents::{Change, tell};
use super::sharing::pages_to_copy;
use crate::error::MachineError;
use crate::metrics::KernelStep;

/// Follows a piece of advice, for the parts of the range that are mapped.
pub(super) fn advise(cx: &mut Context<'_>, range: VirtRange, advice: Advice) -> Result<(), MachineError> {
    let affected = cx.process_mut().space.advise(range, advice);
    for range in check_call(cx, affected) {
        match advice {
            Advice::DontNeed => drop_range(cx, range)?,
            Advice::Remove => remove_shown(cx, range)?,
            Advice::Collapse => collapse(cx, range)?,
            Advice::Free => free_lazily(cx, range)?,
            Advice::Cold => cool(cx, range)?,
            Advice::PageOut => page_out_range(cx, range)?,
            Advice::WillNeed => read_back(cx, range)?,
            Advice::Populate => populate(cx, range, None)?,
            Advice::PopulateRead => populate(cx, range, Some(false))?,
            Advice::PopulateWrite => populate(cx, range, Some(true))?,
            Advice::Lock => {
                populate(cx, range, None)?;
                lock(cx, range, true)?;
            }
            Advice::LockOnFault => lock(cx, range, true)?,
            Advice::Unlock => lock(cx, range, false)?,
            Advice::HugePage
            | Advice::NoHugePage
            | Advice::DontFork
            | Advice::DoFork
            | Advice::WipeOnFork
            | Advice::KeepOnFork => {}
        }
    }
    Ok(())
}

/// Does `MADV_FREE`: pages count as never written to, so that they leave without a copy when memory is needed, and read as zeroes
/// then. One that is written to before is as any other page. Huge pages stay, and count as clean; pages in shared frames are left
/// alone.
fn free_lazily(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    let range = cx.align_edges(range)?;
    let (start, end) = (range.start.page(), range.end.page());
    settle(cx, start, end)?;
    tell(cx, start, end, Change::Free);
    let mut entries = cx.entries(start, end);
    let asid = cx.asid();
    let (shared, out) = (pages_to_copy(cx, range), cx.state.swap.space.pages(asid, start, end));
    entries.retain(|(vpn, _, _)| shared.binary_search(vpn).is_err());
    for &(vpn, leaf, _) in &entries {
        cx.update(vpn, |leaf| leaf.dirty = false);
        cx.state.frames.age(leaf.frame);
    }
    for page in out.into_iter().filter(|page| shared.binary_search(page).is_err()) {
        cx.state.swap.space.discard(asid, page, Vpn(page.0 + 1));
    }
    // A store through a translation that is known to be dirty would not make the page dirty again.
    cx.shoot_down(&pages_of(&entries));
    Ok(())
}

/// Does `MADV_COLD`: pages are the next to leave.
fn cool(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    settle(cx, range.start.page(), range.end.page())?;
    let entries = cx.entries_in(range);
    let frames = &mut cx.state.frames;
    let own: Vec<Pfn> = entries
        .iter()
        .map(|(_, leaf, _)| leaf.frame)
        .filter(|&frame| !frames.shared().is_shared(frame))
        .collect();
    own.into_iter().for_each(|frame| frames.age(frame));
    cx.shoot_down(&pages_of(&entries));
    Ok(())
}

/// Does `MADV_PAGEOUT`: pages leave now, if there is where they can go.
fn page_out_range(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    settle(cx, range.start.page(), range.end.page())?;
    for (page, leaf, _) in cx.entries_in(range) {
        if cx.state.frames.evict(leaf.frame) {
            let page = cx.key(page);
            page_out(cx, Victim { page, sharers: Vec::new() })?;
        }
    }
    Ok(())
}

/// Does `MADV_WILLNEED`: pages that left are read. They get entries when they are touched. An accelerator's pages are left to it.
fn read_back(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    if cx.state.accelerator.is_some() {
        return Ok(());
    }
    let asid = cx.asid();
    let mut pages = cx.state.swap.space.pages(asid, range.start.page(), range.end.page());
    pages.retain(|&page| cx.find(page).is_none());
    for page in pages {
        if !read_before_use(cx, PageKey { asid, page })? {
            break;
        }
    }
    Ok(())
}

/// Makes every page of `range` resident that is not, as stores or loads would do it; as the mapping allows, if that is not
/// said. Pages beyond one whose mapping does not allow it are left out, as Linux does. DEVIATION: each costs as much time as
/// a fault.
fn populate(cx: &mut Context<'_>, range: VirtRange, write: Option<bool>) -> Result<(), MachineError> {
    let mut vpn = range.start.page();
    while vpn < range.end.page() {
        let Some(vma) = cx.process().space.find(vpn.addr()) else { return Ok(()) };
        let write = write.unwrap_or(vma.protection.write && !vma.shared);
        let Some((_, next)) = bring(cx, vpn, write)? else { return Ok(()) };
        vpn = next;
    }
    Ok(())
}

/// Keeps what is resident in `range` from leaving, or lets it leave again.
fn lock(cx: &mut Context<'_>, range: VirtRange, is_locked: bool) -> Result<(), MachineError> {
    settle(cx, range.start.page(), range.end.page())?;
    for (_, leaf, _) in cx.entries_in(range) {
        cx.state.frames.lock(leaf.frame, is_locked);
    }
    Ok(())
}

/// Does `MADV_COLLAPSE`: the pages of each aligned 2 MiB (or large page of another granule) are copied into a huge page. DEVIATION: slots of which pages are on the
/// swap device are left as they are, and nothing is moved to make room for a huge page.
fn collapse(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    let huge = cx.state.shape().granule.large();
    if cx.state.shape().level_of(huge).is_none() {
        return Ok(());
    }
    for first in (range.start.page().0..range.end.page().0).step_by(huge.base_pages() as usize) {
        collapse_slot(cx, VirtRange::sized(Vpn(first).addr(), huge.bytes()), huge)?;
    }
    Ok(())
}

fn collapse_slot(cx: &mut Context<'_>, slot: VirtRange, huge: PageSize) -> Result<(), MachineError> {
    let (start, end) = (slot.start.page(), slot.end.page());
    settle(cx, start, end)?;
    let entries = cx.entries(start, end);
    let is_huge = entries.iter().any(|&(_, _, level)| level > 0);
    let asid = cx.asid();
    let is_in_memory = |page: &Vpn| entries.binary_search_by_key(page, |entry| entry.0).is_ok();
    let copies = cx.state.swap.space.pages(asid, start, end);
    if entries.is_empty() || is_huge || !copies.iter().all(is_in_memory) {
        return Ok(());
    }
    let Ok(frame) = cx.state.frames.take_kept(huge) else { return Ok(()) };
    cx.clear(start, end);
    for &(vpn, leaf, level) in &entries {
        cx.release_page(vpn, leaf.frame, level);
    }
    cx.state.swap.space.discard(asid, start, end);
    cx.shoot_down(&pages_of(&entries));
    let (_, first, _) = entries[0];
    let dirty = entries.iter().any(|(_, leaf, _)| leaf.dirty) || !copies.is_empty();
    let writable = cx.process().space.find(slot.start).is_some_and(|vma| vma.protection.write);
    cx.enter(start, Leaf { frame, dirty, writable, ..first }, cx.state.shape().rank(huge) as u32)?;
    cx.count_resident(huge);
    cx.state.counts.changes.collapses += 1;
    cx.charge(KernelStep::Copy, cx.state.spec.kernel.copy_ps(huge));
    Ok(())
}
