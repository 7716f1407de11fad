//! From settings to a machine.

use pagewalk_trace::{ProcessId, SourceInfo};
use pagewalk_vm::frame::BuddyAllocator;
use pagewalk_vm::sets;
use pagewalk_vm::table::{Geometry, SparseMemory, WalkCache, X86_64, X86_64La57};
use pagewalk_vm::tlb::{Mosaic, SetAssociative, Tlb, TlbArray, Tlbs};

use super::core::Core;
use super::counts::EventCounts;
use super::{Machine, MachineError, Simulate};
use crate::spec::settings::{
    FrameSpec, MachineSpec, Replacement, TableSpec, TlbArraySpec, TlbKind, TlbLevelSpec,
};
use crate::time::{Clock, IntervalClock, NoClock};

/// How much is modelled.
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
/// `seed` feeds the random replacement policy; nothing else draws numbers.
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
    Ok(match (&spec.table, detail) {
        (TableSpec::Radix { levels: 5 }, Detail::Counts) => {
            Box::new(machine::<X86_64La57, NoClock>(spec, seed, source)?)
        }
        (TableSpec::Radix { levels: 5 }, Detail::Timed) => {
            Box::new(machine::<X86_64La57, IntervalClock>(spec, seed, source)?)
        }
        (TableSpec::Radix { .. }, Detail::Counts) => {
            Box::new(machine::<X86_64, NoClock>(spec, seed, source)?)
        }
        (TableSpec::Radix { .. }, Detail::Timed) => {
            Box::new(machine::<X86_64, IntervalClock>(spec, seed, source)?)
        }
    })
}

pub(super) fn machine<G: Geometry, C: Clock>(
    spec: &MachineSpec,
    seed: u64,
    source: &SourceInfo,
) -> Result<Machine<G, C>, MachineError> {
    let FrameSpec::Buddy { memory_bytes } = spec.frames;
    let mut machine = Machine::<G, C> {
        memory: SparseMemory::new(),
        frames: BuddyAllocator::new(memory_bytes).expect("the machine file was checked"),
        processes: Vec::new(),
        cores: (0..spec.core.count).map(|number| core(spec, seed ^ u64::from(number) << 32)).collect(),
        clock: C::new(spec),
        counts: EventCounts::default(),
        process: 0,
        core: 0,
        segment: None,
        announces_mappings: source.announces_mappings,
        phases: Vec::new(),
        spec: spec.clone(),
    };
    machine.switch_process(ProcessId(0))?;
    Ok(machine)
}

fn core(spec: &MachineSpec, seed: u64) -> Core {
    let tlbs = Tlbs::new(spec.tlb.iter().map(|level| tlb(level, seed)).collect());
    let walk_cache = spec.walk_cache.as_ref().map(|cache| {
        WalkCache::new(&cache.entries, cache.ways, X86_64::INDEX_BITS).expect("the machine file was checked")
    });
    Core::new(tlbs, walk_cache)
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
