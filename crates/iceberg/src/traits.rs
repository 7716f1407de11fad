//! The standard traits that a collection is expected to have.

use std::fmt;
use std::hash::{BuildHasher, Hash as KeyHash};

use crate::iterate::Iter;
use crate::map::IcebergMap;

impl<K, V, S: Default> Default for IcebergMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

/// Prints a map of the items, as [`IcebergMap::for_each`] sees them.
impl<K: KeyHash + Eq + fmt::Debug, V: fmt::Debug, S: BuildHasher> fmt::Debug for IcebergMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        self.for_each(|key, value| {
            map.entry(key, value);
        });
        map.finish()
    }
}

/// Extends the map; of several items with one key, the last value counts.
impl<K: KeyHash + Eq, V, S: BuildHasher> Extend<(K, V)> for IcebergMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, items: I) {
        (&*self).extend(items);
    }
}

/// Extends a shared map: other threads may use the map meanwhile.
impl<K: KeyHash + Eq, V, S: BuildHasher> Extend<(K, V)> for &IcebergMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, items: I) {
        for (key, value) in items {
            self.insert(key, value);
        }
    }
}

impl<K: KeyHash + Eq, V, S: BuildHasher + Default> FromIterator<(K, V)> for IcebergMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let items = items.into_iter();
        let map = Self::with_capacity_and_hasher(items.size_hint().0, S::default());
        (&map).extend(items);
        map
    }
}

impl<K: KeyHash + Eq, V, const N: usize> From<[(K, V); N]> for IcebergMap<K, V> {
    fn from(items: [(K, V); N]) -> Self {
        items.into_iter().collect()
    }
}

/// The items that the map has meanwhile, as [`IcebergMap::iter`] finds them; the copy grows if the map does.
impl<K: KeyHash + Eq + Clone, V: Clone, S: BuildHasher + Clone> Clone for IcebergMap<K, V, S> {
    fn clone(&self) -> Self {
        let items = if self.growth.grows() { self.len() } else { self.capacity() };
        let map = match self.growth.grows() {
            true => Self::with_capacity_and_hasher(items, self.hasher().clone()),
            false => Self::fixed_with_hasher(items, self.hasher().clone()),
        };
        (&map).extend(self);
        map
    }
}

/// The same items, whatever the order and the hashers. Changes that happen meanwhile are seen or not.
impl<K: KeyHash + Eq, V: PartialEq, S: BuildHasher, T: BuildHasher> PartialEq<IcebergMap<K, V, T>>
    for IcebergMap<K, V, S>
where
    K: Clone,
    V: Clone,
{
    fn eq(&self, other: &IcebergMap<K, V, T>) -> bool {
        self.len() == other.len()
            && self.iter().all(|(key, value)| other.get_with(&key, |same| *same == value) == Some(true))
    }
}

impl<'a, K: KeyHash + Eq + Clone, V: Clone, S: BuildHasher> IntoIterator for &'a IcebergMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = Iter<'a, K, V, S>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
