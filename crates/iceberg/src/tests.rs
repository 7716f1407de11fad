//! Tests of what users do not see: places, tags, filters, the size of a block.

use std::num::NonZeroU8;

use crate::chain::Chain;
use crate::filter::Filter;
use crate::find::Level;
use crate::map::IcebergMap;
use crate::place::{Hash, Shape};
use crate::store::{BLOCK_SLOTS, FIRST_SLOTS, Part};
use crate::tags::{Slots, Tag, Tags, equal};

#[test]
fn every_equal_tag_is_named_and_no_other() {
    for wanted in [1, 0x7f, 0x80, 0xff] {
        for pattern in 0..64u64 {
            let mask = crate::place::mix(pattern);
            let tags: [u8; 64] = std::array::from_fn(|slot| match mask >> slot & 1 {
                1 => wanted,
                _ => wanted ^ [1, 0x80, 0xff, 0x81][slot % 4],
            });
            let named = |slots: Slots| slots.fold(0, |named, slot| named | 1 << slot);
            assert_eq!(named(equal(&tags, wanted)), mask);
            // As many as vectors, words and single bytes together make.
            let some: &[u8; 27] = tags.first_chunk().expect("64 tags");
            assert_eq!(named(equal(some, wanted)), mask & 0x7ff_ffff);
        }
    }
}

/// What has been set is found, whichever of its two parts other slots share with it.
fn tags_are_told_apart<const N: usize, const HALF: usize>() {
    // Both halves of the finer bits are the same, so that it does not matter which one belongs to a slot.
    let tag = |raw, finer: u8| Tag { raw, finer: finer << 4 | finer };
    let all = [tag(1, 0), tag(1, 15), tag(0xff, 0), tag(0xff, 15), tag(0x80, 7), tag(1, 8)];
    for pattern in 0..200u64 {
        let mut tags = Tags::<N, HALF>::EMPTY;
        let mut expected = [None; N];
        for (slot, expected) in expected.iter_mut().enumerate() {
            let chosen = crate::place::mix(pattern << 8 | slot as u64) as usize;
            // What a slot had before leaves no trace.
            tags.set(slot, all[chosen >> 8 & 3]);
            *expected = all.get(chosen & 7).copied();
            match *expected {
                Some(tag) => tags.set(slot, tag),
                None => assert!(tags.clear(slot) && !tags.clear(slot)),
            }
            assert_eq!(tags.is_used(slot), expected.is_some());
        }
        for tag in all {
            assert_eq!(tags.holds(tag), expected.contains(&Some(tag)), "{tag:?}");
            let named: Vec<usize> = tags.equal(tag).collect();
            let wanted: Vec<usize> = (0..N).filter(|&slot| expected[slot] == Some(tag)).collect();
            assert_eq!(named, wanted, "{tag:?}");
        }
        let free: Vec<usize> = (0..N).filter(|&slot| expected[slot].is_none()).collect();
        assert_eq!(tags.free().collect::<Vec<usize>>(), free);
        for start in 0..N {
            // Of the sixteen that `start` is in, else of all; the first one from there on.
            let near = |slot: &&usize| **slot / 16 == start / 16;
            let among: Vec<usize> = match free.iter().find(near) {
                Some(_) => free.iter().filter(near).copied().collect(),
                None => free.clone(),
            };
            let nearest = among.iter().find(|&&slot| slot >= start).or(among.first());
            assert_eq!(tags.free_from(start), nearest.copied());
        }
        assert!(!tags.is_used(N) && !tags.clear(N));
    }
}

#[test]
fn tags_are_equal_in_all_twelve_bits() {
    tags_are_told_apart::<64, 32>();
    tags_are_told_apart::<8, 4>();
}

#[test]
fn what_a_look_up_reads_of_a_block_is_two_lines() {
    let part: Part<(u64, u64)> = Part::new(5);
    let lines: Vec<usize> = (0..5).map(|at| part.lock_first(at, None).address_of_tags()).collect();
    assert!(lines.iter().all(|address| address % 64 == 0), "{lines:x?}");
    assert!(lines.is_sorted_by(|one, next| next - one == 128), "{lines:x?}");
}

#[test]
fn who_finds_nothing_stops_guessing_until_it_finds_something() {
    let map: IcebergMap<u64, u64> = IcebergMap::fixed(100);
    map.insert(1, 1);
    assert_eq!(map.get(&1), Some(1));
    for absent in 10..18 {
        assert!(crate::guess::is_worth_it());
        assert_eq!(map.get(&absent), None);
    }
    assert!(!crate::guess::is_worth_it());
    assert_eq!(map.get(&1), Some(1));
    assert!(crate::guess::is_worth_it());
}

#[test]
fn one_doubling_sends_a_key_to_one_of_two_blocks() {
    for base in [1, 2, 3, 57, 64] {
        let shape = Shape { base };
        for key in 0..1000 {
            let hash = Hash::new(key);
            for doublings in 1..6 {
                let places = |doublings| {
                    let [one, other] = shape.second(hash, doublings);
                    [shape.first(hash, doublings), one, other]
                };
                for (after, before) in places(doublings).into_iter().zip(places(doublings - 1)) {
                    let (old, new) = after.pair(doublings);
                    assert!((after == old || after == new) && before == old);
                    assert!(shape.number(new) == shape.number(old) + shape.blocks(doublings - 1));
                    assert_eq!(shape.block(shape.number(after)), after);
                }
            }
        }
    }
}

#[test]
fn each_part_begins_where_the_one_before_ends() {
    let shape = Shape { base: 3 };
    for number in 3..shape.blocks(5) {
        let (doubling, offset) = shape.in_added(shape.block(number));
        assert_eq!(shape.blocks(doubling as u32) + offset, number);
        assert!(
            offset < shape.blocks(doubling as u32),
            "block {number} is in the part of doubling {doubling}"
        );
    }
}

#[test]
fn a_filter_forgets_what_has_left() {
    let byte = |byte: u8| NonZeroU8::new(byte).expect("not zero");
    let held =
        |filter: &Filter| (1..=u8::MAX).filter(|&other| filter.may_hold(byte(other))).collect::<Vec<_>>();
    // One of them twice; then more than are listed.
    for spills in [vec![3, 7, 7, 250], (1..=40).collect()] {
        let mut filter = Filter::EMPTY;
        spills.iter().for_each(|&spill| filter.add(byte(spill)));
        assert!(spills.iter().all(|&spill| filter.may_hold(byte(spill))));
        assert_eq!(held(&filter).len(), if spills.len() == 40 { 255 } else { 3 });
        for (left, &spill) in spills.iter().enumerate() {
            filter.remove(byte(spill));
            assert!(spills[left + 1..].iter().all(|&spill| filter.may_hold(byte(spill))));
        }
        assert_eq!(held(&filter), []);
    }
    // More than can be counted: it holds anything from then on.
    let mut filter = Filter::EMPTY;
    (0..300).for_each(|_| filter.add(byte(7)));
    (0..300).for_each(|_| filter.remove(byte(7)));
    assert_eq!(held(&filter).len(), 255);
}

#[test]
fn a_chain_keeps_its_numbers_and_drops_without_recursion() {
    let mut chain = Chain::EMPTY;
    let numbers: Vec<u32> = (0..5).map(|item| chain.push(item)).collect();
    assert_eq!(chain.take(numbers[2]), Some(2));
    assert_eq!(chain.take(numbers[2]), None);
    assert_eq!(chain.find(|&item| item == 3), Some((numbers[3], &3)));
    assert_eq!(chain.get_mut(numbers[0]), Some(&mut 0));
    (5..1_000_000).for_each(|item| {
        chain.push(item);
    });
    drop(chain);
}

#[test]
fn what_is_known_about_a_block_is_small() {
    let known = (2 + 32 + 32 + 64) + (2 + 1 + 4 + 8) + 8;
    assert_eq!(Part::<(u64, u64)>::bytes(64), 64 * (known + 72 * 16));
    assert_eq!(Part::<((), ())>::bytes(64), 64 * known);
}

#[test]
fn locks_count_the_items_behind_them() {
    let map: IcebergMap<u64, u64> = IcebergMap::new();
    for key in (0..).take_while(|&key| key < 20_000 || map.load() < 0.94) {
        assert_eq!(map.insert(key, key), None);
        if key % 3 == 0 {
            map.remove(&(key / 2));
        }
    }
    let mut full = 0;
    for at in (0..map.slots() / BLOCK_SLOTS).map(|block| map.shape.block(block)) {
        let counts = (map.count_first(at), map.count_second(at));
        assert_eq!(counts, (map.lock_first(at, None).used().count(), map.lock_second(at).used().count()));
        full += usize::from(counts.0 == FIRST_SLOTS);
    }
    assert!(full > 0, "a block that is full");
}

#[test]
fn at_load_0_95_most_items_are_where_a_look_up_guesses() {
    let map: IcebergMap<u64, u64> = IcebergMap::fixed(100_000);
    let keys = (0.95 * map.slots() as f64) as u64;
    (0..keys).for_each(|key| assert_eq!(map.insert(key, key), None));
    let in_line = |slot| slot / 4;
    let guessed = (0..keys).filter(|key| {
        let place = map.position_of(key).expect("a key that is there");
        place.level == Level::First && in_line(place.slot) == in_line(map.hash(key).home())
    });
    let share = guessed.count() as f64 / keys as f64;
    assert!(share > 0.55, "{share}");
}
