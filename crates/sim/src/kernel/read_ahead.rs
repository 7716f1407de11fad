//! Pages come back from the swap device: the one that is wanted, and those beside it.

use pagewalk_vm::addr::Pfn;
use pagewalk_vm::frame::PageKey;

use super::context::Context;
use super::reclaim::take_movable;
use crate::error::MachineError;
use crate::metrics::KernelStep;
use crate::time::Transfer;

/// Brings a page that has left into a frame. It may still be in memory, on its way out, or again, because it was read ahead.
pub(super) fn bring_back(cx: &mut Context<'_>, key: PageKey) -> Result<Pfn, MachineError> {
    if let Some(cached) = cx.state.swap.take_cached(key) {
        cx.state.counts.faults.swap_cache += 1;
        cx.work_until(KernelStep::Read, cached.ready_ps);
        return Ok(cached.frame);
    }
    let now_ps = cx.now();
    let is_here = cx.state.swap.is_leaving(key, now_ps);
    cx.work(KernelStep::Allocate, cx.state.spec.kernel.paging.allocate_ps);
    // Before the page's own: theirs must not push it out again.
    let ahead = if is_here { Vec::new() } else { frames_ahead(cx, key)? };
    let frame = take_movable(cx, key)?.map_err(|full| cx.state.out_of_frames(full))?;
    if is_here {
        cx.state.counts.faults.swap_cache += 1;
    } else {
        cx.state.counts.faults.major += 1;
        read(cx, key, &ahead);
    }
    Ok(frame)
}

/// Takes frames for the pages whose copies lie beside `key`'s, unless they are in memory. They get no entries.
fn frames_ahead(cx: &mut Context<'_>, key: PageKey) -> Result<Vec<PageKey>, MachineError> {
    let run = u64::from(cx.state.spec.paging.swap.readahead);
    if run == 1 {
        return Ok(Vec::new());
    }
    let state = &*cx.state;
    let slot = state.swap.space.slot(key).expect("a page that is read has a copy");
    let mut pages: Vec<PageKey> = state.swap.space.neighbours(slot, run).collect();
    pages.retain(|&page| {
        let owner = state.processes.find(page.asid);
        let is_mapped = |owner| cx.find_of(owner, page.page).is_some();
        !owner.is_none_or(is_mapped) && !state.swap.is_cached(page)
    });
    for (number, &page) in pages.iter().enumerate() {
        let Ok(frame) = take_movable(cx, page)? else {
            pages.truncate(number);
            break;
        };
        cx.state.swap.cache(page, frame);
    }
    Ok(pages)
}

/// Reads a page, and others `ahead`, unless their frames are gone again; waits for the one only.
fn read(cx: &mut Context<'_>, key: PageKey, ahead: &[PageKey]) {
    let costs = &cx.state.spec.kernel.paging;
    let (request_ps, switch_ps) = (costs.request_ps, costs.switch_ps);
    cx.work(KernelStep::Request, request_ps);
    cx.state.swap.space.page_in(key);
    let Transfer { done_ps, holds_core } = cx.swap_in();
    ahead.iter().for_each(|&page| read_cached(cx, page));
    let switch_ps = if holds_core { 0 } else { switch_ps };
    cx.work(KernelStep::Switch, switch_ps);
    cx.work_until(KernelStep::Read, done_ps);
    cx.work(KernelStep::Switch, switch_ps);
}

/// Reads a page that has a frame and no entry, without waiting for it; nothing if its frame is gone again.
fn read_cached(cx: &mut Context<'_>, page: PageKey) {
    if !cx.state.swap.is_cached(page) {
        return;
    }
    cx.work(KernelStep::Request, cx.state.spec.kernel.paging.request_ps);
    cx.state.swap.space.page_in(page);
    cx.state.swap.counts.read_ahead += 1;
    let ready_ps = cx.swap_in().done_ps;
    cx.state.swap.set_ready(page, ready_ps);
}

/// Reads a page that has left, before it is touched. Returns whether there was a frame for it.
pub(super) fn read_before_use(cx: &mut Context<'_>, page: PageKey) -> Result<bool, MachineError> {
    if cx.state.swap.is_cached(page) {
        return Ok(true);
    }
    let Ok(frame) = take_movable(cx, page)? else { return Ok(false) };
    cx.state.swap.cache(page, frame);
    read_cached(cx, page);
    Ok(true)
}
