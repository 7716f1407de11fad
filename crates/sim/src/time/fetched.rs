//! The first caches for instructions.

use pagewalk_vm::addr::PhysAddr;
use pagewalk_vm::sets::LineArray;

use super::cache::{LINE_SHIFT, MemoryHierarchy, lines};
use super::reference::MemoryReference;
use crate::metrics::Rows;
use crate::metrics::names::fetch;
use crate::spec::settings::{MachineSpec, Replacement};

/// A core's first cache for instructions, with its counts.
#[derive(Clone, Debug)]
pub(super) struct InstructionCache {
    lines: LineArray,
    misses: u64,
    memory_reads: u64,
}

impl MemoryHierarchy {
    /// Lets the machine's cores fetch instructions through caches of their own, if it has them; physical addresses end at `end`.
    pub(super) fn fetch_instructions(&mut self, spec: &MachineSpec, end: PhysAddr) {
        let Some(fetch) = &spec.translation.fetch else { return };
        let lines = lines(fetch.cache.bytes, fetch.cache.ways, Replacement::Lru, end);
        let cache = InstructionCache { lines, misses: 0, memory_reads: 0 };
        self.instructions = vec![cache; spec.core.count as usize];
    }

    /// Fetches a line of instructions at `at_ps`; returns how long that takes beyond a hit in the first cache for them.
    #[inline]
    pub(super) fn fetch(&mut self, core: usize, addr: PhysAddr, at_ps: u64) -> u64 {
        let line = addr.0 >> LINE_SHIFT;
        let is_there =
            self.instructions.get_mut(core).is_none_or(|cache| cache.lines.lookup_newest(line, false));
        if is_there { 0 } else { self.fetch_from_below(core, addr, at_ps) }
    }

    #[inline(never)]
    fn fetch_from_below(&mut self, core: usize, addr: PhysAddr, at_ps: u64) -> u64 {
        let Ok((level, latency_ps)) = self.access(core, addr, MemoryReference::Fetch, at_ps) else {
            unreachable!("a fetch from flash, which machine files do not have")
        };
        let (levels, nearest_ps) = (self.levels(), self.nearest_latency_ps());
        let cache = &mut self.instructions[core];
        cache.misses += 1;
        cache.memory_reads += u64::from(level == levels);
        cache.lines.insert(addr.0 >> LINE_SHIFT, false);
        latency_ps.saturating_sub(nearest_ps)
    }

    /// Adds the counts of the caches for instructions to the rows, if there are any.
    pub(super) fn instruction_rows(&self, rows: &mut Rows) {
        if self.instructions.is_empty() {
            return;
        }
        let sum = |of: fn(&InstructionCache) -> u64| self.instructions.iter().map(of).sum();
        rows.sum(fetch::CACHE_MISSES, sum(|cache| cache.misses));
        rows.sum(fetch::MEMORY_READS, sum(|cache| cache.memory_reads));
    }
}
