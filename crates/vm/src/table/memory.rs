//! The physical memory that page tables live in.

use crate::addr::{Pfn, PhysAddr};

/// Physical memory as a page table uses it: 8-byte words at 8-byte-aligned addresses.
///
/// # Contract
///
/// A word reads as what was last written to it. After [`zero_frame`](Self::zero_frame) all words of the frame
/// read as 0.
pub trait TableMemory {
    /// Reads the word at `addr`.
    fn read(&self, addr: PhysAddr) -> u64;
    /// Writes the word at `addr`.
    fn write(&mut self, addr: PhysAddr, word: u64);
    /// Zeroes a frame that becomes a table node.
    fn zero_frame(&mut self, frame: Pfn);
    /// The frame is no longer a table node; its contents may be forgotten.
    fn release_frame(&mut self, frame: Pfn);
}

/// Frames that hold something, and no others: a machine's physical memory without its data.
#[derive(Clone, Debug, Default)]
pub struct SparseMemory {
    /// By frame number in groups of [`GROUP`]: index into `nodes` plus one, 0 for a frame that holds nothing.
    groups: Vec<Option<Box<[u32; GROUP]>>>,
    nodes: Vec<Box<[u64; WORDS]>>,
    free: Vec<u32>,
}

const GROUP: usize = 4096;
const WORDS: usize = 512;

impl SparseMemory {
    /// Empty memory; every word reads as 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of the host that its contents take.
    pub fn host_bytes(&self) -> u64 {
        let groups = self.groups.iter().flatten().count() * size_of::<[u32; GROUP]>();
        (groups + self.nodes.len() * size_of::<[u64; WORDS]>()) as u64
    }

    #[inline]
    fn place(frame: Pfn) -> (usize, usize) {
        (frame.0 as usize / GROUP, frame.0 as usize % GROUP)
    }

    #[inline]
    fn node(&self, frame: Pfn) -> Option<usize> {
        let (group, at) = Self::place(frame);
        let number = self.groups.get(group)?.as_ref()?[at];
        (number as usize).checked_sub(1)
    }

    fn node_or_new(&mut self, frame: Pfn) -> usize {
        let (group, at) = Self::place(frame);
        if self.groups.len() <= group {
            self.groups.resize(group + 1, None);
        }
        let number = &mut self.groups[group].get_or_insert_with(|| Box::new([0; GROUP]))[at];
        if *number == 0 {
            *number = match self.free.pop() {
                Some(node) => node + 1,
                None => {
                    self.nodes.push(Box::new([0; WORDS]));
                    self.nodes.len() as u32
                }
            };
        }
        *number as usize - 1
    }
}

impl TableMemory for SparseMemory {
    #[inline]
    fn read(&self, addr: PhysAddr) -> u64 {
        self.node(addr.frame()).map_or(0, |node| self.nodes[node][addr.0 as usize / 8 % WORDS])
    }

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
            let (group, at) = Self::place(frame);
            if let Some(group) = &mut self.groups[group] {
                group[at] = 0;
            }
            self.nodes[node].fill(0);
            self.free.push(node as u32);
        }
    }
}
