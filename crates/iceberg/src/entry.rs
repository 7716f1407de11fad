//! The interfaces that users of other maps try first: entries, and values that are changed behind a lock.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash as KeyHash};
use std::ops::{Deref, DerefMut};

use crate::find::Found;
use crate::map::IcebergMap;

/// A key's value, which only the owner of this can read and change: its block is locked. The same thread must not use the map
/// while it lives: that may wait forever.
pub struct RefMut<'a, K, V> {
    found: Found<'a, K, V>,
}

impl<K, V> RefMut<'_, K, V> {
    /// Returns the key as it stands in the map.
    pub fn key(&self) -> &K {
        &self.item().0
    }

    fn item(&self) -> &(K, V) {
        self.found.item().expect("only made of an item that is there, which cannot go meanwhile")
    }
}

impl<K, V> Deref for RefMut<'_, K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.item().1
    }
}

impl<K, V> DerefMut for RefMut<'_, K, V> {
    fn deref_mut(&mut self) -> &mut V {
        let item = self.found.item_mut();
        &mut item.expect("only made of an item that is there, which cannot go meanwhile").1
    }
}

impl<K, V: fmt::Debug> fmt::Debug for RefMut<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A key of a map. It holds no lock: what is said of it is done by the last call, which may answer a lock ([`RefMut`]).
///
/// ```
/// let visits = pagewalk_iceberg::IcebergMap::new();
/// for page in [1, 2, 1] {
///     *visits.entry(page).or_insert(0) += 1;
/// }
/// visits.entry(2).and_modify(|count| *count += 10).or_insert(1);
/// assert_eq!((visits.get(&1), visits.get(&2)), (Some(2), Some(11)));
/// ```
#[must_use = "an entry does nothing by itself"]
pub struct Entry<'a, K, V, S> {
    map: &'a IcebergMap<K, V, S>,
    key: K,
}

/// A key of a map, and how its value is to be changed if it has one.
#[must_use = "nothing is changed before `or_insert`, `or_insert_with`, `or_default` or `or_nothing`"]
pub struct Modify<'a, K, V, S, F> {
    map: &'a IcebergMap<K, V, S>,
    key: K,
    change: F,
}

impl<'a, K: KeyHash + Eq, V, S: BuildHasher> Entry<'a, K, V, S> {
    /// Returns the key of the entry.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Says what to do with the value if there is one.
    pub fn and_modify<F: FnOnce(&mut V)>(self, change: F) -> Modify<'a, K, V, S, F> {
        Modify { map: self.map, key: self.key, change }
    }

    /// Gives the key this value unless it has one; locks what it has then.
    ///
    /// # Panics
    ///
    /// If the map does not grow and the item finds no place.
    pub fn or_insert(self, value: V) -> RefMut<'a, K, V> {
        self.or_insert_with(|| value)
    }

    /// Returns the value; a key that has none gets one that is made now.
    ///
    /// # Panics
    ///
    /// If the map does not grow and the item finds no place.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> RefMut<'a, K, V> {
        let Self { map, key } = self;
        let hash = map.hash(&key);
        let found = map.find(hash, &key);
        if found.item().is_some() {
            return RefMut { found };
        }
        drop(found);
        // Meanwhile another thread may put the key in.
        match map.find_or_add(hash, (key, make())) {
            Ok(found) => RefMut { found },
            Err(full) => panic!("{full}"),
        }
    }

    /// Returns the value; a key that has none gets the type's default first.
    ///
    /// # Panics
    ///
    /// If the map does not grow and the item finds no place.
    pub fn or_default(self) -> RefMut<'a, K, V>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

impl<K: KeyHash + Eq, V, S: BuildHasher, F: FnOnce(&mut V)> Modify<'_, K, V, S, F> {
    /// Changes the key's value, or gives it this one.
    ///
    /// # Panics
    ///
    /// If the map does not grow and the item finds no place.
    pub fn or_insert(self, value: V) {
        self.or_insert_with(|| value);
    }

    /// Puts in a value that is made now if the key has none.
    ///
    /// # Panics
    ///
    /// If the map does not grow and the item finds no place.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) {
        self.map.upsert(self.key, make, self.change);
    }

    /// Puts in the type's default if the key has none.
    ///
    /// # Panics
    ///
    /// If the map does not grow and the item finds no place.
    pub fn or_default(self)
    where
        V: Default,
    {
        self.or_insert_with(V::default);
    }

    /// Changes the value if there is one; whether there is.
    pub fn or_nothing(self) -> bool {
        self.map.update(&self.key, self.change).is_some()
    }
}

impl<K: KeyHash + Eq, V, S: BuildHasher> IcebergMap<K, V, S> {
    /// Returns the entry of a key, through which its value can be read, changed and put in:
    pub fn entry(&self, key: K) -> Entry<'_, K, V, S> {
        Entry { map: self, key }
    }

    /// Returns the value, to be read and changed until the guard is dropped. [`update`](Self::update) needs no guard,
    /// and cannot hold the lock for too long.
    pub fn get_mut<Q>(&self, key: &Q) -> Option<RefMut<'_, K, V>>
    where
        K: Borrow<Q>,
        Q: KeyHash + Eq + ?Sized,
    {
        let found = self.find(self.hash(key), key);
        found.item().is_some().then_some(RefMut { found })
    }
}
