//! Maps as serde writes and reads them: as maps, in no order.

use std::fmt;
use std::hash::{BuildHasher, Hash as KeyHash};
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::map::IcebergMap;

/// Items that are reserved for at most before they are read: what is read may lie about its length.
const MOST_RESERVED: usize = 4_096;

impl<K, V, S> Serialize for IcebergMap<K, V, S>
where
    K: KeyHash + Eq + Clone + Serialize,
    V: Clone + Serialize,
    S: BuildHasher,
{
    /// No lock is held while an item is written.
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        // First all items, since a format may want their number before, which may change.
        let items: Vec<(K, V)> = self.iter().collect();
        serializer.collect_map(items.iter().map(|(key, value)| (key, value)))
    }
}

struct Items<K, V, S>(PhantomData<IcebergMap<K, V, S>>);

impl<'de, K, V, S> Visitor<'de> for Items<K, V, S>
where
    K: KeyHash + Eq + Deserialize<'de>,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    type Value = IcebergMap<K, V, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let expected = items.size_hint().unwrap_or(0).min(MOST_RESERVED);
        let map = IcebergMap::with_capacity_and_hasher(expected, S::default());
        while let Some((key, value)) = items.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}

impl<'de, K, V, S> Deserialize<'de> for IcebergMap<K, V, S>
where
    K: KeyHash + Eq + Deserialize<'de>,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    /// Of several items with one key, the last value counts.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Items(PhantomData))
    }
}
