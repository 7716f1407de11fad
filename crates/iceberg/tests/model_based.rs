//! Any sequence of operations gives what the standard library's map gives, for good, poor and useless hashers, through
//! any number of doublings; and every key and value is dropped once.

use std::collections::HashMap;
use std::sync::Arc;

use pagewalk_iceberg::{IcebergMap, NotInserted};
use proptest::prelude::*;

use crate::common::{Counted, Quality};

#[derive(Clone, Debug)]
enum Act {
    Insert(u64),
    InsertNew(u64),
    Get(u64),
    Update(u64),
    Upsert(u64),
    Entry(u64),
    GetOrInsert(u64),
    Remove(u64),
    RemoveIf(u64),
    /// Many at once, so that short sequences get through doublings.
    Fill(u64, u64),
    Retain(u64),
    Walk,
    Clear,
    Reserve(usize),
    Shrink,
    Drain,
    Copy,
}

fn act(keys: u64) -> impl Strategy<Value = Act> {
    let key = 0..keys;
    prop_oneof![
        4 => key.clone().prop_map(Act::Insert),
        2 => key.clone().prop_map(Act::InsertNew),
        2 => key.clone().prop_map(Act::Get),
        2 => key.clone().prop_map(Act::Update),
        2 => key.clone().prop_map(Act::Upsert),
        2 => key.clone().prop_map(Act::Entry),
        2 => key.clone().prop_map(Act::GetOrInsert),
        4 => key.clone().prop_map(Act::Remove),
        2 => key.clone().prop_map(Act::RemoveIf),
        4 => (key, 0..300u64).prop_map(|(first, count)| Act::Fill(first, count)),
        1 => (2..5u64).prop_map(Act::Retain),
        1 => Just(Act::Walk),
        1 => Just(Act::Clear),
        1 => (0..2_000usize).prop_map(Act::Reserve),
        1 => Just(Act::Shrink),
        1 => Just(Act::Drain),
        1 => Just(Act::Copy),
    ]
}

fn qualities() -> impl Strategy<Value = Quality> {
    prop_oneof![3 => Just(Quality::Plain), 1 => Just(Quality::Poor), 1 => Just(Quality::None)]
}

type Tested = IcebergMap<u64, Counted, Quality>;

/// Does the same to both, and compares what comes back.
fn step(map: &mut Tested, model: &mut HashMap<u64, u64>, act: Act, count: &Arc<()>, time: u64) {
    let value = |number| Counted::new(number, count);
    let number = |value: Counted| value.number;
    match act {
        Act::Insert(key) => {
            assert_eq!(map.insert(key, value(time)).map(number), model.insert(key, time));
        }
        Act::InsertNew(key) => match map.insert_new(key, value(time)) {
            Ok(()) => assert_eq!(model.insert(key, time), None),
            Err(NotInserted::Present { value, .. }) => {
                assert!(value.number == time && model.contains_key(&key));
            }
            Err(NotInserted::Full(_)) => panic!("a map that grows is never full"),
        },
        Act::Get(key) => {
            assert_eq!(map.get(&key).map(number), model.get(&key).copied());
            assert_eq!(map.get_with(&key, |value| value.number), model.get(&key).copied());
            assert_eq!(map.contains_key(&key), model.contains_key(&key));
        }
        Act::Update(key) => {
            let was = map.update(&key, |value| std::mem::replace(&mut value.number, time));
            assert_eq!(was, model.get_mut(&key).map(|number| std::mem::replace(number, time)));
        }
        Act::Upsert(key) => {
            let changed = map.upsert(
                key,
                || value(time),
                |value| {
                    value.number += 1;
                    value.number
                },
            );
            let was_there = model.contains_key(&key);
            let number = model.entry(key).and_modify(|number| *number += 1).or_insert(time);
            assert_eq!(changed, was_there.then_some(*number));
        }
        Act::Entry(key) => {
            map.entry(key).and_modify(|value| value.number += 2).or_insert_with(|| value(time));
            model.entry(key).and_modify(|number| *number += 2).or_insert(time);
            if let Some(mut value) = map.get_mut(&key) {
                assert_eq!((*value.key(), value.number), (key, model[&key]));
                value.number += 1;
            }
            *model.get_mut(&key).expect("it has just been put in") += 1;
            let other = key + 1;
            map.entry(other).or_insert_with(|| value(time)).number += 3;
            *model.entry(other).or_insert(time) += 3;
            assert!(!map.entry(key + 1_000_000).and_modify(|_| panic!("not there")).or_nothing());
        }
        Act::Reserve(count) => {
            map.reserve(count);
            assert!(map.capacity() >= model.len() + count);
        }
        Act::Shrink => {
            let before = map.memory_bytes();
            map.shrink_to_fit();
            // Keys of few hashes need more lists in a smaller table, which may outweigh it.
            assert!(map.memory_bytes() <= before || !matches!(map.hasher(), Quality::Plain));
        }
        Act::Drain => {
            let mut drained: Vec<(u64, u64)> = map.drain().map(|(key, value)| (key, value.number)).collect();
            let mut expected: Vec<(u64, u64)> = model.drain().collect();
            drained.sort_unstable();
            expected.sort_unstable();
            assert_eq!(drained, expected);
        }
        Act::Copy => {
            let copy = map.clone();
            *map = copy;
        }
        Act::GetOrInsert(key) => {
            let got = map.get_or_insert_with(key, || value(time)).number;
            assert_eq!(got, *model.entry(key).or_insert(time));
        }
        Act::Remove(key) => assert_eq!(map.remove(&key).map(number), model.remove(&key)),
        Act::RemoveIf(key) => {
            let removed = map.remove_if(&key, |value| value.number % 2 == 0);
            let expected = model.get(&key).copied().filter(|number| number % 2 == 0);
            assert_eq!(removed.map(|(_, value)| value.number), expected);
            model.retain(|&other, _| other != key || expected.is_none());
        }
        Act::Fill(first, count) => {
            for key in first..first + count {
                assert_eq!(map.insert(key, value(time)).map(number), model.insert(key, time));
            }
        }
        Act::Retain(of) => {
            map.retain(|key, value| {
                value.number += 1;
                key % of != 0
            });
            model.retain(|key, number| {
                *number += 1;
                key % of != 0
            });
        }
        Act::Walk => {
            let mut visited = 0;
            for (key, value) in map.iter_mut() {
                value.number += key;
                visited += 1;
            }
            assert_eq!(visited, model.len());
            map.values_mut().for_each(|value| value.number += 1);
            model.iter_mut().for_each(|(key, number)| *number += key + 1);
            let mut seen: Vec<(u64, u64)> = map.iter().map(|(key, value)| (key, value.number)).collect();
            let mut expected: Vec<(u64, u64)> = model.clone().into_iter().collect();
            seen.sort_unstable();
            expected.sort_unstable();
            assert_eq!(seen, expected);
            assert_eq!(map.levels().items(), model.len());
        }
        Act::Clear => {
            map.clear();
            model.clear();
        }
    }
    assert_eq!(map.len(), model.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_map_is_a_map(
        quality in qualities(),
        room in prop_oneof![Just(0), 0..1000usize],
        acts in prop::collection::vec(act(800), 1..60),
        consumed: bool,
    ) {
        let count = Arc::new(());
        let mut map = Tested::with_capacity_and_hasher(room, quality);
        let mut model = HashMap::new();
        for (time, act) in acts.into_iter().enumerate() {
            step(&mut map, &mut model, act, &count, time as u64);
        }
        prop_assert_eq!(Arc::strong_count(&count), 1 + model.len(), "values that are not in the map are dropped");
        if consumed {
            let rest = map.into_iter().skip(model.len() / 2).count();
            prop_assert_eq!(rest, model.len() - model.len() / 2);
        } else {
            drop(map);
        }
        prop_assert_eq!(Arc::strong_count(&count), 1, "every value is dropped once");
    }

    #[test]
    fn a_fixed_map_refuses_and_loses_nothing(quality in qualities(), room in 1..2000usize) {
        let map: IcebergMap<u64, u64, Quality> = IcebergMap::fixed_with_hasher(room, quality);
        let mut inside = 0;
        let refused = loop {
            match map.try_insert(inside, !inside) {
                Ok(old) => prop_assert_eq!(old, None),
                Err(full) => break (full.key, full.value),
            }
            inside += 1;
        };
        prop_assert_eq!(refused, (inside, !inside));
        prop_assert_eq!(map.len() as u64, inside);
        if matches!(quality, Quality::Plain) {
            prop_assert!(inside >= room as u64, "{} of {}", inside, room);
        }
        for key in 0..inside {
            prop_assert_eq!(map.get(&key), Some(!key));
        }
        prop_assert_eq!(map.insert(0, 5), Some(!0), "a value is changed in a full map, too");
        // With a place given up, the refused item comes in: for one block's keys that takes some of its own.
        (0..inside).for_each(|key| assert!(map.remove(&key).is_some()));
        prop_assert_eq!(map.try_insert(refused.0, refused.1), Ok(None));
    }
}
