//! Going through all items.
//!
//! A walk goes through the first level (and the third) of all blocks, then through the second. If a block has been
//! settled into two since the walk began, it goes through both, one after the other: which of the two an item belongs
//! to follows from its hash, so the item cannot change over between the visits. While there is a walk, nothing goes up
//! from the second level to the first ([`grow`](crate::grow)).

use std::hash::{BuildHasher, Hash as KeyHash};

use crate::map::IcebergMap;
use crate::place::At;
use crate::store::{FirstYard, SecondYard};
use crate::sync::{AtomicUsize, Ordering};

/// Counts as a walk while it lives.
struct Walking<'a>(&'a AtomicUsize);

impl<'a> Walking<'a> {
    fn new(walks: &'a AtomicUsize) -> Self {
        walks.fetch_add(1, Ordering::AcqRel);
        Self(walks)
    }
}

impl Drop for Walking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A block's level to be visited, and the doublings that it had when it was noted.
#[derive(Clone, Copy)]
struct Visit {
    second: bool,
    at: At,
    doublings: u32,
}

/// The blocks that are to be visited still.
pub(crate) struct Walk<'a, K, V, S> {
    map: &'a IcebergMap<K, V, S>,
    _walking: Walking<'a>,
    /// Doublings when the walk began, and the visits of that time that have been noted.
    doublings: u32,
    noted: usize,
    next: Vec<Visit>,
}

/// A locked level of a block.
pub(crate) enum Level<'a, K, V> {
    First(FirstYard<'a, (K, V)>),
    Second(SecondYard<'a, (K, V)>),
}

impl<'a, K: KeyHash + Eq, V, S: BuildHasher> Walk<'a, K, V, S> {
    pub(crate) fn new(map: &'a IcebergMap<K, V, S>) -> Self {
        let _walking = Walking::new(&map.walks);
        Self { map, _walking, doublings: map.growth.doublings(), noted: 0, next: Vec::new() }
    }

    fn take_next(&mut self) -> Option<Visit> {
        if let Some(visit) = self.next.pop() {
            return Some(visit);
        }
        let blocks = self.map.shape.blocks(self.doublings);
        let (second, number) = (self.noted >= blocks, self.noted % blocks);
        if self.noted == 2 * blocks {
            return None;
        }
        self.noted += 1;
        Some(Visit { second, at: self.map.shape.block(number), doublings: self.doublings })
    }

    /// Locks the next level of a block.
    pub(crate) fn lock_next(&mut self) -> Option<Level<'a, K, V>> {
        let map = self.map;
        loop {
            let visit = self.take_next()?;
            let (doublings, level) = if visit.second {
                let yard = map.lock_second(visit.at);
                (yard.doublings(), Level::Second(yard))
            } else {
                let yard = map.lock_first(visit.at, None);
                (yard.doublings(), Level::First(yard))
            };
            if doublings == visit.doublings {
                return Some(level);
            }
            drop(level);
            if doublings > visit.doublings {
                let (old, new) = visit.at.pair(visit.doublings + 1);
                self.next.push(Visit { at: new, doublings: visit.doublings + 1, ..visit });
                self.next.push(Visit { at: old, doublings: visit.doublings + 1, ..visit });
            } else {
                match visit.second {
                    false => map.settle_first(visit.at, visit.doublings),
                    true => map.settle_second(visit.at, visit.doublings),
                }
                self.next.push(visit);
            }
        }
    }
}

impl<K, V> Level<'_, K, V> {
    /// Calls `act` with each item.
    pub(crate) fn for_each(&self, mut act: impl FnMut(&(K, V))) {
        match self {
            Self::First(yard) => {
                yard.used().filter_map(|slot| yard.get(slot)).for_each(&mut act);
                yard.chain().iter().for_each(|(_, item)| act(item));
            }
            Self::Second(yard) => yard.used().filter_map(|slot| yard.get(slot)).for_each(act),
        }
    }
}
