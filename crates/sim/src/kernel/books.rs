//! Remote pages: the accelerator fetches them, and the kernel keeps its queues supplied and books what has come.

use pagewalk_vm::addr::{Asid, PageSize, Pfn, VirtAddr, Vpn};
use pagewalk_vm::fault::{Fetch, NewPage};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::table::Leaf;

use super::accelerator::leaf_of;
use super::context::Context;
use super::reclaim::page_out;
use super::remote::of;
use super::state::Due;
use crate::error::MachineError;
use crate::metrics::KernelStep;

/// Brings a remote page. Returns whether there was one to bring.
pub(super) fn fetch(cx: &mut Context<'_>, addr: VirtAddr) -> Result<bool, MachineError> {
    let key = cx.key(addr.page());
    let Some(remote) = cx.state.accelerator.as_ref().and_then(|of| of.remote(key)) else { return Ok(false) };
    loop {
        let now_ps = cx.now();
        match of(cx).begin_fetch(remote, addr, now_ps) {
            Fetch::Read { handle, frame, .. } => {
                wait_for_page(cx);
                let local = of(cx).finish_fetch(key, handle);
                cx.state.swap.space.page_in(key);
                cx.enter(key.page, leaf_of(local, frame), 0)?;
                cx.count_resident(PageSize::Size4K);
                return Ok(true);
            }
            Fetch::NoFreeFrame | Fetch::NewQueueFull => serve(cx)?,
            Fetch::AfterEviction(id) => {
                let done_ps = of(cx).evicted_ps(id);
                cx.work_until(KernelStep::Read, done_ps);
            }
            Fetch::AfterFetch => unreachable!("every fetch is over before the next access is looked at"),
        }
    }
}

/// Does the hardware's part of a fetch. A core that finds all places taken waits for the oldest. DEVIATION: a fetch is over before
/// the next core's access is looked at, though not its time.
fn wait_for_page(cx: &mut Context<'_>) {
    if let Some(done_ps) = of(cx).wait_for_place() {
        cx.work_until(KernelStep::Lock, done_ps);
    }
    let (detect_ps, request_ps) = (of(cx).costs().detect_ps, of(cx).costs().request_ps);
    cx.work(KernelStep::Detect, detect_ps);
    cx.work(KernelStep::Request, request_ps);
    let done_ps = cx.swap_in().done_ps;
    cx.work_until(KernelStep::Read, done_ps);
    of(cx).note_fetch(done_ps);
}

/// Runs the page-fault handler because a queue was in the way.
fn serve(cx: &mut Context<'_>) -> Result<(), MachineError> {
    cx.work(KernelStep::Trap, cx.state.spec.kernel.paging.trap_ps);
    let locked_until_ps = of(cx).begin_service();
    cx.work_until(KernelStep::Lock, locked_until_ps);
    supply(cx)?;
    drain(cx)
}

/// Gives the device frames, as many as it takes. Those of pages that leave are given when these are away.
fn supply(cx: &mut Context<'_>) -> Result<(), MachineError> {
    let slots = of(cx).free_slots();
    let mut frames = Vec::with_capacity(slots);
    for _ in 0..slots {
        let taken = match cx.state.frames.take_spare() {
            Ok(taken) => taken,
            Err(full) if frames.is_empty() && of(cx).is_starved() => {
                return Err(cx.state.out_of_frames(full));
            }
            Err(_) => break,
        };
        for victim in taken.evicted {
            page_out(cx, victim)?;
        }
        frames.push(taken.frame);
    }
    if let Some(done_ps) = of(cx).all_evicted_ps() {
        cx.work_until(KernelStep::Write, done_ps);
        let now_ps = cx.now().max(done_ps);
        of(cx).complete(now_ps);
    }
    of(cx).give(&frames);
    Ok(())
}

/// Books the pages that have come.
fn drain(cx: &mut Context<'_>) -> Result<(), MachineError> {
    let book_ps = of(cx).costs().book_ps;
    for NewPage { addr, frame, reserved, .. } in of(cx).take_new() {
        let key = PageKey { asid: Asid(reserved as u16), page: addr.page() };
        of(cx).book(key);
        cx.work(KernelStep::Book, book_ps);
        let taken = cx.state.frames.adopt(frame, key).map_err(|full| cx.state.out_of_frames(full))?;
        for victim in taken.evicted {
            page_out(cx, victim)?;
        }
        if taken.frame != frame {
            move_page(cx, key, taken.frame)?;
        }
    }
    // Time has moved on: the next use of every page counts.
    cx.processor.forget_repetitions();
    Ok(())
}

/// Moves a page that belongs into another frame: copies it and changes its entry.
fn move_page(cx: &mut Context<'_>, key: PageKey, frame: Pfn) -> Result<(), MachineError> {
    let owner = cx.state.processes.of(key.asid);
    let mut owner = cx.of(owner);
    let cleared = owner.clear(key.page, Vpn(key.page.0 + 1));
    let [(_, leaf, 0)] = cleared[..] else { unreachable!("{key:?} came but has no entry") };
    owner.enter(key.page, Leaf { frame, ..leaf }, 0)?;
    cx.processor.invalidate(key.asid, key.page);
    cx.state.counts.changes.copied_pages += 1;
    cx.work(KernelStep::Copy, cx.state.spec.kernel.copy_ps(PageSize::Size4K));
    Ok(())
}

/// Lets the daemon sleep for the first time.
pub(super) fn start_daemon(cx: &mut Context<'_>) {
    let sleep_ps = cx.state.accelerator.as_ref().and_then(|of| of.sleep_ps());
    if let (true, Some(sleep_ps)) = (cx.state.is_timed, sleep_ps) {
        cx.state.due.push(sleep_ps, Due::AcceleratorDaemon);
    }
}

/// Runs the daemon, which is awake. It has the lock: a handler that had it has finished by now.
pub(super) fn run_daemon(cx: &mut Context<'_>) -> Result<(), MachineError> {
    supply(cx)?;
    drain(cx)?;
    let now_ps = cx.now();
    let sleep_ps = of(cx).end_daemon_run(now_ps);
    cx.state.due.push(now_ps + sleep_ps, Due::AcceleratorDaemon);
    Ok(())
}

/// Books pages that have come before the kernel changes pages `[start, end)` of the process.
pub(super) fn settle(cx: &mut Context<'_>, start: Vpn, end: Vpn) -> Result<(), MachineError> {
    let asid = cx.asid();
    let accelerator = cx.state.accelerator.as_mut();
    if accelerator.is_some_and(|of| of.must_settle(asid, start, end)) { drain(cx) } else { Ok(()) }
}
