//! Memory of page tables that hands out its own frames.

use std::collections::BTreeSet;

use super::cuckoo::NoChunk;
use super::{ContiguousMemory, RunMemory, SparseMemory, TableMemory, TableWords};
use crate::addr::{PAGE_BYTES, Pfn, PhysAddr};

/// The words of page tables, in frames that are handed out one after the other from a first one on, without an end.
///
/// A frame that was freed is the next to be handed out, the lowest of them first. Pieces of several frames are always new.
#[derive(Clone, Debug)]
pub struct TableArena {
    words: SparseMemory,
    next: Pfn,
    free: BTreeSet<u64>,
}

impl TableArena {
    /// Creates an empty memory that hands out frames from `start` on.
    pub fn starting_at(start: Pfn) -> Self {
        Self { words: SparseMemory::starting_at(start), next: start, free: BTreeSet::new() }
    }
}

impl ContiguousMemory for TableArena {
    fn allocate(&mut self, bytes: u64) -> Result<PhysAddr, NoChunk> {
        if bytes <= PAGE_BYTES
            && let Some(frame) = self.free.pop_first()
        {
            return Ok(Pfn(frame).addr());
        }
        let first = self.next;
        self.next = first.add(bytes.div_ceil(PAGE_BYTES));
        Ok(first.addr())
    }

    fn free(&mut self, base: PhysAddr, bytes: u64) {
        let first = base.frame().0;
        self.free.extend(first..first + bytes.div_ceil(PAGE_BYTES));
    }
}

impl TableWords for TableArena {
    #[inline]
    fn read(&self, addr: PhysAddr) -> u64 {
        self.words.read(addr)
    }
}

impl TableMemory for TableArena {
    #[inline]
    fn write(&mut self, addr: PhysAddr, word: u64) {
        self.words.write(addr, word);
    }

    fn zero_frame(&mut self, frame: Pfn) {
        self.words.zero_frame(frame);
    }

    fn release_frame(&mut self, frame: Pfn) {
        self.words.release_frame(frame);
    }
}

impl RunMemory for TableArena {
    #[inline]
    fn read_run(&self, addr: PhysAddr, count: usize) -> &[u64] {
        self.words.read_run(addr, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_frames_come_first_and_pieces_stay_whole() {
        let mut arena = TableArena::starting_at(Pfn(16));
        let take = |arena: &mut TableArena, bytes| arena.allocate(bytes).expect("there is no end").frame().0;
        let taken: Vec<_> = [4_096, 8_192, 100].map(|bytes| take(&mut arena, bytes)).into();
        assert_eq!(taken, [16, 17, 19]);
        arena.write(Pfn(17).addr(), 7);
        arena.release_frame(Pfn(17));
        arena.free(Pfn(17).addr(), 8_192);
        assert_eq!(arena.read(Pfn(17).addr()), 0);
        let taken: Vec<_> = [8_192, 4_096, 4_096, 4_096].map(|bytes| take(&mut arena, bytes)).into();
        assert_eq!(taken, [20, 17, 18, 22]);
    }
}
