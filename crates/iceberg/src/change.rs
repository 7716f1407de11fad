//! Putting items in and taking them out.

use std::hash::{BuildHasher, Hash as KeyHash};

use crate::error::Full;
use crate::find::{Found, Spot};
use crate::map::IcebergMap;
use crate::place::{At, Hash};
use crate::store::{BLOCK_SLOTS, FirstYard};
use crate::sync::Ordering;

/// The reason why [`place`](IcebergMap::place) has not placed an item.
pub(crate) enum Unplaced {
    /// A second-level block has to be settled first.
    Behind(At),
    /// A map that does not grow has no place for it.
    Full,
}

impl<K: KeyHash + Eq, V, S: BuildHasher> IcebergMap<K, V, S> {
    /// Puts an item in, of whose key `found` says that it is nowhere.
    #[inline]
    pub(crate) fn add(&self, hash: Hash, mut found: Found<'_, K, V>, item: (K, V)) -> Added<K, V> {
        match self.place(&mut found.first, found.doublings, hash, item) {
            Ok(spot) => {
                drop(spot);
                drop(found);
                self.after_insert(self.count.add(1));
                Added::Placed
            }
            Err((Unplaced::Full, item)) => Added::Full(item),
            Err((Unplaced::Behind(at), item)) => {
                let doublings = found.doublings;
                drop(found);
                self.settle_second(at, doublings);
                Added::Again(item)
            }
        }
    }

    /// Puts an item in unless its key is there, and finds what is there then. The item counts before it is there, and the table grows
    /// for it if it has to: that needs locks which are kept in the end.
    pub(crate) fn find_or_add(&self, hash: Hash, item: (K, V)) -> Result<Found<'_, K, V>, Full<K, V>> {
        self.after_insert(self.count.add(1));
        let mut item = item;
        loop {
            let mut found = self.find(hash, &item.0);
            if found.item().is_some() {
                self.count.add(-1);
                return Ok(found);
            }
            match self.place(&mut found.first, found.doublings, hash, item) {
                Ok(spot) => {
                    found.spot = spot;
                    return Ok(found);
                }
                Err((Unplaced::Full, (key, value))) => {
                    self.count.add(-1);
                    return Err(Full { key, value });
                }
                Err((Unplaced::Behind(at), back)) => {
                    let doublings = found.doublings;
                    drop(found);
                    self.settle_second(at, doublings);
                    item = back;
                }
            }
        }
    }

    /// Puts an item into the first of its places that is free: this one. Its key is nowhere in the map.
    #[inline]
    fn place(
        &self,
        first: &mut FirstYard<'_, (K, V)>,
        doublings: u32,
        hash: Hash,
        item: (K, V),
    ) -> Result<Spot<'_, K, V>, (Unplaced, (K, V))> {
        match first.free_near(hash.home()) {
            Some(slot) => {
                first.put(slot, hash.tag(), item);
                Ok(Spot::First(slot))
            }
            None => self.place_behind(first, doublings, self.emptier_first(hash, doublings), hash, item),
        }
    }

    /// Places an item in the second level, or in the third.
    #[inline(always)]
    pub(crate) fn place_behind(
        &self,
        first: &mut FirstYard<'_, (K, V)>,
        doublings: u32,
        choices: [At; 2],
        hash: Hash,
        item: (K, V),
    ) -> Result<Spot<'_, K, V>, (Unplaced, (K, V))> {
        for at in choices {
            let mut yard = self.lock_second(at);
            if yard.doublings() != doublings {
                return Err((Unplaced::Behind(at), item));
            }
            if let Some(slot) = yard.free_near(hash.home()) {
                yard.put(slot, hash.tag(), item);
                first.filter_mut().add(hash.spill());
                return Ok(Spot::Second(at, yard, slot));
            }
        }
        if !self.growth.grows() && self.chained.load(Ordering::Relaxed) >= self.chained_most() {
            return Err((Unplaced::Full, item));
        }
        let number = first.change_chain(|chain| chain.push(item));
        self.chained.fetch_add(1, Ordering::Relaxed);
        Ok(Spot::Third(number))
    }

    /// The key's two blocks of the second level, first the one that was the emptier a moment ago.
    #[inline(always)]
    pub(crate) fn emptier_first(&self, hash: Hash, doublings: u32) -> [At; 2] {
        let [one, other] = self.shape.second(hash, doublings);
        if self.count_second(other) < self.count_second(one) { [other, one] } else { [one, other] }
    }

    /// Items that the third level of a map that does not grow takes. At the loads that it is meant for there are
    /// none or a handful.
    fn chained_most(&self) -> usize {
        (self.shape.blocks(0) * BLOCK_SLOTS / 64).max(16)
    }

    /// Takes out what has been found.
    #[inline]
    pub(crate) fn take(&self, hash: Hash, found: Found<'_, K, V>) -> Option<(K, V)> {
        let Found { mut first, spot, .. } = found;
        let item = match spot {
            Spot::First(slot) => first.take(slot),
            Spot::Second(_, mut yard, slot) => {
                first.filter_mut().remove(hash.spill());
                yard.take(slot)
            }
            Spot::Third(number) => {
                self.chained.fetch_sub(1, Ordering::Relaxed);
                first.change_chain(|chain| chain.take(number))
            }
            Spot::Nowhere => None,
        };
        if item.is_some() {
            self.count.add(-1);
        }
        item
    }
}

/// The outcome of adding an item.
pub(crate) enum Added<K, V> {
    Placed,
    /// The item was refused, because the table is full.
    Full((K, V)),
    /// The key has to be searched for anew.
    Again((K, V)),
}
