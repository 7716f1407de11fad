//! Lines on their way, and prefetchers: what a core that executes instructions adds to its caches.

use pagewalk_vm::addr::PhysAddr;

use super::arrivals::Arrivals;
use super::cache::{LINE_SHIFT, MemoryHierarchy, MemoryReference};
use super::pool::Pool;
use super::prefetch::{Heard, Prefetchers, Wanted};
use crate::metrics::Rows;
use crate::metrics::names::{cache, memory};
use crate::spec::settings::MachineSpec;

/// Lines that the prefetchers of a core wait for at once. Misses of the second cache that Zen 3 has under way: AnandTech, "AMD Zen 3
/// Ryzen Deep Dive Review", 2020.
const UNDER_WAY: u32 = 64;

/// What a hierarchy knows of each core's lines on their way, and its prefetchers.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    /// By core.
    cores: Vec<Core>,
    /// By level, the lines that prefetchers brought there; none if no level has prefetchers.
    prefetched: Option<Vec<u64>>,
    memory_prefetch_reads: u64,
}

#[derive(Clone, Debug)]
struct Core {
    arrivals: Arrivals,
    /// By level, nearest first.
    prefetchers: Vec<Option<Prefetchers>>,
    under_way: Pool,
}

/// An access of an executed instruction that was found at a level, after so long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) instruction: u64,
    pub(super) addr: PhysAddr,
    pub(super) at_ps: u64,
    pub(super) level: usize,
    pub(super) latency_ps: u64,
}

impl Followed {
    /// Creates the prefetchers of a machine's cores, which have heard of nothing.
    pub(super) fn new(spec: &MachineSpec) -> Self {
        let caches = &spec.hierarchy.caches;
        let core = || Core {
            arrivals: Arrivals::new(),
            prefetchers: caches.iter().map(Prefetchers::new).collect(),
            under_way: Pool::new(UNDER_WAY),
        };
        Self {
            cores: (0..spec.core.count).map(|_| core()).collect(),
            prefetched: caches.iter().any(|cache| cache.prefetch.is_some()).then(|| vec![0; caches.len()]),
            memory_prefetch_reads: 0,
        }
    }

    /// Adds the counts of prefetchers to the rows, if there are any.
    pub(super) fn rows(&self, rows: &mut Rows) {
        let Some(prefetched) = &self.prefetched else { return };
        for (level, count) in (1..).zip(prefetched) {
            rows.sum(cache::prefetches(level), *count);
        }
        rows.sum(memory::PREFETCH_READS, self.memory_prefetch_reads);
    }
}

impl MemoryHierarchy {
    /// Follows the accesses of the machine's cores from now on.
    pub(super) fn follow_cores(&mut self, spec: &MachineSpec) {
        self.followed = Some(Box::new(Followed::new(spec)));
    }

    /// Follows an access: it waits for a line that is on its way, and prefetchers hear of it. Returns the latency.
    #[inline]
    pub(super) fn follow(&mut self, core: usize, found: &Found) -> u64 {
        let heard = Heard { instruction: found.instruction, line: found.addr.0 >> LINE_SHIFT };
        let has_more = found.level > 0;
        // Without caches no line is known to be on its way.
        let is_cached = !has_more || found.level < self.levels();
        let Some(followed) = &mut self.followed else { return found.latency_ps };
        let own = &mut followed.cores[core];
        let mut latency_ps = found.latency_ps;
        match own.arrivals.of(heard.line) {
            Some(arrives_ps) if is_cached => {
                latency_ps = latency_ps.max(arrives_ps.saturating_sub(found.at_ps));
            }
            _ if has_more => own.arrivals.note(heard.line, found.at_ps + latency_ps),
            _ => {}
        }
        if let Some(Some(nearest)) = own.prefetchers.first_mut() {
            let mut wanted = Wanted::new();
            nearest.hear(&heard, &mut wanted);
            if !wanted.is_empty() {
                self.prefetch_all(core, &wanted, 0, found.at_ps);
            }
        }
        if has_more {
            self.let_farther_hear(core, found, &heard);
        }
        latency_ps
    }

    /// Lets the prefetchers of each level behind the first one that an access reached hear of it.
    #[inline(never)]
    fn let_farther_hear(&mut self, core: usize, found: &Found, heard: &Heard) {
        let reached = (found.level + 1).min(self.levels());
        for level in 1..reached {
            let Some(followed) = &mut self.followed else { return };
            let Some(prefetchers) = &mut followed.cores[core].prefetchers[level] else { continue };
            let mut wanted = Wanted::new();
            prefetchers.hear(heard, &mut wanted);
            self.prefetch_all(core, &wanted, level, found.at_ps);
        }
    }

    #[inline(never)]
    fn prefetch_all(&mut self, core: usize, wanted: &Wanted, into: usize, at_ps: u64) {
        wanted.iter().for_each(|&line| self.prefetch(core, line, into, at_ps));
    }

    /// Brings a line into a level from below, unless it is there, or too much is under way.
    fn prefetch(&mut self, core: usize, line: u64, into: usize, at_ps: u64) {
        let is_free = |own: &Followed| own.cores[core].under_way.next_free_ps() <= at_ps;
        if !self.followed.as_deref().is_some_and(is_free) || self.holds(core, line, into) {
            return;
        }
        let levels = self.levels();
        let from = (into + 1..levels).find(|&at| self.holds(core, line, at)).unwrap_or(levels);
        if from == levels && self.tier().is_some() {
            // A page that comes from flash wakes the core that asked for it, and no core waits for a prefetch.
            return;
        }
        let latency_ps = match from < levels {
            true => self.hit_latency_ps(core, line, from),
            false => {
                let addr = PhysAddr(line << LINE_SHIFT);
                let Ok(latency_ps) = self.below(core, addr, MemoryReference::Load, at_ps) else { return };
                latency_ps
            }
        };
        self.fill(core, line, into, from, false, at_ps);
        let Some(followed) = &mut self.followed else { return };
        let Followed { cores, prefetched, memory_prefetch_reads } = &mut **followed;
        *memory_prefetch_reads += u64::from(from == levels);
        cores[core].under_way.take(at_ps, |start_ps| start_ps + latency_ps);
        cores[core].arrivals.note(line, at_ps + latency_ps);
        if let Some(prefetched) = prefetched {
            prefetched[into] += 1;
        }
    }
}
