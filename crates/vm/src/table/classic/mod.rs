//! Hashed page tables as they were before cuckoo hashing: what the newer ones are to be compared with.
//!
//! A table for each page size, tried one after the other from the smallest pages on, because nothing tells the size of a
//! page beforehand. Entries of neighbouring pages stand together in a *cluster*, so that one tag serves several
//! (Talluri, Hill, Khalidi, "A New Page Table for 64-bit Address Spaces", SOSP 1995). A table that is too full is
//! rebuilt at twice its size, all at once.
//!
//! | table | a walk reads | a cluster |
//! |---|---|---|
//! | [`OpenAddressing`] | slots from the hashed one on, until it meets the cluster or a free slot | 8 entries, tag in their spare bits: 64 bytes |
//! | [`Chained`] | the bucket's pointer, then the clusters of its chain | tag, pointer and 4 entries: 64 bytes |

mod chained;
mod open_addressing;

pub use chained::Chained;
pub use open_addressing::OpenAddressing;

use std::collections::BTreeSet;

use arrayvec::ArrayVec;

use super::cuckoo::NoChunk;
use super::{
    ContiguousMemory, Entry, Geometry, HASHED_END, Leaf, MapError, PageTable, RunMemory, TableMemory,
    TableStore, Upkeep, Waits, WalkCaching, WalkEnd, WalkOutcome, WalkRead, X86_64,
};
use crate::addr::{Asid, PageSize, PhysAddr, Vpn};

/// A hash table of clusters: those of one page size.
///
/// # Contract
///
/// A cluster is there from `insert` to `remove`, whatever the table does in between. An error changes nothing.
pub trait ClusterTable: Sized + Send {
    /// Entries of a cluster, a power of two.
    const ENTRIES: usize;

    /// Creates an empty table.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    fn new(design: &ClassicDesign, seed: u64, memory: &mut impl ContiguousMemory) -> Result<Self, NoChunk>;

    /// Returns a cluster's entries, 0 for the free ones; `read` hears of everything that is read on the way.
    fn find(&self, number: u64, read: impl FnMut(PhysAddr)) -> Option<&[u64]>;

    /// Returns a cluster's entries, to be changed.
    fn find_mut(&mut self, number: u64) -> Option<&mut [u64]>;

    /// Puts in a cluster that is not there, empty.
    ///
    /// # Errors
    ///
    /// There is no memory.
    fn insert(&mut self, number: u64, memory: &mut impl ContiguousMemory) -> Result<(), NoChunk>;

    /// Takes out a cluster that is there.
    fn remove(&mut self, number: u64, memory: &mut impl ContiguousMemory);

    /// Returns the cost of keeping the table in shape.
    fn upkeep(&self) -> Upkeep;

    /// Gives all memory back.
    fn release(self, memory: &mut impl ContiguousMemory);
}

/// The parameters of a classic table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassicDesign {
    /// Slots or buckets at first: a power of two.
    pub first_slots: usize,
    /// The table doubles when it would have more than so many clusters in a thousand slots or buckets.
    pub upsize_above: u32,
}

impl ClassicDesign {
    fn is_full(&self, clusters: usize, slots: usize) -> bool {
        clusters as u64 * 1000 > slots as u64 * u64::from(self.upsize_above)
    }
}

/// A process's page table of such tables, for 48-bit addresses and x86-64 entries.
#[derive(Debug)]
pub struct Classic<C> {
    /// The table of each page size.
    sizes: [OfSize<C>; 3],
}

#[derive(Debug)]
struct OfSize<C> {
    table: C,
    /// The clusters that there are. A system knows from its list of mappings; no walk reads this.
    clusters: BTreeSet<u64>,
}

/// References of a walk that are kept. A longer walk is a table that does not work.
const MOST_READS: usize = 48;

/// The path of a walk through a classic table.
#[derive(Clone, Debug)]
pub struct ClassicWalk {
    reads: ArrayVec<(PhysAddr, u32), MOST_READS>,
    end: Option<(Leaf, u32)>,
    /// The number of the page's cluster of 4 KiB pages.
    cluster: u64,
}

/// The walk caches of a machine that has none.
#[derive(Clone, Copy, Debug)]
pub struct NoCaches;

impl<C: ClusterTable> Classic<C> {
    const SHIFT: u32 = C::ENTRIES.trailing_zeros();

    #[inline]
    fn split(vpn: Vpn, size: PageSize) -> (u64, usize) {
        let page = vpn.0 >> size.order();
        (page >> Self::SHIFT, page as usize & (C::ENTRIES - 1))
    }

    fn leaf(&self, vpn: Vpn, size: PageSize, read: impl FnMut(PhysAddr)) -> Option<Leaf> {
        let (number, index) = Self::split(vpn, size);
        decode(self.sizes[size as usize].table.find(number, read)?[index], size)
    }

    /// The first leaf of a page size that overlaps pages `[start, end)`.
    fn first_leaf(&self, start: Vpn, end: Vpn, size: PageSize) -> Option<(Vpn, Leaf)> {
        let sized = &self.sizes[size as usize];
        let (first, last) = (start.0 >> size.order(), (end.0 - 1) >> size.order());
        for &number in sized.clusters.range(first >> Self::SHIFT..=last >> Self::SHIFT) {
            let entries = sized.table.find(number, |_| {}).expect("a known cluster is there");
            let pages = (number << Self::SHIFT..).zip(entries);
            let mut within = pages.filter(|(page, _)| (first..=last).contains(page));
            let found = within.find_map(|(page, &raw)| Some((Vpn(page << size.order()), decode(raw, size)?)));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Sets or empties an entry of a cluster that is there.
    fn set(&mut self, vpn: Vpn, size: PageSize, leaf: Option<Leaf>, memory: &mut impl ContiguousMemory) {
        let (number, index) = Self::split(vpn, size);
        let sized = &mut self.sizes[size as usize];
        let entries = sized.table.find_mut(number).expect("the cluster is there");
        entries[index] = leaf.map_or(0, |leaf| X86_64::leaf(leaf, size as u32));
        if entries.iter().all(|&raw| raw == 0) {
            sized.table.remove(number, memory);
            sized.clusters.remove(&number);
        }
    }

    fn reserve(
        &mut self,
        vpn: Vpn,
        size: PageSize,
        memory: &mut impl ContiguousMemory,
    ) -> Result<(), NoChunk> {
        let (number, _) = Self::split(vpn, size);
        let sized = &mut self.sizes[size as usize];
        if !sized.clusters.contains(&number) {
            sized.table.insert(number, memory)?;
            sized.clusters.insert(number);
        }
        Ok(())
    }
}

fn decode(raw: u64, size: PageSize) -> Option<Leaf> {
    match X86_64::decode(raw, size as u32) {
        Entry::Leaf(leaf) => Some(leaf),
        _ => None,
    }
}

impl<C: ClusterTable> PageTable for Classic<C> {
    type Design = ClassicDesign;
    type Caches = NoCaches;
    type Walk = ClassicWalk;

    const MAX_LEAF_LEVEL: u32 = 2;

    /// One for each page size.
    fn levels(_: &ClassicDesign) -> u32 {
        PageSize::ALL.len() as u32
    }

    fn new(design: &ClassicDesign, seed: u64, store: &mut impl TableStore) -> Result<Self, NoChunk> {
        let mut made: ArrayVec<OfSize<C>, 3> = ArrayVec::new();
        for size in PageSize::ALL {
            match C::new(design, seed ^ size as u64, store) {
                Ok(table) => made.push(OfSize { table, clusters: BTreeSet::new() }),
                Err(error) => {
                    made.into_iter().for_each(|sized| sized.table.release(store));
                    return Err(error);
                }
            }
        }
        Ok(Self { sizes: made.into_inner().unwrap_or_else(|_| unreachable!("three page sizes")) })
    }

    fn walk(&self, _: &impl TableMemory, _: Asid, vpn: Vpn, _: Option<&mut NoCaches>) -> ClassicWalk {
        let (cluster, _) = Self::split(vpn, PageSize::Size4K);
        let mut walk = ClassicWalk { reads: ArrayVec::new(), end: None, cluster };
        for size in PageSize::ALL {
            if self.sizes[size as usize].clusters.is_empty() {
                continue;
            }
            let reads = &mut walk.reads;
            let leaf = self.leaf(vpn, size, |addr| {
                let _ = reads.try_push((addr, size as u32));
            });
            if let Some(leaf) = leaf {
                walk.end = Some((leaf, size as u32));
                break;
            }
        }
        walk
    }

    /// The pages of one cluster.
    fn leaf_run(
        &self,
        _: &impl RunMemory,
        walk: &ClassicWalk,
        base: Vpn,
        pages: usize,
    ) -> impl Iterator<Item = Option<Leaf>> {
        (base.0..base.0 + pages as u64).map(|page| {
            let (cluster, _) = Self::split(Vpn(page), PageSize::Size4K);
            self.leaf(Vpn(page), PageSize::Size4K, |_| {}).filter(|_| cluster == walk.cluster)
        })
    }

    fn find(&self, _: &impl TableMemory, vpn: Vpn) -> Option<(Leaf, u32)> {
        PageSize::ALL.into_iter().find_map(|size| Some((self.leaf(vpn, size, |_| {})?, size as u32)))
    }

    fn is_vacant(&self, _: &impl TableMemory, vpn: Vpn, level: u32) -> bool {
        let size = PageSize::ALL[level as usize];
        let start = vpn.align_down(size);
        let end = Vpn(start.0 + size.base_pages());
        PageSize::ALL.into_iter().all(|size| self.first_leaf(start, end, size).is_none())
    }

    fn map(
        &mut self,
        store: &mut impl TableStore,
        vpn: Vpn,
        leaf: Leaf,
        level: u32,
    ) -> Result<Option<NoChunk>, MapError> {
        let size = PageSize::ALL[level as usize];
        let pages = size.base_pages();
        assert!(vpn.0.is_multiple_of(pages) && leaf.frame.0.is_multiple_of(pages), "{vpn} is unaligned");
        assert!(vpn < HASHED_END, "{vpn} is beyond 48 bits");
        if !self.is_vacant(store, vpn, level) {
            return Err(MapError::Occupied { vpn });
        }
        self.reserve(vpn, size, store)?;
        self.set(vpn, size, Some(leaf), store);
        Ok(None)
    }

    fn update(
        &mut self,
        memory: &mut impl TableMemory,
        vpn: Vpn,
        change: impl FnOnce(&mut Leaf),
    ) -> Option<(Leaf, u32)> {
        let (leaf, level) = PageTable::find(self, memory, vpn)?;
        let mut changed = leaf;
        change(&mut changed);
        let (number, index) = Self::split(vpn, PageSize::ALL[level as usize]);
        self.sizes[level as usize].table.find_mut(number)?[index] = X86_64::leaf(changed, level);
        Some((leaf, level))
    }

    fn visit(
        &mut self,
        store: &mut impl TableStore,
        start: Vpn,
        end: Vpn,
        mut visit: impl FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
    ) -> bool {
        let (mut from, end) = (start, end.min(HASHED_END));
        while from < end {
            let of = |size| self.first_leaf(from, end, size).map(|(vpn, leaf)| (vpn, leaf, size));
            let Some((vpn, leaf, size)) =
                PageSize::ALL.into_iter().filter_map(of).min_by_key(|found| found.0)
            else {
                break;
            };
            let kept = visit(vpn, leaf, size as u32);
            if kept != Some(leaf) {
                self.set(vpn, size, kept, store);
            }
            from = Vpn(vpn.0 + size.base_pages());
        }
        false
    }

    fn split(&mut self, store: &mut impl TableStore, vpn: Vpn) -> Result<bool, MapError> {
        let Some((leaf, level @ 1..)) = PageTable::find(self, store, vpn) else { return Ok(false) };
        let (size, below) = (PageSize::ALL[level as usize], PageSize::ALL[level as usize - 1]);
        let first = vpn.align_down(size);
        let pieces = (0..size.base_pages()).step_by(below.base_pages() as usize);
        for piece in pieces.clone().step_by(C::ENTRIES) {
            if let Err(error) = self.reserve(Vpn(first.0 + piece), below, store) {
                // Those made so far are empty.
                for made in pieces.clone().step_by(C::ENTRIES).take_while(|&made| made < piece) {
                    let (number, _) = Self::split(Vpn(first.0 + made), below);
                    self.sizes[below as usize].table.remove(number, store);
                    self.sizes[below as usize].clusters.remove(&number);
                }
                return Err(error.into());
            }
        }
        for piece in pieces {
            let leaf = Leaf { frame: leaf.frame.add(piece), ..leaf };
            self.set(Vpn(first.0 + piece), below, Some(leaf), store);
        }
        self.set(first, size, None, store);
        Ok(true)
    }

    fn upkeep(&self) -> Upkeep {
        self.sizes.iter().map(|sized| sized.table.upkeep()).fold(Upkeep::default(), |sum, more| Upkeep {
            visited: sum.visited + more.visited,
            moved: sum.moved + more.moved,
        })
    }

    fn release(self, store: &mut impl TableStore) {
        self.sizes.into_iter().for_each(|sized| sized.table.release(store));
    }
}

impl WalkOutcome for ClassicWalk {
    fn end(&self) -> WalkEnd {
        match self.end {
            Some((leaf, level)) => WalkEnd::Leaf { leaf, level },
            None => WalkEnd::Empty { level: 0 },
        }
    }

    fn reads(&self) -> impl Iterator<Item = WalkRead> {
        self.reads.iter().map(|&(addr, level)| WalkRead { addr, level, waits: Waits::InTurn })
    }
}

impl WalkCaching for NoCaches {
    fn flush(&mut self, _: Option<Asid>) {}

    fn lookups(&self) -> u64 {
        0
    }

    fn hits(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}
