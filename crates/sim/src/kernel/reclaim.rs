//! Pages leave memory: for others that need a frame, or ahead of that.

use pagewalk_vm::addr::{Pfn, Vpn};
use pagewalk_vm::frame::{OutOfFrames, PageKey};
use pagewalk_vm::reclaim::{Uses, Victim};
use pagewalk_vm::table::Leaf;

use super::context::Context;
use super::remote;
use super::state::Due;
use crate::error::MachineError;
use crate::metrics::KernelStep;
use crate::time::Transfer;

/// Pages that leave for one shootdown (`SWAP_CLUSTER_MAX` of Linux).
const SHOOTDOWN_CLUSTER: u64 = 32;

/// Takes a frame for a page that may have to leave again. Others leave for it, if they must.
pub(super) fn take_movable(
    cx: &mut Context<'_>,
    key: PageKey,
) -> Result<Result<Pfn, OutOfFrames>, MachineError> {
    // First: the daemon must not find the page's frame before its entry is made.
    wake_daemon(cx)?;
    let taken = match cx.state.frames.take_movable(key) {
        Ok(taken) => taken,
        Err(full) => return Ok(Err(full)),
    };
    for victim in taken.evicted {
        page_out(cx, victim)?;
    }
    if cx.state.frames.uses() == Uses::FirstAfterAllocation {
        // Time has moved on: the next use of every page counts.
        cx.processor.forget_repetitions();
    }
    Ok(Ok(taken.frame))
}

/// Removes the entry of a page that has lost its frame, and writes the page to the swap device if need be. DEVIATION: Linux keeps
/// an emptied table node for the entries that name swap slots; here it is freed. The translation is gone at once, the time of the
/// other cores' shootdown is charged once for a cluster.
pub(super) fn page_out(cx: &mut Context<'_>, victim: Victim) -> Result<(), MachineError> {
    let page = victim.page;
    let evict_ps = match &cx.state.accelerator {
        Some(accelerator) => accelerator.costs().evict_ps,
        None => cx.state.spec.kernel.paging.evict_ps,
    };
    cx.work(KernelStep::Evict, evict_ps);
    cx.state.swap.unflushed += 1;
    if cx.state.swap.unflushed == SHOOTDOWN_CLUSTER {
        cx.state.swap.unflushed = 0;
        // Of the other cores; that of this one's TLB is in the price.
        let shootdown_ps = if cx.processor.cores() > 1 { cx.state.spec.kernel.shootdown_ps } else { 0 };
        cx.work(KernelStep::Shootdown, shootdown_ps);
    }
    if cx.state.swap.take_cached(page).is_some() {
        // It was read ahead, and nothing has used it.
        cx.state.swap.space.page_out(page, false).expect("a clean page needs no slot");
        cx.state.swap.counts.read_ahead_unused += 1;
        return Ok(());
    }
    let leaves: Vec<(PageKey, Leaf)> = victim.pages().map(|page| (page, clear_victim(cx, page))).collect();
    cx.state.counts.resident.pages[0] -= 1;
    let is_dirty = leaves.iter().any(|(_, leaf)| leaf.dirty);
    let written = cx.state.swap.space.page_out(page, is_dirty);
    let written =
        written.map_err(|reason| MachineError::SwapFull { machine: cx.state.spec.name.clone(), reason })?;
    victim.sharers.iter().for_each(|&other| cx.state.swap.space.share(page, other));
    if cx.state.accelerator.is_some() {
        for (page, leaf) in leaves {
            remote::leave(cx, page, leaf, written && page == victim.page);
        }
    } else if written {
        write(cx, page);
    }
    Ok(())
}

/// Removes the entry of a page that has lost its frame.
fn clear_victim(cx: &mut Context<'_>, page: PageKey) -> Leaf {
    let owner = cx.state.processes.of(page.asid);
    let cleared = cx.of(owner).clear(page.page, Vpn(page.page.0 + 1));
    let [(_, leaf, 0)] = cleared[..] else { unreachable!("{page:?} had a frame but no entry") };
    cx.processor.invalidate(page.asid, page.page);
    leaf
}

/// Writes a page's contents to the device. A disk works by itself; a writer that gets too far ahead of it has to wait.
fn write(cx: &mut Context<'_>, page: PageKey) {
    cx.work(KernelStep::Write, cx.state.spec.kernel.paging.request_ps);
    let Transfer { done_ps, holds_core } = cx.swap_out();
    if holds_core {
        cx.work_until(KernelStep::Write, done_ps);
        return;
    }
    if done_ps == 0 {
        return;
    }
    if let Some(done_ps) = cx.state.swap.leave(page, done_ps) {
        cx.work_until(KernelStep::Write, done_ps);
    }
}

/// Starts the reclaim daemon when half of what it keeps free is taken.
fn wake_daemon(cx: &mut Context<'_>) -> Result<(), MachineError> {
    let Some(keep) = kept_free(cx) else { return Ok(()) };
    if cx.state.is_reclaiming || cx.state.frames.headroom().is_none_or(|free| free >= keep / 2) {
        return Ok(());
    }
    cx.state.is_reclaiming = true;
    if cx.state.is_timed {
        let now_ps = cx.now();
        cx.state.due.push(now_ps, Due::Reclaim);
        return Ok(());
    }
    while cx.state.is_reclaiming {
        run_daemon(cx)?;
    }
    Ok(())
}

/// Returns the number of pages that the reclaim daemon keeps free.
fn kept_free(cx: &Context<'_>) -> Option<u64> {
    let percent = u64::from(cx.state.spec.paging.background_percent);
    cx.state.frames.limit().filter(|_| percent > 0).map(|limit| (limit * percent / 100).max(2))
}

/// Runs the reclaim daemon, which lets one page leave if that is still due.
pub(super) fn run_daemon(cx: &mut Context<'_>) -> Result<(), MachineError> {
    let keep = kept_free(cx).expect("a daemon runs");
    cx.state.is_reclaiming = cx.state.frames.headroom().is_some_and(|free| free < keep);
    if !cx.state.is_reclaiming {
        return Ok(());
    }
    match cx.state.frames.evict_ahead() {
        Some(victim) => {
            cx.state.swap.counts.reclaimed_ahead += 1;
            page_out(cx, victim)
        }
        None => {
            cx.state.is_reclaiming = false;
            Ok(())
        }
    }
}
