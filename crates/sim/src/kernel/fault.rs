//! Page faults: a page that is not there gets a frame and an entry, a page that may not be written to gets a copy.
//!
//! A fault goes down once: [`fault`] finds the mapping, [`map_page`] the frame, and [`Context::enter`] makes the entry.

use pagewalk_trace::{Backing, Mapping, PageFrame};
use pagewalk_vm::addr::{PAGE_BYTES, PageSize, Pfn, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::space::{FaultError, FaultPlan, Vma};
use pagewalk_vm::table::Leaf;

use super::books;
use super::context::Context;
use super::read_ahead::bring_back;
use super::reclaim::take_movable;
use super::sharing::{copy_on_write, enter_around, enter_page, is_movable, map_cached, note_cached};
use super::writes::write_bytes;
use crate::error::MachineError;
use crate::metrics::KernelStep;

/// The reason why a fault brought no page.
pub(crate) enum FaultFailure {
    /// The protection does not allow the access: the program gets a signal.
    Signal,
    /// The machine cannot go on.
    Machine(MachineError),
}

impl From<MachineError> for FaultFailure {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

/// Handles a fault for a page that is not there: the accelerator brings it, or the kernel finds a frame for it and makes its entry.
pub(super) fn fault(cx: &mut Context<'_>, addr: VirtAddr, write: bool) -> Result<(), FaultFailure> {
    if cx.state.accelerator.is_some() && books::fetch(cx, addr)? {
        return Ok(());
    }
    let plan = loop {
        match cx.process_mut().space.fault(addr, write, false) {
            Ok(plan) => break plan,
            Err(FaultError::ProtectionViolation { .. }) => return Err(FaultFailure::Signal),
            Err(FaultError::Unmapped { .. }) => map_unannounced(cx, addr),
        }
    };
    map_page(cx, addr.page(), write, &plan)?;
    if !write {
        enter_around(cx, addr.page(), &plan)?;
    }
    Ok(())
}

/// Handles a store to a page whose entry does not allow it: a copy is due, or the mapping does not allow the store either.
pub(super) fn write_protected(cx: &mut Context<'_>, addr: VirtAddr) -> Result<(), FaultFailure> {
    match cx.process_mut().space.fault(addr, true, false) {
        Ok(plan) => Ok(copy_on_write(cx, addr.page(), &plan)?),
        Err(_) => Err(FaultFailure::Signal),
    }
}

/// Brings the page of `vpn` as an access would, if it is not there or does not allow the access. Returns its entry and the first
/// page behind it, and none if its mapping does not allow the access.
pub(super) fn bring(
    cx: &mut Context<'_>,
    vpn: Vpn,
    write: bool,
) -> Result<Option<(Leaf, Vpn)>, MachineError> {
    loop {
        let brought = match cx.find(vpn) {
            Some((leaf, level)) if leaf.writable || !write => {
                let size = cx.state.shape().page_size(level);
                return Ok(Some((leaf, Vpn(vpn.align_down(size).0 + size.base_pages()))));
            }
            Some(_) => write_protected(cx, vpn.addr()),
            None => fault(cx, vpn.addr(), write),
        };
        match brought {
            Ok(()) => {}
            Err(FaultFailure::Machine(error)) => return Err(error),
            Err(FaultFailure::Signal) => return Ok(None),
        }
    }
}

/// Maps a page outside everything announced: the program made the access, so the page is there. The front-end missed the mapping
/// (or announces none).
fn map_unannounced(cx: &mut Context<'_>, addr: VirtAddr) {
    let page = VirtRange::sized(addr.align_down(PAGE_BYTES), PAGE_BYTES);
    cx.state.counts.faults.unannounced_pages += 1;
    let mapped = cx.process_mut().space.map(Mapping::anonymous(page));
    debug_assert!(mapped.is_ok(), "{addr} is a 48-bit address: {mapped:?}");
}

/// Maps a page for a fault: one that has left, or one that was never there.
fn map_page(cx: &mut Context<'_>, vpn: Vpn, write: bool, plan: &FaultPlan) -> Result<(), MachineError> {
    let key = cx.key(vpn);
    if !is_movable(&plan.vma) || cx.state.swap.space.slot(key).is_none() {
        return map_new(cx, vpn, write, plan);
    }
    let costs = &cx.state.spec.kernel.paging;
    let (trap_ps, find_ps) = (costs.trap_ps, costs.find_ps);
    cx.work(KernelStep::Trap, trap_ps);
    cx.work(KernelStep::Find, find_ps);
    let frame = bring_back(cx, key)?;
    enter_page(cx, key.page, frame, 0, write, plan)?;
    if plan.vma.locked {
        cx.state.frames.lock(frame, true);
    }
    cx.count_resident(PageSize::Size4K);
    cx.charge(KernelStep::Enter, cx.state.spec.kernel.paging.enter_ps);
    cx.work(KernelStep::Book, cx.state.spec.kernel.paging.book_ps);
    Ok(())
}

/// Maps a page that was never there: as the trace has it, if it says so; otherwise the largest size that the plan allows,
/// whose slot is empty and for which there is a frame.
fn map_new(cx: &mut Context<'_>, vpn: Vpn, write: bool, plan: &FaultPlan) -> Result<(), MachineError> {
    if let Some(given) = take_given(cx, vpn, plan) {
        cx.state.counts.faults.given_pages += 1;
        return enter_new(cx, given.page(), given.size(), given.frame(), write, plan);
    }
    let (shape, mut failed) = (cx.state.shape(), None);
    let possible = |size: &PageSize| shape.level_of(*size).is_some();
    let mut sizes = plan.page_sizes.iter().copied().filter(possible).peekable();
    // DEVIATION: a mapping of huge pages gets small ones where the table holds no others.
    let base = shape.granule.base();
    let smallest = sizes.peek().is_none().then_some(base);
    for size in sizes.chain(smallest) {
        let key = cx.key(vpn.align_down(size));
        if size != base && !is_free(cx, key, size) {
            continue;
        }
        if map_cached(cx, key.page, size, write, plan)? {
            return Ok(());
        }
        let taken = match size == PageSize::Size4K && is_movable(&plan.vma) {
            true => take_movable(cx, key)?,
            false => cx.state.frames.take_kept(size),
        };
        match taken {
            Ok(frame) => {
                note_cached(cx, key.page, size, frame, write, plan);
                cx.state.counts.faults.own_pages += 1;
                cx.state.counts.resident.pages[shape.rank(size)] += 1;
                return enter_new(cx, key.page, size, frame, write, plan);
            }
            Err(full) => failed = Some(full),
        }
    }
    Err(match failed {
        Some(full) => cx.state.out_of_frames(full),
        None => unreachable!("a faulting page's own slot is empty"),
    })
}

/// Returns whether a large page may have its slot: nothing is mapped there, and the trace gives no page of it a frame.
fn is_free(cx: &Context<'_>, key: PageKey, size: PageSize) -> bool {
    is_vacant(cx, key.page, cx.state.shape().rank(size) as u32)
        && !cx.state.frames.given().is_some_and(|given| given.any_in(key.asid, key.page, size))
}

/// Returns whether nothing at all is mapped in the slot of a page of `level` that holds `vpn`.
fn is_vacant(cx: &Context<'_>, vpn: Vpn, level: u32) -> bool {
    cx.tables.is_vacant(cx.process, &cx.state.table_space.memory, vpn, level)
}

/// Maps a page that was never there to its frame.
fn enter_new(
    cx: &mut Context<'_>,
    first: Vpn,
    size: PageSize,
    frame: Pfn,
    write: bool,
    plan: &FaultPlan,
) -> Result<(), MachineError> {
    let level = cx.state.shape().rank(size);
    enter_page(cx, first, frame, level as u32, write, plan)?;
    if !write && faults_at_first_store(cx, &plan.vma) {
        cx.update(first, |leaf| leaf.writable = false);
    }
    if plan.vma.locked {
        cx.state.frames.lock(frame, true);
    }
    cx.state.counts.faults.minor[level] += 1;
    cx.note_resident();
    let kernel = &cx.state.spec.kernel;
    let is_of_file = plan.vma.backing == Backing::File;
    let is_copied = is_of_file && write && !plan.vma.shared;
    if let (true, false, Some(ps)) = (is_of_file, is_copied, kernel.file_fault_ps) {
        cx.charge(KernelStep::FirstTouch, ps);
        return Ok(());
    }
    let (step, ps) = match is_copied {
        true => (KernelStep::Copy, kernel.copy_ps(size)),
        false => (KernelStep::Zero, kernel.zero_ps(size)),
    };
    cx.charge(KernelStep::FirstTouch, kernel.minor_fault_ps);
    write_bytes(cx, step, (frame.addr(), size.bytes()), ps);
    Ok(())
}

/// Returns whether a page that was never written to is entered so that its first store faults. On Linux it shows a page of zeroes up to
/// then (`mm/memory.c`, `do_anonymous_page`).
///
/// DEVIATION: it has its own frame from the beginning, whose zeroing the first fault pays. A trace may begin after its program did:
/// memory that it has not written to may hold data, and pages of data must not share a frame.
fn faults_at_first_store(cx: &Context<'_>, vma: &Vma) -> bool {
    let has_zeroes = is_movable(vma) && !vma.locked && vma.huge.is_none();
    cx.state.spec.kernel.first_stores_fault && has_zeroes && cx.state.frames.given().is_none()
}

/// Takes the frame that the trace gives to a page that has none: in a block as large as the page was, or in a part of it if
/// the table has no such pages, has something else in the slot already, or the mapping ends within.
fn take_given(cx: &mut Context<'_>, vpn: Vpn, plan: &FaultPlan) -> Option<PageFrame> {
    let given = cx.state.frames.given()?.of(cx.asid(), vpn)?;
    let is_possible = |size: &PageSize| {
        let (level, part) = (*size as u32, given.part(vpn, *size));
        // A source that announces no mappings has those that its accesses imply, of 2 MiB each.
        let is_mapped = !cx.state.processes.announces_mappings || plan.vma.range.covers(part.range());
        cx.state.shape().has_pages_at(level) && is_mapped && is_vacant(cx, part.page(), level)
    };
    let large = PageSize::ALL[1..=given.size() as usize].iter().rev().copied().find(is_possible);
    let part = given.part(vpn, large.unwrap_or_default());
    cx.state.frames.given_mut()?.take(part);
    Some(part)
}
