//! Rows of words in replacement order.

use super::Inserted;

/// LRU and FIFO sets: word 0 of a row is the newest, the last word is the victim.
///
/// ```text
///  63                                   8 7      0
/// +--------------------------------------+--------+
/// |                 key                  |  way   |   way = slot - set * ways
/// +--------------------------------------+--------+
/// ```
///
/// A free word has the all-ones key and keeps its way number; free words stand at the end of the row.
#[derive(Clone, Debug)]
pub(super) struct OrderedRows {
    words: Vec<u64>,
    ways: usize,
    reorder_on_hit: bool,
}

const FREE: u64 = !0xff;

impl OrderedRows {
    pub(super) fn new(entries: u32, ways: u32, reorder_on_hit: bool) -> Self {
        let words = (0..entries).map(|slot| FREE | u64::from(slot % ways)).collect();
        Self { words, ways: ways as usize, reorder_on_hit }
    }

    #[inline(always)]
    pub(super) fn lookup(&mut self, set: usize, key: u64) -> Option<usize> {
        let base = set * self.ways;
        let row = &mut self.words[base..base + self.ways];
        let want = key << 8;
        if row[0] ^ want < 256 {
            return Some(base + (row[0] & 0xff) as usize);
        }
        let place = row.iter().position(|word| word ^ want < 256)?;
        let slot = base + (row[place] & 0xff) as usize;
        if self.reorder_on_hit {
            to_front(row, place);
        }
        Some(slot)
    }

    pub(super) fn peek(&self, set: usize, key: u64) -> Option<usize> {
        let base = set * self.ways;
        let row = &self.words[base..base + self.ways];
        let place = row.iter().position(|word| word ^ (key << 8) < 256)?;
        Some(base + (row[place] & 0xff) as usize)
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, set: usize, key: u64) -> Inserted {
        let base = set * self.ways;
        let row = &mut self.words[base..base + self.ways];
        let last = self.ways - 1;
        let victim = row[last];
        row[last] = key << 8 | (victim & 0xff);
        to_front(row, last);
        let evicted = (victim < FREE).then_some(victim >> 8);
        Inserted { slot: base + (victim & 0xff) as usize, evicted }
    }

    pub(super) fn remove(&mut self, set: usize, key: u64) -> Option<usize> {
        let base = set * self.ways;
        let row = &mut self.words[base..base + self.ways];
        let place = row.iter().position(|word| word ^ (key << 8) < 256)?;
        row[place] |= FREE;
        row[place..].rotate_left(1);
        Some(base + (row[self.ways - 1] & 0xff) as usize)
    }

    pub(super) fn retain(&mut self, keep: &mut dyn FnMut(u64, usize) -> bool) {
        for (set, row) in self.words.chunks_exact_mut(self.ways).enumerate() {
            let mut kept = 0;
            for place in 0..row.len() {
                let word = row[place];
                let slot = set * self.ways + (word & 0xff) as usize;
                if word < FREE && keep(word >> 8, slot) {
                    // Kept words move up in order; what they displace is free and may stand anywhere behind.
                    row[kept..=place].rotate_right(1);
                    kept += 1;
                } else {
                    row[place] |= FREE;
                }
            }
        }
    }
}

/// Moves the word at `place` to the front of the row, the others up by one.
#[inline(always)]
fn to_front(row: &mut [u64], place: usize) {
    // A chain of swaps and not `rotate_right`: rows are short, and a call to memmove costs more than the move.
    let mut carried = row[place];
    for word in &mut row[..=place] {
        std::mem::swap(word, &mut carried);
    }
}
