//! The data caches and DRAM, as seen by a core and by its page walkers.
//!
//! Physically indexed, 64-byte lines, write-back and write-allocate; a miss fills every level from the
//! one that missed upwards. Levels are neither inclusive nor exclusive of each other. All levels but the last
//! are private to a core. Not modelled: coherence traffic, bank conflicts of caches; of DRAM, what
//! [`Dram`](super::Dram) leaves out, and without `[memory.dram]`, rows and banks.

use pagewalk_vm::addr::{PAGE_SHIFT, PhysAddr};
use pagewalk_vm::sets::LineArray;

use super::Missed;
use super::fetched::InstructionCache;
use super::followed::Following;
use super::memory::Memory;
use super::mesh::Mesh;
use super::reference::MemoryReference;
use super::refresh::Refresh;
use super::tiered::{Requester, TieredMemory};
use crate::metrics::Rows;
use crate::metrics::names::{cache, memory};
use crate::spec::settings::{CacheSpec, LineIndexing, MachineSpec, MemorySpec, RefreshSpec, Replacement};

/// log2 of the line size in bytes.
pub(super) const LINE_SHIFT: u32 = 6;
/// Bytes of a request on the mesh: an address and its requester; one flit.
const REQUEST_BYTES: u32 = 8;

/// One cache of a level, with its counts.
#[derive(Clone, Debug)]
pub struct Cache {
    lines: LineArray,
    latency_ps: u64,
    counts: CacheCounts,
}

/// The counts of one cache.
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
    /// Dirty lines that were evicted.
    pub write_backs: u64,
}

/// Returns the empty lines of a cache of so many bytes, in sets by their numbers' low bits; physical addresses end at `end`.
pub(super) fn lines(bytes: u64, ways: u32, replacement: Replacement, end: PhysAddr) -> LineArray {
    let lines = u32::try_from(bytes >> LINE_SHIFT).expect("the machine file was checked");
    let line_bits = end.0.next_power_of_two().trailing_zeros() - LINE_SHIFT;
    // Nothing that a machine file allows for caches is drawn by chance.
    LineArray::with_replacement(lines, ways, line_bits, replacement.with_seed(0))
        .expect("the machine file was checked")
}

impl Cache {
    fn new(spec: &CacheSpec, end: PhysAddr) -> Self {
        let lines = lines(spec.bytes, spec.ways, spec.replacement, end);
        Self {
            lines: match spec.indexing {
                LineIndexing::Modulo => lines,
                LineIndexing::XorFold => lines.folded(0),
                LineIndexing::PageFold => lines.folded(PAGE_SHIFT - LINE_SHIFT),
            },
            latency_ps: spec.latency_ps,
            counts: CacheCounts::default(),
        }
    }

    /// Returns the counts so far.
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

/// The lines that memory gave and took.
#[derive(Clone, Copy, Debug, Default)]
struct MemoryLines {
    data_reads: u64,
    walk_reads: u64,
    /// None on a machine whose caches do not hear of the kernel.
    kernel_reads: Option<u64>,
    writes: u64,
}

/// Returns the time of a request, and of a line back.
fn there_and_back_ps(mesh: &Mesh, from: u32, to: u32) -> u64 {
    mesh.latency_ps(from, to, REQUEST_BYTES) + mesh.latency_ps(to, from, 1 << LINE_SHIFT)
}

/// Returns the time from a core's tile to the one that has a line's slice of the last cache, and back.
fn to_slice_and_back_ps(mesh: &Mesh, core: usize, line: u64) -> u64 {
    there_and_back_ps(mesh, core as u32, mesh.slice(line))
}

/// Notes that a reference to an address follows soon: what the farther levels know of its line comes nearer in the caches of the computer that
/// simulates, which otherwise waits for it.
#[inline(always)]
pub(super) fn expect(memory: &MemoryHierarchy, core: usize, addr: PhysAddr) {
    let line = addr.0 >> LINE_SHIFT;
    for cache in memory.private[core].iter().skip(1).chain(&memory.shared) {
        cache.lines.prefetch(line);
    }
}

/// All caches of a machine and its DRAM.
#[derive(Clone, Debug)]
pub struct MemoryHierarchy {
    /// By core, the private levels, nearest first.
    private: Vec<Vec<Cache>>,
    shared: Option<Cache>,
    mesh: Option<Mesh>,
    memory: Memory,
    /// Without the wait for a refresh.
    memory_latency_ps: u64,
    /// The requesters of accesses, by core.
    requesters: Vec<Requester>,
    walk_enters: usize,
    lines: MemoryLines,
    /// Of cores that execute instructions.
    pub(super) followed: Option<Box<Following>>,
    /// By core, the first cache for instructions, if they are fetched.
    pub(super) instructions: Vec<InstructionCache>,
}

impl MemoryHierarchy {
    /// Returns the cold hierarchy of a machine; its physical addresses end at `end`.
    pub fn new(spec: &MachineSpec, end: PhysAddr) -> Self {
        let cache = |cache| Cache::new(cache, end);
        let (private, shared) = match spec.hierarchy.caches.split_last() {
            Some((last, private)) => (private, Some(cache(last))),
            None => (&[][..], None),
        };
        let core = || private.iter().map(cache).collect();
        let MemorySpec { latency_ps, refresh, .. } = &spec.hierarchy.memory;
        Self {
            private: (0..spec.core.count).map(|_| core()).collect(),
            shared,
            mesh: spec.hierarchy.mesh.as_ref().map(Mesh::new),
            memory: Memory::new(spec),
            memory_latency_ps: latency_ps - refresh.as_ref().map_or(0, RefreshSpec::mean_ps),
            requesters: (0..spec.core.count as usize).map(|core| Requester::waiting(core, None)).collect(),
            walk_enters: spec.translation.walker.enters as usize - 1,
            lines: MemoryLines {
                kernel_reads: spec.kernel.writes_are_cached.then_some(0),
                ..MemoryLines::default()
            },
            followed: None,
            instructions: Vec::new(),
        }
    }

    /// Makes one reference at `at_ps`; returns its level (0 the nearest, the number of caches for DRAM) and its latency.
    ///
    /// # Errors
    ///
    /// Its page is not in DRAM.
    #[inline(always)]
    pub fn access(
        &mut self,
        core: usize,
        addr: PhysAddr,
        kind: MemoryReference,
        at_ps: u64,
    ) -> Result<(usize, u64), Missed> {
        let first = match kind {
            MemoryReference::Walk => self.walk_enters,
            MemoryReference::Fetch => self.levels().min(1),
            MemoryReference::KernelStore => 0,
            MemoryReference::Load | MemoryReference::Store => {
                let Some(nearest) = self.private[core].first_mut() else {
                    return self.search(core, addr, kind, at_ps, (0, 0));
                };
                nearest.counts.data_accesses += 1;
                // Most hit in the first cache, where there is nothing to fill.
                if nearest.lines.lookup_newest(addr.0 >> LINE_SHIFT, kind == MemoryReference::Store) {
                    return Ok((0, nearest.latency_ps));
                }
                nearest.counts.data_misses += 1;
                return self.search_behind_first(core, addr, kind, at_ps);
            }
        };
        self.search(core, addr, kind, at_ps, (first, first))
    }

    /// Searches the levels behind the first one for the data of a reference. Apart, so that the usual hit is all that stands inline.
    #[inline(never)]
    fn search_behind_first(
        &mut self,
        core: usize,
        addr: PhysAddr,
        kind: MemoryReference,
        at_ps: u64,
    ) -> Result<(usize, u64), Missed> {
        self.search(core, addr, kind, at_ps, (0, 1))
    }

    /// Searches the levels from `next` on for a reference which enters at level `first`.
    #[inline(always)]
    fn search(
        &mut self,
        core: usize,
        addr: PhysAddr,
        kind: MemoryReference,
        at_ps: u64,
        (first, next): (usize, usize),
    ) -> Result<(usize, u64), Missed> {
        let line = addr.0 >> LINE_SHIFT;
        let levels = self.private[core].len() + usize::from(self.shared.is_some());
        for at in next..levels {
            let cache = self.level(core, at);
            // A store makes the line dirty where it hits; in the levels below it arrives as a write-back.
            let hit = cache.lines.lookup(line, kind.stores() && at == 0);
            match kind {
                MemoryReference::Walk => {
                    cache.counts.walk_accesses += 1;
                    cache.counts.walk_misses += u64::from(!hit);
                }
                MemoryReference::Load | MemoryReference::Store => {
                    cache.counts.data_accesses += 1;
                    cache.counts.data_misses += u64::from(!hit);
                }
                // The first cache for instructions counts its own, and the kernel is none of the program's.
                MemoryReference::Fetch | MemoryReference::KernelStore => {}
            }
            if hit {
                let is_last = at + 1 == levels;
                let latency = if is_last { self.hit_latency_ps(core, line, at) } else { cache.latency_ps };
                if at > first {
                    self.fill(core, line, first, at, kind.stores(), at_ps);
                }
                return Ok((at, latency));
            }
        }
        let latency = self.below(core, addr, kind, at_ps)?;
        match kind {
            MemoryReference::Walk => self.lines.walk_reads += 1,
            MemoryReference::Load | MemoryReference::Store => self.lines.data_reads += 1,
            MemoryReference::KernelStore => {
                self.lines.kernel_reads = self.lines.kernel_reads.map(|lines| lines + 1)
            }
            MemoryReference::Fetch => {}
        }
        self.fill(core, line, first, levels, kind.stores(), at_ps);
        Ok((levels, latency))
    }

    /// Returns the time of a reference that hits at a level.
    #[inline(always)]
    pub(super) fn hit_latency_ps(&mut self, core: usize, line: u64, at: usize) -> u64 {
        let latency_ps = self.level(core, at).latency_ps;
        match &self.mesh {
            Some(mesh) if at + 1 == self.levels() => latency_ps + to_slice_and_back_ps(mesh, core, line),
            _ => latency_ps,
        }
    }

    /// Returns whether a level holds a line, which does not count as a use.
    pub(super) fn holds(&mut self, core: usize, line: u64, at: usize) -> bool {
        self.level(core, at).lines.holds(line)
    }

    /// Returns the time of a reference that every cache missed.
    #[inline(always)]
    pub(super) fn below(
        &mut self,
        core: usize,
        addr: PhysAddr,
        kind: MemoryReference,
        at_ps: u64,
    ) -> Result<u64, Missed> {
        let mut way_ps = self.memory_latency_ps;
        let line = addr.0 >> LINE_SHIFT;
        if let Some(mesh) = &self.mesh {
            way_ps += to_slice_and_back_ps(mesh, core, line);
            let controllers = mesh.controllers();
            let controller = controllers[addr.frame().0 as usize % controllers.len()];
            way_ps += there_and_back_ps(mesh, mesh.slice(line), controller);
        }
        // Half of the way is there, half is back.
        let there_ps = at_ps + way_ps / 2;
        let free_ps = |refresh: &mut Option<Refresh>| {
            refresh.as_mut().map_or(there_ps, |refresh| refresh.free_ps(line, there_ps))
        };
        let done_ps = match &mut self.memory {
            Memory::Plain(refresh) => free_ps(refresh),
            Memory::Limited(refresh, ways) => ways.read(free_ps(refresh)),
            Memory::Dram(dram) => dram.line(there_ps, addr.frame().0),
            Memory::Tiered(tier) => {
                let (write, walk) = (kind.stores(), kind == MemoryReference::Walk);
                let answer = tier.read(there_ps, addr, write, walk, self.requesters[core]);
                answer.map_err(|missed| Missed {
                    signal_ps: missed.signal_ps + way_ps - way_ps / 2,
                    ..missed
                })?
            }
        };
        Ok(done_ps - there_ps + way_ps)
    }

    /// Sets the requester of a core's accesses from now on.
    pub fn request_as(&mut self, core: usize, who: Requester) {
        self.requesters[core] = who;
    }

    /// Returns DRAM over flash, if the machine has it.
    pub fn tier(&self) -> Option<&TieredMemory> {
        match &self.memory {
            Memory::Tiered(tier) => Some(tier),
            _ => None,
        }
    }

    /// Returns DRAM over flash for changes, if the machine has it.
    pub fn tier_mut(&mut self) -> Option<&mut TieredMemory> {
        match &mut self.memory {
            Memory::Tiered(tier) => Some(tier),
            _ => None,
        }
    }

    /// Adds the counts of caches, DRAM and flash to the rows.
    pub(super) fn rows(&self, rows: &mut Rows) {
        for at in 0..self.levels() {
            let (counts, level) = (self.counts(at), at + 1);
            rows.sum(cache::data_accesses(level), counts.data_accesses);
            rows.sum(cache::data_misses(level), counts.data_misses);
            rows.sum(cache::walk_accesses(level), counts.walk_accesses);
            rows.sum(cache::walk_misses(level), counts.walk_misses);
            rows.sum(cache::write_backs(level), counts.write_backs);
        }
        match &self.memory {
            Memory::Plain(_) | Memory::Limited(..) => {}
            Memory::Dram(dram) => dram.rows(rows),
            Memory::Tiered(tier) => tier.rows(rows),
        }
        rows.sum(memory::DATA_READS, self.lines.data_reads);
        rows.sum(memory::WALK_READS, self.lines.walk_reads);
        if let Some(lines) = self.lines.kernel_reads {
            rows.sum(memory::KERNEL_READS, lines);
        }
        rows.sum(memory::WRITES, self.lines.writes);
        if let Some(followed) = &self.followed {
            followed.rows(rows);
        }
        self.instruction_rows(rows);
    }

    #[inline(always)]
    fn level(&mut self, core: usize, at: usize) -> &mut Cache {
        let private = &mut self.private[core];
        if at < private.len() { &mut private[at] } else { self.shared.as_mut().expect("a level that exists") }
    }

    /// Fills levels `first..hit`; the nearest becomes dirty for a store.
    pub(super) fn fill(&mut self, core: usize, line: u64, first: usize, hit: usize, store: bool, at_ps: u64) {
        for at in (first..hit).rev() {
            let victim = self.level(core, at).fill(line, store && at == 0);
            if let Some(victim) = victim {
                self.write_back(core, victim, at + 1, at_ps);
            }
        }
    }

    /// Takes a dirty line into level `at` from the level above.
    fn write_back(&mut self, core: usize, line: u64, at: usize, at_ps: u64) {
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
        self.lines.writes += 1;
        let addr = PhysAddr(line << LINE_SHIFT);
        match &mut self.memory {
            Memory::Plain(_) => {}
            Memory::Limited(_, ways) => ways.write(at_ps),
            Memory::Dram(dram) => drop(dram.line(at_ps, addr.frame().0)),
            Memory::Tiered(tier) => tier.write_back(at_ps, addr),
        }
    }

    /// Returns the counts of level `at`, summed over cores.
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

    /// Returns the number of cache levels.
    pub fn levels(&self) -> usize {
        self.private[0].len() + usize::from(self.shared.is_some())
    }

    /// Returns the latency of memory that hands over nothing else.
    pub(super) fn memory_latency_ps(&self) -> u64 {
        self.memory_latency_ps
    }

    /// Returns whether memory says how long it hands over other lines before the one that was asked for.
    pub(super) fn queues(&self) -> bool {
        matches!(self.memory, Memory::Limited(..)) && self.mesh.is_none()
    }

    /// Returns that part of the latency of the access that was made last, and found at a level.
    #[inline]
    pub(super) fn queued_ps(&self, level: usize, latency_ps: u64) -> u64 {
        match &self.memory {
            Memory::Limited(refresh, _) if level == self.levels() && self.mesh.is_none() => {
                let waited_ps = refresh.as_ref().map_or(0, Refresh::waited_ps);
                (latency_ps - self.memory_latency_ps).saturating_sub(waited_ps)
            }
            _ => 0,
        }
    }

    /// Returns the load-to-use latency of the nearest level, which the pipeline hides.
    pub fn nearest_latency_ps(&self) -> u64 {
        self.private[0].first().or(self.shared.as_ref()).map_or(0, |cache| cache.latency_ps)
    }
}
