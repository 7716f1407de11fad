//! Open addressing with linear probing.

use super::{ClassicDesign, ClusterTable};
use crate::addr::PhysAddr;
use crate::table::cuckoo::{LineHash, NoChunk, WayHashes};
use crate::table::{ContiguousMemory, Upkeep};

const ENTRIES: usize = 8;
const SLOT_BYTES: u64 = 64;

/// A cluster stands in the first free slot from the hashed one on; removing one moves those up that could stand there.
#[derive(Debug)]
pub struct OpenAddressing {
    design: ClassicDesign,
    hash: LineHash,
    base: PhysAddr,
    slots: Vec<Option<Cluster>>,
    used: usize,
    upkeep: Upkeep,
}

#[derive(Clone, Debug)]
struct Cluster {
    number: u64,
    entries: [u64; ENTRIES],
}

impl OpenAddressing {
    fn home(&self, number: u64) -> usize {
        self.hash.word(number) as usize & (self.slots.len() - 1)
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    fn slot_of(&self, number: u64, mut read: impl FnMut(PhysAddr)) -> Option<usize> {
        let mut slot = self.home(number);
        loop {
            read(self.base.add(slot as u64 * SLOT_BYTES));
            match &self.slots[slot] {
                None => return None,
                Some(cluster) if cluster.number == number => return Some(slot),
                // Some slot is free: the table doubles before all are used.
                Some(_) => slot = self.next(slot),
            }
        }
    }

    fn put(&mut self, cluster: Cluster) {
        let mut slot = self.home(cluster.number);
        while self.slots[slot].is_some() {
            slot = self.next(slot);
        }
        self.slots[slot] = Some(cluster);
    }

    fn bytes(slots: usize) -> u64 {
        slots as u64 * SLOT_BYTES
    }

    fn double(&mut self, memory: &mut impl ContiguousMemory) -> Result<(), NoChunk> {
        let slots = 2 * self.slots.len();
        let base = memory.allocate(Self::bytes(slots))?;
        let old = std::mem::replace(&mut self.slots, vec![None; slots]);
        memory.free(std::mem::replace(&mut self.base, base), Self::bytes(old.len()));
        self.upkeep.visited += old.len() as u64;
        self.upkeep.moved += self.used as u64;
        old.into_iter().flatten().for_each(|cluster| self.put(cluster));
        Ok(())
    }
}

impl ClusterTable for OpenAddressing {
    const ENTRIES: usize = ENTRIES;

    fn new(design: &ClassicDesign, seed: u64, memory: &mut impl ContiguousMemory) -> Result<Self, NoChunk> {
        let slots = design.first_slots;
        let base = memory.allocate(Self::bytes(slots))?;
        Ok(Self {
            design: design.clone(),
            hash: LineHash::mixed(seed),
            base,
            slots: vec![None; slots],
            used: 0,
            upkeep: Upkeep::default(),
        })
    }

    fn find(&self, number: u64, read: impl FnMut(PhysAddr)) -> Option<&[u64]> {
        let slot = self.slot_of(number, read)?;
        self.slots[slot].as_ref().map(|cluster| &cluster.entries[..])
    }

    fn find_mut(&mut self, number: u64) -> Option<&mut [u64]> {
        let slot = self.slot_of(number, |_| {})?;
        self.slots[slot].as_mut().map(|cluster| &mut cluster.entries[..])
    }

    fn insert(&mut self, number: u64, memory: &mut impl ContiguousMemory) -> Result<(), NoChunk> {
        if self.design.is_full(self.used + 1, self.slots.len()) {
            self.double(memory)?;
        }
        self.put(Cluster { number, entries: [0; ENTRIES] });
        self.used += 1;
        Ok(())
    }

    fn remove(&mut self, number: u64, _memory: &mut impl ContiguousMemory) {
        let mut hole = self.slot_of(number, |_| {}).expect("a cluster that is removed is there");
        self.slots[hole] = None;
        self.used -= 1;
        let mask = self.slots.len() - 1;
        let mut slot = self.next(hole);
        while let Some(cluster) = &self.slots[slot] {
            // It may go back to the hole if that lies between its home and where it stands.
            let from_home = slot.wrapping_sub(self.home(cluster.number)) & mask;
            if from_home >= slot.wrapping_sub(hole) & mask {
                self.slots.swap(hole, slot);
                self.upkeep.moved += 1;
                hole = slot;
            }
            slot = self.next(slot);
        }
    }

    fn upkeep(&self) -> Upkeep {
        self.upkeep
    }

    fn release(self, memory: &mut impl ContiguousMemory) {
        memory.free(self.base, Self::bytes(self.slots.len()));
    }
}
