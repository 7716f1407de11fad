//! Any sequence of operations gives what the standard library's map gives, for good, poor and useless hashers, while the
//! map grows and shrinks; and every key and value is dropped once.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;

use pagewalk_elastic::ElasticMap;
use proptest::prelude::*;

/// How many different hashes there are: all, few, one.
#[derive(Clone, Copy, Debug)]
struct Hashes(u64);

struct Limited(u64, u64);

impl BuildHasher for Hashes {
    type Hasher = Limited;

    fn build_hasher(&self) -> Limited {
        Limited(0, self.0)
    }
}

impl Hasher for Limited {
    fn finish(&self) -> u64 {
        self.0 % self.1
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Counts what lives.
#[derive(Debug)]
struct Counted {
    number: u64,
    alive: Rc<Cell<i64>>,
}

impl Counted {
    fn new(number: u64, alive: &Rc<Cell<i64>>) -> Self {
        alive.set(alive.get() + 1);
        Self { number, alive: alive.clone() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl std::borrow::Borrow<u64> for Counted {
    fn borrow(&self) -> &u64 {
        &self.number
    }
}

#[derive(Clone, Debug)]
enum Act {
    Insert(u64),
    Get(u64),
    Change(u64),
    Remove(u64),
    /// Many at once, so that short sequences get through doublings.
    Fill(u64, u64),
    /// And through halvings.
    Drain(u64, u64),
    Walk,
    Clear,
}

fn act(keys: u64) -> impl Strategy<Value = Act> {
    let key = 0..keys;
    let range = (0..keys, 1..keys);
    prop_oneof![
        6 => key.clone().prop_map(Act::Insert),
        4 => key.clone().prop_map(Act::Get),
        3 => key.clone().prop_map(Act::Change),
        6 => key.prop_map(Act::Remove),
        4 => range.clone().prop_map(|(from, count)| Act::Fill(from, count)),
        3 => range.prop_map(|(from, count)| Act::Drain(from, count)),
        1 => Just(Act::Walk),
        1 => proptest::bool::weighted(0.2).prop_map(|clears| if clears { Act::Clear } else { Act::Walk }),
    ]
}

struct Pair {
    map: ElasticMap<Counted, Counted, Hashes>,
    model: HashMap<u64, u64>,
    alive: Rc<Cell<i64>>,
    /// Values that were ever set.
    values: u64,
}

impl Pair {
    fn new(hashes: Hashes) -> Self {
        let map = ElasticMap::with_hasher(hashes);
        Self { map, model: HashMap::new(), alive: Rc::default(), values: 0 }
    }

    fn insert(&mut self, key: u64) {
        self.values += 1;
        let (counted, value) = (Counted::new(key, &self.alive), Counted::new(self.values, &self.alive));
        let old = self.map.insert(counted, value).map(|value| value.number);
        assert_eq!(old, self.model.insert(key, self.values), "insert {key}");
    }

    fn remove(&mut self, key: u64) {
        let old = self.map.remove(&key).map(|value| value.number);
        assert_eq!(old, self.model.remove(&key), "remove {key}");
    }

    fn walk(&self) {
        let mut items: Vec<_> = self.map.iter().map(|(key, value)| (key.number, value.number)).collect();
        items.sort_unstable();
        let mut model: Vec<_> = self.model.iter().map(|(&key, &value)| (key, value)).collect();
        model.sort_unstable();
        assert_eq!(items, model);
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Insert(key) => self.insert(key),
            Act::Get(key) => {
                assert_eq!(self.map.get(&key).map(|value| value.number), self.model.get(&key).copied());
                assert_eq!(self.map.contains_key(&key), self.model.contains_key(&key));
            }
            Act::Change(key) => {
                let values =
                    [self.map.get_mut(&key).map(|value| &mut value.number), self.model.get_mut(&key)];
                let changed = values.map(|value| {
                    value.map(|value| {
                        *value ^= 1 << 40;
                        *value
                    })
                });
                assert_eq!(changed[0], changed[1]);
            }
            Act::Remove(key) => self.remove(key),
            Act::Fill(from, count) => (from..from + count).for_each(|key| self.insert(key)),
            Act::Drain(from, count) => (from..from + count).for_each(|key| self.remove(key)),
            Act::Walk => self.walk(),
            Act::Clear => {
                self.map.clear();
                self.model.clear();
            }
        }
        assert_eq!(self.map.len(), self.model.len());
        assert_eq!(self.map.is_empty(), self.model.is_empty());
        // A key and a value each.
        assert_eq!(self.alive.get(), 2 * self.model.len() as i64, "dropped once, and only when out");
    }
}

fn check(hashes: u64, acts: &[Act]) {
    let mut pair = Pair::new(Hashes(hashes));
    acts.iter().for_each(|act| pair.act(act));
    pair.walk();
    let alive = pair.alive.clone();
    drop(pair);
    assert_eq!(alive.get(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn good_hashes(acts in prop::collection::vec(act(20_000), 1..60)) {
        check(u64::MAX, &acts);
    }

    #[test]
    fn hashes_that_several_keys_have(acts in prop::collection::vec(act(10_000), 1..40)) {
        check(8000, &acts);
    }

    #[test]
    fn few_hashes(acts in prop::collection::vec(act(200), 1..100)) {
        check(5, &acts);
    }

    #[test]
    fn one_hash(acts in prop::collection::vec(act(100), 1..100)) {
        check(1, &acts);
    }
}

#[test]
fn a_collection_as_others() {
    let words = ["walk", "page", "walk", "frame"];
    let map: ElasticMap<String, usize> =
        words.iter().enumerate().map(|(at, word)| (word.to_string(), at)).collect();
    assert_eq!((map.len(), map["walk"], map.get("table")), (3, 2, None));
    let one: ElasticMap<u8, char> = ElasticMap::from_iter([(7, 'x')]);
    assert_eq!(format!("{one:?}"), "{7: 'x'}");
    let mut other: ElasticMap<String, usize> = ElasticMap::default();
    other.extend([("frame".to_string(), 3), ("page".to_string(), 1)]);
    assert_ne!(map, other);
    assert_eq!(other.insert("walk".to_string(), 2), None);
    assert_eq!(map, other);
    assert_eq!(map.values().sum::<usize>(), 6);
    fn is_send<T: Send + Sync>(_: &T) {}
    is_send(&map);
}

/// Items of no size, of one byte, and larger than a chunk of the table.
#[test]
fn items_of_any_size() {
    fn fill<V: Clone + PartialEq + std::fmt::Debug>(value: V, count: u16) {
        let mut map = ElasticMap::new();
        (0..count).for_each(|key| assert_eq!(map.insert(key, value.clone()), None));
        (0..count).for_each(|key| assert_eq!(map.get(&key), Some(&value), "{key}"));
        (0..count).for_each(|key| assert_eq!(map.remove(&key), Some(value.clone())));
    }
    fill((), 20_000);
    fill(1u8, 20_000);
    fill([7u64; 40], 5_000);
    fill([7u64; 3000], 200);
    let mut unit = ElasticMap::new();
    assert_eq!((unit.insert((), ()), unit.insert((), ())), (None, Some(())));
}
