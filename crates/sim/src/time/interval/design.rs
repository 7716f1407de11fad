//! What all cores of a machine have, and the time of its kernel.

use std::collections::VecDeque;

use super::core::FRACTION_BITS;
use crate::metrics::names::time;
use crate::metrics::{KernelStep, Rows, Span, StepTimes};
use crate::spec::settings::MachineSpec;

/// Steps that are remembered, for pictures: those of two batches of the largest usual queues.
const KEPT_SPANS: usize = 1 << 10;

/// The latencies and sizes that all cores of the machine have.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    pub(super) cycle_ps: u64,
    pub(super) width: u64,
    /// Of the reorder buffer, in 1/65,536 of an instruction.
    pub(super) window: u64,
    /// Of the first cache level.
    pub(super) nearest_ps: u64,
    /// The latency of a hit, by TLB level.
    pub(super) tlb_ps: Vec<u64>,
    /// Before a walk's first reference, without walk caches.
    pub(super) walk_from_root_ps: u64,
    /// The same with walk caches.
    pub(super) walk_lookup_ps: u64,
}

/// The time of the kernel and its daemons.
#[derive(Clone, Debug)]
pub(super) struct KernelTime {
    pub(super) steps: StepTimes,
    /// The last steps of the kernel.
    pub(super) spans: VecDeque<Span>,
    pub(super) daemon_ps: u64,
    /// Whether there is more to a fault than a frame.
    pub(super) has_steps: bool,
}

impl Latencies {
    pub(super) fn new(spec: &MachineSpec, nearest_ps: u64) -> Self {
        // From a page's number to its slots' addresses.
        let table_ps = spec.translation.table.lookup_ps();
        let start_ps = spec.translation.walker.start_ps;
        let caches_ps = spec.translation.walk_cache.as_ref().map_or(0, |cache| cache.latency_ps);
        Self {
            cycle_ps: spec.core.cycle_ps,
            width: u64::from(spec.core.width),
            window: u64::from(spec.core.window) << FRACTION_BITS,
            nearest_ps,
            tlb_ps: spec.translation.tlb.iter().map(|level| level.latency_ps).collect(),
            walk_from_root_ps: start_ps + table_ps,
            walk_lookup_ps: start_ps + caches_ps.max(table_ps),
        }
    }
}

impl KernelTime {
    pub(super) fn new(spec: &MachineSpec) -> Self {
        Self {
            steps: StepTimes::default(),
            spans: VecDeque::new(),
            daemon_ps: 0,
            has_steps: spec.paging.reclaim.is_some() || spec.tier.is_some() || spec.threads.is_some(),
        }
    }

    pub(super) fn note(&mut self, span: Span) {
        if self.spans.len() == KEPT_SPANS {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
    }

    pub(super) fn rows(&self, rows: &mut Rows) {
        if self.has_steps {
            rows.sum(time::SWAP_WAIT, self.steps.of(KernelStep::Read));
            rows.sum(time::DAEMONS, self.daemon_ps);
            for step in KernelStep::ALL {
                rows.sum(time::step(step), self.steps.of(step));
            }
        }
    }
}
