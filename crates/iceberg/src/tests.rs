//! What users do not see: places, tags, filters, the size of a block.

use crate::chain::Chain;
use crate::filter::Filter;
use crate::place::{Hash, Shape};
use crate::store::Part;
use crate::tags::equal;

#[test]
fn every_equal_tag_is_named_and_no_other() {
    for wanted in [1, 0x7f, 0x80, 0xff] {
        for pattern in 0..64u64 {
            let mask = crate::place::mix(pattern);
            let tags: [u8; 64] = std::array::from_fn(|slot| match mask >> slot & 1 {
                1 => wanted,
                _ => wanted ^ [1, 0x80, 0xff, 0x81][slot % 4],
            });
            let named = equal(&tags, wanted).fold(0, |named, slot| named | 1 << slot);
            assert_eq!(named, mask);
            let (few, _) = tags.split_first_chunk::<8>().expect("64 tags");
            let named = equal(few, wanted).fold(0, |named, slot| named | 1 << slot);
            assert_eq!(named, mask & 0xff);
        }
    }
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
    let mut filter = Filter::EMPTY;
    let spills: Vec<u16> = (0..10).map(|number| number * 6_007).collect();
    spills.iter().for_each(|&spill| filter.add(spill));
    assert!(spills.iter().all(|&spill| filter.may_hold(spill)));
    spills.iter().for_each(|&spill| filter.remove(spill));
    assert!((0..=u16::MAX).all(|spill| !filter.may_hold(spill)));
    // More than a cell can count: it stays.
    (0..20).for_each(|_| filter.add(7));
    (0..20).for_each(|_| filter.remove(7));
    assert!(filter.may_hold(7));
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
fn a_block_is_two_cache_lines_and_its_slots() {
    assert_eq!(Part::<(u64, u64)>::bytes(1), 128 + 72 * 16);
    assert_eq!(Part::<((), ())>::bytes(1), 128);
}
