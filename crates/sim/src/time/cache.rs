//! The data caches and DRAM, as seen by a core and by its page walkers.
//!
//! Physically indexed, 64-byte lines, true LRU, write-back and write-allocate; a miss fills every level from the
//! one that missed upwards. Levels are neither inclusive nor exclusive of each other. All levels but the last
//! are private to a core. Not modelled: prefetchers, coherence traffic, bank conflicts, DRAM rows and bandwidth.

use pagewalk_vm::addr::PhysAddr;
use pagewalk_vm::sets::LineArray;

use crate::spec::settings::{CacheSpec, MachineSpec};

/// log2 of the line size in bytes.
const LINE_SHIFT: u32 = 6;

/// One cache.
#[derive(Clone, Debug)]
pub struct Cache {
    lines: LineArray,
    latency_ps: u64,
    counts: CacheCounts,
}

/// What one cache counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Data references that looked here.
    pub data_accesses: u64,
    /// Of those, the misses.
    pub data_misses: u64,
    /// Page-walk references that looked here.
    pub walk_accesses: u64,
    /// Of those, the misses.
    pub walk_misses: u64,
    /// Dirty lines evicted.
    pub write_backs: u64,
}

impl Cache {
    fn new(spec: &CacheSpec, memory_bytes: u64) -> Self {
        let lines = (spec.bytes >> LINE_SHIFT) as u32;
        let line_bits = memory_bytes.next_power_of_two().trailing_zeros() - LINE_SHIFT;
        Self {
            lines: LineArray::new(lines, spec.ways, line_bits).expect("the machine file was checked"),
            latency_ps: spec.latency_ps,
            counts: CacheCounts::default(),
        }
    }

    /// What it counted so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Brings a line in; returns the dirty line that had to leave.
    #[inline]
    fn fill(&mut self, line: u64, dirty: bool) -> Option<u64> {
        let victim = self.lines.insert(line, dirty).filter(|victim| victim.dirty);
        self.counts.write_backs += u64::from(victim.is_some());
        victim.map(|victim| victim.line)
    }
}

/// Who makes a reference, and with that where it enters and what it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryReference {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A page walker reading an entry.
    Walk,
}

/// All caches of a machine and its DRAM.
#[derive(Clone, Debug)]
pub struct MemoryHierarchy {
    /// By core, the private levels, nearest first.
    private: Vec<Vec<Cache>>,
    shared: Option<Cache>,
    memory_latency_ps: u64,
    walk_enters: usize,
    memory_data_reads: u64,
    memory_walk_reads: u64,
    memory_writes: u64,
}

impl MemoryHierarchy {
    /// The hierarchy of a machine, cold.
    pub fn new(spec: &MachineSpec) -> Self {
        let cache = |cache| Cache::new(cache, spec.frames.memory_bytes());
        let (private, shared) = match spec.caches.split_last() {
            Some((last, private)) => (private, Some(cache(last))),
            None => (&[][..], None),
        };
        let core = || private.iter().map(cache).collect();
        Self {
            private: (0..spec.core.count).map(|_| core()).collect(),
            shared,
            memory_latency_ps: spec.memory.latency_ps,
            walk_enters: spec.walker.enters as usize - 1,
            memory_data_reads: 0,
            memory_walk_reads: 0,
            memory_writes: 0,
        }
    }

    /// Makes one reference; returns its level (0 the nearest, the number of caches for DRAM) and its latency.
    #[inline(always)]
    pub fn access(&mut self, core: usize, addr: PhysAddr, kind: MemoryReference) -> (usize, u64) {
        let line = addr.0 >> LINE_SHIFT;
        let walk = kind == MemoryReference::Walk;
        let first = if walk { self.walk_enters } else { 0 };
        let levels = self.private[core].len() + usize::from(self.shared.is_some());
        for at in first..levels {
            let cache = self.level(core, at);
            // A store makes the line dirty where it hits; in the levels below it arrives as a write-back.
            let hit = cache.lines.lookup(line, kind == MemoryReference::Store && at == 0);
            if walk {
                cache.counts.walk_accesses += 1;
                cache.counts.walk_misses += u64::from(!hit);
            } else {
                cache.counts.data_accesses += 1;
                cache.counts.data_misses += u64::from(!hit);
            }
            if hit {
                let latency = cache.latency_ps;
                self.fill(core, line, first, at, kind == MemoryReference::Store);
                return (at, latency);
            }
        }
        *if walk { &mut self.memory_walk_reads } else { &mut self.memory_data_reads } += 1;
        self.fill(core, line, first, levels, kind == MemoryReference::Store);
        (levels, self.memory_latency_ps)
    }

    #[inline(always)]
    fn level(&mut self, core: usize, at: usize) -> &mut Cache {
        let private = &mut self.private[core];
        if at < private.len() { &mut private[at] } else { self.shared.as_mut().expect("a level that exists") }
    }

    /// Fills levels `first..hit`; the nearest becomes dirty for a store.
    fn fill(&mut self, core: usize, line: u64, first: usize, hit: usize, store: bool) {
        for at in (first..hit).rev() {
            let victim = self.level(core, at).fill(line, store && at == 0);
            if let Some(victim) = victim {
                self.write_back(core, victim, at + 1);
            }
        }
    }

    /// A dirty line arrives at level `at` from the level above.
    fn write_back(&mut self, core: usize, line: u64, at: usize) {
        let mut line = line;
        for at in at..self.private[core].len() + usize::from(self.shared.is_some()) {
            let cache = self.level(core, at);
            if cache.lines.lookup(line, true) {
                return;
            }
            match cache.fill(line, true) {
                Some(victim) => line = victim,
                None => return,
            }
        }
        self.memory_writes += 1;
    }

    /// The counts of level `at`, summed over cores.
    pub fn counts(&self, at: usize) -> CacheCounts {
        let caches: Vec<_> = match self.private[0].get(at) {
            Some(_) => self.private.iter().map(|levels| &levels[at]).collect(),
            None => self.shared.iter().collect(),
        };
        caches.iter().fold(CacheCounts::default(), |sum, cache| CacheCounts {
            data_accesses: sum.data_accesses + cache.counts.data_accesses,
            data_misses: sum.data_misses + cache.counts.data_misses,
            walk_accesses: sum.walk_accesses + cache.counts.walk_accesses,
            walk_misses: sum.walk_misses + cache.counts.walk_misses,
            write_backs: sum.write_backs + cache.counts.write_backs,
        })
    }

    /// Number of cache levels.
    pub fn levels(&self) -> usize {
        self.private[0].len() + usize::from(self.shared.is_some())
    }

    /// DRAM reads for data, reads for walks, and writes.
    pub fn memory_counts(&self) -> (u64, u64, u64) {
        (self.memory_data_reads, self.memory_walk_reads, self.memory_writes)
    }

    /// Load-to-use latency of the nearest level, which the pipeline hides.
    pub fn nearest_latency_ps(&self) -> u64 {
        self.private[0].first().or(self.shared.as_ref()).map_or(0, |cache| cache.latency_ps)
    }
}
