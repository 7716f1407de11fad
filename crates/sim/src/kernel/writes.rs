//! What the kernel writes to pages: zeroes, copies, the data of system calls.

use pagewalk_vm::addr::PhysAddr;

use super::context::Context;
use crate::metrics::KernelStep;

/// Returns whether the time of what the kernel writes depends on caches.
pub(super) fn are_cached(cx: &Context<'_>) -> bool {
    cx.state.is_timed && cx.state.spec.kernel.writes_are_cached
}

/// Spends the kernel's time for a step in which it writes so many bytes from an address on: of the core, whose caches hear of it on
/// some machines.
pub(super) fn write_bytes(cx: &mut Context<'_>, step: KernelStep, to: (PhysAddr, u64), ps: u64) {
    match are_cached(cx) {
        true => cx.processor.write(step, to, ps),
        false => cx.work(step, ps),
    }
}
