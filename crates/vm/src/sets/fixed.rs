//! Rows in which a key stays in its way.

use super::{Inserted, Replacement};

/// Tree-PLRU, NRU and random sets.
#[derive(Clone, Debug)]
pub(super) struct FixedRows {
    keys: Vec<u64>,
    /// The policy's bits, one word a set. Tree-PLRU: bit `n` belongs to inner node `n` of a heap-numbered tree
    /// (root 1) and is 1 if the victim is in the right half. NRU: bit `w` is 1 if way `w` was used.
    bits: Vec<u64>,
    ways: usize,
    policy: Replacement,
    random: u64,
}

const FREE: u64 = u64::MAX;

impl FixedRows {
    pub(super) fn new(entries: u32, ways: u32, policy: Replacement) -> Self {
        let random = match policy {
            // The generator must not start at zero, where xorshift stays.
            Replacement::Random { seed } => seed ^ 0x9e37_79b9_7f4a_7c15 | 1,
            _ => 1,
        };
        Self {
            keys: vec![FREE; entries as usize],
            bits: vec![0; (entries / ways) as usize],
            ways: ways as usize,
            policy,
            random,
        }
    }

    #[inline]
    pub(super) fn lookup(&mut self, set: usize, key: u64) -> Option<usize> {
        let slot = self.peek(set, key)?;
        self.use_way(set, slot - set * self.ways);
        Some(slot)
    }

    #[inline]
    pub(super) fn peek(&self, set: usize, key: u64) -> Option<usize> {
        let base = set * self.ways;
        let way = self.keys[base..base + self.ways].iter().position(|&resident| resident == key)?;
        Some(base + way)
    }

    pub(super) fn insert(&mut self, set: usize, key: u64) -> Inserted {
        let base = set * self.ways;
        let free = self.keys[base..base + self.ways].iter().position(|&resident| resident == FREE);
        let way = free.unwrap_or_else(|| self.victim(set));
        let before = std::mem::replace(&mut self.keys[base + way], key);
        self.use_way(set, way);
        Inserted { slot: base + way, evicted: (before != FREE).then_some(before) }
    }

    pub(super) fn remove(&mut self, set: usize, key: u64) -> Option<usize> {
        let slot = self.peek(set, key)?;
        self.keys[slot] = FREE;
        Some(slot)
    }

    pub(super) fn retain(&mut self, keep: &mut dyn FnMut(u64, usize) -> bool) {
        for (slot, key) in self.keys.iter_mut().enumerate() {
            if *key != FREE && !keep(*key, slot) {
                *key = FREE;
            }
        }
    }

    fn use_way(&mut self, set: usize, way: usize) {
        let bits = &mut self.bits[set];
        match self.policy {
            Replacement::TreePlru => {
                // From the leaf to the root, point every node to the other half.
                let mut node = self.ways + way;
                while node > 1 {
                    let went_right = node & 1;
                    node /= 2;
                    *bits = *bits & !(1 << node) | ((1 - went_right) as u64) << node;
                }
            }
            Replacement::Nru => {
                *bits |= 1 << way;
                if *bits == all_ways(self.ways) {
                    *bits = 1 << way;
                }
            }
            _ => {}
        }
    }

    fn victim(&mut self, set: usize) -> usize {
        match self.policy {
            Replacement::TreePlru => {
                let mut node = 1;
                while node < self.ways {
                    node = 2 * node + (self.bits[set] >> node & 1) as usize;
                }
                node - self.ways
            }
            // One way only: its bit is set, and it is the victim.
            Replacement::Nru => (self.bits[set].trailing_ones() as usize).min(self.ways - 1),
            _ => {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                // The high bits, scaled: no division, and no bias that matters for at most 64 ways.
                (((self.random >> 32) * self.ways as u64) >> 32) as usize
            }
        }
    }
}

fn all_ways(ways: usize) -> u64 {
    u64::MAX >> (64 - ways)
}
