//! The interval core model: an out-of-order core that runs ahead until its window is full.
//!
//! In the manner of interval simulation (Genbrugge, Eyerman, Eeckhout, HPCA 2010): instructions flow at the
//! dispatch width until something long-lasting is the oldest in the reorder buffer; what lies within one window
//! overlaps. In equations, for access `k` on a core, all times in picoseconds:
//!
//! ```text
//! i(k)      = i(k-1) + instructions / accesses               (its place among the instructions)
//! d'(k)     = d(k-1) + (i(k) - i(k-1)) * cycle / width        (dispatch, were nothing in the way)
//! d(k)      = max(d'(k), finish(j) for every j in flight with i(j) <= i(k) - window)
//! t(k)      = d(k)                                     TLB hit in level 1
//!           = d(k) + latency(level)                    hit in a lower level
//!           = max(d(k) + latency(last level), earliest free walker)
//!             + lookup latency + sum of the walk's references            walk, one reference after the other
//!             + lookup latency + latency of the deciding probe           walk, all probes at once
//! finish(k) = t(k) + latency(data) for a load,  t(k) for a store (it drains from the store buffer)
//! ```
//!
//! The look-up before the first reference is that of the walk caches, or the computation of a hashed table's slots if that
//! takes longer. A walk whose probes go out at once holds its walker until the last of them is there; one that finds
//! nothing ends then. References that refill a walk cache fill data caches, and no access waits for them.
//!
//! A miss of the first cache level also waits for one of the outstanding-miss registers, and a walk for one of
//! the walkers. Latencies of the first cache level are hidden by the pipeline. A page fault is precise: it waits
//! for everything in flight and nothing overlaps with the kernel's work. A fault for a page on the swap device also
//! waits for the device.
//!
//! Waiting is charged to the access that was waited for, split between its translation and its data in
//! proportion to their latencies, so that compute + walk + memory + fault is exactly the elapsed time.
//!
//! Left out: dependences between loads (all accesses in a window count as independent, so pointer chasing looks
//! faster than it is), branch prediction, instruction fetch, prefetchers, bandwidth and bank conflicts,
//! contention between cores in the shared cache other than for space.

mod core;
mod design;
mod executing;
mod kernel;
mod tier;
mod walkers;

use pagewalk_trace::{BlockId, Code};
use pagewalk_vm::addr::{PhysAddr, VirtAddr};
use pagewalk_vm::table::{Waits, WalkRead};

use self::core::{CoreClock, FRACTION_BITS, InFlight, Pace};
use self::design::{KernelTime, Latencies};
use super::dataflow::Dataflow;
use super::device::store::BackingStore;
use super::{Clock, CoreTime, MemoryHierarchy, MemoryReference, Missed, WalkBegin};
use crate::metrics::names::time;
use crate::metrics::{KernelStep, Lane, Rows, Span};
use crate::spec::settings::MachineSpec;

/// Instructions per access where the source does not count them; assumed, near the ratio of compiled integer
/// code (2.3 to 5.9 over the reference programs of the capture benchmark).
const INSTRUCTIONS_PER_ACCESS: u64 = 3;
/// A time that nothing takes: eleven days.
const NEVER_PS: u64 = 1_000_000_000_000_000_000;

/// The clocks of all cores, and the memory they share.
#[derive(Debug)]
pub struct IntervalClock {
    cores: Vec<CoreClock>,
    design: Latencies,
    /// The pipelines of cores that execute instructions.
    dataflow: Option<Dataflow>,
    memory: MemoryHierarchy,
    swap: Box<dyn BackingStore>,
    kernel: KernelTime,
}

impl Clock for IntervalClock {
    const TIMED: bool = true;

    fn new(spec: &MachineSpec, end: PhysAddr, gives_blocks: bool) -> Self {
        let mut memory = MemoryHierarchy::new(spec, end);
        let dataflow = spec.core.dataflow.as_ref().filter(|_| gives_blocks);
        if dataflow.is_some() {
            memory.follow_cores(spec);
            memory.fetch_instructions(spec, end);
        }
        let mut clock = Self {
            cores: vec![CoreClock::new(spec); spec.core.count as usize],
            design: Latencies::new(spec, memory.nearest_latency_ps()),
            dataflow: dataflow.map(|own| Dataflow::new(spec, own, &memory)),
            memory,
            swap: spec.paging.swap.kind.build(),
            kernel: KernelTime::new(spec),
        };
        for core in 0..clock.cores.len() {
            clock.segment(core, None, 1);
        }
        clock
    }

    fn rows(&self, rows: &mut Rows) {
        let clocks: Vec<_> = (0..self.cores.len()).map(|core| self.drained(core)).collect();
        let total = |part: fn(&CoreClock) -> u64| clocks.iter().map(part).sum();
        rows.sum(time::ELAPSED, clocks.iter().map(|clock| clock.now_ps).max().unwrap_or(0));
        rows.sum(time::COMPUTE, total(|clock| clock.spent.compute_ps));
        rows.sum(time::WALK, total(|clock| clock.spent.walk_ps));
        rows.sum(time::MEMORY, total(|clock| clock.spent.memory_ps));
        rows.sum(time::FAULT, total(|clock| clock.spent.fault_ps));
        if let Some(dataflow) = &self.dataflow {
            dataflow.rows(rows, total(|clock| clock.spent.walk_ps));
        }
        self.kernel.rows(rows);
        self.memory.rows(rows);
    }

    fn spans(&self) -> Vec<Span> {
        self.kernel.spans.iter().copied().collect()
    }
}

impl IntervalClock {
    /// Returns the clock of a core as it would be if everything in flight were waited for now.
    fn drained(&self, core: usize) -> CoreClock {
        let mut clock = self.cores[core].drained();
        if let Some(dataflow) = &self.dataflow {
            let charged = dataflow.charged(core);
            clock.now_ps = dataflow.retired_ps(core);
            clock.spent.compute_ps += charged.compute_ps;
            clock.spent.walk_ps += charged.walk_ps;
            clock.spent.memory_ps += charged.memory_ps;
        }
        clock
    }
}

impl CoreTime for IntervalClock {
    fn code(&mut self, code: &Code) {
        if let Some(dataflow) = &mut self.dataflow {
            dataflow.code(code);
        }
    }

    #[inline]
    fn follows_blocks(&self) -> bool {
        self.dataflow.is_some()
    }

    #[inline]
    fn execute(&mut self, core: usize, block: BlockId, accesses: usize) {
        if let Some(dataflow) = &mut self.dataflow {
            dataflow.execute(core, block, accesses, 0);
        }
    }

    fn execute_from(&mut self, core: usize, block: BlockId, accesses: usize, made: usize) {
        if let Some(dataflow) = &mut self.dataflow {
            dataflow.execute(core, block, accesses, made);
            self.issue(core);
        }
    }

    fn abandon(&mut self, core: usize) {
        if let Some(dataflow) = &mut self.dataflow {
            dataflow.abandon(core);
        }
    }

    fn refill_ps(&self) -> Option<u64> {
        self.dataflow.as_ref().map(Dataflow::refill_ps)
    }

    fn segment(&mut self, core: usize, instructions: Option<u64>, accesses: u64) {
        if self.dataflow.is_some() {
            return;
        }
        let step = match instructions {
            Some(count) if accesses > 0 => {
                u64::try_from((u128::from(count) << FRACTION_BITS) / u128::from(accesses)).unwrap_or(u64::MAX)
            }
            _ => INSTRUCTIONS_PER_ACCESS << FRACTION_BITS,
        };
        let Latencies { cycle_ps, width, .. } = self.design;
        let clock = &mut self.cores[core];
        clock.pace = Pace { instructions: step, compute: step * cycle_ps / width };
        if accesses == 0 {
            let all = (u128::from(instructions.unwrap_or(0)) << FRACTION_BITS) * u128::from(cycle_ps);
            clock.advance(u64::try_from(all / u128::from(width)).unwrap_or(u64::MAX));
        }
    }

    #[inline]
    fn begin_fetch(&mut self, core: usize) {
        self.ask_for_line(core);
    }

    #[inline]
    fn fetched(&mut self, core: usize, addr: PhysAddr) {
        self.fetch_line(core, addr);
    }

    fn modifies(&self, core: usize) -> bool {
        self.dataflow.as_ref().is_some_and(|dataflow| dataflow.modifies(core))
    }

    #[inline(always)]
    fn begin(&mut self, core: usize) {
        if self.dataflow.is_some() {
            return self.issue(core);
        }
        let window = self.design.window;
        let clock = &mut self.cores[core];
        clock.instruction += clock.pace.instructions;
        clock.advance(clock.pace.compute);
        while let Some(&oldest) = clock.in_flight.front() {
            if oldest.finish_ps > clock.now_ps && oldest.instruction + window > clock.instruction {
                break;
            }
            clock.in_flight.pop_front();
            clock.wait_for(oldest);
        }
        clock.translated_ps = clock.now_ps;
    }

    #[inline(always)]
    fn begin_part(&mut self, core: usize) {
        match &mut self.dataflow {
            Some(dataflow) => self.cores[core].translated_ps = dataflow.issue_part_ps(core),
            None => self.begin(core),
        }
    }

    fn begin_again(&mut self, core: usize) {
        let clock = &mut self.cores[core];
        // A core that executes instructions issues a load a cycle after its dispatch.
        let issued_ps = if self.dataflow.is_some() { clock.translated_ps } else { 0 };
        clock.translated_ps = clock.now_ps.max(issued_ps);
    }

    #[inline]
    fn tlb_hit(&mut self, core: usize, level: usize) {
        let ps = self.design.tlb_ps[level];
        self.cores[core].translated_ps += ps;
        if let Some(dataflow) = &mut self.dataflow {
            dataflow.translated_by_tlb(core, ps);
        }
    }

    #[inline(always)]
    fn expect(&self, core: usize, addr: PhysAddr) {
        super::cache::expect(&self.memory, core, addr);
    }

    #[inline(always)]
    fn walk(
        &mut self,
        core: usize,
        reads: impl Iterator<Item = WalkRead>,
        begins: WalkBegin,
    ) -> Option<Missed> {
        let clock = &mut self.cores[core];
        let miss_ps = self.design.tlb_ps.last().copied().unwrap_or(0);
        let (miss_ps, mut latency_ps) = match begins {
            WalkBegin::WalkCaches => (miss_ps, self.design.walk_lookup_ps),
            WalkBegin::Root => (miss_ps, self.design.walk_from_root_ps),
            WalkBegin::Continued => (0, 0),
        };
        let missed_ps = clock.translated_ps + miss_ps;
        let (mut slowest_ps, mut deciding_ps) = (0, None);
        for WalkRead { addr, waits, .. } in reads {
            // From when a walker is free: waiting for memory must not count twice.
            let at_ps = missed_ps.max(clock.walkers.next_free_ps()) + latency_ps;
            let read_ps = match self.memory.access(core, addr, MemoryReference::Walk, at_ps) {
                Ok((_, read_ps)) => {
                    debug_assert!(read_ps < NEVER_PS, "{addr:?} at {at_ps} took {read_ps}");
                    read_ps
                }
                Err(missed) => return Some(missed),
            };
            match waits {
                Waits::InTurn => latency_ps += read_ps,
                Waits::Together { decides } => {
                    slowest_ps = slowest_ps.max(read_ps);
                    deciding_ps = deciding_ps.or(decides.then_some(read_ps));
                }
                Waits::Background => {}
            }
        }
        let for_load = self.dataflow.as_ref().is_some_and(|dataflow| dataflow.loads(core));
        let (start_ps, longer_ps) = clock.walkers.take(missed_ps, latency_ps + slowest_ps, for_load);
        clock.translated_ps = start_ps + longer_ps + latency_ps + deciding_ps.unwrap_or(slowest_ps);
        None
    }

    fn walk_beside(&mut self, core: usize, reads: impl Iterator<Item = WalkRead>, begins: WalkBegin) {
        let clock = &mut self.cores[core];
        let translated_ps = clock.translated_ps;
        if begins == WalkBegin::Continued {
            clock.translated_ps = clock.walked_beside_ps;
        }
        let missed = self.walk(core, reads, begins);
        assert!(missed.is_none(), "a walk in the background of a machine with a tier");
        let clock = &mut self.cores[core];
        clock.walked_beside_ps = std::mem::replace(&mut clock.translated_ps, translated_ps);
    }

    #[inline(always)]
    fn data(&mut self, core: usize, (from, addr): (VirtAddr, PhysAddr), write: bool) -> Option<Missed> {
        let kind = if write { MemoryReference::Store } else { MemoryReference::Load };
        let clock = &self.cores[core];
        // A reference beyond the first level goes out when there is a register for it.
        let at_ps = clock.translated_ps.max(clock.registers.next_free_ps());
        let (level, latency_ps) = match self.memory.access(core, addr, kind, at_ps) {
            Ok(done) => {
                debug_assert!(done.1 < NEVER_PS, "{addr:?} at {at_ps} took {done:?}");
                done
            }
            Err(missed) => return Some(missed),
        };
        if self.dataflow.is_some() {
            self.complete(core, (from, addr, write), at_ps, (level, latency_ps));
            return None;
        }
        let clock = &mut self.cores[core];
        let mut ready_ps = clock.translated_ps;
        let walk_ps = ready_ps - clock.now_ps;
        let mut data_ps = latency_ps;
        if level == 0 {
            if walk_ps == 0 {
                return None;
            }
            data_ps = latency_ps - self.design.nearest_ps.min(latency_ps);
        } else {
            ready_ps = clock.registers.take(ready_ps, |start_ps| start_ps + latency_ps);
        }
        // A store holds its place in the window only until it is translated.
        let finish_ps = if write { clock.translated_ps } else { ready_ps + data_ps };
        if finish_ps > clock.now_ps {
            let entry = InFlight {
                instruction: clock.instruction,
                finish_ps,
                latency_ps: finish_ps - clock.now_ps,
                walk_ps,
            };
            clock.in_flight.push_back(entry);
        }
        None
    }

    fn kernel(&mut self, core: usize, step: KernelStep, ps: u64) {
        let now_ps = self.now(core);
        self.wait(core, step, now_ps + ps);
    }

    fn kernel_write(&mut self, core: usize, step: KernelStep, to: (PhysAddr, u64), ps: u64) {
        let now_ps = self.now(core);
        let written_ps = self.written_ps(core, to, now_ps);
        self.wait(core, step, written_ps.max(now_ps + ps));
    }

    fn wait(&mut self, core: usize, step: KernelStep, until_ps: u64) {
        debug_assert!(until_ps < NEVER_PS, "core {core} would wait for ever for {step:?}");
        let now_ps = self.now(core);
        let clock = &mut self.cores[core];
        let Some(ps) = until_ps.checked_sub(now_ps).filter(|&ps| ps > 0) else { return };
        clock.spent.fault_ps += ps;
        clock.now_ps += ps;
        if let Some(dataflow) = &mut self.dataflow {
            let next_ps = dataflow.resume(core, clock.now_ps);
            clock.spent.fault_ps += next_ps - clock.now_ps;
            clock.now_ps = next_ps;
        }
        clock.translated_ps = clock.now_ps;
        // Up to the core's next cycle, so that no sliver of the program lies between two steps.
        let end_ps = clock.now_ps;
        self.kernel.steps.add(step, ps);
        self.kernel.note(Span { lane: Lane::Core(core as u32), step, start_ps: now_ps, end_ps });
    }

    fn idle(&mut self, core: usize, until_ps: u64) {
        if self.cores[core].now_ps >= until_ps {
            return;
        }
        let mut from_ps = self.now(core).max(until_ps);
        if let Some(dataflow) = &mut self.dataflow {
            from_ps = dataflow.resume(core, from_ps);
        }
        (self.cores[core].now_ps, self.cores[core].translated_ps) = (from_ps, from_ps);
    }

    fn daemon(&mut self, core: Option<usize>, start_ps: u64, step: KernelStep, ps: u64) -> u64 {
        self.kernel.daemon_ps += ps;
        match core {
            Some(core) => {
                self.kernel(core, step, ps);
                self.now(core)
            }
            None => {
                let end_ps = start_ps + ps;
                self.kernel.note(Span { lane: Lane::Daemon, step, start_ps, end_ps });
                end_ps
            }
        }
    }

    fn now(&mut self, core: usize) -> u64 {
        let clock = &mut self.cores[core];
        clock.drain();
        if let Some(dataflow) = &mut self.dataflow {
            clock.now_ps = dataflow.drain_ps(core);
        }
        // The walk that found nothing is the access's own, and nothing overlaps with it any more.
        let walk = clock.translated_ps.saturating_sub(clock.now_ps);
        clock.spent.walk_ps += walk;
        clock.now_ps += walk;
        if let Some(dataflow) = &mut self.dataflow {
            let next_ps = dataflow.resume(core, clock.now_ps);
            clock.spent.walk_ps += next_ps - clock.now_ps;
            clock.now_ps = next_ps;
        }
        clock.translated_ps = clock.now_ps;
        clock.now_ps
    }

    fn time(&self, core: usize) -> u64 {
        self.cores[core].now_ps
    }

    fn retired(&self, core: usize) -> u64 {
        if let Some(dataflow) = &self.dataflow {
            return dataflow.retired_ps(core);
        }
        let clock = &self.cores[core];
        clock.in_flight.iter().map(|entry| entry.finish_ps).max().unwrap_or(0).max(clock.now_ps)
    }

    #[inline(always)]
    fn is_due(&self, core: usize, due_ps: u64) -> bool {
        self.cores[core].now_ps >= due_ps
    }

    fn settle(&mut self) {
        for (number, core) in self.cores.iter_mut().enumerate() {
            core.drain();
            if let Some(dataflow) = &mut self.dataflow {
                core.now_ps = dataflow.drain_ps(number);
            }
            // An access may have been dispatched, and not made.
            core.translated_ps = core.translated_ps.max(core.now_ps);
        }
    }
}
