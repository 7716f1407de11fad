//! From settings to a machine.

use std::sync::Arc;

use pagewalk_trace::SourceInfo;
use pagewalk_vm::addr::{PAGE_BYTES, Pfn};
use pagewalk_vm::frame::{BuddyAllocator, CrowdedMemory, Iceberg};
use pagewalk_vm::hash::{PageHash, Tabulation, Xxh64};
use pagewalk_vm::reclaim::{
    HorizonLru, IcebergLru, NoEviction, PagePool, PlacementPolicy, Recency, Ripeness, SampledHorizon,
    TwoListClock, Uses,
};
use pagewalk_vm::sets;
use pagewalk_vm::table::classic::{Chained, Classic, ClassicDesign, ClusterTable, NoCaches, OpenAddressing};
use pagewalk_vm::table::hashed::{HashedDesign, HashedTable, WalkCaches};
use pagewalk_vm::table::{Contents, Geometry, PageTable, Radix, WalkCache, X86_64, X86_64La57, X86_64Toc};
use pagewalk_vm::tlb::{Mosaic, SetAssociative, Tlb, TlbArray, Tlbs};

use super::{Machine, Simulate};
use crate::engine::Engine;
use crate::error::MachineError;
use crate::jobs::Jobs;
use crate::kernel::Kernel;
use crate::metrics::Phases;
use crate::mmu::{Core, MOST_CLASSES, Mmu};
use crate::spec::settings::{
    ClassicKind, ClassicSpec, FrameSpec, HashKind, MachineSpec, ReclaimSpec, Replacement, TableSpec,
    TlbArraySpec, TlbKind, TlbLevelSpec, WalkCacheSpec,
};
use crate::time::{Clock, IntervalClock, NoClock};

/// The parts of a machine that are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Translation, allocation and paging: counts only.
    #[default]
    Counts,
    /// Also caches, DRAM and cores: time.
    Timed,
}

/// Builds the machine of `spec` for a source.
///
/// `seed` feeds random replacement, the hash functions that place pages, the timestamp daemon's choices, the cores that jobs
/// arrive at and how long flash takes.
///
/// # Errors
///
/// Its memory does not even hold the first page table.
///
/// # Panics
///
/// If `spec` was not checked (specs from [`crate::spec`] were).
pub fn build(
    spec: &MachineSpec,
    detail: Detail,
    seed: u64,
    source: &SourceInfo,
) -> Result<Box<dyn Simulate>, MachineError> {
    fn of<T: Built + 'static>(
        spec: &MachineSpec,
        detail: Detail,
        seed: u64,
        source: &SourceInfo,
    ) -> Result<Box<dyn Simulate>, MachineError> {
        Ok(match detail {
            Detail::Counts => Box::new(machine::<T, NoClock>(spec, seed, source)?),
            Detail::Timed => Box::new(machine::<T, IntervalClock>(spec, seed, source)?),
        })
    }
    match &spec.table {
        TableSpec::Radix { levels: 5 } => of::<Radix<X86_64La57>>(spec, detail, seed, source),
        TableSpec::Radix { .. } => of::<Radix<X86_64>>(spec, detail, seed, source),
        TableSpec::Toc => of::<Contents>(spec, detail, seed, source),
        TableSpec::Hashed(_) => of::<HashedTable>(spec, detail, seed, source),
        TableSpec::Classic(ClassicSpec { kind: ClassicKind::OpenAddressing, .. }) => {
            of::<Classic<OpenAddressing>>(spec, detail, seed, source)
        }
        TableSpec::Classic(ClassicSpec { kind: ClassicKind::Chained, .. }) => {
            of::<Classic<Chained>>(spec, detail, seed, source)
        }
    }
}

/// A page table that machine files can ask for.
pub(super) trait Built: PageTable {
    /// Returns the table's design.
    fn design(table: &TableSpec) -> Self::Design;

    /// Returns a core's walk caches for the table.
    fn caches(spec: &WalkCacheSpec) -> Self::Caches;
}

impl<G: Geometry + Send> Built for Radix<G> {
    fn design(_: &TableSpec) {}

    fn caches(spec: &WalkCacheSpec) -> WalkCache {
        WalkCache::new::<G>(&spec.entries, spec.ways).expect("the machine file was checked")
    }
}

impl Built for Contents {
    fn design(_: &TableSpec) {}

    fn caches(spec: &WalkCacheSpec) -> WalkCache {
        Radix::<X86_64Toc>::caches(spec)
    }
}

impl Built for HashedTable {
    fn design(table: &TableSpec) -> HashedDesign {
        match table {
            TableSpec::Hashed(table) => table.design.clone(),
            _ => unreachable!("another table"),
        }
    }

    fn caches(spec: &WalkCacheSpec) -> WalkCaches {
        WalkCaches::new(spec.entries[1], spec.entries[0], spec.by_section)
            .expect("the machine file was checked")
    }
}

impl<C: ClusterTable> Built for Classic<C> {
    fn design(table: &TableSpec) -> ClassicDesign {
        match table {
            TableSpec::Classic(table) => table.design.clone(),
            _ => unreachable!("another table"),
        }
    }

    fn caches(_: &WalkCacheSpec) -> NoCaches {
        unreachable!("the machine file was checked")
    }
}

pub(super) fn machine<T: Built, C: Clock>(
    spec: &MachineSpec,
    seed: u64,
    source: &SourceInfo,
) -> Result<Machine<T, C>, MachineError> {
    let mut frames = frames(spec, seed);
    if source.gives_frames && spec.places_frames().is_none() {
        frames = frames.with_given();
    }
    let end = frames.ordinary().start().addr().add(spec.frames.memory_bytes());
    let uses = frames.uses();
    let cores = (0..spec.core.count).map(|number| core::<T>(spec, seed ^ u64::from(number) << 32, uses));
    let mut timed = spec.clone();
    if let Some(tier) = &mut timed.tier {
        tier.flash.seed ^= seed;
    }
    let spec = Arc::new(spec.clone());
    let design = T::design(&spec.table);
    let kernel = Kernel::new(&spec, design, frames, seed, source.announces_mappings, C::TIMED);
    let engine = Engine::start(Mmu::new(cores.collect()), kernel, C::new(&timed, end))?;
    let jobs = spec.threads.as_ref().filter(|_| C::TIMED).map(|threads| Jobs::new(&spec, threads, seed));
    Ok(Machine { spec, engine, jobs, phases: Phases::default() })
}

/// Returns the machine's frames, with the policy that chooses a page to evict when none is free.
fn frames(spec: &MachineSpec, seed: u64) -> PagePool {
    let memory = |bytes, fragmentation| {
        let buddy = BuddyAllocator::new(bytes).expect("the machine file was checked");
        CrowdedMemory::fragmented(buddy, fragmentation, seed)
    };
    match spec.frames {
        FrameSpec::Buddy { memory_bytes, fragmentation } => {
            let limit = |bytes: Option<u64>| bytes.unwrap_or(memory_bytes) / PAGE_BYTES;
            match spec.reclaim {
                Some(ReclaimSpec::Lru { limit_bytes }) => {
                    let order = Box::new(Recency::new(u32::MAX));
                    PagePool::ordered(memory(memory_bytes, fragmentation), order, limit(limit_bytes))
                }
                Some(ReclaimSpec::Clock { limit_bytes }) => {
                    let clock = TwoListClock::new(limit_bytes.unwrap_or(memory_bytes));
                    PagePool::ordered(
                        memory(memory_bytes, fragmentation),
                        Box::new(clock),
                        limit(limit_bytes),
                    )
                }
                _ => PagePool::kept(memory(memory_bytes, fragmentation)),
            }
        }
        FrameSpec::Iceberg { shape, hash, ordinary_bytes } => {
            let hash = match hash {
                HashKind::Xxh64 => PageHash::Xxh64(Xxh64::new(seed)),
                HashKind::Tabulation => PageHash::Tabulation(Tabulation::new(seed)),
                HashKind::LowBits => PageHash::LowBits,
            };
            let base = Pfn(ordinary_bytes / PAGE_BYTES);
            let placed = Iceberg::new(shape, base, hash).expect("the machine file was checked");
            let policy: Box<dyn PlacementPolicy> = match spec.reclaim {
                Some(ReclaimSpec::HorizonLru { scan_interval: None }) => {
                    Box::new(HorizonLru::new(shape.frames()))
                }
                Some(ReclaimSpec::HorizonLru { scan_interval: Some(_) }) => {
                    Box::new(SampledHorizon::new(shape.frames(), seed))
                }
                Some(ReclaimSpec::IcebergLru { live_percent, is_strict }) => {
                    let live = shape.frames() * u64::from(live_percent) / 100;
                    let ripeness = if is_strict { Ripeness::Strict } else { Ripeness::Lazy };
                    Box::new(IcebergLru::new(shape.frames(), live, ripeness))
                }
                _ => Box::new(NoEviction),
            };
            PagePool::placed(memory(ordinary_bytes, 0), placed, policy)
        }
    }
}

fn core<T: Built>(spec: &MachineSpec, seed: u64, uses: Uses) -> Core<T::Caches> {
    let tlbs = tlbs(spec, seed);
    let walk_cache = spec.walk_cache.as_ref().map(T::caches);
    let classes = match uses {
        Uses::Nothing | Uses::Walks | Uses::FirstAfterAllocation => MOST_CLASSES,
        // Which of two pages was used last matters; only a repetition does not. With several cores each sees a part.
        Uses::Every if spec.core.count == 1 => 1,
        Uses::Every => 0,
    };
    Core::new(tlbs, walk_cache, classes)
}

/// Returns a core's TLBs.
pub(crate) fn tlbs(spec: &MachineSpec, seed: u64) -> Tlbs {
    Tlbs::new(spec.tlb.iter().map(|level| tlb(level, seed)).collect())
}

fn tlb(level: &TlbLevelSpec, seed: u64) -> Tlb {
    Tlb::new(level.arrays.iter().map(|array| tlb_array(array, seed)).collect())
}

fn tlb_array(spec: &TlbArraySpec, seed: u64) -> TlbArray {
    let replacement = match spec.replacement {
        Replacement::Lru => sets::Replacement::Lru,
        Replacement::Fifo => sets::Replacement::Fifo,
        Replacement::TreePlru => sets::Replacement::TreePlru,
        Replacement::Nru => sets::Replacement::Nru,
        Replacement::Random => sets::Replacement::Random { seed },
    };
    let array = match &spec.kind {
        TlbKind::SetAssociative { pages } => {
            SetAssociative::new(spec.entries, spec.ways, replacement, pages).map(TlbArray::SetAssociative)
        }
        TlbKind::Mosaic { arity } => {
            Mosaic::new(spec.entries, spec.ways, replacement, *arity).map(TlbArray::Mosaic)
        }
    };
    array.expect("the machine file was checked")
}
