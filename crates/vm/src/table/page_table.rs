//! The interface of a page table of any kind, as a machine uses it.

use super::cuckoo::{NoChunk, RejectReason};
use super::{ContiguousMemory, Leaf, RunMemory, TableMemory, Walk};
use crate::addr::{Asid, Granule, PageSize, PhysAddr, Vpn};

/// The page table of one address space, as the system changes it and as the hardware walks it.
///
/// # Contract
///
/// - What is mapped is what was mapped last, whatever the table does in between. An error changes nothing that was mapped.
/// - All memory comes from the store that calls are handed and goes back to it, the last with
///   [`release`](Self::release).
/// - A walk names everything that the hardware reads for it, and changes nothing but the walk caches.
pub trait PageTable: Sized + Send {
    /// The parameters of the table.
    type Design: Send;
    /// The entries that a walker keeps between walks.
    type Caches: WalkCaching;
    /// The answer of a walk.
    type Walk: WalkOutcome;

    /// The size of base pages, and what follows from it.
    const GRANULE: Granule = Granule::Size4K;
    /// The highest level of a page.
    const MAX_LEAF_LEVEL: u32;
    /// Whether the table takes codes of hash-placed frames in the place of frame numbers.
    const IS_COMPRESSED: bool = false;

    /// Returns the number of levels that leaves and the references of walks may have in a table of this design.
    fn levels(design: &Self::Design) -> u32;

    /// Creates an empty table.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    fn new(design: &Self::Design, seed: u64, store: &mut impl TableStore) -> Result<Self, NoChunk>;

    /// Returns the size of a page at `level`.
    ///
    /// # Panics
    ///
    /// If no page stands there.
    #[inline]
    fn page_size(level: u32) -> PageSize {
        Self::GRANULE.sizes()[level as usize]
    }

    /// Walks to a page.
    fn walk(
        &self,
        memory: &impl TableMemory,
        asid: Asid,
        vpn: Vpn,
        caches: Option<&mut Self::Caches>,
    ) -> Self::Walk;

    /// Returns the leaves of `pages` base pages from `base` on, as far as the last thing that a walk to one of them
    /// read has them: what the hardware gets for nothing. The walk found a page of level 0.
    fn leaf_run(
        &self,
        memory: &impl RunMemory,
        walk: &Self::Walk,
        base: Vpn,
        pages: usize,
    ) -> impl Iterator<Item = Option<Leaf>>;

    /// Returns the leaf that maps `vpn` and its level.
    fn find(&self, memory: &impl TableMemory, vpn: Vpn) -> Option<(Leaf, u32)>;

    /// Returns whether nothing at all is mapped in the slot of a page of `level` that holds `vpn`.
    fn is_vacant(&self, memory: &impl TableMemory, vpn: Vpn, level: u32) -> bool;

    /// Maps the page of `level` that starts at `vpn`. [`NoChunk`] beside success: the table should have grown, and could
    /// not.
    ///
    /// # Errors
    ///
    /// [`MapError`].
    ///
    /// # Panics
    ///
    /// If `vpn` or the frame is not aligned to the level's page size, or lies beyond what the table can map.
    fn map(
        &mut self,
        store: &mut impl TableStore,
        vpn: Vpn,
        leaf: Leaf,
        level: u32,
    ) -> Result<Option<NoChunk>, MapError>;

    /// Replaces the leaf that maps `vpn` by what `change` makes of it; returns the leaf before and its level.
    fn update(
        &mut self,
        memory: &mut impl TableMemory,
        vpn: Vpn,
        change: impl FnOnce(&mut Leaf),
    ) -> Option<(Leaf, u32)>;

    /// Visits every leaf that overlaps pages `[start, end)`, in order; `visit` gets the leaf's first page, the leaf
    /// and its level, and may change it (`Some`) or unmap it (`None`). Tells whether something is gone that a walk cache
    /// may point to.
    fn visit(
        &mut self,
        store: &mut impl TableStore,
        start: Vpn,
        end: Vpn,
        visit: impl FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
    ) -> bool;

    /// Splits the large page that holds `vpn`, if there is one, into pages of the level below. Returns whether it did.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    fn split(&mut self, store: &mut impl TableStore, vpn: Vpn) -> Result<bool, MapError>;

    /// Returns the cost of keeping the table in shape so far, beside the entries that were asked for.
    fn upkeep(&self) -> Upkeep {
        Upkeep::default()
    }

    /// Rows of a chunk table in use: saved and restored when another address space runs.
    fn chunk_rows(&self) -> usize {
        0
    }

    /// Gives all memory back; nothing is mapped any more.
    fn release(self, store: &mut impl TableStore);
}

/// The memory that page tables are made of and live in.
pub trait TableStore: TableMemory + ContiguousMemory {}

impl<S: TableMemory + ContiguousMemory> TableStore for S {}

/// Lines that the system handled only because of how a table works.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Upkeep {
    /// Slots looked at by resizes.
    pub visited: u64,
    /// Lines taken from one slot to another.
    pub moved: u64,
}

/// The reason why a page could not be mapped; nothing that was mapped has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// A page is there already, or a part of it, or a table of smaller pages.
    #[error("page {vpn} is already mapped, or a part of it")]
    Occupied {
        /// The page asked for.
        vpn: Vpn,
    },
    /// The memory has no room for the table.
    #[error(transparent)]
    NoMemory(#[from] NoChunk),
    /// A hashed table has no place, however large it grows.
    #[error("more lines of equal hashes than there are ways")]
    EqualHashes,
}

impl From<RejectReason> for MapError {
    fn from(reason: RejectReason) -> Self {
        match reason {
            RejectReason::NoChunk(error) => Self::NoMemory(error),
            RejectReason::EqualHashes => Self::EqualHashes,
        }
    }
}

/// The time at which a walk's reference goes out, and what waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// The reference goes out when the one before it is there, and the walk waits for it.
    InTurn,
    /// The reference goes out with all others of its kind; the walk ends with the one that `decides`, or when all are
    /// there.
    Together {
        /// Whether the page's entry is in it.
        decides: bool,
    },
    /// No walk waits for the reference: it refills a walk cache.
    Background,
}

/// A reference of a walk to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkRead {
    /// The physical address that was read.
    pub addr: PhysAddr,
    /// The level of the table that was read.
    pub level: u32,
    /// The part of the walk that waits for the reference.
    pub waits: Waits,
}

/// The end of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkEnd {
    /// The walk ended at a page.
    Leaf {
        /// The entry of the page.
        leaf: Leaf,
        /// The level it was found at.
        level: u32,
    },
    /// The walk ended at an empty entry: a page fault.
    Empty {
        /// The level of the empty entry.
        level: u32,
    },
}

/// The outcome of a walk.
pub trait WalkOutcome {
    /// Returns the end of the walk.
    fn end(&self) -> WalkEnd;

    /// Returns the references of the walk, in order.
    fn reads(&self) -> impl Iterator<Item = WalkRead>;

    /// Returns the walk of a second table to which the entry at the end of this one sent the walker.
    #[inline(always)]
    fn second(&self) -> Option<&Walk> {
        None
    }
}

/// Walk caches, as a machine handles them whatever they hold.
pub trait WalkCaching: Send {
    /// Forgets an address space, or all.
    fn flush(&mut self, asid: Option<Asid>);

    /// Returns the number of look-ups so far.
    fn lookups(&self) -> u64;

    /// The names of its parts, and how many look-ups each has answered; always the same parts.
    fn hits(&self) -> Vec<(String, u64)>;

    /// Walks by what was known before them, if that makes a difference.
    fn kinds(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
