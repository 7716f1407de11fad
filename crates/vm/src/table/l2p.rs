//! The table that says where the chunks of hashed page tables are: the table that the hardware asks, and what it allows.
//!
//! ```text
//!  a way's rows    | 4 KiB pages: 32, growing up -> | 1 GiB pages: 32 | <- growing down, 2 MiB pages: 32 |
//! ```
//!
//! A row names a chunk. The two common page sizes grow towards the middle: one of them may take all rows of the 1 GiB
//! pages, if that has none. When there are no rows for a way of so many chunks, it is made of larger chunks. (Stojkovic
//! et al., "Memory-Efficient Hashed Page Tables", HPCA 2023, sections IV and V.)

use super::cuckoo::{ChunkSource, MAX_WAYS, NoChunk};
use crate::addr::{PageSize, PhysAddr};

/// A source of contiguous physical memory.
///
/// # Contract
///
/// As of [`ChunkSource`]: what is handed out has one owner until it is freed; an error changes nothing.
pub trait ContiguousMemory {
    /// Takes so many bytes in one piece, aligned to 4 KiB at least, zeroed.
    ///
    /// # Errors
    ///
    /// There is no such piece.
    fn allocate(&mut self, bytes: u64) -> Result<PhysAddr, NoChunk>;

    /// Takes a piece back, as it was handed out.
    fn free(&mut self, base: PhysAddr, bytes: u64);
}

/// Memory for ways in one piece.
#[derive(Debug)]
pub struct OnePiece<'a, M>(pub &'a mut M);

impl<M: ContiguousMemory> ChunkSource for OnePiece<'_, M> {
    fn chunk_bytes(&self, _way: usize, bytes: u64) -> Option<u64> {
        Some(bytes)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, NoChunk> {
        Ok(self.0.allocate(bytes)?.0)
    }

    fn free(&mut self, base: u64, bytes: u64) {
        self.0.free(PhysAddr(base), bytes);
    }
}

/// Rows of a way's subtable.
pub const ROWS: usize = 32;

/// Bits of a row: the address of an 8 KiB-aligned chunk in 46 bits of physical address.
const ROW_BITS: usize = 33;

/// An address space's logical-to-physical table: how many chunks each way has, and which it may have.
///
/// What a row names is in the hashed table itself; here is only which rows are in use. While a way moves to chunks of
/// another size, two lists of chunks coexist. The paper does not say where; here a spare pair of subtables holds the new
/// one, and is not counted.
#[derive(Clone, Debug)]
pub struct L2p {
    /// Smallest first; empty if each way is one piece.
    chunk_bytes: Vec<u64>,
    /// The number of chunks in use, by way and page size.
    used: [[usize; 3]; MAX_WAYS],
}

impl L2p {
    /// Creates an empty table that allows such chunks, smallest first. With none, each way is one piece.
    ///
    /// # Panics
    ///
    /// If they are not in order.
    pub fn new(chunk_bytes: &[u64]) -> Self {
        assert!(chunk_bytes.is_sorted(), "chunk sizes, smallest first");
        Self { chunk_bytes: chunk_bytes.to_vec(), used: [[0; 3]; MAX_WAYS] }
    }

    /// Returns the number of bits that the hardware needs for so many ways.
    pub fn bits(ways: usize) -> usize {
        ways * 3 * ROWS * ROW_BITS
    }

    /// Says how many chunks a way has now.
    pub fn set(&mut self, way: usize, size: PageSize, chunks: usize) {
        self.used[way][size as usize] = chunks;
    }

    /// Rows in use; as many are saved and restored when another address space runs.
    pub fn rows(&self) -> usize {
        self.used.iter().flatten().sum()
    }

    /// Rows that a way's subtable may have, given what the others have.
    pub fn available(&self, way: usize, size: PageSize) -> usize {
        let [small, large, huge] = self.used[way];
        let taken = |used: usize| used > ROWS;
        match size {
            PageSize::Size4K if huge == 0 && !taken(large) => 2 * ROWS,
            PageSize::Size2M if huge == 0 && !taken(small) => 2 * ROWS,
            PageSize::Size4K | PageSize::Size2M => ROWS,
            PageSize::Size1G if taken(large) => 0,
            // The rows of the 2 MiB pages that are farthest from theirs.
            PageSize::Size1G if taken(small) => ROWS - large,
            PageSize::Size1G => ROWS,
            _ => unreachable!("a hashed table has no pages of {size}"),
        }
    }

    /// Returns the smallest chunks that a way of so many bytes can be made of.
    pub fn chunk_bytes(&self, way: usize, size: PageSize, bytes: u64) -> Option<u64> {
        if self.chunk_bytes.is_empty() {
            return Some(bytes);
        }
        let rows = self.available(way, size) as u64;
        self.chunk_bytes.iter().copied().find(|&chunk| bytes.div_ceil(chunk) <= rows)
    }

    /// Returns memory for the ways of a table of one page size.
    pub fn source<'a, M>(&'a self, size: PageSize, memory: &'a mut M) -> Chunked<'a, M> {
        Chunked { l2p: self, size, memory }
    }
}

/// Memory for ways in chunks.
#[derive(Debug)]
pub struct Chunked<'a, M> {
    l2p: &'a L2p,
    size: PageSize,
    memory: &'a mut M,
}

impl<M: ContiguousMemory> ChunkSource for Chunked<'_, M> {
    fn chunk_bytes(&self, way: usize, bytes: u64) -> Option<u64> {
        self.l2p.chunk_bytes(way, self.size, bytes)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, NoChunk> {
        Ok(self.memory.allocate(bytes)?.0)
    }

    fn free(&mut self, base: u64, bytes: u64) {
        self.memory.free(PhysAddr(base), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u64; 4] = [8 << 10, 1 << 20, 8 << 20, 64 << 20];

    /// Table II of the paper.
    #[test]
    fn ways_are_made_of_the_smallest_chunks_that_there_are_rows_for() {
        let l2p = L2p::new(&SIZES);
        let chunk = |bytes| l2p.chunk_bytes(0, PageSize::Size4K, bytes);
        for (way, expected) in [
            (8 << 10, SIZES[0]),
            (512 << 10, SIZES[0]),
            (1 << 20, SIZES[1]),
            (64 << 20, SIZES[1]),
            (128 << 20, SIZES[2]),
            (512 << 20, SIZES[2]),
            (1 << 30, SIZES[3]),
            (4 << 30, SIZES[3]),
        ] {
            assert_eq!(chunk(way), Some(expected), "{way}");
        }
        assert_eq!(chunk(8 << 30), None);
        // 3 ways of 64-byte lines of 8 pages: what table II says that the largest way of each chunk size maps.
        for (way, mapped) in
            [(512u64 << 10, 768u64 << 20), (64 << 20, 96 << 30), (512 << 20, 768 << 30), (4 << 30, 6 << 40)]
        {
            assert_eq!(way / 64 * 8 * 4096 * 3, mapped);
        }
        assert_eq!(L2p::bits(3), 288 * 33);
        assert_eq!(L2p::bits(3) / 8, 1188);
    }

    #[test]
    fn one_size_may_take_the_middle_rows_while_they_are_free() {
        use PageSize::{Size1G, Size2M, Size4K};
        let mut l2p = L2p::new(&SIZES);
        l2p.set(1, Size4K, 64);
        l2p.set(1, Size2M, 5);
        assert_eq!([Size4K, Size2M, Size1G].map(|size| l2p.available(1, size)), [64, 32, 27]);
        assert_eq!([Size4K, Size2M, Size1G].map(|size| l2p.available(0, size)), [64, 64, 32]);
        l2p.set(1, Size4K, 1);
        l2p.set(1, Size2M, 33);
        assert_eq!([Size4K, Size2M, Size1G].map(|size| l2p.available(1, size)), [32, 64, 0]);
        l2p.set(1, Size2M, 1);
        l2p.set(1, Size1G, 1);
        assert_eq!([Size4K, Size2M, Size1G].map(|size| l2p.available(1, size)), [32, 32, 32]);
        assert_eq!(l2p.rows(), 3);
        assert_eq!(l2p.chunk_bytes(1, Size4K, 512 << 10), Some(1 << 20), "only 32 rows");
    }
}
