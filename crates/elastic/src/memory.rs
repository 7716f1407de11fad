//! Where the table's memory comes from: the program's allocator, through the table; here it is only counted.

use pagewalk_cuckoo::{ChunkSource, NoChunk};

/// Bytes of a chunk, at most: the pause that making one takes, against the table of chunks that look-ups go through. With
/// a quarter of that they are an eighth slower; with four times as much one insertion in 10,000 takes twice as long.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Counts bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) slot_bytes: u64,
    /// In use.
    pub(crate) bytes: u64,
}

impl Memory {
    /// Of slots for `T`: with what says whether there is an item, and a byte of its hash.
    pub(crate) const fn of<T>() -> Self {
        Self { slot_bytes: size_of::<Option<T>>() as u64 + 1, bytes: 0 }
    }

    /// Slots of a chunk: a power of two.
    pub(crate) const fn chunk_slots(&self) -> usize {
        let most = CHUNK_BYTES / self.slot_bytes as usize;
        if most < 8 { 8 } else { 1 << most.ilog2() }
    }

    /// Bytes of a way of so many slots: whole chunks, or the beginning of one.
    pub(crate) const fn way_bytes(&self, slots: usize) -> u64 {
        let chunk = self.chunk_slots();
        let slots = if slots < chunk { slots } else { slots.next_multiple_of(chunk) };
        (slots as u64).saturating_mul(self.slot_bytes)
    }
}

impl ChunkSource for Memory {
    /// The same for every size.
    fn chunk_bytes(&self, _way: usize, _bytes: u64) -> Option<u64> {
        Some(self.chunk_slots() as u64 * self.slot_bytes)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, NoChunk> {
        self.bytes += bytes;
        // Where it is does not matter.
        Ok(0)
    }

    fn free(&mut self, _base: u64, bytes: u64) {
        self.bytes -= bytes;
    }
}
