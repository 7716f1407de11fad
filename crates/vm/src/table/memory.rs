//! The physical memory that page tables live in.

use crate::addr::{Pfn, PhysAddr};

/// Physical memory as a walker sees it: 8-byte words at 8-byte-aligned addresses.
pub trait TableWords {
    /// Reads the word at `addr`.
    fn read(&self, addr: PhysAddr) -> u64;
}

/// Physical memory as a page table uses it.
///
/// # Contract
///
/// A word reads as what was last written to it. After [`zero_frame`](Self::zero_frame) all words of the frame
/// read as 0.
pub trait TableMemory: TableWords {
    /// Writes the word at `addr`.
    fn write(&mut self, addr: PhysAddr, word: u64);
    /// Zeroes a frame that becomes a table node.
    fn zero_frame(&mut self, frame: Pfn);
    /// The frame is no longer a table node; its contents may be forgotten.
    fn release_frame(&mut self, frame: Pfn);
}

/// Memory that lends its words.
pub trait RunMemory: TableWords {
    /// Reads `count` words from `addr` on, which lie in one frame.
    fn read_run(&self, addr: PhysAddr, count: usize) -> &[u64];
}

/// Frames that hold something, and no others: a machine's physical memory without its data.
///
/// A word is three loads away, each depending on the one before: its group's place, its frame's node, the word. All
/// nodes lie in one allocation, so that no pointer has to be followed between them.
#[derive(Clone, Debug, Default)]
pub struct SparseMemory {
    /// The first frame; none below is ever written to.
    start: u64,
    /// The number of each group of [`GROUP`] frames in `numbers` plus one, from the first frame on; 0 for an empty
    /// group.
    groups: Vec<u32>,
    /// The number of each frame's node in `nodes` plus one, by group; 0 for a frame that holds nothing.
    numbers: Vec<[u32; GROUP]>,
    nodes: Vec<[u64; WORDS]>,
    free: Vec<u32>,
}

const GROUP: usize = 4096;
const WORDS: usize = 512;

impl SparseMemory {
    /// Creates an empty memory, in which every word reads as 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty memory of frames from `start` on:
    pub fn starting_at(start: Pfn) -> Self {
        Self { start: start.0, ..Self::default() }
    }

    /// Bytes of the host that its contents take.
    pub fn host_bytes(&self) -> u64 {
        (size_of_val(&self.groups[..]) + size_of_val(&self.numbers[..]) + size_of_val(&self.nodes[..])) as u64
    }

    #[inline]
    fn place(&self, frame: Pfn) -> (usize, usize) {
        // A frame below the first lands beyond all groups.
        let at = frame.0.wrapping_sub(self.start) as usize;
        (at / GROUP, at % GROUP)
    }

    #[inline]
    fn node(&self, frame: Pfn) -> Option<usize> {
        let (group, at) = self.place(frame);
        let group = (*self.groups.get(group)? as usize).checked_sub(1)?;
        (self.numbers[group][at] as usize).checked_sub(1)
    }

    fn node_or_new(&mut self, frame: Pfn) -> usize {
        if let Some(node) = self.node(frame) {
            return node;
        }
        debug_assert!(frame.0 >= self.start, "{frame} is below this memory");
        let (group, at) = self.place(frame);
        if self.groups.len() <= group {
            self.groups.resize(group + 1, 0);
        }
        if self.groups[group] == 0 {
            self.numbers.push([0; GROUP]);
            self.groups[group] = self.numbers.len() as u32;
        }
        let node = self.free.pop().unwrap_or_else(|| {
            self.nodes.push([0; WORDS]);
            self.nodes.len() as u32 - 1
        });
        self.numbers[self.groups[group] as usize - 1][at] = node + 1;
        node as usize
    }
}

impl TableWords for SparseMemory {
    #[inline]
    fn read(&self, addr: PhysAddr) -> u64 {
        self.node(addr.frame()).map_or(0, |node| self.nodes[node][addr.0 as usize / 8 % WORDS])
    }
}

impl TableMemory for SparseMemory {
    #[inline]
    fn write(&mut self, addr: PhysAddr, word: u64) {
        let node = self.node_or_new(addr.frame());
        self.nodes[node][addr.0 as usize / 8 % WORDS] = word;
    }

    fn zero_frame(&mut self, frame: Pfn) {
        let node = self.node_or_new(frame);
        self.nodes[node].fill(0);
    }

    fn release_frame(&mut self, frame: Pfn) {
        if let Some(node) = self.node(frame) {
            let (group, at) = self.place(frame);
            self.numbers[self.groups[group] as usize - 1][at] = 0;
            self.nodes[node].fill(0);
            self.free.push(node as u32);
        }
    }
}

impl RunMemory for SparseMemory {
    #[inline]
    fn read_run(&self, addr: PhysAddr, count: usize) -> &[u64] {
        static EMPTY: [u64; WORDS] = [0; WORDS];
        let node = self.node(addr.frame()).map_or(&EMPTY, |node| &self.nodes[node]);
        &node[addr.0 as usize / 8 % WORDS..][..count]
    }
}
