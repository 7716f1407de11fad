//! Every interleaving that counts, as far as random schedules find them: the crate's sources, compiled with the
//! atomics of the model checker `shuttle`.
//!
//! Each test runs its threads under many schedules and accepts what some order of the operations would give.

#![allow(dead_code, unreachable_pub)] // The sources, without the code that uses them.

#[path = "../../src/api.rs"]
mod api;
#[path = "../../src/chain.rs"]
mod chain;
#[path = "../../src/change.rs"]
mod change;
#[path = "../../src/count.rs"]
mod count;
#[path = "../../src/entry.rs"]
mod entry;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/filter.rs"]
mod filter;
#[path = "../../src/find.rs"]
mod find;
#[path = "../../src/grow.rs"]
mod grow;
#[path = "../../src/guess.rs"]
mod guess;
#[path = "../../src/iterate.rs"]
mod iterate;
#[path = "../../src/lock.rs"]
mod lock;
#[path = "../../src/map.rs"]
mod map;
#[path = "../../src/place.rs"]
mod place;
#[path = "../../src/store.rs"]
#[allow(unsafe_code)] // Memory, and nothing else.
mod store;
mod sync;
#[path = "../../src/tags.rs"]
mod tags;
#[path = "../../src/traits.rs"]
mod traits;
#[path = "../../src/walk.rs"]
mod walk;

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use map::IcebergMap;
use shuttle::thread;

/// The key itself: schedules repeat.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Map = IcebergMap<u64, u64, BuildHasherDefault<Same>>;

/// A map of one block with so many items, 69 of which make it grow.
fn filled(items: u64) -> Arc<Map> {
    let map = Map::with_hasher(BuildHasherDefault::default());
    (0..items).for_each(|key| assert_eq!(map.insert(key, key), None));
    Arc::new(map)
}

/// Runs `test` under many schedules, of two kinds: all random, and with few changes of the running thread.
fn check(test: fn()) {
    shuttle::check_random(test, 300);
    shuttle::check_pct(test, 300, 3);
}

fn spawn<R, F>(map: &Arc<Map>, act: F) -> thread::JoinHandle<R>
where
    R: Send + 'static,
    F: FnOnce(&Map) -> R + Send + 'static,
{
    let map = map.clone();
    thread::spawn(move || act(&map))
}

fn join<R>(thread: thread::JoinHandle<R>) -> R {
    thread.join().expect("a thread without a panic")
}

/// All keys from 0 on and no others, each once.
fn holds_exactly(map: &Map, keys: u64) {
    let mut seen: Vec<u64> = map.iter().map(|(key, _)| key).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..keys).collect::<Vec<_>>());
    assert_eq!((map.len() as u64, map.levels().items() as u64), (keys, keys));
    assert!((0..keys).all(|key| map.contains_key(&key)));
}

#[test]
fn one_of_two_insertions_of_a_key_is_first() {
    // In the first level, and where the second begins.
    for items in [0, 64] {
        let test = move || {
            let map = filled(items);
            let other = spawn(&map, move |map| map.insert(items, 1));
            let mine = map.insert(items, 2);
            let others = join(other);
            let last = map.get(&items);
            assert!(matches!((mine, others, last), (None, Some(2), Some(1)) | (Some(1), None, Some(2))));
        };
        shuttle::check_random(test, 300);
        shuttle::check_pct(test, 300, 3);
    }
}

#[test]
fn entries_of_a_key_are_one_item_which_each_thread_has_alone() {
    // In the first level, where the second begins, and where the table grows.
    for items in [0, 64, 68] {
        let test = move || {
            let map = filled(items);
            let add = move |map: &Map, key| {
                let mut value = map.entry(key).or_insert(0);
                let seen = *value;
                thread::yield_now();
                *value = seen + 1;
            };
            let other = spawn(&map, move |map| (items..items + 2).for_each(|key| add(map, key)));
            add(&map, items);
            join(other);
            assert_eq!((map.get(&items), map.get(&(items + 1))), (Some(2), Some(1)));
            holds_exactly(&map, items + 2);
        };
        shuttle::check_random(test, 300);
        shuttle::check_pct(test, 300, 3);
    }
}

#[test]
fn only_one_new_insertion_of_a_key_succeeds() {
    check(|| {
        let map = filled(64);
        let other = spawn(&map, |map| map.insert_new(64, 1).is_ok());
        let mine = map.insert_new(64, 2).is_ok();
        assert!(mine != join(other));
        assert_eq!(map.get(&64), Some(if mine { 2 } else { 1 }));
    });
}

#[test]
fn a_look_up_sees_an_item_before_or_after_its_removal() {
    check(|| {
        let map = filled(70);
        let remover = spawn(&map, |map| map.remove(&69));
        let inserter = spawn(&map, |map| map.insert(200, 200));
        let seen = map.get(&69);
        assert!(seen.is_none() || seen == Some(69));
        assert_eq!((join(remover), join(inserter)), (Some(69), None));
        assert_eq!((map.get(&69), map.get(&200), map.len()), (None, Some(200), 70));
    });
}

#[test]
fn a_doubling_hides_no_item_from_look_ups() {
    check(|| {
        let map = filled(67);
        let inserter = spawn(&map, |map| (67..73).for_each(|key| assert_eq!(map.insert(key, key), None)));
        let reader = spawn(&map, |map| (0..67).step_by(9).all(|key| map.get(&key) == Some(key)));
        assert!((60..67).all(|key| map.get(&key) == Some(key)));
        assert!(join(reader));
        join(inserter);
        assert!(map.slots() > 72);
        holds_exactly(&map, 73);
    });
}

#[test]
fn insertions_and_removals_race_with_a_doubling() {
    check(|| {
        let map = filled(68);
        let inserter = spawn(&map, |map| (68..74).for_each(|key| assert_eq!(map.insert(key, key), None)));
        let remover = spawn(&map, |map| {
            for key in 60..66 {
                assert_eq!(map.remove(&key), Some(key));
                assert_eq!(map.insert(key, key), None);
            }
        });
        for key in 0..4 {
            assert_eq!(map.update(&key, |value| std::mem::replace(value, key)), Some(key));
        }
        join(inserter);
        join(remover);
        holds_exactly(&map, 74);
    });
}

#[test]
fn a_walk_during_a_doubling_visits_what_stays_once() {
    check(|| {
        let map = filled(68);
        let inserter = spawn(&map, |map| (68..76).for_each(|key| assert_eq!(map.insert(key, key), None)));
        let mut visits = [0; 68];
        for (key, _) in &*map {
            if let Some(visits) = visits.get_mut(key as usize) {
                *visits += 1;
            }
        }
        join(inserter);
        assert_eq!(visits, [1; 68]);
        holds_exactly(&map, 76);
    });
}

#[test]
fn retaining_races_with_insertions() {
    check(|| {
        let map = filled(68);
        let inserter = spawn(&map, |map| (100..106).for_each(|key| assert_eq!(map.insert(key, key), None)));
        map.retain(|key, _| !(60..100).contains(key));
        join(inserter);
        assert_eq!((map.len(), map.levels().items()), (66, 66));
        assert!((0..60).chain(100..106).all(|key| map.contains_key(&key)));
        assert!((60..68).all(|key| !map.contains_key(&key)));
    });
}
