//! The promises in numbers: items moved, memory, no pause.

use std::hash::{BuildHasherDefault, Hasher};

use pagewalk_cuckoo::Keyed;
use pagewalk_cuckoo::random::mix;

use crate::ElasticMap;
use crate::item::Item;
use crate::map::EQUAL_HASHES;
use crate::memory::Memory;

/// A number is its own hash: runs repeat.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers")
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

type Map = ElasticMap<u64, u64, BuildHasherDefault<Itself>>;

/// Bytes of a chunk of a [`Map`].
fn chunk_bytes() -> usize {
    Item::<u64, u64>::CHUNK_SLOTS * Memory::of::<Item<u64, u64>>().slot_bytes as usize
}

/// Items that the table has moved from one slot to another.
fn moved(map: &Map) -> u64 {
    map.table.as_ref().map_or(0, |table| {
        let counts = table.counts();
        counts.inserted.sum + counts.rehashed.sum + counts.moved_in_place
    })
}

#[test]
fn an_insertion_moves_few_items_and_takes_no_more_memory_than_promised() {
    let mut map = Map::default();
    let (mut before, mut most, mut sum, mut fullest) = (0, 0, 0, 0.0f64);
    let (mut last_bytes, mut worst) = (0, 0.0f64);
    for key in 0..1_000_000u64 {
        map.insert(mix(key), key);
        let now = moved(&map);
        most = most.max(now - before);
        sum += now - before;
        before = now;
        // One chunk at a time, or a small way that moves to a larger array.
        let bytes = map.memory_bytes();
        assert!(bytes.abs_diff(last_bytes) <= chunk_bytes(), "{last_bytes} to {bytes}");
        last_bytes = bytes;
        if key > 10_000 {
            let per_item = bytes as f64 / map.len() as f64;
            worst = worst.max(per_item);
            fullest = fullest.max(map.len() as f64 / map.slots() as f64);
        }
    }
    println!(
        "{most} moved at most, {} in the mean, {fullest} full at most, {worst} bytes per item",
        sum as f64 / 1e6
    );
    assert!(most <= 100, "{most} items moved by one insertion");
    assert!(sum < 2_500_000, "{sum} moves");
    assert!(map.rest.is_empty());
    assert!((0.79..=0.81).contains(&fullest), "{fullest}");
    assert!(worst < 36.0, "{worst} bytes per item");
    let counts = map.table.as_ref().unwrap().counts();
    assert_eq!((counts.forced, counts.out_of_place), (0, 0));
}

#[test]
fn a_map_that_empties_gives_memory_back_a_chunk_at_a_time() {
    let mut map: Map = (0..300_000).map(|key| (mix(key), key)).collect();
    let chunk = chunk_bytes();
    let (mut bytes, most) = (map.memory_bytes(), map.memory_bytes());
    for key in 0..300_000 {
        assert_eq!(map.remove(&mix(key)), Some(key));
        // A small way moves to a smaller array, and has both meanwhile.
        assert!(map.memory_bytes() <= bytes + chunk / 2 && map.memory_bytes() + chunk >= bytes);
        bytes = map.memory_bytes();
    }
    assert!(map.is_empty() && bytes <= most / 20, "{bytes} bytes of {most} are left");
    let counts = map.table.as_ref().unwrap().counts();
    assert_eq!(counts.turned_round, 0);
    // It fills up again as soon as it has begun to shrink.
    let mut map: Map = (0..300_000).map(|key| (mix(key), key)).collect();
    for round in 0..20 {
        let from = round * 1_000_000;
        let downsizes = |map: &Map| map.table.as_ref().unwrap().counts().downsizes;
        let before = downsizes(&map);
        let keys: Vec<u64> = map.keys().copied().collect();
        let gone = keys.iter().take_while(|key| {
            map.remove(key);
            downsizes(&map) == before
        });
        let gone = gone.count() as u64;
        map.extend((from..from + gone + 1).map(|key| (!mix(key), key)));
    }
    assert_eq!(map.table.as_ref().unwrap().counts().turned_round, 0);
}

/// Keys in this hasher's table stand in each other's way; only few come into it, and look-ups stay right.
#[test]
fn equal_hashes_beyond_what_the_table_takes_are_kept_elsewhere_and_come_in_later() {
    #[derive(Default)]
    struct Low(u64);
    impl Hasher for Low {
        fn finish(&self) -> u64 {
            self.0 & 7
        }
        fn write(&mut self, _: &[u8]) {}
        fn write_u64(&mut self, number: u64) {
            self.0 = number;
        }
    }
    let mut map = ElasticMap::<u64, u64, BuildHasherDefault<Low>>::default();
    map.extend((0..80).map(|key| (key, key)));
    assert_eq!((map.len(), map.rest.len()), (80, 80 - 8 * EQUAL_HASHES));
    assert!((0..80).all(|key| map.get(&key) == Some(&key)));
    let slots = map.slots();
    for key in 0..72 {
        assert_eq!(map.remove(&key), Some(key));
    }
    assert!((72..80).all(|key| map[&key] == key));
    assert_eq!((map.len(), map.rest.len()), (8, 0), "they came in");
    assert_eq!(map.slots(), slots, "and the table did not grow for them");
}

#[test]
fn an_empty_map_has_no_memory() {
    let mut map = ElasticMap::new();
    assert_eq!((map.memory_bytes(), map.slots(), map.get(&1)), (0, 0, None));
    assert_eq!(map.remove(&1), None);
    map.insert(1, 1);
    assert!(map.memory_bytes() > 0);
    map.clear();
    assert_eq!((map.memory_bytes(), map.len()), (0, 0));
    assert_eq!(map.insert(1, 2), None);
}
