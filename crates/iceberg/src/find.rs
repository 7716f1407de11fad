//! Finding the item of a key in its three levels.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash as KeyHash};

use crate::guess;
use crate::map::IcebergMap;
use crate::place::{At, Hash};
use crate::store::{FirstYard, SecondYard};

/// One of the three levels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Level {
    /// 64 slots, one choice of blocks.
    First,
    /// 8 slots, two choices of blocks.
    Second,
    /// The third level: a list of the items that found no slot.
    Third,
}

/// The level and the block in which an item stands. It changes only when the map grows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Position {
    /// The level that holds the item.
    pub level: Level,
    /// The number of the block. In the third level, the one that the list belongs to.
    pub block: usize,
    /// The slot in the level of the block. In the third level, a number that no other item of the list has.
    pub slot: usize,
}

/// A key's item, or that there is none, with the key's first-level block locked: no other thread can put it in,
/// change it or take it out meanwhile.
pub(crate) struct Found<'a, K, V> {
    pub(crate) first: FirstYard<'a, (K, V)>,
    pub(crate) doublings: u32,
    pub(crate) spot: Spot<'a, K, V>,
}

pub(crate) enum Spot<'a, K, V> {
    First(usize),
    Second(At, SecondYard<'a, (K, V)>, usize),
    Third(u32),
    Nowhere,
}

impl<K, V> Found<'_, K, V> {
    #[inline]
    pub(crate) fn item(&self) -> Option<&(K, V)> {
        match &self.spot {
            Spot::First(slot) => self.first.get(*slot),
            Spot::Second(_, yard, slot) => yard.get(*slot),
            Spot::Third(number) => self.first.chain().get(*number),
            Spot::Nowhere => None,
        }
    }

    #[inline]
    pub(crate) fn item_mut(&mut self) -> Option<&mut (K, V)> {
        match &mut self.spot {
            Spot::First(slot) => self.first.get_mut(*slot),
            Spot::Second(_, yard, slot) => yard.get_mut(*slot),
            Spot::Third(number) => self.first.chained_mut(*number),
            Spot::Nowhere => None,
        }
    }
}

impl<K: KeyHash + Eq, V, S: BuildHasher> IcebergMap<K, V, S> {
    /// Calls `act` with a key's item.
    ///
    /// Only what nearly all look-ups need is compiled into the caller. While the processor waits for memory it has the
    /// next look-ups under way, as many as its registers are enough for: each instruction here that computes something
    /// costs half a nanosecond, as measured with tables of 80 MB.
    #[inline(always)]
    pub(crate) fn read<Q, R>(&self, key: &Q, act: impl FnOnce(&(K, V)) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let Some((doublings, first)) = self.lock_if_settled(hash, guess::is_worth_it()) else {
            return self.read_later(hash, key, act);
        };
        if let Some((_, item)) = first.find(hash.tag(), |item| item.0.borrow() == key) {
            guess::found();
            return Some(act(item));
        }
        guess::in_vain();
        if first.may_spill(hash.spill()) { self.read_behind(hash, key, first, doublings, act) } else { None }
    }

    /// Reads an item in the second and the third level.
    #[inline(never)]
    fn read_behind<'a, Q, R>(
        &'a self,
        hash: Hash,
        key: &Q,
        first: FirstYard<'a, (K, V)>,
        doublings: u32,
        act: impl FnOnce(&(K, V)) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.prefetch_behind(hash, doublings);
        self.find_behind(hash, &|item: &(K, V)| item.0.borrow() == key, first, doublings).item().map(act)
    }

    /// Reads an item where a block has to be settled first.
    #[cold]
    #[inline(never)]
    fn read_later<Q, R>(&self, hash: Hash, key: &Q, act: impl FnOnce(&(K, V)) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.find(hash, key).item().map(act)
    }

    /// Finds a key's item.
    #[inline]
    pub(crate) fn find<Q>(&self, hash: Hash, key: &Q) -> Found<'_, K, V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let wanted = |item: &(K, V)| item.0.borrow() == key;
        let (doublings, first) = self.lock_settled(hash);
        if let Some((slot, _)) = first.find(hash.tag(), wanted) {
            return Found { first, doublings, spot: Spot::First(slot) };
        }
        if !first.may_spill(hash.spill()) {
            return Found { first, doublings, spot: Spot::Nowhere };
        }
        self.prefetch_behind(hash, doublings);
        self.find_behind(hash, &wanted, first, doublings)
    }

    /// Finds an item in the second and the third level.
    #[inline]
    pub(crate) fn find_behind<'a>(
        &'a self,
        hash: Hash,
        wanted: &impl Fn(&(K, V)) -> bool,
        mut first: FirstYard<'a, (K, V)>,
        mut doublings: u32,
    ) -> Found<'a, K, V> {
        loop {
            if first.is_chained()
                && let Some((number, _)) = first.chain().find(wanted)
            {
                return Found { first, doublings, spot: Spot::Third(number) };
            }
            let behind = 'search: {
                for at in self.choices(hash, doublings) {
                    let yard = self.lock_second(at);
                    if yard.doublings() != doublings {
                        break 'search at;
                    }
                    if let Some((slot, _)) = yard.find(hash.tag(), wanted) {
                        return Found { first, doublings, spot: Spot::Second(at, yard, slot) };
                    }
                }
                return Found { first, doublings, spot: Spot::Nowhere };
            };
            drop(first);
            self.settle_second(behind, doublings);
            // Meanwhile the item may have come into the first level.
            (doublings, first) = self.lock_settled(hash);
            if let Some((slot, _)) = first.find(hash.tag(), wanted) {
                return Found { first, doublings, spot: Spot::First(slot) };
            }
        }
    }

    /// The key's blocks of the second level, one if both are the same.
    #[inline]
    fn choices(&self, hash: Hash, doublings: u32) -> impl Iterator<Item = At> + use<K, V, S> {
        let [one, other] = self.shape.second(hash, doublings);
        [Some(one), (other != one).then_some(other)].into_iter().flatten()
    }

    /// The first level's block of a key, locked, and the number of doublings that it has gone through, if that is as
    /// many as the table has.
    #[inline(always)]
    pub(crate) fn lock_if_settled(&self, hash: Hash, guess: bool) -> Option<(u32, FirstYard<'_, (K, V)>)> {
        let doublings = self.growth.doublings();
        let first = self.lock_first(self.shape.first(hash, doublings), guess.then(|| hash.home()));
        (first.doublings() == doublings).then_some((doublings, first))
    }

    /// The first level's block of a key, locked, and the number of doublings that it has gone through, as all of the
    /// table has or is about to.
    fn lock_settled(&self, hash: Hash) -> (u32, FirstYard<'_, (K, V)>) {
        loop {
            let doublings = self.growth.doublings();
            if let Some(locked) = self.lock_if_settled(hash, true) {
                return locked;
            }
            self.settle_first(self.shape.first(hash, doublings), doublings);
        }
    }

    /// Lets the processor fetch, all at once, what a look-up behind the first level needs.
    #[inline]
    pub(crate) fn prefetch_behind(&self, hash: Hash, doublings: u32) {
        for at in self.shape.second(hash, doublings) {
            self.prefetch_second(at, hash.home());
        }
    }

    /// Returns the level and the block in which the item stands.
    pub(crate) fn position(&self, hash: Hash, found: &Found<'_, K, V>) -> Option<Position> {
        let first = || self.shape.first(hash, found.doublings);
        let (level, at, slot) = match &found.spot {
            Spot::First(slot) => (Level::First, first(), *slot),
            Spot::Second(at, _, slot) => (Level::Second, *at, *slot),
            Spot::Third(number) => (Level::Third, first(), *number as usize),
            Spot::Nowhere => return None,
        };
        Some(Position { level, block: self.shape.number(at), slot })
    }
}
