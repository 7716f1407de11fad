//! One suite for all layouts: against a naive list model, and the laws that every policy obeys.

use super::*;

/// The naive model: a vector a set, newest first.
struct NaiveList {
    sets: Vec<Vec<u64>>,
    ways: usize,
    lru: bool,
}

impl NaiveList {
    fn access(&mut self, index: u64, key: u64) -> (bool, Option<u64>) {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(index % count) as usize];
        if let Some(place) = set.iter().position(|&k| k == key) {
            if self.lru {
                let key = set.remove(place);
                set.insert(0, key);
            }
            return (true, None);
        }
        set.insert(0, key);
        (false, (set.len() > self.ways).then(|| set.pop().unwrap()))
    }
}

fn random_stream(length: usize, keys: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed | 1;
    (0..length).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Squared, so that some keys are hotter than others.
        let x = (state >> 32) as f64 / 4_294_967_296.0;
        (x * x * keys as f64) as u64
    })
}

fn all_policies() -> [Replacement; 5] {
    use Replacement::*;
    [Lru, Fifo, TreePlru, Nru, Random { seed: 7 }]
}

#[test]
fn lru_and_fifo_equal_the_naive_list_access_by_access() {
    for (entries, ways) in [
        (1, 1),
        (16, 1),
        (64, 4),
        (96, 6),
        (1024, 8),
        (512, 16),
        (96, 24),
        (64, 64),
        (1024, 1024),
        (300, 300),
    ] {
        for lru in [true, false] {
            let policy = if lru { Replacement::Lru } else { Replacement::Fifo };
            let mut array = SetArray::new(entries, ways, policy).unwrap();
            let mut naive =
                NaiveList { sets: vec![vec![]; (entries / ways) as usize], ways: ways as usize, lru };
            for key in random_stream(40_000, 3 * u64::from(entries) + 2, 99) {
                let (hit, evicted) = naive.access(key, key);
                match array.lookup(key, key) {
                    Some(_) => assert!(hit, "{entries}/{ways} {policy:?}"),
                    None => {
                        assert!(!hit, "{entries}/{ways} {policy:?}");
                        assert_eq!(array.insert(key, key).evicted, evicted, "{entries}/{ways} {policy:?}");
                    }
                }
            }
        }
    }
}

/// Numbers of sets of 3, 7 and 24, in every layout that has several sets.
#[test]
fn sets_by_remainder_equal_the_naive_list_access_by_access() {
    for (entries, ways) in [(3, 1), (28, 4), (288, 12), (168, 24)] {
        let shape = ArrayShape { entries, ways, replacement: Replacement::Lru, indexing: Indexing::Modulo };
        let Ok(ShapedArray::Computed(mut array)) = shape.array() else { panic!("not a power of two") };
        let mut naive =
            NaiveList { sets: vec![vec![]; (entries / ways) as usize], ways: ways as usize, lru: true };
        for key in random_stream(40_000, 3 * u64::from(entries), 99) {
            let (hit, evicted) = naive.access(key, key);
            assert_eq!(array.lookup(key, key).is_some(), hit, "{entries}/{ways}");
            if !hit {
                assert_eq!(array.insert(key, key).evicted, evicted, "{entries}/{ways}");
            }
        }
    }
}

#[test]
fn every_policy_keeps_slots_unique_and_stable() {
    for policy in all_policies() {
        let mut array = SetArray::new(32, 4, policy).unwrap();
        let mut owner = vec![None; 32];
        for (step, key) in random_stream(20_000, 120, 5).enumerate() {
            if step % 97 == 0 {
                if let Some(slot) = array.remove(key, key) {
                    assert_eq!(owner[slot].take(), Some(key));
                }
            } else if let Some(slot) = array.lookup(key, key) {
                assert_eq!(owner[slot], Some(key), "{policy:?}");
            } else {
                let Inserted { slot, evicted } = array.insert(key, key);
                assert_eq!(owner[slot], evicted, "{policy:?}");
                owner[slot] = Some(key);
            }
        }
        array.retain(|key, slot| {
            assert_eq!(owner[slot], Some(key));
            if key % 3 == 0 {
                owner[slot] = None;
            }
            key % 3 != 0
        });
        for key in 0..120 {
            assert_eq!(array.peek(key, key), owner.iter().position(|&o| o == Some(key)), "{policy:?}");
        }
    }
}

#[test]
fn retain_keeps_the_replacement_order() {
    let mut array = SetArray::new(4, 4, Replacement::Lru).unwrap();
    for key in [1, 2, 3, 4] {
        array.insert(0, key);
    }
    array.retain(|key, _| key != 2);
    assert_eq!(array.insert(0, 5).evicted, None);
    assert_eq!(array.insert(0, 6).evicted, Some(1));
    assert_eq!(array.insert(0, 7).evicted, Some(3));
}

#[test]
fn a_cyclic_sweep_one_larger_than_the_set_never_hits_under_lru() {
    for (entries, ways) in [(8, 8), (128, 128)] {
        let mut array = SetArray::new(entries, ways, Replacement::Lru).unwrap();
        for key in (0..u64::from(entries) + 1).cycle().take(2_000) {
            assert_eq!(array.lookup(0, key), None);
            array.insert(0, key);
        }
    }
}

#[test]
fn tree_plru_evicts_the_leaf_its_bits_point_to() {
    let mut array = SetArray::new(4, 4, Replacement::TreePlru).unwrap();
    for key in [10, 11, 12, 13] {
        array.insert(0, key);
    }
    // After filling 0, 1, 2, 3 in order the root points left, and the left node to way 0.
    assert_eq!(array.insert(0, 14).evicted, Some(10));
    // The use of way 0 turned the root to the right, whose node points to way 2.
    assert_eq!(array.insert(0, 15).evicted, Some(12));
}

#[test]
fn nru_evicts_the_first_way_that_was_not_used() {
    let mut array = SetArray::new(4, 4, Replacement::Nru).unwrap();
    for key in [10, 11, 12, 13] {
        array.insert(0, key);
    }
    // Filling way 3 set the last bit and cleared the others.
    array.lookup(0, 10);
    assert_eq!(array.insert(0, 14).evicted, Some(11));
}

#[test]
fn random_is_a_function_of_its_seed() {
    let victims = |seed| {
        let mut array = SetArray::new(8, 8, Replacement::Random { seed }).unwrap();
        (0..200).map(|key| array.insert(0, key).evicted).collect::<Vec<_>>()
    };
    assert_eq!(victims(1), victims(1));
    assert_ne!(victims(1), victims(2));
}

#[test]
fn impossible_shapes_are_refused() {
    for (entries, ways) in [(0, 1), (8, 0), (12, 8), (24, 8), (1536, 7)] {
        assert!(SetArray::new(entries, ways, Replacement::Lru).is_err(), "{entries}/{ways}");
    }
    for (entries, ways, indexing) in [(0, 1, Indexing::Modulo), (12, 8, Indexing::Modulo)]
        .into_iter()
        .chain([(8, 8, Indexing::XorFold), (24, 8, Indexing::XorFold)])
    {
        let shape = ArrayShape { entries, ways, replacement: Replacement::Lru, indexing };
        assert!(shape.array().is_err(), "{shape:?}");
    }
    assert!(SetArray::new(256, 128, Replacement::Lru).is_err());
    assert!(SetArray::new(12, 12, Replacement::TreePlru).is_err());
    assert!(SetArray::new(128, 128, Replacement::Nru).is_err());
}

#[test]
fn a_line_array_equals_the_naive_list_in_every_layout() {
    // Tags of 16, 17 and 33 bits, sets too wide for a row, and 7 sets.
    for (lines, ways, line_bits) in
        [(64, 4, 20), (60, 15, 18), (64, 4, 21), (16, 16, 32), (64, 4, 37), (32, 32, 20), (105, 15, 20)]
    {
        equals_the_naive_list(
            LineArray::new(lines, ways, line_bits).unwrap(),
            (lines, ways, line_bits),
            |line| line,
        );
        let bits = (lines / ways).ilog2();
        for kept in [0, 2, 6] {
            let folded = LineArray::new(lines, ways, line_bits).unwrap().folded(kept);
            equals_the_naive_list(folded, (lines, ways, line_bits), |line| {
                line ^ (((line >> bits) << kept) & ((1 << bits) - 1))
            });
        }
    }
}

/// Compares an array with lists by set: the number that `number` makes of a line's, modulo the number of sets.
fn equals_the_naive_list(
    mut array: LineArray,
    (lines, ways, line_bits): (u32, u32, u32),
    number: impl Fn(u64) -> u64,
) {
    let mut naive: Vec<Vec<(u64, bool)>> = vec![vec![]; (lines / ways) as usize];
    let high = ((1 << line_bits) - 1) & !0xffff;
    for (step, line) in random_stream(40_000, 4 * u64::from(lines), 17).enumerate() {
        let line = line | if line % 3 == 0 { high } else { 0 };
        let store = step % 5 == 0;
        let set = &mut naive[(number(line) % u64::from(lines / ways)) as usize];
        let place = set.iter().position(|&(resident, _)| resident == line);
        assert_eq!(array.lookup(line, store), place.is_some(), "{lines}/{ways} {line_bits}");
        let dirty = place.is_some_and(|place| set.remove(place).1);
        set.insert(0, (line, dirty || store));
        if place.is_none() {
            let victim = (set.len() > ways as usize).then(|| set.pop().unwrap());
            let expected = victim.map(|(line, dirty)| Victim { line, dirty });
            assert_eq!(array.insert(line, store), expected, "{lines}/{ways} {line_bits}");
        }
    }
}

#[test]
fn lines_a_power_of_two_apart_lie_in_all_sets_of_a_folded_array_and_in_one_of_another() {
    // 64 sets of 4 ways; 256 lines.
    let held = |mut array: LineArray, apart: u64| {
        for line in 0..256 {
            array.insert(apart * line, false);
        }
        (0..256).filter(|line| array.holds(apart * line)).count()
    };
    let array = || LineArray::new(256, 4, 20).unwrap();
    assert_eq!(held(array(), 64), 4);
    assert_eq!(held(array().folded(0), 64), 256);
    // The lowest four of six bits are kept: lines lie in one of 16 sets, or those that are four apart in 16 of them.
    assert_eq!([4, 64].map(|apart| held(array().folded(4), apart)), [64, 16]);
    assert_eq!(held(array().folded(6), 64), 4);
}

/// The share of hits in a cycle of so many lines, and in lines of which each is used twice and then no more.
fn hits_of(lines: u32, ways: u32, replacement: Replacement, cycle: u64) -> [f64; 2] {
    let share = |of: &dyn Fn(u64) -> u64| {
        let mut array = LineArray::with_replacement(lines, ways, 30, replacement).unwrap();
        let (mut hits, steps) = (0, 100 * cycle);
        for step in 0..2 * steps {
            let hit = array.lookup(of(step), false);
            hits += u64::from(hit && step >= steps);
            if !hit {
                array.insert(of(step), false);
            }
        }
        hits as f64 / steps as f64
    };
    let sets = u64::from(lines / ways);
    // The second use comes two rounds of all sets later.
    [share(&|step| step % cycle), share(&|step| step / (4 * sets) * (2 * sets) + step % (2 * sets))]
}

#[test]
fn dynamic_insertion_keeps_a_part_of_a_cycle_that_is_too_long_and_is_lru_otherwise() {
    // 128 sets are a power of two, and 96 are not.
    for (lines, ways) in [(2_048, 16), (1_536, 16), (512, 4)] {
        let cycle = u64::from(lines) * 2;
        let [cyclic, twice] = hits_of(lines, ways, Replacement::Lru, cycle);
        assert_eq!((cyclic, twice), (0.0, 0.5), "{lines}, LRU");
        let [cyclic, twice] = hits_of(lines, ways, Replacement::Dynamic, cycle);
        // Half of the cycle fits; some sets show that LRU is worse, and what stays changes slowly.
        assert!((0.35..0.5).contains(&cyclic), "{lines}: {cyclic}");
        assert!((0.48..=0.5).contains(&twice), "{lines}: {twice}");
    }
    assert!(LineArray::with_replacement(64, 32, 30, Replacement::Dynamic).is_err());
}
