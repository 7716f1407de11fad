//! A machine file, resolved: nothing optional that has a default, every value checked.
//!
//! Times that a file gives in cycles are converted with the core's frequency; everything here is in integer
//! picoseconds and bytes.

use pagewalk_trace::SourceInfo;
use pagewalk_vm::addr::Granule;

pub use super::accelerator::{AcceleratorDaemonSpec, AcceleratorSpec};
pub use super::core::{
    CoreSpec, DataflowSpec, FarTargetsSpec, LatenciesSpec, Pairs, SlotsSpec, TargetsSpec, WalkCacheShape,
    WalkCacheSpec, WalkerSpec,
};
use super::design::from_settings;
pub use super::design::{Design, Settings};
pub use super::fetch::{DecodedSpec, FetchSpec, InstructionCacheSpec};
pub use super::flash::{CollectionHolds, Distribution, FlashSpec, FlashTimes, GarbageSpec};
pub use super::frames::{BuddySpec, FrameDesign, FrameKind, HashKind, IcebergSpec};
pub use super::host::HostSpec;
pub use super::kernel::{AllocationSpec, FaultSteps, HugePagePolicy, KernelSpec};
pub use super::memory::{CacheSpec, DramSpec, LineIndexing, MemorySpec, MeshSpec, RefreshSpec, TagSpec};
pub use super::persistent::PersistentSpec;
pub use super::prefetch::{NextLineSpec, PrefetchSpec, StreamSpec, StrideSpec};
pub use super::reclaim::{ClockSpec, HorizonLruSpec, IcebergLruSpec, LruSpec, ReclaimDesign, ReclaimKind};
pub use super::swap::{MemoryCopySpec, SwapDesign, SwapKind, SwapSpec};
pub use super::threads::ThreadsSpec;
pub use super::tier::{ControllerSpec, HardwareManager, KernelManager, ManagerDesign, ManagerKind, TierSpec};
pub use super::tlb::{
    CoalescedEntries, DistanceSpec, OnePageEntries, PrefetcherDesign, PrefetcherKind, Replacement,
    RunEntries, SequentialSpec, TlbArraySpec, TlbDesign, TlbKind, TlbLevelSpec, TlbPrefetchSpec,
    VictimEntries,
};
use crate::error::MachineError;
use crate::files::file::{FileError, IndexedFile};
use crate::machine::simulate::{Detail, Simulate};
pub use crate::time::device::block::BlockSpec;
pub use crate::time::device::remote::RemoteSpec;

/// A memory system, ready to be built.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    /// The machine's name, unique among the machines of a run.
    pub name: String,
    /// One line for lists and reports.
    pub description: String,
    /// Cores: threads are placed on them round-robin by thread number.
    pub core: CoreSpec,
    /// From addresses to frames.
    pub translation: TranslationSpec,
    /// Frames, and pages that leave them.
    pub paging: PagingSpec,
    /// Costs of the kernel's fault path (timed runs).
    pub kernel: KernelSpec,
    /// Caches and DRAM (timed runs).
    pub hierarchy: HierarchySpec,
    /// DRAM as a cache over flash (timed runs).
    pub tier: Option<TierSpec>,
    /// Threads that serve jobs (timed runs).
    pub threads: Option<ThreadsSpec>,
    /// Persistent memory (operations on files).
    pub storage: StorageSpec,
}

/// The hardware and the table that translate addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct TranslationSpec {
    /// TLB levels, nearest the core first; none means every access walks.
    pub tlb: Vec<TlbLevelSpec>,
    /// The fetch of instructions, their TLB and their first cache; without it, instructions are there.
    pub fetch: Option<FetchSpec>,
    /// The prefetcher of the TLBs, if they have one.
    pub prefetch: Option<TlbPrefetchSpec>,
    /// The page-walk caches; absent means every walk starts at the root.
    pub walk_cache: Option<WalkCacheSpec>,
    /// The kind of page table.
    pub table: TableKind,
    /// The use of huge pages.
    pub huge_pages: HugePagePolicy,
    /// Page walkers (timed runs).
    pub walker: WalkerSpec,
    /// The host, if the machine is a guest in a virtual machine.
    pub host: Option<HostSpec>,
}

/// Frames, and pages that leave them.
#[derive(Clone, Debug, PartialEq)]
pub struct PagingSpec {
    /// The frame allocator and the memory it hands out.
    pub frames: FrameKind,
    /// Which pages leave when memory is full; absent means that the run ends there.
    pub reclaim: Option<ReclaimKind>,
    /// The share of memory that a daemon keeps free of them, in percent; 0 for none.
    pub background_percent: u32,
    /// The device that they go to.
    pub swap: SwapSpec,
    /// The accelerator that brings them back without the kernel.
    pub accelerator: Option<AcceleratorSpec>,
}

/// The settings of the memory hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub struct HierarchySpec {
    /// The caches, nearest the core first. All levels but the last are private to a core.
    pub caches: Vec<CacheSpec>,
    /// The settings of DRAM.
    pub memory: MemorySpec,
    /// The mesh that connects cores, slices of the last cache, and memory controllers.
    pub mesh: Option<MeshSpec>,
}

/// Persistent memory, and what is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageSpec {
    /// The settings of persistent memory.
    pub persistent: Option<PersistentSpec>,
    /// A file system in it.
    pub files: Option<FilesSpec>,
}

/// A file system in persistent memory.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesSpec {
    /// The time from the program into the file system and back.
    pub call_ps: u64,
    /// The index by which the file system finds bytes.
    pub index: FileIndexKind,
}

/// The index by which a file system finds bytes.
pub type FileIndexKind = Design<dyn FileIndexDesign>;

/// An index by which a file system finds bytes.
pub trait FileIndexDesign: Settings {
    /// Returns whether the page table must map files that are ranges of pages.
    fn needs_mapping(&self) -> bool {
        false
    }

    /// Creates an empty file.
    ///
    /// # Errors
    ///
    /// [`FileError`]: persistent memory is too small.
    fn create(&self, request: &FileRequest<'_>) -> Result<Box<dyn IndexedFile>, FileError>;
}

/// The properties of a file to be created.
#[derive(Clone, Copy)]
pub struct FileRequest<'a> {
    /// The settings of the machine.
    pub spec: &'a MachineSpec,
    /// The settings of the machine's persistent memory.
    pub persistent: &'a PersistentSpec,
    /// The time from the program into the file system and back.
    pub call_ps: u64,
    /// The most bytes that the file will have.
    pub most_bytes: u64,
}

from_settings!(FileIndexDesign);

impl MachineSpec {
    /// Returns why pages cannot have the frames that a trace gives them; none if they can.
    pub fn places_frames(&self) -> Option<&'static str> {
        if self.paging.frames.hash_placed().is_some() {
            Some("it places frames by hashing")
        } else if self.paging.reclaim.is_some() {
            Some("its pages leave memory, and come back to other frames")
        } else if self.tier.is_some() {
            Some("its DRAM is a cache over flash")
        } else if self.translation.host.is_some() {
            Some("it is a guest, whose frames the host gives")
        } else if matches!(self.translation.huge_pages, HugePagePolicy::Explicit(_)) {
            Some("its anonymous memory is in explicit huge pages")
        } else if self.translation.table.granule() != Granule::Size4K {
            Some("its pages are not those of a granule of 4 KiB")
        } else {
            None
        }
    }
}

/// A kind of page table.
pub type TableKind = Design<dyn TableDesign>;

/// A kind of page table.
pub trait TableDesign: Settings {
    /// Returns the walk caches that the table can use.
    fn walk_caches(&self) -> WalkCacheShape;

    /// Returns the time from a page's number to the address of the walk's first reference.
    fn lookup_ps(&self) -> u64 {
        0
    }

    /// Returns whether the table is hashed, and moves lines when it grows.
    fn is_hashed(&self) -> bool {
        false
    }

    /// Returns whether entries name frames by the codes of hash-placed ones, for 4 KiB pages only.
    fn names_placed_frames(&self) -> bool {
        false
    }

    /// Returns whether the table can be a guest's: a walk of it can go through a host's.
    fn can_be_guests(&self) -> bool {
        false
    }

    /// Returns the size of base pages.
    fn granule(&self) -> Granule {
        Granule::Size4K
    }

    /// Returns whether files that are ranges of pages can be mapped.
    fn maps_files(&self) -> bool {
        false
    }

    /// Returns the addresses that programs have, if these are fewer than the source's may be.
    fn program_space(&self) -> Option<ProgramSpace> {
        None
    }

    /// Returns how machines are assembled whose page tables are these.
    fn assembly(&self) -> Assembly;
}

/// The functions that assemble machines around one type of page table.
///
/// All that is generic in the type goes through here, so that a kind of page table names its type in one place.
#[derive(Clone, Copy)]
pub struct Assembly {
    /// Builds a machine; the error is that its memory does not even hold the first page table.
    pub(crate) build: fn(&BuildRequest<'_>) -> Result<Box<dyn Simulate>, MachineError>,
    #[cfg(test)]
    pub(crate) checks: crate::machine::tests::Checks,
}

/// The addresses that a page table leaves to programs, from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramSpace {
    /// The levels of the table.
    pub levels: u32,
    /// The number of addresses, a multiple of 1 GiB.
    pub bytes: u64,
}

/// The parts from which a machine is built.
#[derive(Clone, Copy)]
pub struct BuildRequest<'a> {
    /// The settings of the machine.
    pub spec: &'a MachineSpec,
    /// The part of the machine that is modelled.
    pub detail: Detail,
    /// The start of all its random numbers.
    pub seed: u64,
    /// The properties of the source of the events.
    pub source: &'a SourceInfo,
}

from_settings!(TableDesign);
