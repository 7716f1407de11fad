//! The standard traits that a collection is expected to have.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Index;

use crate::item::Item;
use crate::map::ElasticMap;

impl<K, V, S: Default> Default for ElasticMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for ElasticMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Clones the map without a call of the keys' `Hash` and `Eq`. The copy has room for its items, and not for more.
impl<K: Clone, V: Clone, S: BuildHasher + Clone> Clone for ElasticMap<K, V, S> {
    fn clone(&self) -> Self {
        let mut copy = Self::with_capacity_and_hasher(self.len(), self.hasher.clone());
        let mut items = self.iter();
        while let Some(Item { word, key, value }) = items.items() {
            copy.place_counted(Item { word: *word, key: key.clone(), value: value.clone() });
        }
        copy.keep_no_room();
        copy
    }
}

impl<K: Hash + Eq, V, const N: usize> From<[(K, V); N]> for ElasticMap<K, V> {
    fn from(items: [(K, V); N]) -> Self {
        items.into_iter().collect()
    }
}

/// Copies of the items.
impl<'a, K: Hash + Eq + Copy, V: Copy, S: BuildHasher> Extend<(&'a K, &'a V)> for ElasticMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (&'a K, &'a V)>>(&mut self, items: I) {
        self.extend(items.into_iter().map(|(&key, &value)| (key, value)));
    }
}

/// Extends the map; of several items with one key, the last value counts.
impl<K: Hash + Eq, V, S: BuildHasher> Extend<(K, V)> for ElasticMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, items: I) {
        for (key, value) in items {
            self.insert(key, value);
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Default> FromIterator<(K, V)> for ElasticMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut map = Self::default();
        map.extend(items);
        map
    }
}

impl<K, V, Q, S> Index<&Q> for ElasticMap<K, V, S>
where
    K: Hash + Eq + Borrow<Q>,
    Q: Hash + Eq + ?Sized,
    S: BuildHasher,
{
    type Output = V;

    /// Returns the value of a key.
    ///
    /// If the key is not in the map.
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no item of this key in the map")
    }
}

/// The same items, whatever the order and the hashers.
impl<K: Hash + Eq, V: PartialEq, S: BuildHasher, T: BuildHasher> PartialEq<ElasticMap<K, V, T>>
    for ElasticMap<K, V, S>
{
    fn eq(&self, other: &ElasticMap<K, V, T>) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Hash + Eq, V: Eq, S: BuildHasher> Eq for ElasticMap<K, V, S> {}
