//! The source of the table's memory: the program's allocator, through the table; here it is only counted.

use pagewalk_cuckoo::{ChunkSource, Keyed, NoChunk};

/// A memory source that counts the bytes it has handed out.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) slot_bytes: u64,
    chunk_slots: usize,
    /// The bytes in use.
    pub(crate) bytes: u64,
}

impl Memory {
    /// Returns the memory of slots for `T`: with what says whether there is an item, and a byte of its hash.
    pub(crate) const fn of<T: Keyed>() -> Self {
        Self { slot_bytes: size_of::<Option<T>>() as u64 + 1, chunk_slots: T::CHUNK_SLOTS, bytes: 0 }
    }

    /// Bytes of a way of so many slots: whole chunks, or the beginning of one.
    pub(crate) const fn way_bytes(&self, slots: usize) -> u64 {
        let chunk = self.chunk_slots;
        let slots = if slots < chunk { slots } else { slots.next_multiple_of(chunk) };
        (slots as u64).saturating_mul(self.slot_bytes)
    }
}

impl ChunkSource for Memory {
    /// The same for every size.
    fn chunk_bytes(&self, _way: usize, _bytes: u64) -> Option<u64> {
        Some(self.chunk_slots as u64 * self.slot_bytes)
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
