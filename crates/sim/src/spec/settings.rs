//! A machine file, resolved: nothing optional that has a default, every value checked.
//!
//! Times that a file gives in cycles are converted with the core's frequency; everything here is in integer
//! picoseconds and bytes.

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::frame::IcebergShape;
use pagewalk_vm::sched::SchedulerDesign;
use pagewalk_vm::table::classic::ClassicDesign;
use pagewalk_vm::table::hashed::HashedDesign;
use pagewalk_vm::tier::TierDesign;

pub use super::devices::{
    CollectionHolds, Distribution, DramSpec, FileIndex, FilesSpec, FlashSpec, GarbageSpec, MeshSpec,
    PersistentSpec,
};
pub use super::tlb::{OnePageEntries, RunEntries, TlbDesign, TlbKind};

/// A memory system, ready to be built.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    /// Its name, unique among the machines of a run.
    pub name: String,
    /// One line for lists and reports.
    pub description: String,
    /// Cores: threads are placed on them round-robin by thread number.
    pub core: CoreSpec,
    /// TLB levels, nearest the core first; none means every access walks.
    pub tlb: Vec<TlbLevelSpec>,
    /// The page-walk caches; absent means every walk starts at the root.
    pub walk_cache: Option<WalkCacheSpec>,
    /// The page table.
    pub table: TableSpec,
    /// The frame allocator and the memory it hands out.
    pub frames: FrameSpec,
    /// Which pages leave when memory is full; absent means that the run ends there.
    pub reclaim: Option<ReclaimSpec>,
    /// The share of memory that a daemon keeps free of them, in percent; 0 for none.
    pub background_percent: u32,
    /// Where they go.
    pub swap: SwapSpec,
    /// What brings them back without the kernel.
    pub accelerator: Option<AcceleratorSpec>,
    /// Transparent huge pages.
    pub huge_pages: HugePagePolicy,
    /// Costs of the kernel's fault path (timed runs).
    pub kernel: KernelSpec,
    /// The cache hierarchy, nearest the core first (timed runs). All levels but the last are private to a core.
    pub caches: Vec<CacheSpec>,
    /// Page walkers (timed runs).
    pub walker: WalkerSpec,
    /// DRAM (timed runs).
    pub memory: MemorySpec,
    /// What connects cores, slices of the last cache, and memory controllers (timed runs).
    pub mesh: Option<MeshSpec>,
    /// DRAM as a cache over flash (timed runs).
    pub tier: Option<TierSpec>,
    /// Threads that serve jobs (timed runs).
    pub threads: Option<ThreadsSpec>,
    /// Persistent memory (operations on files).
    pub persistent: Option<PersistentSpec>,
    /// A file system in it.
    pub files: Option<FilesSpec>,
}

/// The core model (timed runs; the count also shapes counts runs).
#[derive(Clone, Debug, PartialEq)]
pub struct CoreSpec {
    /// Number of cores, 1 to 256.
    pub count: u32,
    /// One clock cycle.
    pub cycle_ps: u64,
    /// Instructions dispatched and retired per cycle.
    pub width: u32,
    /// Reorder-buffer entries: how far the core runs ahead of the oldest unfinished instruction.
    pub window: u32,
    /// Outstanding cache misses (miss-status holding registers).
    pub outstanding: u32,
}

/// One TLB level: one or more arrays looked up in parallel.
#[derive(Clone, Debug, PartialEq)]
pub struct TlbLevelSpec {
    /// Extra time of a hit at this level, beyond what the pipeline hides; zero for the first level as a rule.
    pub latency_ps: u64,
    /// The arrays. Each page size is held by at most one array of a level.
    pub arrays: Vec<TlbArraySpec>,
}

/// One TLB array.
#[derive(Clone, Debug, PartialEq)]
pub struct TlbArraySpec {
    /// Its name inside the level; empty for the only array.
    pub name: String,
    /// Number of entries.
    pub entries: u32,
    /// Ways; equal to `entries` for a fully associative array. `entries / ways` is a power of two.
    pub ways: u32,
    /// Who is evicted.
    pub replacement: Replacement,
    /// What an entry holds.
    pub kind: TlbKind,
}

/// Replacement policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// True least recently used.
    Lru,
    /// First in, first out.
    Fifo,
    /// Tree pseudo-LRU; ways must be a power of two.
    TreePlru,
    /// Not recently used: one reference bit a way.
    Nru,
    /// A way drawn from a seeded generator.
    Random,
}

/// The page-walk caches: one small cache per non-leaf level.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkCacheSpec {
    /// Entries by level, root first: `[4, 4, 32]` is 4 for the root's entries and 32 for those that point to
    /// leaf tables. As many as the table has non-leaf levels; 0 leaves a level out. Of a hashed table: the PUD
    /// walk table's, the PMD walk table's.
    pub entries: Vec<u32>,
    /// Ways; none means fully associative.
    pub ways: Option<u32>,
    /// Time of a look-up, all levels in parallel.
    pub latency_ps: u64,
    /// For hashed tables: whether an entry is one section (16 MiB, 8 GiB) and not a line of 64.
    pub by_section: bool,
}

/// Page-table organisations.
#[derive(Clone, Debug, PartialEq)]
pub enum TableSpec {
    /// The x86-64 radix tree.
    Radix {
        /// 4 or 5.
        levels: u32,
    },
    /// A four-level radix tree whose leaf tables are tables of contents: codes for hash-placed frames (Mosaic).
    Toc,
    /// Cuckoo tables, one for each page size.
    Hashed(HashedSpec),
    /// Hash tables of the old kinds, one for each page size.
    Classic(ClassicSpec),
}

/// A hashed page table without cuckoo hashing.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassicSpec {
    /// Where a cluster goes whose slot is taken.
    pub kind: ClassicKind,
    /// What it is made like.
    pub design: ClassicDesign,
    /// From a page's number to the first address.
    pub latency_ps: u64,
}

/// Where a cluster goes whose slot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassicKind {
    /// To the next slots.
    OpenAddressing,
    /// Into a chain.
    Chained,
}

/// A hashed page table.
#[derive(Clone, Debug, PartialEq)]
pub struct HashedSpec {
    /// What it is made like.
    pub design: HashedDesign,
    /// From a page's number to the addresses of its slots: hash and chunk table.
    pub latency_ps: u64,
}

/// Frame allocators.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameSpec {
    /// The binary buddy allocator.
    Buddy {
        /// Physical memory in bytes, a multiple of 4 KiB.
        memory_bytes: u64,
        /// The share of free memory in blocks smaller than 2 MiB at the start, in percent: what other programs left.
        fragmentation: u32,
    },
    /// Hash-placed frames for private anonymous 4 KiB pages, and a buddy allocator for everything else.
    Iceberg {
        /// Buckets of the hash-placed memory.
        shape: IcebergShape,
        /// The family of hash functions.
        hash: HashKind,
        /// The buddy allocator's memory in bytes, a multiple of 4 KiB.
        ordinary_bytes: u64,
    },
}

/// Families of hash functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    /// xxh64 with a seed for each member, as the Linux prototype of Mosaic Pages.
    Xxh64,
    /// Tabulation with probing, as its hardware.
    Tabulation,
    /// The low bits of the page number.
    LowBits,
}

/// Which pages leave a full memory. Only private anonymous 4 KiB pages ever do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimSpec {
    /// The least recently used of all.
    Lru {
        /// Most such pages at once, in bytes; absent means as many as there are frames.
        limit_bytes: Option<u64>,
    },
    /// Linux's active and inactive lists.
    Clock {
        /// As for LRU.
        limit_bytes: Option<u64>,
    },
    /// Horizon LRU among the frames that a page may have.
    HorizonLru {
        /// Accesses between two scans of the timestamp daemon; absent means exact times.
        scan_interval: Option<u64>,
    },
    /// Iceberg LRU among the frames that a page may have.
    IcebergLru {
        /// The share of memory that holds pages which must stay, in percent.
        live_percent: u32,
        /// Whether the others leave at once.
        is_strict: bool,
    },
}

/// The swap device.
#[derive(Clone, Debug, PartialEq)]
pub struct SwapSpec {
    /// Its capacity.
    pub bytes: u64,
    /// Pages that a fault brings, itself included; a power of two.
    pub readahead: u32,
    /// What it is.
    pub kind: SwapKind,
}

/// What a swap device is.
#[derive(Clone, Debug, PartialEq)]
pub enum SwapKind {
    /// A disk.
    Block(BlockSpec),
    /// Memory of the machine itself.
    Memory {
        /// Taking a page away.
        out_ps: u64,
        /// Bringing it.
        in_ps: u64,
    },
    /// Memory across a network.
    Remote(RemoteSpec),
}

/// A solid-state disk.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockSpec {
    /// From a request to its first byte.
    pub latency_ps: u64,
    /// Time to transfer 4 KiB.
    pub page_ps: u64,
    /// Requests under way at once.
    pub queue: u32,
}

/// A memory blade and the links to it.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteSpec {
    /// One way, switches included.
    pub link_latency_ps: u64,
    /// Of each direction.
    pub bytes_a_second: u64,
    /// Most bytes of a page in a packet.
    pub payload_bytes: u64,
    /// Bytes of a packet beside.
    pub header_bytes: u64,
    /// The blade's own time for a request.
    pub service_ps: u64,
    /// Requests that it serves at once.
    pub servers: u32,
    /// Whether a page that leaves is away only when the blade has said so.
    pub acknowledges: bool,
}

/// The page-fault accelerator.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceleratorSpec {
    /// Slots of the free, the new and the evict queue.
    pub queues: [u32; 3],
    /// Pages on their way in at once.
    pub fetches: u32,
    /// Whether the system waits for a page to be away.
    pub waits_for_evictions: bool,
    /// Finding a remote entry, and going on afterwards.
    pub detect_ps: u64,
    /// The network card's part of a fetch.
    pub request_ps: u64,
    /// The system's books of a page, many pages at a time.
    pub book_ps: u64,
    /// A page that leaves, many pages at a time.
    pub evict_ps: u64,
    /// The daemon that refills and empties the queues; absent means that faults do.
    pub daemon: Option<AcceleratorDaemonSpec>,
}

/// The adaptive timer of the accelerator's daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceleratorDaemonSpec {
    /// How long it sleeps at first.
    pub first_ps: u64,
    /// How much longer after a run.
    pub longer_ps: u64,
    /// How much shorter after a fault that found a queue full or empty.
    pub shorter_ps: u64,
    /// How long it sleeps at least.
    pub least_ps: u64,
    /// How long it sleeps at most.
    pub most_ps: u64,
    /// How much later it may wake.
    pub slack_ps: u64,
}

/// Transparent huge pages for anonymous memory, as in `/sys/kernel/mm/transparent_hugepage/enabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePagePolicy {
    /// Never.
    Never,
    /// Only where the program advised it.
    Madvise,
    /// Wherever an aligned 2 MiB range of a mapping is untouched, unless the program advised against it.
    Always,
}

/// Kernel costs, charged serially to the faulting core.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpec {
    /// A minor fault without the zeroing of its frame.
    pub minor_fault_ps: u64,
    /// Zeroing 4 KiB.
    pub zero_page_ps: u64,
    /// Zeroing 2 MiB (1 GiB counts as 512 of them).
    pub zero_huge_page_ps: u64,
    /// A TLB shootdown on an unmap, protect or remap of resident pages.
    pub shootdown_ps: u64,
    /// The steps of a fault for a page that has left.
    pub paging: PagingSpec,
    /// Whether daemons take the time of the program's core.
    pub daemons_share_core: bool,
    /// What memory for page tables costs.
    pub allocation: AllocationSpec,
    /// Looking at a slot of a hashed table that is resized.
    pub visit_line_ps: u64,
    /// Taking a line of a hashed table to another slot.
    pub move_line_ps: u64,
}

/// The steps of a fault for a page that has left, and of another page's leaving.
#[derive(Clone, Debug, PartialEq)]
pub struct PagingSpec {
    /// Into the kernel and back.
    pub trap_ps: u64,
    /// The page's mapping, its entry and the swap cache.
    pub find_ps: u64,
    /// A frame.
    pub allocate_ps: u64,
    /// Asking the device, or handing it a page.
    pub request_ps: u64,
    /// The entry, and the TLB.
    pub enter_ps: u64,
    /// Lists of pages, accounting, reverse mapping.
    pub book_ps: u64,
    /// A page that leaves: the choice, its entry, the shootdown.
    pub evict_ps: u64,
    /// To another thread.
    pub switch_ps: u64,
}

/// What it takes to find and zero contiguous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationSpec {
    /// Zeroing it.
    Zeroing,
    /// As published for a memory of fragmentation index 0.7.
    Fragmented,
}

/// One cache level.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSpec {
    /// Capacity.
    pub bytes: u64,
    /// Ways; `bytes / (64 * ways)` is a power of two.
    pub ways: u32,
    /// Load-to-use time of a hit here, measured from the core.
    pub latency_ps: u64,
}

/// The page walkers of a core.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkerSpec {
    /// How many walks a core has under way at once.
    pub count: u32,
    /// The cache level where a walk's references enter, 1 for the first.
    pub enters: u32,
}

/// DRAM.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpec {
    /// Load-to-use time of an access that misses every cache, without the time in `dram`.
    pub latency_ps: u64,
    /// Its controllers, banks and rows.
    pub dram: Option<DramSpec>,
}

/// DRAM as a cache of pages over flash.
#[derive(Clone, Debug, PartialEq)]
pub struct TierSpec {
    /// What each controller's share is made like.
    pub design: TierDesign,
    /// Whether page tables are in a part of DRAM of their own.
    pub tables_in_dram: bool,
    /// Whether a core runs another thread while a page is on its way.
    pub switches: bool,
    /// Who brings pages in and out.
    pub manager: TierManager,
    /// Where they come from.
    pub flash: FlashSpec,
}

/// Who brings pages in and out.
#[derive(Clone, Debug, PartialEq)]
pub enum TierManager {
    /// The controllers.
    Hardware {
        /// The backside controller's time for each of its commands.
        command_ps: u64,
    },
    /// The kernel, by page faults.
    Kernel {
        /// What a TLB shootdown takes of every other core.
        interrupt_ps: u64,
    },
}

/// Threads that serve jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadsSpec {
    /// Of each core.
    pub per_core: u32,
    /// What each core's scheduler is made like.
    pub design: SchedulerDesign,
    /// From a thread to another.
    pub switch_ps: u64,
    /// Refilling the pipeline after a miss.
    pub flush_ps: u64,
}

impl MachineSpec {
    /// Why pages cannot have the frames that a trace gives them; none if they can.
    pub fn places_frames(&self) -> Option<&'static str> {
        if matches!(self.frames, FrameSpec::Iceberg { .. }) {
            Some("it places frames by hashing")
        } else if self.reclaim.is_some() {
            Some("its pages leave memory, and come back to other frames")
        } else if self.tier.is_some() {
            Some("its DRAM is a cache over flash")
        } else {
            None
        }
    }
}

impl FrameSpec {
    /// Physical memory in bytes, of all kinds.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Buddy { memory_bytes, .. } => *memory_bytes,
            Self::Iceberg { shape, ordinary_bytes, .. } => ordinary_bytes + shape.frames() * PAGE_BYTES,
        }
    }
}

impl From<HugePagePolicy> for pagewalk_vm::space::HugePagePolicy {
    fn from(policy: HugePagePolicy) -> Self {
        match policy {
            HugePagePolicy::Never => Self::Never,
            HugePagePolicy::Madvise => Self::Madvise,
            HugePagePolicy::Always => Self::Always,
        }
    }
}
