//! Maps as serde writes and reads them: as maps, in no order.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::map::ElasticMap;

/// Items that are reserved for at most before they are read: what is read may lie about its length.
const MOST_RESERVED: usize = 4_096;

impl<K, V, S> Serialize for ElasticMap<K, V, S>
where
    K: Serialize,
    V: Serialize,
{
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_map(self)
    }
}

struct Items<K, V, S>(PhantomData<ElasticMap<K, V, S>>);

impl<'de, K, V, S> Visitor<'de> for Items<K, V, S>
where
    K: Hash + Eq + Deserialize<'de>,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    type Value = ElasticMap<K, V, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let expected = items.size_hint().unwrap_or(0).min(MOST_RESERVED);
        let mut map = ElasticMap::with_capacity_and_hasher(expected, S::default());
        while let Some((key, value)) = items.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}

impl<'de, K, V, S> Deserialize<'de> for ElasticMap<K, V, S>
where
    K: Hash + Eq + Deserialize<'de>,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    /// Of several items with one key, the last value counts.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Items(PhantomData))
    }
}
