//! The operations on all items of the map.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash as KeyHash};

use crate::find::Level;
use crate::map::IcebergMap;
use crate::place::Hash;
use crate::store::{FirstYard, SecondYard};
use crate::sync::Ordering;
use crate::walk::{self, Walk};

/// The number of items in each level.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Levels {
    /// Items in the 64-slot yards.
    pub first: usize,
    /// Items in the 8-slot yards.
    pub second: usize,
    /// Items in the lists of the third level.
    pub third: usize,
}

impl Levels {
    /// Returns the number of items in all levels.
    pub fn items(&self) -> usize {
        self.first + self.second + self.third
    }

    /// Returns the share of a level; of no items, 0.
    pub fn share(&self, level: Level) -> f64 {
        let items = match level {
            Level::First => self.first,
            Level::Second => self.second,
            Level::Third => self.third,
        };
        items as f64 / self.items().max(1) as f64
    }
}

/// The operations on all items.
///
/// What is seen of a map that others change meanwhile: each item that is in the map from the beginning to the end is
/// visited exactly once, through any number of doublings; an item that comes or goes may be visited or not, and one
/// that goes and comes again may be visited twice. One level of one block at a time is locked, and is seen as it is at
/// that moment. The order means nothing.
///
/// Closures, and `Clone`, must not use the map.
impl<K: KeyHash + Eq, V, S: BuildHasher> IcebergMap<K, V, S> {
    /// Calls `act` with each item.
    pub fn for_each(&self, mut act: impl FnMut(&K, &V)) {
        let mut walk = Walk::new(self);
        while let Some(block) = walk.lock_next() {
            block.for_each(|(key, value)| act(key, value));
        }
    }

    /// Copies of the items. No lock is held between two of them; nothing holds up threads that use the map meanwhile.
    pub fn iter(&self) -> Iter<'_, K, V, S>
    where
        K: Clone,
        V: Clone,
    {
        Iter { walk: Walk::new(self), block: VecDeque::new() }
    }

    /// Copies of the keys, as [`iter`](Self::iter) finds them.
    pub fn keys(&self) -> impl Iterator<Item = K>
    where
        K: Clone,
        V: Clone,
    {
        self.iter().map(|(key, _)| key)
    }

    /// Copies of the values, as [`iter`](Self::iter) finds them.
    pub fn values(&self) -> impl Iterator<Item = V>
    where
        K: Clone,
        V: Clone,
    {
        self.iter().map(|(_, value)| value)
    }

    /// Calls `act` with each item, whose value it may change.
    pub fn for_each_mut(&self, mut act: impl FnMut(&K, &mut V)) {
        self.retain(|key, value| {
            act(key, value);
            true
        });
    }

    /// Returns all items, whose values may be changed. No lock is taken: the map is the caller's alone. Where other
    /// threads use it, there is [`for_each_mut`](Self::for_each_mut).
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.items_mut().map(|(key, value)| (&*key, value))
    }

    /// Returns all values, as [`iter_mut`](Self::iter_mut) goes through them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.items_mut().map(|(_, value)| value)
    }

    /// Takes all items out, and gives the memory back. Items that are not taken from the iterator are dropped with it.
    pub fn drain(&mut self) -> IntoIter<K, V, ()> {
        self.replace(0).unwrap_or_else(|error| panic!("{error}")).into_iter()
    }

    /// Changes each item, and takes out those of which `keep` is false.
    pub fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let mut walk = Walk::new(self);
        // Dropped when the block is no longer locked.
        let mut removed = Vec::new();
        while let Some(block) = walk.lock_next() {
            match block {
                walk::Level::First(yard) => self.retain_first(yard, &mut keep, &mut removed),
                walk::Level::Second(yard) => self.retain_second(yard, &mut keep, &mut removed),
            }
            removed.clear();
        }
    }

    fn retain_first(
        &self,
        mut yard: FirstYard<'_, (K, V)>,
        keep: &mut impl FnMut(&K, &mut V) -> bool,
        removed: &mut Vec<(K, V)>,
    ) {
        for slot in yard.used() {
            if yard.get_mut(slot).is_some_and(|(key, value)| !keep(key, value)) {
                removed.extend(yard.take(slot));
                self.count.add(-1);
            }
        }
        let chained: Vec<u32> = yard.chain().iter().map(|(number, _)| number).collect();
        for number in chained {
            if yard.chained_mut(number).is_some_and(|(key, value)| !keep(key, value)) {
                removed.extend(yard.change_chain(|chain| chain.take(number)));
                self.chained.fetch_sub(1, Ordering::Relaxed);
                self.count.add(-1);
            }
        }
    }

    fn retain_second(
        &self,
        mut yard: SecondYard<'_, (K, V)>,
        keep: &mut impl FnMut(&K, &mut V) -> bool,
        removed: &mut Vec<(K, V)>,
    ) {
        for slot in yard.used() {
            let Some((key, value)) = yard.get_mut(slot) else { continue };
            if !keep(key, value) {
                let hash = self.hash(key);
                removed.extend(yard.take(slot));
                self.count.add(-1);
                self.forget_spill(hash);
            }
        }
    }

    /// An item has left the second level; its first-level block's filter need not know, but should. A block of the
    /// second level is locked: there must be no waiting for one of the first.
    fn forget_spill(&self, hash: Hash) {
        let doublings = self.growth.doublings();
        if let Some(mut first) = self.try_lock_first(self.shape.first(hash, doublings))
            && first.doublings() == doublings
        {
            first.filter_mut().remove(hash.spill());
        }
    }

    /// Takes out all items. The memory is kept, since others may use the map: [`shrink_to_fit`](Self::shrink_to_fit) or
    /// [`drain`](Self::drain), for which the map must be the caller's alone, give it back. If an item's `Drop` panics, the others are
    /// taken out all the same.
    pub fn clear(&self) {
        struct Rest<'a, K: KeyHash + Eq, V, S: BuildHasher>(&'a IcebergMap<K, V, S>);
        impl<K: KeyHash + Eq, V, S: BuildHasher> Drop for Rest<'_, K, V, S> {
            fn drop(&mut self) {
                self.0.retain(|_, _| false);
            }
        }
        // Also while it unwinds: the first time may have ended at any block.
        let rest = Rest(self);
        self.retain(|_, _| false);
        std::mem::forget(rest);
    }

    /// Returns the number of items in each level.
    pub fn levels(&self) -> Levels {
        let mut levels = Levels::default();
        let mut walk = Walk::new(self);
        while let Some(block) = walk.lock_next() {
            match block {
                walk::Level::First(yard) => {
                    levels.first += yard.used().count();
                    levels.third += yard.chain().iter().count();
                }
                walk::Level::Second(yard) => levels.second += yard.used().count(),
            }
        }
        levels
    }
}

/// Copies of a map's items, from [`IcebergMap::iter`].
pub struct Iter<'a, K, V, S> {
    walk: Walk<'a, K, V, S>,
    block: VecDeque<(K, V)>,
}

impl<K: KeyHash + Eq + Clone, V: Clone, S: BuildHasher> Iterator for Iter<'_, K, V, S> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        loop {
            if let Some(item) = self.block.pop_front() {
                return Some(item);
            }
            self.walk.lock_next()?.for_each(|item| self.block.push_back(item.clone()));
        }
    }
}

/// The items of a map that is no longer used, from its [`into_iter`](IcebergMap::into_iter).
pub struct IntoIter<K, V, S> {
    map: IcebergMap<K, V, S>,
    next: usize,
    block: VecDeque<(K, V)>,
}

impl<K, V, S> IntoIterator for IcebergMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V, S>;

    fn into_iter(self) -> IntoIter<K, V, S> {
        IntoIter { map: self, next: 0, block: VecDeque::new() }
    }
}

impl<K, V, S> Iterator for IntoIter<K, V, S> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        loop {
            if let Some(item) = self.block.pop_front() {
                return Some(item);
            }
            if self.next == self.map.shape.blocks(self.map.growth.doublings()) {
                return None;
            }
            // Settled or not: no thread looks anything up any more.
            let at = self.map.shape.block(self.next);
            self.next += 1;
            let mut first = self.map.lock_first(at, None);
            self.block.extend(first.used().filter_map(|slot| first.take(slot)));
            self.block.extend(std::iter::from_fn(|| first.change_chain(|chain| chain.pop())));
            let mut second = self.map.lock_second(at);
            self.block.extend(second.used().filter_map(|slot| second.take(slot)));
        }
    }
}
