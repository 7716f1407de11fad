//! Changes of address spaces: mappings that come, go, move, and get another protection.

use pagewalk_trace::{Backing, Event, Mapping, PageFrame, ProcessId, Protection};
use pagewalk_vm::addr::{Asid, Granule, PAGE_BYTES, PageSize, Pfn, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::reclaim::PagePool;
use pagewalk_vm::space::AddressSpace;
use pagewalk_vm::table::{Leaf, Upkeep};

use super::books::settle;
use super::context::{Context, pages_of};
use super::reclaim::take_movable;
use super::residents::{Change, tell};
use super::sharing::{object_of, pages_to_copy};
use super::state::{Process, State};
use super::writes::write_bytes;
use crate::error::MachineError;
use crate::metrics::KernelStep;

/// Address-space identifiers that a TLB key holds.
const MOST_PROCESSES: usize = 1 << 12;

/// The first address above any that an event names; for whole address spaces.
pub(super) const SPACE_END: VirtAddr = VirtAddr(u64::MAX >> 1);

/// Accesses have 48 bits of address.
const ACCESS_END: VirtAddr = VirtAddr(1 << 48);

/// Makes a process with an empty page table; returns its place.
pub(super) fn new_process(
    cx: &mut Context<'_>,
    id: ProcessId,
    space: Option<AddressSpace>,
) -> Result<usize, MachineError> {
    let State { processes, table_space, frames, spec, .. } = &mut *cx.state;
    let taken: Vec<u16> = processes.list.iter().map(|process| process.asid.0).collect();
    let asid = (0..MOST_PROCESSES as u16).find(|asid| !taken.contains(asid)).map(Asid);
    let Some(asid) = asid else {
        let machine = spec.name.clone();
        return Err(MachineError::TooManyProcesses { machine, limit: MOST_PROCESSES });
    };
    let mut store = table_space.store(frames, &spec.kernel);
    let seed = processes.seed ^ u64::from(asid.0) << 16;
    let made = cx.tables.add(seed, &mut store);
    made.map_err(|missing| table_space.no_memory(missing, spec, frames))?;
    let space = space.unwrap_or_else(|| empty_space(cx.state));
    let processes = &mut cx.state.processes.list;
    processes.push(Process { id, asid, space, paid: Upkeep::default() });
    Ok(processes.len() - 1)
}

fn empty_space(state: &State) -> AddressSpace {
    let policy = state.spec.translation.huge_pages.into();
    let space = match state.processes.announces_mappings {
        true => AddressSpace::new(policy),
        false => AddressSpace::implicit(policy),
    };
    space.with_granule(state.shape().granule)
}

/// Removes everything of the process, which runs another program.
pub(super) fn exec(cx: &mut Context<'_>) -> Result<(), MachineError> {
    drop_pages(cx, VirtRange::new(VirtAddr(0), SPACE_END))?;
    forget_given(cx);
    cx.process_mut().space = empty_space(cx.state);
    Ok(())
}

/// Frees everything of the process. Returns whether the process itself is gone: the last one stays, without memory.
pub(super) fn end_process(cx: &mut Context<'_>) -> Result<bool, MachineError> {
    drop_pages(cx, VirtRange::new(VirtAddr(0), SPACE_END))?;
    forget_given(cx);
    let State { processes, table_space, frames, spec, .. } = &mut *cx.state;
    if processes.list.len() == 1 {
        return Ok(false);
    }
    processes.list.remove(cx.process);
    cx.tables.remove(cx.process, &mut table_space.store(frames, &spec.kernel));
    Ok(true)
}

/// Returns whether an event is a call that changes the mappings of a process.
pub(super) fn is_of_mappings(event: &Event) -> bool {
    matches!(
        event,
        Event::Map(_) | Event::Unmap(_) | Event::Protect(..) | Event::Remap { .. } | Event::Break(_)
    )
}

pub(super) fn map(cx: &mut Context<'_>, mapping: Mapping) -> Result<(), MachineError> {
    let object = object_of(cx, &mapping);
    let dropped = cx.process_mut().space.map(Mapping { object, ..mapping });
    let is_others = mapping.backing != Backing::Anonymous || mapping.shared || mapping.huge.is_some();
    if cx.process().space.has_explicit_pages() && is_others && dropped.is_ok() {
        let range = mapping.range.to_pages();
        let end = range.end.align_up(mapping.huge.unwrap_or_default().bytes());
        return clear_way(cx, VirtRange { end, ..range });
    }
    drop_ranges(cx, dropped)
}

/// Removes everything resident in a range that explicit huge pages around it may cover, although nothing of theirs is mapped
/// there. DEVIATION: their splitting is ours; hugetlbfs would have refused the mapping.
fn clear_way(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    cx.split_edges(range)?;
    drop_pages(cx, range)
}

pub(super) fn unmap(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    let dropped = cx.process_mut().space.unmap(range);
    drop_ranges(cx, dropped)
}

pub(super) fn set_break(cx: &mut Context<'_>, heap: VirtRange) -> Result<(), MachineError> {
    let dropped = cx.process_mut().space.set_break(heap);
    drop_ranges(cx, dropped)
}

pub(super) fn protect(
    cx: &mut Context<'_>,
    range: VirtRange,
    protection: Protection,
) -> Result<(), MachineError> {
    let changed = cx.process_mut().space.protect(range, protection);
    for range in check_call(cx, changed) {
        let range = cx.align_edges(range)?;
        let (start, end) = (range.start.page(), range.end.page());
        settle(cx, start, end)?;
        let to_copy = pages_to_copy(cx, range);
        let State { table_space, frames, spec, .. } = &mut *cx.state;
        let mut resident = Vec::new();
        let mut change = |vpn, leaf, _| {
            resident.push(vpn);
            // A page that lost all access keeps its entry: x86 has no present entry without read access.
            let writable = protection.write && to_copy.binary_search(&vpn).is_err();
            Some(Leaf { writable, executable: protection.execute, ..leaf })
        };
        let mut store = table_space.store(frames, &spec.kernel);
        cx.tables.visit(cx.process, &mut store, (start, end), &mut change);
        tell(cx, start, end, Change::Protect(protection));
        cx.shoot_down(&resident);
    }
    Ok(())
}

pub(super) fn remap(cx: &mut Context<'_>, from: VirtRange, to: VirtRange) -> Result<(), MachineError> {
    let Ok(remapped) = cx.process_mut().space.remap(from, to) else {
        cx.state.counts.changes.refused_calls += 1;
        return Ok(());
    };
    remapped.dropped.into_iter().try_for_each(|range| drop_range(cx, range))?;
    remapped.moved.into_iter().try_for_each(|(range, target)| move_range(cx, range, target))
}

/// Moves the pages of `range` to `target`. Base pages of more than 4 KiB, which the range and others may share, move if they lie
/// inside and begin a page there, too; what is left of them is dropped, and faults again. DEVIATION: a kernel with such pages moves
/// whole ones only.
fn move_range(cx: &mut Context<'_>, range: VirtRange, target: VirtAddr) -> Result<(), MachineError> {
    let base = cx.state.shape().granule.base();
    if base == PageSize::Size4K {
        return move_pages(cx, range, target);
    }
    let inner = VirtRange::new(range.start.align_up(base.bytes()), range.end.align_down(base.bytes()));
    if inner.is_empty() || range.start.offset_in(base) != target.offset_in(base) {
        return drop_range(cx, range);
    }
    drop_range(cx, VirtRange::new(range.start, inner.start))?;
    drop_range(cx, VirtRange::new(inner.end, range.end))?;
    move_pages(cx, inner, target.add(inner.start.0 - range.start.0))
}

/// Moves the entries of `range` to begin at `target`; large pages that would be unaligned there are split.
fn move_pages(cx: &mut Context<'_>, range: VirtRange, target: VirtAddr) -> Result<(), MachineError> {
    cx.split_edges(range)?;
    if cx.process().space.has_explicit_pages() || cx.state.shape().granule != Granule::Size4K {
        clear_way(cx, VirtRange::sized(target, range.bytes()))?;
    }
    let (start, end) = (range.start.page(), range.end.page());
    let distance = target.page().0.wrapping_sub(start.0);
    for (level, size) in cx.state.shape().granule.sizes().iter().enumerate().skip(1).rev() {
        let pages = size.base_pages();
        if distance.is_multiple_of(pages) {
            continue;
        }
        for vpn in (start.0.next_multiple_of(pages)..end.0).step_by(pages as usize).map(Vpn) {
            let found = cx.find(vpn);
            if found.is_some_and(|(_, of)| of == level as u32) {
                cx.split(vpn)?;
            }
        }
    }
    settle(cx, start, end)?;
    tell(cx, start, end, Change::Move(target.page()));
    let moved = cx.clear(start, end);
    cx.shoot_down(&pages_of(&moved));
    let moved_page = |vpn: Vpn| Vpn(vpn.0.wrapping_add(distance));
    // A hash-placed page may not stay where it is under another number: it is copied. All give their frames back before
    // the first takes a new one.
    let must_copy = |frames: &mut PagePool, from, to, frame| {
        let is_shared = frames.shared().is_shared(frame);
        (!frames.rename(frame, from, to), is_shared)
    };
    let copied: Vec<(bool, bool)> = moved
        .iter()
        .map(|&(vpn, leaf, _)| {
            let (from, to) = (cx.key(vpn), cx.key(moved_page(vpn)));
            must_copy(&mut cx.state.frames, from, to, leaf.frame)
        })
        .collect();
    for ((vpn, mut leaf, level), (copied, was_shared)) in moved.into_iter().zip(copied) {
        let key = cx.key(moved_page(vpn));
        if copied {
            // One frame more, if others keep the one that the page had.
            if was_shared {
                cx.count_resident(PageSize::Size4K);
            }
            // Entered at once: the next one may already push it out.
            leaf.frame = take_movable(cx, key)?.map_err(|full| cx.state.out_of_frames(full))?;
            cx.state.counts.changes.copied_pages += 1;
            cx.charge(KernelStep::Copy, 0);
            let ps = cx.state.spec.kernel.copy_ps(PageSize::Size4K);
            write_bytes(cx, KernelStep::Copy, (leaf.frame.addr(), PAGE_BYTES), ps);
        }
        cx.enter(key.page, leaf, level)?;
    }
    Ok(())
}

/// Returns the ranges of a call. One that Linux would have refused as well (the front-end reports only calls that
/// succeeded, so this is a difference between its kernel and ours) is counted, and has no effect.
pub(super) fn check_call<E>(cx: &mut Context<'_>, answer: Result<Vec<VirtRange>, E>) -> Vec<VirtRange> {
    answer.unwrap_or_else(|_| {
        cx.state.counts.changes.refused_calls += 1;
        Vec::new()
    })
}

fn drop_ranges<E>(cx: &mut Context<'_>, ranges: Result<Vec<VirtRange>, E>) -> Result<(), MachineError> {
    check_call(cx, ranges).into_iter().try_for_each(|range| drop_range(cx, range))
}

/// Unmaps what is resident in `range`; a huge page that lies across its end is split, or, if it is an explicit one, stays as long
/// as anything in it is mapped.
pub(super) fn drop_range(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    let range = cx.align_edges(range)?;
    drop_pages(cx, range)
}

/// Unmaps what is resident in `range` and frees its frames.
fn drop_pages(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    let (start, end) = (range.start.page(), range.end.page());
    settle(cx, start, end)?;
    tell(cx, start, end, Change::Drop);
    let pages = cx.clear(start, end);
    for &(vpn, leaf, level) in &pages {
        cx.release_page(vpn, leaf.frame, level);
    }
    cx.state.counts.changes.dropped_pages += pages.len() as u64;
    cx.shoot_down(&pages_of(&pages));
    let kernel = &cx.state.spec.kernel;
    let shape = cx.state.shape();
    let unmap_ps = pages.iter().map(|&(_, _, level)| kernel.unmap_ps(shape.page_size(level))).sum();
    if unmap_ps > 0 {
        cx.work(KernelStep::Unmap, unmap_ps);
    }
    Ok(())
}

/// Does `MADV_REMOVE`: removes from every mapping the pages that `range` shows.
pub(super) fn remove_shown(cx: &mut Context<'_>, range: VirtRange) -> Result<(), MachineError> {
    let mut start = range.start;
    while start < range.end {
        let Some(&vma) = cx.process().space.find(start) else { return Ok(()) };
        let end = vma.range.end.min(range.end);
        if let Some((object, first)) = vma.object_page(start.page()) {
            let pages = end.page().0 - start.page().0;
            let last = first.saturating_add(pages);
            let frames: Vec<Pfn> = cx.state.frames.shared().cached_in(object, first, last).collect();
            frames.into_iter().try_for_each(|frame| drop_frame(cx, frame))?;
        }
        start = end;
    }
    Ok(())
}

/// Drops all pages that have a frame.
fn drop_frame(cx: &mut Context<'_>, frame: Pfn) -> Result<(), MachineError> {
    for sharer in cx.state.frames.shared().pages(frame).to_vec() {
        let owner = cx.state.processes.of(sharer.asid);
        let page = VirtRange::sized(sharer.page.addr(), cx.state.shape().granule.base().bytes());
        drop_range(&mut cx.of(owner), page)?;
    }
    Ok(())
}

/// Forgets the trace's pages of the process.
fn forget_given(cx: &mut Context<'_>) {
    let asid = cx.asid();
    if let Some(given) = cx.state.frames.given_mut() {
        given.forget(asid);
    }
}

/// Notes the frame that the trace gives a page. If it is somewhere else now, it goes, and the next touch brings it to the new
/// place.
pub(super) fn learn_frame(cx: &mut Context<'_>, given: PageFrame) -> Result<(), MachineError> {
    let asid = cx.asid();
    // No access reaches beyond, and no table does.
    let taking = cx.state.frames.given_mut().filter(|_| given.range().end <= ACCESS_END);
    if !taking.is_some_and(|frames| frames.learn(asid, given)) {
        return Ok(());
    }
    let is_elsewhere = |&(page, leaf, _): &(Vpn, Leaf, u32)| given.frame_of(page) != leaf.frame;
    if cx.entries_in(given.range()).iter().any(is_elsewhere) {
        drop_range(cx, given.range())?;
    }
    Ok(())
}
