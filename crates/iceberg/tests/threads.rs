//! Real threads on a map that grows under them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewalk_iceberg::IcebergMap;

use crate::common::Quality;

#[test]
fn threads_with_keys_of_their_own_do_not_disturb_each_other() {
    let map: IcebergMap<u64, u64> = IcebergMap::new();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let map = &map;
            scope.spawn(move || {
                let key = |number: u64| number * 4 + thread;
                for number in 0..30_000 {
                    assert_eq!(map.insert(key(number), number), None);
                    if number % 3 == 0 {
                        assert_eq!(map.remove(&key(number / 2)), Some(number / 2));
                        assert_eq!(map.insert_new(key(number / 2), number / 2), Ok(()));
                    }
                    assert_eq!(map.get(&key(number / 3)), Some(number / 3), "thread {thread}");
                }
            });
        }
    });
    assert_eq!(map.len(), 120_000);
    assert_eq!(map.levels().items(), 120_000);
}

#[test]
fn additions_of_all_threads_count() {
    let map: IcebergMap<u64, u64, Quality> = IcebergMap::with_hasher(Quality::Plain);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let map = &map;
            scope.spawn(move || {
                for number in 0..40_000u64 {
                    map.upsert((number * (2 * thread + 1)) % 5_000, || 1u64, |value| *value += 1);
                }
            });
        }
    });
    let mut sum = 0;
    map.for_each(|_, value| sum += value);
    assert_eq!((sum, map.len()), (160_000, 5_000));
}

#[test]
fn walks_see_what_stays_exactly_once_while_the_table_grows() {
    let map: IcebergMap<u64, u64, Quality> = IcebergMap::with_hasher(Quality::Plain);
    let stay = 2_000;
    (0..stay).for_each(|key| assert_eq!(map.insert(key, key), None));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in stay..150_000 {
                map.insert(key, key);
                if key % 3 == 0 {
                    map.remove(&key);
                }
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let mut seen = HashMap::new();
            for (key, value) in &map {
                assert_eq!(key, value);
                *seen.entry(key).or_insert(0) += 1;
            }
            assert!((0..stay).all(|key| seen.get(&key) == Some(&1)));
            let mut visited = vec![0; stay as usize];
            map.retain(|&key, _| {
                if let Some(visits) = visited.get_mut(key as usize) {
                    *visits += 1;
                }
                true
            });
            assert!(visited.iter().all(|&visits| visits == 1));
        }
    });
}
