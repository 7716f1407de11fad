//! From settings to a machine, for one type of page tables.

use std::sync::Arc;

use pagewalk_trace::SourceInfo;
use pagewalk_vm::reclaim::Uses;
use pagewalk_vm::sets;
use pagewalk_vm::table::PageTable;
use pagewalk_vm::tlb::prefetch::PrefetchBuffer;
use pagewalk_vm::tlb::{Tlb, TlbStorage, Tlbs};

use super::events::Machine;
use super::simulate::{Detail, Simulate};
use super::turns::Turns;
use crate::engine::{Engine, Fetching};
use crate::error::MachineError;
use crate::jobs::Jobs;
use crate::kernel::Kernel;
use crate::metrics::Phases;
use crate::mmu::{Below, Core, MOST_CLASSES, Mmu, Prefetching};
use crate::spec::settings::{
    Assembly, BuildRequest, FetchSpec, MachineSpec, TableKind, TlbArraySpec, TlbLevelSpec, WalkCacheSpec,
};
use crate::time::{Clock, IntervalClock, NoClock};

/// A page table that machine files can ask for.
pub(crate) trait Built: PageTable + 'static {
    /// What it is made like.
    fn design(table: &TableKind) -> Self::Design;

    /// A core's walk caches for it.
    fn caches(spec: &WalkCacheSpec) -> Self::Caches;
}

impl Assembly {
    /// Returns the assembly of machines with page tables `T`.
    pub(crate) const fn of<T: Built>() -> Self {
        Self {
            build: assemble::<T>,
            #[cfg(test)]
            checks: super::tests::Checks::of::<T>(),
        }
    }
}

fn assemble<T: Built>(request: &BuildRequest<'_>) -> Result<Box<dyn Simulate>, MachineError> {
    let &BuildRequest { spec, detail, seed, source } = request;
    Ok(match detail {
        Detail::Counts => Box::new(machine::<T, NoClock>(spec, seed, source)?),
        Detail::Timed => Box::new(machine::<T, IntervalClock>(spec, seed, source)?),
    })
}

pub(super) fn machine<T: Built, C: Clock>(
    spec: &MachineSpec,
    seed: u64,
    source: &SourceInfo,
) -> Result<Machine<T, C>, MachineError> {
    let mut frames = spec.paging.frames.pool(spec.paging.reclaim.as_deref(), seed);
    if source.gives_frames && spec.places_frames().is_none() {
        frames = frames.with_given();
    }
    let start = frames.ordinary().start();
    let end = start.addr().add(spec.paging.frames.memory_bytes());
    let uses = frames.uses();
    let fetch = spec.translation.fetch.as_ref().filter(|_| source.gives_blocks);
    let fetch = fetch.filter(|_| !C::TIMED || spec.core.dataflow.is_some());
    let core = |number: u32| core::<T>(spec, fetch, seed ^ u64::from(number) << 32, uses);
    let cores = (0..spec.core.count).map(core);
    let (_, shared) = levels_of(spec);
    let shared = (!shared.is_empty()).then(|| hierarchy(shared, seed));
    let mut timed = spec.clone();
    if let Some(tier) = &mut timed.tier {
        tier.flash.seed ^= seed;
    }
    let spec = Arc::new(spec.clone());
    let design = T::design(&spec.translation.table);
    let levels = T::levels(&design);
    let kernel = Kernel::new(&spec, design, frames, seed, source.announces_mappings, C::TIMED);
    let count = spec.core.count as usize;
    let host = spec.translation.host.as_ref();
    let host = host.map(|host| host.build(count, levels, &spec.kernel, (start, end.frame())));
    let end = host.as_ref().map_or(end, Below::end);
    let mmu = Mmu::new(levels, cores.collect(), shared, host);
    let mut engine = Engine::start(mmu, kernel, C::new(&timed, end, source.gives_blocks))?;
    if fetch.is_some() {
        engine.fetching = Some(Box::new(Fetching::new(count, spec.translation.table.program_space())));
    }
    let jobs = spec.threads.as_ref().filter(|_| C::TIMED).map(|threads| Jobs::new(&spec, threads, seed));
    Ok(Machine { spec, engine, jobs, turns: Turns::default(), phases: Phases::default() })
}

fn core<T: Built>(spec: &MachineSpec, fetch: Option<&FetchSpec>, seed: u64, uses: Uses) -> Core<T::Caches> {
    let tlbs = hierarchy(levels_of(spec).0, seed);
    let walk_cache = spec.translation.walk_cache.as_ref().map(T::caches);
    let has_two_first_levels = tlbs.has_first_level_for_stores() || fetch.is_some();
    let classes = match uses {
        Uses::Nothing | Uses::Walks | Uses::FirstAfterAllocation => MOST_CLASSES,
        // Which of two pages was used last matters; only a repetition does not. With several cores, or before loads or data alone, a
        // filter sees a part.
        Uses::Every if spec.core.count == 1 && !has_two_first_levels => 1,
        Uses::Every => 0,
    };
    let prefetching = spec.translation.prefetch.as_ref().map(|prefetch| {
        let buffer = PrefetchBuffer::new(prefetch.buffer).expect("the machine file was checked");
        Prefetching::new(prefetch.kind.build(), buffer)
    });
    let core = Core::new(tlbs, walk_cache, T::GRANULE.base(), classes).with_prefetching(prefetching);
    match fetch {
        Some(fetch) => {
            let first = Tlb::new(vec![tlb_array(&fetch.tlb, seed)]);
            core.with_instructions(first, T::GRANULE.base(), classes)
        }
        None => core,
    }
}

/// Returns the TLBs of a core on its own, empty: the levels that cores share, too.
///
/// # Panics
///
/// If `spec` was not checked (specs from [`crate::spec`] were).
pub fn tlbs(spec: &MachineSpec, seed: u64) -> Tlbs {
    hierarchy(&spec.translation.tlb, seed)
}

/// Returns the levels that each core has, and those that all share.
fn levels_of(spec: &MachineSpec) -> (&[TlbLevelSpec], &[TlbLevelSpec]) {
    let levels = &spec.translation.tlb;
    levels.split_at(levels.iter().position(|level| level.is_shared).unwrap_or(levels.len()))
}

fn hierarchy(levels: &[TlbLevelSpec], seed: u64) -> Tlbs {
    let tlbs = Tlbs::new(levels.iter().map(|level| tlb(level, seed)).collect());
    match levels.first().and_then(|first| first.stores.as_ref()) {
        Some(stores) => tlbs.with_first_level_for_stores(Tlb::new(vec![tlb_array(stores, seed)])),
        None => tlbs,
    }
}

fn tlb(level: &TlbLevelSpec, seed: u64) -> Tlb {
    Tlb::new(level.arrays.iter().map(|array| tlb_array(array, seed)).collect())
        .with_inclusion(level.inclusion)
}

fn tlb_array(spec: &TlbArraySpec, seed: u64) -> TlbStorage {
    let replacement = spec.replacement.with_seed(seed);
    let shape =
        sets::ArrayShape { entries: spec.entries, ways: spec.ways, replacement, indexing: spec.indexing };
    spec.kind.build(&shape).expect("the machine file was checked")
}
