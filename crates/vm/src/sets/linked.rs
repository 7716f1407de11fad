//! One large set: an index for finding, a linked list for the order.

use rustc_hash::FxHashMap;

use super::Inserted;

/// A fully associative LRU or FIFO array of any size.
#[derive(Clone, Debug)]
pub(super) struct LinkedKeys {
    index: FxHashMap<u64, u32>,
    /// The links of each slot; the last element is the list's head, whose `next` is the newest and whose `previous`
    /// is the victim. Free slots stand at the victim's end.
    links: Vec<Link>,
    keys: Vec<u64>,
    reorder_on_hit: bool,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

const FREE: u64 = u64::MAX;

impl LinkedKeys {
    pub(super) fn new(entries: u32, reorder_on_hit: bool) -> Self {
        let count = entries + 1;
        let links = (0..count)
            .map(|at| Link { previous: (at + count - 1) % count, next: (at + 1) % count })
            .collect();
        let index = FxHashMap::with_capacity_and_hasher(entries as usize + 1, Default::default());
        Self { index, links, keys: vec![FREE; entries as usize], reorder_on_hit }
    }

    #[inline]
    pub(super) fn lookup(&mut self, key: u64) -> Option<usize> {
        let slot = *self.index.get(&key)?;
        if self.reorder_on_hit {
            self.unlink(slot);
            self.link_behind(self.head(), slot);
        }
        Some(slot as usize)
    }

    pub(super) fn peek(&self, key: u64) -> Option<usize> {
        self.index.get(&key).map(|&slot| slot as usize)
    }

    pub(super) fn insert(&mut self, key: u64) -> Inserted {
        let slot = self.links[self.head() as usize].previous;
        let before = std::mem::replace(&mut self.keys[slot as usize], key);
        if before != FREE {
            self.index.remove(&before);
        }
        self.index.insert(key, slot);
        self.unlink(slot);
        self.link_behind(self.head(), slot);
        Inserted { slot: slot as usize, evicted: (before != FREE).then_some(before) }
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<usize> {
        let slot = self.index.remove(&key)?;
        self.keys[slot as usize] = FREE;
        self.unlink(slot);
        self.link_behind(self.links[self.head() as usize].previous, slot);
        Some(slot as usize)
    }

    pub(super) fn retain(&mut self, keep: &mut dyn FnMut(u64, usize) -> bool) {
        for slot in 0..self.keys.len() {
            let key = self.keys[slot];
            if key != FREE && !keep(key, slot) {
                self.remove(key);
            }
        }
    }

    fn head(&self) -> u32 {
        self.keys.len() as u32
    }

    fn unlink(&mut self, slot: u32) {
        let Link { previous, next } = self.links[slot as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
    }

    fn link_behind(&mut self, at: u32, slot: u32) {
        let next = self.links[at as usize].next;
        self.links[slot as usize] = Link { previous: at, next };
        self.links[at as usize].next = slot;
        self.links[next as usize].previous = slot;
    }
}
