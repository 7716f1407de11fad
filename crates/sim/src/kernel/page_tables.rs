//! The page tables of all processes: of one kind, which only the hardware has to know.
//!
//! The kernel's own code is compiled once, whatever page tables a machine has: it sees them as [`PageTables`]. A walk sees the table
//! itself, because walks are what a run consists of.

use pagewalk_vm::addr::{Granule, PageSize, Vpn};
use pagewalk_vm::table::cuckoo::NoChunk;
use pagewalk_vm::table::{Leaf, MapError, PageTable, SparseMemory, Upkeep};

use super::tables::TableStore;

/// What all page tables of a kind have in common.
#[derive(Clone, Copy)]
pub(crate) struct TableShape {
    /// The size of base pages, and what follows from it.
    pub(crate) granule: Granule,
    /// Whether the table takes codes of hash-placed frames in the place of frame numbers.
    pub(super) is_compressed: bool,
    max_leaf_level: u32,
}

impl TableShape {
    pub(super) const fn of<T: PageTable>() -> Self {
        Self { granule: T::GRANULE, is_compressed: T::IS_COMPRESSED, max_leaf_level: T::MAX_LEAF_LEVEL }
    }

    /// Returns the size of a page at `level`.
    pub(super) fn page_size(&self, level: u32) -> PageSize {
        self.granule.sizes()[level as usize]
    }

    /// Returns the level of pages of a size; none if the tables hold no such pages.
    pub(super) fn level_of(&self, size: PageSize) -> Option<u32> {
        let level = self.granule.sizes().iter().position(|&held| held == size)? as u32;
        self.has_pages_at(level).then_some(level)
    }

    /// Returns whether pages may stand at a level.
    pub(super) fn has_pages_at(&self, level: u32) -> bool {
        level <= self.max_leaf_level
    }

    /// Returns the level of pages of a size, which is their place in counts by size.
    ///
    /// # Panics
    ///
    /// If the tables hold no such pages.
    pub(super) fn rank(&self, size: PageSize) -> usize {
        self.level_of(size).expect("a size of the table's pages") as usize
    }
}

/// The page tables of all processes, in the order of the processes. A method that takes the place of a process does what [`PageTable`]'s
/// of the same name does, with the table of that process.
pub(super) trait PageTables {
    /// Makes an empty table for a process more.
    fn add(&mut self, seed: u64, store: &mut TableStore<'_>) -> Result<(), NoChunk>;

    /// Removes the table of a process, and gives its memory back.
    fn remove(&mut self, process: usize, store: &mut TableStore<'_>);

    fn find(&self, process: usize, memory: &SparseMemory, vpn: Vpn) -> Option<(Leaf, u32)>;

    fn is_vacant(&self, process: usize, memory: &SparseMemory, vpn: Vpn, level: u32) -> bool;

    fn upkeep(&self, process: usize) -> Upkeep;

    fn map(
        &mut self,
        process: usize,
        store: &mut TableStore<'_>,
        page: (Vpn, Leaf, u32),
    ) -> Result<Option<NoChunk>, MapError>;

    fn update(
        &mut self,
        process: usize,
        memory: &mut SparseMemory,
        vpn: Vpn,
        change: &mut dyn FnMut(&mut Leaf),
    ) -> Option<(Leaf, u32)>;

    fn visit(
        &mut self,
        process: usize,
        store: &mut TableStore<'_>,
        range: (Vpn, Vpn),
        visit: &mut dyn FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
    ) -> bool;

    fn split(&mut self, process: usize, store: &mut TableStore<'_>, vpn: Vpn) -> Result<bool, MapError>;
}

/// The page tables of all processes, of the kind `T`.
pub(crate) struct TablesOf<T: PageTable> {
    design: T::Design,
    pub(crate) list: Vec<T>,
}

impl<T: PageTable> TablesOf<T> {
    pub(super) fn new(design: T::Design) -> Self {
        Self { design, list: Vec::new() }
    }
}

impl<T: PageTable> PageTables for TablesOf<T> {
    fn add(&mut self, seed: u64, store: &mut TableStore<'_>) -> Result<(), NoChunk> {
        self.list.push(T::new(&self.design, seed, store)?);
        Ok(())
    }

    fn remove(&mut self, process: usize, store: &mut TableStore<'_>) {
        self.list.remove(process).release(store);
    }

    fn find(&self, process: usize, memory: &SparseMemory, vpn: Vpn) -> Option<(Leaf, u32)> {
        self.list[process].find(memory, vpn)
    }

    fn is_vacant(&self, process: usize, memory: &SparseMemory, vpn: Vpn, level: u32) -> bool {
        self.list[process].is_vacant(memory, vpn, level)
    }

    fn upkeep(&self, process: usize) -> Upkeep {
        self.list[process].upkeep()
    }

    fn map(
        &mut self,
        process: usize,
        store: &mut TableStore<'_>,
        (vpn, leaf, level): (Vpn, Leaf, u32),
    ) -> Result<Option<NoChunk>, MapError> {
        self.list[process].map(store, vpn, leaf, level)
    }

    fn update(
        &mut self,
        process: usize,
        memory: &mut SparseMemory,
        vpn: Vpn,
        change: &mut dyn FnMut(&mut Leaf),
    ) -> Option<(Leaf, u32)> {
        self.list[process].update(memory, vpn, change)
    }

    fn visit(
        &mut self,
        process: usize,
        store: &mut TableStore<'_>,
        (start, end): (Vpn, Vpn),
        visit: &mut dyn FnMut(Vpn, Leaf, u32) -> Option<Leaf>,
    ) -> bool {
        self.list[process].visit(store, start, end, visit)
    }

    fn split(&mut self, process: usize, store: &mut TableStore<'_>, vpn: Vpn) -> Result<bool, MapError> {
        self.list[process].split(store, vpn)
    }
}
