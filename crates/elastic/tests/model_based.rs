//! Any sequence of operations gives what the standard library's map gives, for good, poor and useless hashers, while the
//! map grows and shrinks; and every key and value is dropped once.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pagewalk_elastic::{ElasticMap, Entry, TryReserveError};
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

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(self.number, &self.alive)
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
    Entry(u64),
    Upsert(u64),
    RemoveEntry(u64),
    Retain(u64),
    Reserve(usize),
    Shrink,
    Copy,
    /// By an iterator that is dropped after so many items.
    DrainAll(usize),
}

fn act(keys: u64) -> impl Strategy<Value = Act> {
    let key = 0..keys;
    let range = (0..keys, 1..keys);
    prop_oneof![
        6 => key.clone().prop_map(Act::Insert),
        4 => key.clone().prop_map(Act::Get),
        3 => key.clone().prop_map(Act::Change),
        6 => key.clone().prop_map(Act::Remove),
        3 => key.clone().prop_map(Act::Entry),
        2 => key.clone().prop_map(Act::Upsert),
        2 => key.prop_map(Act::RemoveEntry),
        1 => (2..6u64).prop_map(Act::Retain),
        1 => (0..30_000usize).prop_map(Act::Reserve),
        1 => Just(Act::Shrink),
        1 => Just(Act::Copy),
        1 => proptest::bool::weighted(0.2).prop_map(|drains| if drains { Act::DrainAll(10) } else { Act::Walk }),
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
        let walk = self.map.iter();
        assert_eq!((walk.len(), walk.clone().count()), (self.model.len(), self.model.len()));
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
                assert_eq!(self.map.memory_bytes(), 0);
            }
            Act::Entry(key) => {
                self.values += 1;
                let (counted, value) =
                    (Counted::new(key, &self.alive), Counted::new(self.values, &self.alive));
                let entry = self.map.entry(counted);
                assert_eq!(entry.key().number, key);
                let changed = entry.and_modify(|value| value.number += 1).or_insert(value);
                changed.number += 2;
                let model = self.model.entry(key).and_modify(|number| *number += 1).or_insert(self.values);
                *model += 2;
                assert_eq!(changed.number, *model);
            }
            Act::Upsert(key) => {
                self.values += 1;
                let (alive, number) = (self.alive.clone(), self.values);
                let counted = Counted::new(key, &alive);
                let changed = self.map.upsert(
                    counted,
                    || Counted::new(number, &alive),
                    |value| {
                        value.number += 5;
                        value.number
                    },
                );
                let expected = self.model.get_mut(&key).map(|number| {
                    *number += 5;
                    *number
                });
                self.model.entry(key).or_insert(number);
                assert_eq!(changed, expected);
            }
            Act::RemoveEntry(key) => {
                let removed = match self.map.entry(Counted::new(key, &self.alive)) {
                    Entry::Occupied(mut entry) => {
                        assert_eq!((entry.key().number, entry.get().number), (key, self.model[&key]));
                        entry.get_mut().number += 1;
                        let (gone, value) = entry.remove_entry();
                        Some((gone.number, value.number - 1))
                    }
                    Entry::Vacant(entry) => {
                        assert_eq!(entry.into_key().number, key);
                        None
                    }
                };
                assert_eq!(removed, self.model.remove_entry(&key));
            }
            Act::Retain(of) => {
                let keep = |key: u64, number: &mut u64| {
                    *number += 1;
                    !key.is_multiple_of(of)
                };
                self.map.retain(|key, value| keep(key.number, &mut value.number));
                self.model.retain(|&key, number| keep(key, number));
                self.map.iter_mut().for_each(|(_, value)| value.number += 1);
                self.model.values_mut().for_each(|number| *number += 1);
            }
            Act::Reserve(count) => {
                self.map.reserve(count);
                assert!(self.map.capacity() >= self.model.len() + count);
            }
            Act::Shrink => {
                let before = self.map.memory_bytes();
                self.map.shrink_to_fit();
                assert!(self.map.memory_bytes() <= before);
            }
            Act::Copy => {
                let mut copy = self.map.clone();
                assert_eq!(copy, self.map);
                std::mem::swap(&mut copy, &mut self.map);
                let items = copy.into_iter();
                assert_eq!(items.len(), self.model.len());
                items.for_each(|(key, value)| assert_eq!(self.model[&key.number], value.number));
            }
            Act::DrainAll(count) => {
                let drain = self.map.drain();
                assert_eq!(drain.len(), self.model.len());
                for (key, value) in drain.take(count) {
                    assert_eq!(self.model.remove(&key.number), Some(value.number));
                }
                self.model.clear();
                assert_eq!(self.map.memory_bytes(), 0);
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
    let one: ElasticMap<u16, u8> = ElasticMap::from_iter([(7, 8)]);
    assert_eq!(format!("{one:?}"), "{7: 8}");
    let mut other: ElasticMap<String, usize> = ElasticMap::default();
    other.extend([("frame".to_string(), 3), ("page".to_string(), 1)]);
    assert_ne!(map, other);
    assert_eq!(other.insert("walk".to_string(), 2), None);
    assert_eq!(map, other);
    assert_eq!(map.values().sum::<usize>(), 6);
    for (_, value) in &mut other {
        *value *= 2;
    }
    assert_eq!((&other).into_iter().map(|(_, value)| value).sum::<usize>(), 12);
    other.values_mut().for_each(|value| *value += 1);
    assert_eq!((other.clone().into_values().sum::<usize>(), other.into_keys().count()), (15, 3));
    let mut numbers = ElasticMap::from([(1u64, 2u64), (3, 4)]);
    let more = ElasticMap::from([(3, 5)]);
    numbers.extend(&more);
    assert_eq!((numbers[&1], numbers[&3]), (2, 5));
    fn is_send<T: Send + Sync>(_: &T) {}
    is_send(&map);
}

/// `clear` of items one of whose drops panics left 199,994 of 200,000 behind, and `memory_bytes` wrapped.
#[test]
fn a_map_is_empty_after_a_panic_while_it_is_cleared() {
    struct Fragile(#[expect(dead_code, reason = "it is dropped")] Counted, bool);
    impl Drop for Fragile {
        fn drop(&mut self) {
            assert!(!self.1, "fragile");
        }
    }
    let alive = Rc::default();
    for clear in [ElasticMap::clear, |map: &mut ElasticMap<u64, Fragile>| drop(map.drain())] {
        let mut map = ElasticMap::new();
        for key in 0..20_000 {
            map.insert(key, Fragile(Counted::new(key, &alive), key == 6));
        }
        let cleared = catch_unwind(AssertUnwindSafe(|| clear(&mut map)));
        assert!(cleared.is_err());
        assert_eq!((map.len(), map.memory_bytes(), map.iter().count()), (0, 0, 0));
        assert_eq!(alive.get(), 0, "the others were dropped nevertheless");
        assert!(map.insert(1, Fragile(Counted::new(1, &alive), false)).is_none());
        map.remove(&1);
    }
    // A closure that panics, or a drop: what has not been looked at stays, and is counted.
    let mut map: ElasticMap<u64, Fragile> =
        (0..5_000).map(|key| (key, Fragile(Counted::new(key, &alive), key == 70))).collect();
    assert!(catch_unwind(AssertUnwindSafe(|| map.retain(|&key, _| key != 70))).is_err());
    assert_eq!((map.len(), map.iter().count(), alive.get()), (4_999, 4_999, 4_999));
    assert!(
        catch_unwind(AssertUnwindSafe(|| map.retain(|&key, _| {
            assert!(key != 80);
            false
        })))
        .is_err()
    );
    assert_eq!(map.len(), map.iter().count());
    assert!(map.contains_key(&80) && alive.get() == map.len() as i64);
}

/// One item took 139 KB: four chunks.
#[test]
fn a_small_map_is_small() {
    let mut map = ElasticMap::new();
    map.insert(1u64, 1u64);
    assert!(map.memory_bytes() < 1_000, "{}", map.memory_bytes());
    map.extend((0..100).map(|key| (key, key)));
    assert!(map.memory_bytes() < 10_000, "{}", map.memory_bytes());
}

#[test]
fn room_is_there_when_it_is_asked_for() {
    let mut map = ElasticMap::with_capacity(100_000);
    let slots = map.slots();
    (0..100_000u64).for_each(|key| assert_eq!(map.insert(key, key), None));
    assert_eq!(map.slots(), slots, "it has not grown");
    map.retain(|&key, _| key < 10);
    assert_eq!(map.slots(), slots, "what is reserved stays");
    map.shrink_to_fit();
    assert!(map.memory_bytes() < 2_000 && (0..10).all(|key| map[&key] == key), "{}", map.memory_bytes());
    for items in [usize::MAX, usize::MAX / 1000 + 1, 4 << 30] {
        assert_eq!(map.try_reserve(items), Err(TryReserveError::TooMany { items: items.saturating_add(10) }));
        assert!(catch_unwind(|| ElasticMap::<u64, u64>::with_capacity(items)).is_err());
    }
    let mut large: ElasticMap<u64, [u64; 1 << 13]> = ElasticMap::new();
    assert_eq!(large.try_reserve(3 << 30), Err(TryReserveError::NoMemory { items: 3 << 30 }));
    assert_eq!((large.memory_bytes(), large.len(), map.len()), (0, 0, 10));
}

#[cfg(feature = "serde")]
#[test]
fn a_map_is_written_and_read_as_a_map() {
    let map: ElasticMap<String, usize> = (0..500).map(|number| (number.to_string(), number)).collect();
    let text = serde_json::to_string(&map).expect("text");
    let again: ElasticMap<String, usize> = serde_json::from_str(&text).expect("a map");
    assert_eq!(again, map);
    assert!(serde_json::from_str::<ElasticMap<String, usize>>("[1]").is_err());
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
