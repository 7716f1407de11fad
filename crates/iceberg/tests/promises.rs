//! Tests of what the map promises about places, levels, panics, odd types.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pagewalk_iceberg::{IcebergMap, Level, Levels, Position, TryReserveError};

use crate::common::{Counted, Quality};

type Plain<V = u64> = IcebergMap<u64, V, Quality>;

/// The reference implementation's split at load 0.951 in 2^22 slots is 91.27 / 8.73 %, 7 items in the third level; an
/// independent simulation of the geometry gives 91.30 / 8.70.
#[test]
fn levels_split_as_published_at_load_0_951() {
    let (levels, items) = filled(1);
    assert_eq!(levels.items() as u64, items);
    assert!((levels.share(Level::First) - 0.913).abs() < 0.002, "{levels:?}");
    assert!((levels.share(Level::Second) - 0.087).abs() < 0.002, "{levels:?}");
    assert!(levels.share(Level::Third) < 1e-5, "{levels:?}");
}

/// Keys as programs have them, and a hasher that hashes nothing. (Some are spread more evenly than random numbers.)
#[test]
fn keys_with_patterns_split_hardly_worse() {
    for stride in [3, 8, 64, 4096, 1 << 21, 1 << 32, 1 << 44, 0x10_0001, 0x1_0000_0001] {
        let (levels, _) = filled(stride);
        assert!(levels.share(Level::First) > 0.905, "{stride}: {levels:?}");
        assert!(levels.share(Level::Third) < 1e-4, "{stride}: {levels:?}");
    }
}

/// A table of 2^20 slots at load 0.951 and the number of its items, multiples of `stride`.
fn filled(stride: u64) -> (Levels, u64) {
    let slots = 1 << 20;
    let map = Plain::fixed_with_hasher(slots * 96 / 100, Quality::Plain);
    let items = (map.slots() as f64 * 0.951) as u64;
    for key in 0..items {
        map.try_insert(key * stride, key).expect("a place");
    }
    (map.levels(), items)
}

#[test]
fn a_grown_table_is_as_full_as_a_new_one() {
    let map = Plain::with_hasher(Quality::Plain);
    let mut key = 0;
    while map.slots() < 1 << 18 || map.load() < 0.95 {
        map.insert(key, key);
        key += 1;
    }
    let levels = map.levels();
    assert!(levels.share(Level::First) > 0.90 && levels.share(Level::Third) < 1e-3, "{levels:?}");
}

/// `fixed(184_467_440_737_095_517)` made 72 slots: a hundred times as many items do not fit into 64 bits.
#[test]
fn more_items_than_a_table_has_are_refused_by_every_constructor() {
    for items in [184_467_440_737_095_517, usize::MAX, usize::MAX / 100 + 1, 4_700_000_000] {
        let refused = |make: fn(usize) -> IcebergMap<u64, u64>| {
            let error = catch_unwind(|| drop(make(items))).expect_err("it is refused");
            let text = error.downcast_ref::<String>().expect("a text");
            assert!(text.contains(&format!("for {items} items")), "{text}");
        };
        refused(IcebergMap::fixed);
        refused(IcebergMap::with_capacity);
        refused(|items| {
            let mut map = IcebergMap::new();
            map.insert(1, 1);
            map.reserve(items - 1);
            map
        });
        let mut map: IcebergMap<u64, u64> = IcebergMap::new();
        assert_eq!(map.try_reserve(items), Err(TryReserveError::TooMany { items }));
        assert_eq!(map.insert(1, 1), None, "it is as it was");
    }
    // More bytes than any machine has.
    let mut large: IcebergMap<u64, [u64; 1 << 10]> = IcebergMap::new();
    assert_eq!(large.try_reserve(1 << 32), Err(TryReserveError::NoMemory { items: 1 << 32 }));
}

#[test]
fn nothing_is_there_to_have_a_share() {
    assert_eq!(Plain::<u64>::with_hasher(Quality::Plain).levels().share(Level::First), 0.0);
}

/// An empty map was 9 KiB, which every move copied.
#[test]
fn a_map_is_small_and_gives_its_memory_back() {
    assert!(size_of::<IcebergMap<u64, u64>>() <= 2_048, "{}", size_of::<IcebergMap<u64, u64>>());
    let mut map = Plain::with_hasher(Quality::Plain);
    let empty = map.memory_bytes();
    (0..100_000).for_each(|key| assert_eq!(map.insert(key, key), None));
    let full = map.memory_bytes();
    map.retain(|key, _| key % 100 == 0);
    assert_eq!(map.memory_bytes(), full, "others may use the map");
    map.shrink_to_fit();
    assert!(map.memory_bytes() < full / 50, "{} of {full}", map.memory_bytes());
    assert!((0..100_000).all(|key| map.get(&key) == (key % 100 == 0).then_some(key)));
    map.clear();
    map.shrink_to_fit();
    assert_eq!(map.memory_bytes(), empty);
    (0..1_000).for_each(|key| assert_eq!(map.insert(key, key), None));
    assert_eq!(map.drain().count(), 1_000);
    assert_eq!((map.memory_bytes(), map.len()), (empty, 0));
}

/// Items of blocks behind the one where a drop had panicked stayed.
#[test]
fn clearing_leaves_nothing_behind_when_a_drop_panics() {
    struct Fragile(u32);
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    impl Drop for Fragile {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
            assert_ne!(self.0, 7, "that one breaks");
        }
    }
    let map = IcebergMap::new();
    (0..1_000).for_each(|key| map.insert_new(key, Fragile(key)).unwrap_or_else(|_| panic!("new")));
    assert!(catch_unwind(AssertUnwindSafe(|| map.clear())).is_err());
    assert_eq!((map.len(), map.levels().items(), DROPS.load(Ordering::Relaxed)), (0, 0, 1_000));
    assert!(map.insert(1, Fragile(1)).is_none());
}

#[test]
fn a_map_as_others() {
    let map = IcebergMap::from([(1u64, 10u64), (2, 20), (1, 30)]);
    let mut keys: Vec<u64> = map.keys().collect();
    keys.sort_unstable();
    assert_eq!((keys, map.values().filter(|&value| value == 30).count()), (vec![1, 2], 1));
    map.for_each_mut(|_, value| *value *= 2);
    let copy = map.clone();
    assert!(copy == map && copy.get(&1) == Some(60));
    copy.remove(&1);
    assert!(copy != map);
    assert_eq!(*map.entry(2).or_insert(7), 40);
    assert_eq!(*map.entry(3).or_default(), 0);
    let full = IcebergMap::<u64, u64>::fixed(70);
    (0..70).for_each(|key| assert_eq!(full.try_insert(key, key), Ok(None)));
    let mut copy = full.clone();
    assert!(copy == full);
    copy.shrink_to_fit();
    assert!(copy == full);
}

#[cfg(feature = "serde")]
#[test]
fn a_map_is_written_and_read_as_a_map() {
    let map: IcebergMap<String, Vec<u8>> =
        (0..=255).map(|number: u8| (number.to_string(), vec![number])).collect();
    let text = serde_json::to_string(&map).expect("text");
    let again: IcebergMap<String, Vec<u8>> = serde_json::from_str(&text).expect("a map");
    assert!(again == map);
    assert!(serde_json::from_str::<IcebergMap<String, Vec<u8>>>("[1]").is_err());
}

#[test]
fn items_keep_their_places_until_the_table_grows() {
    let map: Plain = Plain::with_capacity_and_hasher(5_000, Quality::Plain);
    let slots = map.slots();
    let mut places: HashMap<u64, Position> = HashMap::new();
    let mut removed = 0;
    for key in 0..40_000u64 {
        map.insert(key, 0);
        if map.slots() != slots {
            break;
        }
        places.insert(key, map.position_of(&key).expect("just inserted"));
        if places.len() > 4_600 {
            // Not the oldest, not the newest: holes everywhere.
            let gone = scattered(key) % key;
            removed += u64::from(map.remove(&gone).is_some());
            places.remove(&gone);
        }
        if key % 1_000 == 0 {
            map.retain(|key, value| {
                *value += 1;
                key % 997 != 3
            });
            places.retain(|key, _| key % 997 != 3);
            assert!(places.iter().all(|(key, place)| map.position_of(key).as_ref() == Some(place)));
        }
    }
    assert!(removed > 100, "there was a lot of coming and going");
    let levels = [Level::First, Level::Second];
    assert!(levels.iter().all(|&level| places.values().any(|place| place.level == level)));
    let mut distinct: Vec<_> = places.values().map(|place| (place.level, place.block, place.slot)).collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), places.len(), "no two items share a place");
}

fn scattered(number: u64) -> u64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 20
}

#[test]
fn memory_is_at_most_a_fifth_more_than_the_items() {
    for items in [100_000, 1_000_000, 1_234_567] {
        let map = IcebergMap::<u64, u64>::fixed(items * 96 / 95);
        (0..items as u64).for_each(|key| assert!(map.try_insert(key, 0).is_ok()));
        let bytes = map.memory_bytes() as f64 / items as f64;
        assert!(bytes < 1.2 * 16.0, "{bytes} bytes per item of {items}");
        assert!((map.load() - 0.95).abs() < 0.001, "{}", map.load());
    }
}

#[test]
fn a_panic_leaves_the_map_whole() {
    let count = Arc::new(());
    let map = Plain::with_hasher(Quality::Poor);
    (0..300).for_each(|key| assert!(map.insert(key, Counted::new(key, &count)).is_none()));
    let panics = |act: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
    for key in [0, 100, 299] {
        panics(&mut || map.get_with(&key, |_| panic!("reading")).unwrap_or(()));
        panics(&mut || map.update(&key, |_| panic!("changing")).unwrap_or(()));
        panics(&mut || drop(map.remove_if(&key, |_| panic!("deciding"))));
        panics(&mut || {
            map.upsert(1_000 + key, || panic!("making"), |_| ());
        });
        panics(&mut || {
            map.upsert(key, || Counted::new(0, &count), |_| panic!("changing"));
        });
    }
    let mut visited = 0;
    panics(&mut || {
        map.retain(|_, _| {
            visited += 1;
            assert!(visited < 150, "half way");
            visited % 2 == 0
        });
    });
    let left = 300 - 75;
    assert_eq!((map.len(), map.levels().items()), (left, left));
    assert_eq!(Arc::strong_count(&count), 1 + left);
    // Every lock is free again, and what is in the map can be taken out.
    assert_eq!((0..300).filter(|key| map.remove(key).is_some()).count(), left);
    assert!(map.is_empty() && Arc::strong_count(&count) == 1);
}

/// A key whose hash panics while a switch is on.
struct Touchy(u64, Arc<AtomicBool>);

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Touchy {}

impl std::hash::Hash for Touchy {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        assert!(!self.1.load(Ordering::Relaxed), "touched");
        self.0.hash(state);
    }
}

#[test]
fn a_hash_that_panics_during_a_doubling_loses_nothing() {
    let touchy = Arc::new(AtomicBool::new(false));
    let key = |number| Touchy(number, touchy.clone());
    let map = IcebergMap::with_capacity_and_hasher(600, Quality::Plain);
    for number in 0..6_000 {
        // The new key's own hash comes first; the next, of an item that is to be moved, panics.
        touchy.store(number % 3 == 0, Ordering::Relaxed);
        let other = Arc::new(AtomicBool::new(false));
        let entered = catch_unwind(AssertUnwindSafe(|| map.insert(Touchy(number, other), number)));
        touchy.store(false, Ordering::Relaxed);
        if map.remove(&Touchy(number, Default::default())).is_none() {
            assert!(entered.is_err());
        }
        map.insert(key(number), number);
    }
    assert_eq!(map.len(), 6_000);
    assert!((0..6_000).all(|number| map.get(&key(number)) == Some(number)));
}

#[test]
fn types_of_no_size_and_of_large_alignment_work() {
    let set: IcebergMap<(), ()> = IcebergMap::new();
    assert_eq!((set.insert((), ()), set.insert((), ()), set.len()), (None, Some(()), 1));
    assert_eq!((set.remove(&()), set.get(&())), (Some(()), None));

    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(256))]
    struct Wide(u64);
    let map: IcebergMap<u64, Wide> = (0..1_000).map(|key| (key, Wide(key))).collect();
    for key in 0..1_000 {
        let aligned = map.get_with(&key, |value| std::ptr::from_ref(value).is_aligned() && value.0 == key);
        assert_eq!(aligned, Some(true));
    }
    let strings: IcebergMap<String, Vec<u8>> = IcebergMap::new();
    strings.insert("one".into(), vec![1]);
    assert_eq!(strings.get("one"), Some(vec![1]));
    assert_eq!(format!("{strings:?}"), r#"{"one": [1]}"#);
}

#[test]
fn a_map_of_sendable_items_is_sendable() {
    fn check<T: Send + Sync>() {}
    check::<IcebergMap<u64, String>>();
}
