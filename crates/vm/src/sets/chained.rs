//! Rows of many ways, searched sixteen at a time, whose order is a chain.

use super::Inserted;
use super::ranked::digest;
use crate::simd::equal_16;

/// LRU and FIFO sets of up to 64 ways: small fully associative arrays, mostly.
///
/// Each set has its 16-bit digests of the keys, compared sixteen at once, and a doubly linked chain of way numbers.
/// The chain's head stands behind the last way: its `next` is the newest, its `previous` the victim. Free ways stand
/// at the victim's end.
#[derive(Clone, Debug)]
pub(super) struct ChainedRows {
    /// The digests of each set's keys, in `groups` groups; the last group may have ways that do not exist.
    digests: Vec<[u16; GROUP]>,
    groups: usize,
    /// The key of each slot.
    keys: Vec<u64>,
    /// The links of each set, one for each way and one for the head.
    links: Vec<Link>,
    ways: usize,
    reorder_on_hit: bool,
    set_bits: u32,
}

/// Neighbours in the chain, by way.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u8,
    next: u8,
}

const GROUP: usize = 16;
const FREE: u64 = u64::MAX;

impl ChainedRows {
    pub(super) fn new(entries: u32, ways: u32, reorder_on_hit: bool) -> Self {
        let (sets, count) = (entries / ways, ways as u8 + 1);
        let link = |at| Link { previous: (at + count - 1) % count, next: (at + 1) % count };
        let groups = (ways as usize).div_ceil(GROUP);
        Self {
            digests: vec![[0; GROUP]; groups * sets as usize],
            groups,
            keys: vec![FREE; entries as usize],
            links: (0..sets).flat_map(|_| (0..count).map(link)).collect(),
            ways: ways as usize,
            reorder_on_hit,
            set_bits: sets.trailing_zeros(),
        }
    }

    #[inline]
    pub(super) fn lookup(&mut self, set: usize, key: u64) -> Option<usize> {
        // Callers that remember what they looked up last do not ask for the newest key: the one before it is the likeliest.
        let second = self.second(set);
        let way = if self.keys[set * self.ways + second] == key { second } else { self.find(set, key)? };
        if self.reorder_on_hit {
            self.make_newest(set, way);
        }
        Some(set * self.ways + way)
    }

    pub(super) fn peek(&self, set: usize, key: u64) -> Option<usize> {
        Some(set * self.ways + self.find(set, key)?)
    }

    /// Returns the way that was used before the newest one.
    #[inline]
    fn second(&self, set: usize) -> usize {
        let links = &self.links[set * (self.ways + 1)..][..=self.ways];
        let newest = links[self.ways].next;
        usize::from(links[usize::from(newest)].next)
    }

    #[inline]
    fn find(&self, set: usize, key: u64) -> Option<usize> {
        let digest = digest(self.set_bits, key);
        let keys = &self.keys[set * self.ways..][..self.ways];
        let digests = &self.digests[set * self.groups..][..self.groups];
        for (group, digests) in digests.iter().enumerate() {
            let mut candidates = equal_16(digests, digest);
            while candidates != 0 {
                let way = group * GROUP + candidates.trailing_zeros() as usize;
                if keys.get(way) == Some(&key) {
                    return Some(way);
                }
                candidates &= candidates - 1;
            }
        }
        None
    }

    #[inline]
    pub(super) fn insert(&mut self, set: usize, key: u64) -> Inserted {
        let head = set * (self.ways + 1) + self.ways;
        let way = usize::from(self.links[head].previous);
        self.digests[set * self.groups + way / GROUP][way % GROUP] = digest(self.set_bits, key);
        self.make_newest(set, way);
        let slot = set * self.ways + way;
        let before = std::mem::replace(&mut self.keys[slot], key);
        Inserted { slot, evicted: (before != FREE).then_some(before) }
    }

    pub(super) fn remove(&mut self, set: usize, key: u64) -> Option<usize> {
        let way = self.find(set, key)?;
        self.free_way(set, way);
        Some(set * self.ways + way)
    }

    pub(super) fn retain(&mut self, keep: &mut dyn FnMut(u64, usize) -> bool) {
        for slot in 0..self.keys.len() {
            let key = self.keys[slot];
            if key != FREE && !keep(key, slot) {
                self.free_way(slot / self.ways, slot % self.ways);
            }
        }
    }

    /// Frees a way and makes it the next victim.
    fn free_way(&mut self, set: usize, way: usize) {
        self.keys[set * self.ways + way] = FREE;
        let links = self.unlink(set, way);
        let last = links[links.len() - 1].previous;
        link_behind(links, usize::from(last), way);
    }

    #[inline]
    fn make_newest(&mut self, set: usize, way: usize) {
        let links = self.unlink(set, way);
        link_behind(links, links.len() - 1, way);
    }

    /// Takes a way out of its set's chain; returns the chain.
    #[inline]
    fn unlink(&mut self, set: usize, way: usize) -> &mut [Link] {
        let links = &mut self.links[set * (self.ways + 1)..][..=self.ways];
        let Link { previous, next } = links[way];
        links[usize::from(previous)].next = next;
        links[usize::from(next)].previous = previous;
        links
    }
}

#[inline]
fn link_behind(links: &mut [Link], at: usize, way: usize) {
    let next = links[at].next;
    links[way] = Link { previous: at as u8, next };
    links[at].next = way as u8;
    links[usize::from(next)].previous = way as u8;
}
