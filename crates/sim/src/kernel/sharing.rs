//! Pages that several processes have in one frame: children of `fork`, and what happens when one of them writes.
//!
//! A child gets the parent's entries, and neither may write through its own: the first store to a page faults and takes a
//! copy, or, where no other page has the frame any more, the frame itself (Linux, `mm/memory.c`, `do_wp_page`).
//!
//! DEVIATION: a store to a transparent huge page that is shared splits it for every process that has it, where Linux splits
//! the writer's entry only; then 4 KiB are copied. `fork` itself takes the time of the child's page table, but none for
//! copying entries.
//!
//! Pages of files and of shared memory are in the page cache as long as any mapping has them: the next mapping of the same
//! page, in whatever process, has the same frame. A private mapping that is only read has it, too, and takes a copy at the
//! first store. DEVIATION: a page that no mapping has any more is not kept; files are read without time, whether the page is
//! cached or not. A load that faults enters the cached pages around it, too, as many as `fault-around` says (Linux,
//! `mm/memory.c`, `do_fault_around`). DEVIATION: all pages of files count as cached there; a shared page may be written to at once,
//! where some file systems want to hear of the first store.
//!
//! Where frames are placed by hashing, a child's page cannot name its parent's frame by a code, because codes are about a page
//! number and an address space. DEVIATION: the entry says that the frame is an ordinary one, and the table beside names it;
//! the copy that a store takes has a code. The Mosaic paper's prototype leaves shared pages out altogether.

use pagewalk_trace::{Backing, Mapping, ObjectPages};
use pagewalk_vm::addr::{Granule, PAGE_BYTES, PageSize, Pfn, VirtRange, Vpn};
use pagewalk_vm::reclaim::ObjectPage;
use pagewalk_vm::space::{FaultPlan, Vma};
use pagewalk_vm::table::Leaf;

use super::context::Context;
use super::reclaim::take_movable;
use super::writes::write_bytes;
use crate::error::MachineError;
use crate::metrics::KernelStep;

/// Returns whether the pages of a mapping can be kept on a swap device: memory that is private and no file's.
pub(super) fn is_movable(vma: &Vma) -> bool {
    vma.backing == Backing::Anonymous && !vma.shared
}

/// Enters a page that a fault brought.
pub(super) fn enter_page(
    cx: &mut Context<'_>,
    first: Vpn,
    frame: Pfn,
    level: u32,
    write: bool,
    plan: &FaultPlan,
) -> Result<(), MachineError> {
    let protection = plan.vma.protection;
    // A private mapping has a page of the page cache until it is written to.
    let is_borrowed = !plan.vma.shared && cx.state.frames.shared().is_cached(frame);
    let leaf = Leaf {
        frame,
        readable: protection.read,
        writable: protection.write && !is_borrowed,
        executable: protection.execute,
        accessed: true,
        dirty: write,
    };
    cx.enter(first, leaf, level)
}

/// Gives a page whose mapping allows a store and whose entry does not a frame of its own, or the one that it has.
pub(super) fn copy_on_write(cx: &mut Context<'_>, vpn: Vpn, plan: &FaultPlan) -> Result<(), MachineError> {
    let (_, mut leaf, mut level) = cx.entry(vpn);
    let is_explicit = plan.vma.huge.is_some() || cx.process().space.has_explicit_pages();
    if level > 0 && !is_explicit && cx.state.frames.shared().is_shared(leaf.frame) {
        cx.split(vpn)?;
        (_, leaf, level) = cx.entry(vpn);
    }
    let size = cx.state.shape().page_size(level);
    let key = cx.key(vpn.align_down(size));
    cx.state.counts.faults.minor[level as usize] += 1;
    cx.charge(KernelStep::FirstTouch, cx.state.spec.kernel.minor_fault_ps);
    let is_cached = cx.state.frames.shared().is_cached(leaf.frame);
    let has_others = cx.state.frames.leave(leaf.frame, key);
    if is_cached && !has_others {
        cx.give_block(leaf.frame, size);
    } else if !has_others {
        // All others have gone, or have copies of their own.
        cx.update(key.page, |leaf| (leaf.writable, leaf.dirty) = (true, true));
        cx.processor.invalidate(key.asid, key.page);
        return Ok(());
    }
    if plan.vma.locked {
        cx.state.frames.lock(leaf.frame, false);
    }
    take_copy(cx, key.page, size, plan)
}

/// Gives a page a frame of its own; other pages keep the one that it had.
fn take_copy(cx: &mut Context<'_>, page: Vpn, size: PageSize, plan: &FaultPlan) -> Result<(), MachineError> {
    let taken = match size == PageSize::Size4K && is_movable(&plan.vma) {
        true => take_movable(cx, cx.key(page))?,
        false => cx.state.frames.take_kept(size),
    };
    let frame = taken.map_err(|full| cx.state.out_of_frames(full))?;
    replace_frame(cx, page, frame, size, plan)?;
    if plan.vma.locked {
        cx.state.frames.lock(frame, true);
    }
    cx.count_resident(size);
    cx.state.counts.changes.copies_on_write += 1;
    let ps = cx.state.spec.kernel.copy_ps(size);
    write_bytes(cx, KernelStep::Copy, (frame.addr(), size.bytes()), ps);
    cx.shoot_down(&[page]);
    Ok(())
}

/// Changes the entry of a page that is written to, so that it names another frame. Where tables hold codes, it may move from one
/// table to the other.
fn replace_frame(
    cx: &mut Context<'_>,
    page: Vpn,
    frame: Pfn,
    size: PageSize,
    plan: &FaultPlan,
) -> Result<(), MachineError> {
    if cx.state.shape().is_compressed {
        cx.clear(page, Vpn(page.0 + 1));
        return enter_page(cx, page, frame, cx.state.shape().rank(size) as u32, true, plan);
    }
    cx.update(page, |leaf| *leaf = Leaf { frame, writable: true, dirty: true, accessed: true, ..*leaf });
    Ok(())
}

/// Maps a page of a file or of shared memory whose frame another mapping has. Returns whether there is one.
pub(super) fn map_cached(
    cx: &mut Context<'_>,
    page: Vpn,
    size: PageSize,
    write: bool,
    plan: &FaultPlan,
) -> Result<bool, MachineError> {
    if !enter_cached(cx, page, size, write, plan)? {
        return Ok(false);
    }
    cx.state.counts.faults.minor[cx.state.shape().rank(size)] += 1;
    cx.state.counts.faults.page_cache += 1;
    let kernel = &cx.state.spec.kernel;
    let ps = kernel.file_fault_ps.unwrap_or(kernel.minor_fault_ps);
    cx.charge(KernelStep::FirstTouch, ps);
    Ok(true)
}

/// Enters a page whose frame another mapping has. Returns whether there is one.
fn enter_cached(
    cx: &mut Context<'_>,
    page: Vpn,
    size: PageSize,
    write: bool,
    plan: &FaultPlan,
) -> Result<bool, MachineError> {
    let cached = shown(page, size, write, plan).and_then(|shown| cx.state.frames.shared().cached(shown));
    let Some(frame) = cached else { return Ok(false) };
    let other = cx.state.frames.shared().pages(frame)[0];
    let key = cx.key(page);
    cx.state.frames.share(frame, other, key);
    enter_page(cx, page, frame, cx.state.shape().rank(size) as u32, write, plan)?;
    Ok(true)
}

/// Enters the pages around one of a file that a load has faulted for, in the aligned block of `fault-around` and in the mapping, which
/// have no entry yet. A full memory ends that.
pub(super) fn enter_around(cx: &mut Context<'_>, vpn: Vpn, plan: &FaultPlan) -> Result<(), MachineError> {
    let pages = cx.state.spec.kernel.fault_around_bytes / PAGE_BYTES;
    let vma = &plan.vma;
    let is_of_file = vma.backing == Backing::File && vma.huge.is_none() && !vma.locked;
    if pages <= 1 || !is_of_file || cx.state.shape().granule != Granule::Size4K {
        return Ok(());
    }
    // A trace that gives frames says what is there.
    if cx.state.frames.given().is_some() {
        return Ok(());
    }
    let first = vpn.0 & !(pages - 1);
    let around = (first..first + pages).map(Vpn);
    for page in around.filter(|page| vma.range.contains(page.addr())) {
        let is_vacant = cx.tables.is_vacant(cx.process, &cx.state.table_space.memory, page, 0);
        if !is_vacant || enter_cached(cx, page, PageSize::Size4K, false, plan)? {
            continue;
        }
        let Ok(frame) = cx.state.frames.take_kept(PageSize::Size4K) else { break };
        note_cached(cx, page, PageSize::Size4K, frame, false, plan);
        enter_page(cx, page, frame, 0, false, plan)?;
        cx.count_resident(PageSize::Size4K);
    }
    Ok(())
}

/// Notes a page's new frame: other mappings that show the same will find it.
pub(super) fn note_cached(
    cx: &mut Context<'_>,
    page: Vpn,
    size: PageSize,
    frame: Pfn,
    write: bool,
    plan: &FaultPlan,
) {
    if let Some(shown) = shown(page, size, write, plan) {
        let key = cx.key(page);
        cx.state.frames.cache(frame, shown, key);
    }
}

/// Returns the object that a new mapping shows: one of its own where none is known.
pub(super) fn object_of(cx: &mut Context<'_>, mapping: &Mapping) -> Option<ObjectPages> {
    let own = |cx: &mut Context<'_>| ObjectPages { object: cx.state.processes.new_object(), first: 0 };
    mapping.object.or_else(|| Some(own(cx)))
}

/// Returns, of the process's entries, the pages that a store must copy although their mapping allows it.
pub(super) fn pages_to_copy(cx: &mut Context<'_>, range: VirtRange) -> Vec<Vpn> {
    if cx.state.frames.shared().is_empty() {
        return Vec::new();
    }
    let entries = cx.entries_in(range);
    let space = &cx.process().space;
    let is_private = |page: Vpn| space.find(page.addr()).is_none_or(|vma| !vma.shared);
    let is_to_copy = |&&(page, leaf, _): &&(Vpn, Leaf, u32)| {
        cx.state.frames.shared().is_shared(leaf.frame) && is_private(page)
    };
    entries.iter().filter(is_to_copy).map(|entry| entry.0).collect()
}

/// Returns the page of an object that a fault brings: none for a store of a private mapping, which gets a copy at once.
fn shown(page: Vpn, size: PageSize, write: bool, plan: &FaultPlan) -> Option<ObjectPage> {
    let (object, number) = plan.vma.object_page(page).filter(|_| plan.vma.shared || !write)?;
    Some(ObjectPage { object, size, number })
}
