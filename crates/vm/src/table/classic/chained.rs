//! Chaining: buckets that point to clusters in frames of their own.

use super::{ClassicDesign, ClusterTable};
use crate::addr::{PAGE_BYTES, PhysAddr};
use crate::table::cuckoo::{LineHash, NoChunk, WayHashes};
use crate::table::{ContiguousMemory, Upkeep};

const ENTRIES: usize = 4;
const POINTER_BYTES: u64 = 8;
const CLUSTER_BYTES: u64 = 64;
const FRAME_CLUSTERS: usize = (PAGE_BYTES / CLUSTER_BYTES) as usize;

/// Clusters lie in 4 KiB frames, wherever these are; only the buckets are contiguous.
#[derive(Debug)]
pub struct Chained {
    design: ClassicDesign,
    hash: LineHash,
    base: PhysAddr,
    /// Numbers of clusters, plus one.
    buckets: Vec<u32>,
    clusters: Vec<Cluster>,
    frames: Vec<PhysAddr>,
    /// The first of the unused clusters, which are chained as well; plus one.
    unused: u32,
    used: usize,
    upkeep: Upkeep,
}

#[derive(Clone, Debug)]
struct Cluster {
    number: u64,
    next: u32,
    entries: [u64; ENTRIES],
}

impl Chained {
    fn bucket(&self, number: u64) -> usize {
        self.hash.word(number) as usize & (self.buckets.len() - 1)
    }

    fn addr(&self, cluster: usize) -> PhysAddr {
        self.frames[cluster / FRAME_CLUSTERS].add((cluster % FRAME_CLUSTERS) as u64 * CLUSTER_BYTES)
    }

    fn at(&self, number: u64, mut read: impl FnMut(PhysAddr)) -> Option<usize> {
        let bucket = self.bucket(number);
        read(self.base.add(bucket as u64 * POINTER_BYTES));
        let mut next = self.buckets[bucket];
        loop {
            let at = (next as usize).checked_sub(1)?;
            read(self.addr(at));
            if self.clusters[at].number == number {
                return Some(at);
            }
            next = self.clusters[at].next;
        }
    }

    fn bytes(buckets: usize) -> u64 {
        buckets as u64 * POINTER_BYTES
    }

    fn link(&mut self, at: usize) {
        let bucket = self.bucket(self.clusters[at].number);
        self.clusters[at].next = std::mem::replace(&mut self.buckets[bucket], at as u32 + 1);
    }

    fn double(&mut self, memory: &mut impl ContiguousMemory) -> Result<(), NoChunk> {
        let buckets = 2 * self.buckets.len();
        let base = memory.allocate(Self::bytes(buckets))?;
        let old = std::mem::replace(&mut self.buckets, vec![0; buckets]);
        memory.free(std::mem::replace(&mut self.base, base), Self::bytes(old.len()));
        self.upkeep.visited += old.len() as u64;
        self.upkeep.moved += self.used as u64;
        for mut next in old {
            while let Some(at) = (next as usize).checked_sub(1) {
                next = self.clusters[at].next;
                self.link(at);
            }
        }
        Ok(())
    }

    /// Takes an unused cluster.
    fn take(&mut self, memory: &mut impl ContiguousMemory) -> Result<usize, NoChunk> {
        if self.unused == 0 {
            self.frames.push(memory.allocate(PAGE_BYTES)?);
            for _ in 0..FRAME_CLUSTERS {
                let next = std::mem::replace(&mut self.unused, self.clusters.len() as u32 + 1);
                self.clusters.push(Cluster { number: 0, next, entries: [0; ENTRIES] });
            }
        }
        let at = self.unused as usize - 1;
        self.unused = self.clusters[at].next;
        Ok(at)
    }
}

impl ClusterTable for Chained {
    const ENTRIES: usize = ENTRIES;

    fn new(design: &ClassicDesign, seed: u64, memory: &mut impl ContiguousMemory) -> Result<Self, NoChunk> {
        let base = memory.allocate(Self::bytes(design.first_slots))?;
        Ok(Self {
            design: design.clone(),
            hash: LineHash::mixed(seed),
            base,
            buckets: vec![0; design.first_slots],
            clusters: Vec::new(),
            frames: Vec::new(),
            unused: 0,
            used: 0,
            upkeep: Upkeep::default(),
        })
    }

    fn find(&self, number: u64, read: impl FnMut(PhysAddr)) -> Option<&[u64]> {
        Some(&self.clusters[self.at(number, read)?].entries)
    }

    fn find_mut(&mut self, number: u64) -> Option<&mut [u64]> {
        let at = self.at(number, |_| {})?;
        Some(&mut self.clusters[at].entries)
    }

    fn insert(&mut self, number: u64, memory: &mut impl ContiguousMemory) -> Result<(), NoChunk> {
        if self.design.is_full(self.used + 1, self.buckets.len()) {
            self.double(memory)?;
        }
        let at = self.take(memory)?;
        self.clusters[at] = Cluster { number, next: 0, entries: [0; ENTRIES] };
        self.link(at);
        self.used += 1;
        Ok(())
    }

    /// Frames of clusters stay until the table goes.
    fn remove(&mut self, number: u64, _memory: &mut impl ContiguousMemory) {
        let at = self.at(number, |_| {}).expect("a cluster that is removed is there");
        let bucket = self.bucket(number);
        let (name, after) = (at as u32 + 1, self.clusters[at].next);
        let mut before = self.buckets[bucket];
        if before == name {
            self.buckets[bucket] = after;
        } else {
            while self.clusters[before as usize - 1].next != name {
                before = self.clusters[before as usize - 1].next;
            }
            self.clusters[before as usize - 1].next = after;
        }
        self.clusters[at].next = std::mem::replace(&mut self.unused, name);
        self.used -= 1;
    }

    fn upkeep(&self) -> Upkeep {
        self.upkeep
    }

    fn release(self, memory: &mut impl ContiguousMemory) {
        memory.free(self.base, Self::bytes(self.buckets.len()));
        self.frames.iter().for_each(|&frame| memory.free(frame, PAGE_BYTES));
    }
}
