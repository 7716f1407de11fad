//! The memory of a machine's page tables, and what it costs to keep them.

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, PhysAddr};
use pagewalk_vm::frame::OutOfFrames;
use pagewalk_vm::reclaim::PagePool;
use pagewalk_vm::table::cuckoo::NoChunk;
use pagewalk_vm::table::{ContiguousMemory, MapError, SparseMemory, TableMemory, TableWords};

use super::page_tables::TableShape;
use crate::allocation::allocation_cycles;
use crate::error::MachineError;
use crate::spec::settings::{AllocationSpec, KernelSpec, MachineSpec};

/// The memory of all processes' page tables.
pub(crate) struct TableSpace {
    pub(super) shape: TableShape,
    pub(crate) memory: SparseMemory,
    pub(crate) bytes: u64,
    pub(super) bytes_peak: u64,
    /// The largest piece that was ever taken.
    pub(super) largest_bytes: u64,
    /// The time of finding and zeroing memory that was not charged yet.
    unpaid_ps: u64,
    /// The allocator's error when it last had no memory.
    refused: Option<OutOfFrames>,
}

/// Both the words and the pieces of memory that tables are made of.
pub(crate) struct TableStore<'a> {
    space: &'a mut TableSpace,
    frames: &'a mut PagePool,
    kernel: &'a KernelSpec,
}

impl TableSpace {
    /// Returns the space for tables of a shape, in memory that begins at this frame.
    pub(super) fn new(shape: TableShape, start: Pfn) -> Self {
        Self {
            shape,
            memory: SparseMemory::starting_at(start),
            bytes: 0,
            bytes_peak: 0,
            largest_bytes: 0,
            unpaid_ps: 0,
            refused: None,
        }
    }

    pub(crate) fn store<'a>(
        &'a mut self,
        frames: &'a mut PagePool,
        kernel: &'a KernelSpec,
    ) -> TableStore<'a> {
        TableStore { space: self, frames, kernel }
    }

    /// Returns the time that is to be charged now.
    pub(super) fn take_bill(&mut self) -> u64 {
        std::mem::take(&mut self.unpaid_ps)
    }

    /// Returns the error that there was no memory of so many bytes.
    pub(super) fn no_memory(
        &mut self,
        missing: NoChunk,
        spec: &MachineSpec,
        frames: &PagePool,
    ) -> MachineError {
        let machine = spec.name.clone();
        match self.refused.take() {
            Some(reason) if missing.bytes <= PAGE_BYTES => {
                MachineError::OutOfFrames { machine, memory_bytes: spec.paging.frames.memory_bytes(), reason }
            }
            _ => MachineError::OutOfContiguousMemory {
                machine,
                wanted_kib: missing.bytes >> 10,
                free_mib: (frames.free_frames() * PAGE_BYTES) >> 20,
                fragmented_percent: (100.0 * frames.ordinary().fragmentation().unwrap_or(0.0)) as u64,
            },
        }
    }

    /// Returns the error that a page of an empty slot could not be mapped.
    pub(super) fn not_mapped(
        &mut self,
        error: MapError,
        spec: &MachineSpec,
        frames: &PagePool,
    ) -> MachineError {
        match error {
            MapError::NoMemory(missing) => self.no_memory(missing, spec, frames),
            MapError::Occupied { .. } | MapError::EqualHashes => {
                unreachable!("the slot was checked: {error}")
            }
        }
    }
}

/// Returns the time of finding and zeroing contiguous memory.
fn allocation_ps(kernel: &KernelSpec, bytes: u64) -> u64 {
    match kernel.allocation {
        AllocationSpec::Zeroing => kernel.zero_page_ps * bytes.div_ceil(PAGE_BYTES),
        // The cycles are of a clock of 2 GHz.
        AllocationSpec::Fragmented => (allocation_cycles(bytes) * 500.0) as u64,
    }
}

impl ContiguousMemory for TableStore<'_> {
    fn allocate(&mut self, bytes: u64) -> Result<PhysAddr, NoChunk> {
        let taken = self.frames.take_table(bytes);
        let first = taken.map_err(|full| {
            self.space.refused = Some(full);
            NoChunk { bytes }
        })?;
        let space = &mut self.space;
        space.unpaid_ps += allocation_ps(self.kernel, bytes);
        space.bytes += bytes;
        space.bytes_peak = space.bytes_peak.max(space.bytes);
        space.largest_bytes = space.largest_bytes.max(bytes);
        Ok(first.addr())
    }

    fn free(&mut self, base: PhysAddr, bytes: u64) {
        self.space.bytes -= bytes;
        self.frames.give_table(base.frame(), bytes);
    }
}

impl TableWords for TableStore<'_> {
    #[inline]
    fn read(&self, addr: PhysAddr) -> u64 {
        self.space.memory.read(addr)
    }
}

impl TableMemory for TableStore<'_> {
    #[inline]
    fn write(&mut self, addr: PhysAddr, word: u64) {
        self.space.memory.write(addr, word);
    }

    fn zero_frame(&mut self, frame: Pfn) {
        self.space.memory.zero_frame(frame);
    }

    fn release_frame(&mut self, frame: Pfn) {
        self.space.memory.release_frame(frame);
    }
}
