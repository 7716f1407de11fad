//! Look-ups beside hashbrown's: one thread, the same hasher and keys, by turns, so that what else the machine does meets both.
//! What counts is the ratio.
//!
//! `cargo run --release -p pagewalk-elastic --example lookups -- [MILLION-ITEMS] [ROUNDS]`; without a number of items maps from
//! ten thousand to eight million are measured.

use std::hint::black_box;
use std::time::Instant;

use pagewalk_elastic::{DefaultHasher, ElasticMap};

/// Look-ups of one map in a round.
const LOOK_UPS: u64 = 1 << 20;

/// Keys that are looked up: what they are called, and how many times as many there are as items.
const KEYS: [(&str, u64, bool); 3] = [("present", 1, false), ("absent", 1, true), ("half of each", 2, false)];

/// A bijection, whose values are as good as random.
fn key(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Nanoseconds of a look-up of a random one of `span` keys.
fn timed(from: u64, span: u64, seed: u64, get: impl Fn(&u64) -> Option<u64>) -> f64 {
    let begun = Instant::now();
    let sum = (0..LOOK_UPS).fold(0u64, |sum, number| {
        // Without a division: any item, whatever the number of items is.
        let item = ((u128::from(key(seed.wrapping_add(number))) * u128::from(span)) >> 64) as u64;
        sum.wrapping_add(get(&key(from + item)).unwrap_or(1))
    });
    black_box(sum);
    begun.elapsed().as_nanos() as f64 / LOOK_UPS as f64
}

fn measure(items: u64, rounds: u64) {
    let hasher = DefaultHasher::default();
    let mut elastic = ElasticMap::with_hasher(hasher.clone());
    let mut other = hashbrown::HashMap::with_hasher(hasher);
    for item in 0..items {
        elastic.insert(key(item), item);
        other.insert(key(item), item);
    }
    for (name, times, is_absent) in KEYS {
        let from = if is_absent { items } else { 0 };
        let mut rows: Vec<(f64, f64)> = (0..rounds)
            .map(|round| {
                let (seed, span) = (round << 40, items * times);
                let own = timed(from, span, seed, |key| elastic.get(key).copied());
                (own, timed(from, span, seed, |key| other.get(key).copied()))
            })
            .collect();
        rows.sort_unstable_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
        let (own, other) = rows[rows.len() / 2];
        println!("{items:>9} {name:<14} {own:>11.1} {other:>13.1} {:>7.2}", own / other);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let items = arguments.next().map(|millions| millions * 1_000_000);
    let rounds = arguments.next().unwrap_or(9).max(1);
    println!(
        "    items keys           elastic, ns hashbrown, ns   ratio (medians of {rounds} rounds by ratio)"
    );
    for items in items.map_or(vec![10_000, 100_000, 1_000_000, 8_000_000], |items| vec![items]) {
        measure(items, rounds);
    }
}
