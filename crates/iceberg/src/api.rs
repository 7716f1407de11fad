//! The operations on single items of the map.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash as KeyHash};

use crate::change::Added;
use crate::error::{Full, NotInserted};
use crate::find::Position;
use crate::map::IcebergMap;
use crate::place::{At, Hash};
use crate::store::FIRST_SLOTS;

/// The operations on single items.
///
/// Closures, and `Hash`, `Eq` and `Clone` of keys and values, run while blocks of the map are locked. They must not
/// use the map themselves: that may wait forever. If they panic, the map is as it was before the call; only a value
/// that was being changed is left as the closure has left it.
impl<K: KeyHash + Eq, V, S: BuildHasher> IcebergMap<K, V, S> {
    /// Returns a copy of the value of a key.
    #[inline(always)]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
        V: Clone,
    {
        self.read(key, |(_, value)| value.clone())
    }

    /// Returns what `act` makes of the value. No other thread changes the value meanwhile; a thread that uses the
    /// same block waits.
    #[inline]
    pub fn get_with<Q, R>(&self, key: &Q, act: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        self.read(key, |(_, value)| act(value))
    }

    /// Returns whether the key is in the map.
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        self.read(key, |_| ()).is_some()
    }

    /// Returns the level and the block in which the key's item stands.
    pub fn position_of<Q>(&self, key: &Q) -> Option<Position>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        self.position(hash, &self.find(hash, key))
    }

    /// Sets the key's value, and returns the one that it had. An item that is there stays where it is, with the key
    /// that it has.
    ///
    /// # Panics
    ///
    /// If the map does not grow and the item finds no place; see [`try_insert`](Self::try_insert).
    #[inline(always)]
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        match self.try_insert(key, value) {
            Ok(old) => old,
            Err(full) => panic!("{full}"),
        }
    }

    /// Inserts an item like [`insert`](Self::insert), but returns the item as an error if there is no room.
    ///
    /// # Errors
    ///
    /// [`Full`], with the item, if the map does not grow and the item finds no place.
    #[inline(always)]
    pub fn try_insert(&self, key: K, value: V) -> Result<Option<V>, Full<K, V>> {
        // The new key is dropped here, behind the locks.
        let replaced = self.enter(key, value, |old, key, value| (key, std::mem::replace(old, value)))?;
        Ok(replaced.map(|(_, old)| old))
    }

    /// Puts an item in unless the key is there already.
    ///
    /// # Errors
    ///
    /// [`NotInserted`], with the item, if the key is there, or if the map does not grow and the item finds no place.
    #[inline]
    pub fn insert_new(&self, key: K, value: V) -> Result<(), NotInserted<K, V>> {
        match self.enter(key, value, |_, key, value| NotInserted::Present { key, value }) {
            Ok(None) => Ok(()),
            Ok(Some(present)) => Err(present),
            Err(full) => Err(NotInserted::Full(full)),
        }
    }

    /// Puts an item in, or calls `present` if the key is there.
    #[inline(always)]
    fn enter<R>(
        &self,
        key: K,
        value: V,
        present: impl FnOnce(&mut V, K, V) -> R,
    ) -> Result<Option<R>, Full<K, V>> {
        let hash = self.hash(&key);
        let doublings = self.growth.doublings();
        let at = self.shape.first(hash, doublings);
        if self.count_first(at) == FIRST_SLOTS {
            return self.enter_behind(hash, doublings, at, key, value, present);
        }
        let mut first = self.lock_first(at, Some(hash.home()));
        if first.doublings() == doublings
            && !first.may_spill(hash.spill())
            && !first.holds(hash.tag())
            && let Some(slot) = first.free_near(hash.home())
        {
            first.put(slot, hash.tag(), (key, value));
            drop(first);
            self.after_insert(self.count.add(1));
            return Ok(None);
        }
        drop(first);
        self.enter_elsewhere(hash, key, value, present)
    }

    /// Inserts an item whose first level was full a moment ago. To know that before its tags have come from memory is
    /// worth half of the time: the processor does not begin the wrong thing, and the second level comes together with
    /// the first.
    #[inline(never)]
    fn enter_behind<R>(
        &self,
        hash: Hash,
        doublings: u32,
        at: At,
        key: K,
        value: V,
        present: impl FnOnce(&mut V, K, V) -> R,
    ) -> Result<Option<R>, Full<K, V>> {
        let choices = self.emptier_first(hash, doublings);
        self.prefetch_second(choices[0], hash.home());
        let mut item = (key, value);
        let mut first = self.lock_first(at, None);
        if first.doublings() == doublings
            && first.is_full()
            && !first.may_spill(hash.spill())
            && !first.holds(hash.tag())
        {
            match self.place_behind(&mut first, doublings, choices, hash, item) {
                Ok(spot) => {
                    drop(spot);
                    drop(first);
                    self.after_insert(self.count.add(1));
                    return Ok(None);
                }
                Err((_, refused)) => item = refused,
            }
        }
        drop(first);
        self.enter_elsewhere(hash, item.0, item.1, present)
    }

    /// Inserts an item where the key may be there, where a block has to be settled first, and in all other seldom
    /// cases.
    #[inline(never)]
    fn enter_elsewhere<R>(
        &self,
        hash: Hash,
        key: K,
        value: V,
        present: impl FnOnce(&mut V, K, V) -> R,
    ) -> Result<Option<R>, Full<K, V>> {
        let mut item = (key, value);
        loop {
            let mut found = self.find(hash, &item.0);
            if let Some((_, old)) = found.item_mut() {
                return Ok(Some(present(old, item.0, item.1)));
            }
            item = match self.add(hash, found, item) {
                Added::Placed => return Ok(None),
                Added::Full((key, value)) => return Err(Full { key, value }),
                Added::Again(item) => item,
            };
        }
    }

    /// Changes the value in place, and returns what `change` does.
    #[inline]
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        let mut found = self.find(self.hash(key), key);
        found.item_mut().map(|(_, value)| change(value))
    }

    /// Changes the value of a key that is there, and returns what `change` does; gives the key one if it is not there. No other
    /// thread sees the map in between.
    ///
    /// # Panics
    ///
    /// If the map does not grow and the item finds no place.
    pub fn upsert<R>(&self, key: K, make: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let hash = self.hash(&key);
        let mut found = self.find(hash, &key);
        if let Some((_, value)) = found.item_mut() {
            return Some(change(value));
        }
        let entered = match self.add(hash, found, (key, make())) {
            Added::Placed => Ok(None),
            Added::Full((key, value)) => Err(Full { key, value }),
            // Meanwhile another thread may have put the key in.
            Added::Again((key, value)) => self.enter(key, value, |old, key, value| {
                let result = change(old);
                (key, value, result)
            }),
        };
        match entered {
            Ok(entered) => entered.map(|(.., result)| result),
            Err(full) => panic!("{full}"),
        }
    }

    /// Returns a copy of the value; a key that is not there gets one first.
    ///
    /// # Panics
    ///
    /// If the map does not grow and the item finds no place.
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V
    where
        V: Clone,
    {
        if let Some(value) = self.get(&key) {
            return value;
        }
        let hash = self.hash(&key);
        let mut found = self.find(hash, &key);
        if let Some((_, value)) = found.item_mut() {
            return value.clone();
        }
        let value = make();
        let entered = match self.add(hash, found, (key, value.clone())) {
            Added::Placed => Ok(None),
            Added::Full((key, value)) => Err(Full { key, value }),
            Added::Again((key, value)) => self.enter(key, value, |old, key, new| (old.clone(), key, new)),
        };
        match entered {
            Ok(None) => value,
            Ok(Some((old, ..))) => old,
            Err(full) => panic!("{full}"),
        }
    }

    /// Takes the key's item out, and returns its value.
    #[inline]
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Takes the key's item out.
    #[inline]
    pub fn remove_entry<Q>(&self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        if let Some((_, mut first)) = self.lock_if_settled(hash, true)
            && let Some((slot, _)) = first.find(hash.tag(), |item| item.0.borrow() == key)
        {
            let item = first.take(slot);
            drop(first);
            self.count.add(-1);
            return item;
        }
        self.remove_elsewhere(hash, key)
    }

    /// Removes an item that is not in the first level, or not yet.
    #[inline(never)]
    fn remove_elsewhere<Q>(&self, hash: Hash, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        self.take(hash, self.find(hash, key))
    }

    /// Takes the key's item out if `condition` is true of its value. No other thread changes the value in between.
    pub fn remove_if<Q>(&self, key: &Q, condition: impl FnOnce(&V) -> bool) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let mut found = self.find(hash, key);
        if condition(&found.item_mut()?.1) { self.take(hash, found) } else { None }
    }
}
