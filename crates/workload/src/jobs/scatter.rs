//! A seeded order of the numbers 0 to n - 1, computed one by one, both ways.
//!
//! A bijection on the next power of two is a few rounds of an odd multiplication (it mixes upwards) and a shifted xor
//! (it mixes downwards), as in the finalisers of hash functions. A number that leaves the range goes through again
//! until it is back ("cycle walking": Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002), fewer
//! than two rounds on average.

use crate::random::SplitMix64;

const ROUNDS: usize = 3;

/// A bijection on 0 to `count` - 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    count: u64,
    /// The next power of two, less one.
    mask: u64,
    /// Half of its bits or more: such a shifted xor undoes itself.
    shift: u32,
    keys: [Key; ROUNDS],
}

/// A round: x -> (x + `add`) * `times`, and `inverse` undoes `times`.
#[derive(Clone, Copy, Debug, Default)]
struct Key {
    add: u64,
    times: u64,
    inverse: u64,
}

impl Scatter {
    /// One of many orders of `count` numbers, 1 to 2^63.
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        assert!((1..=1 << 63).contains(&count), "an order of {count} numbers");
        let mask = count.next_power_of_two() - 1;
        let mut random = SplitMix64::new(seed);
        let keys = [(); ROUNDS].map(|()| {
            let (add, times) = (random.next(), random.next() | 1);
            Key { add, times, inverse: inverse(times) }
        });
        Self { count, mask, shift: mask.count_ones().div_ceil(2).max(1), keys }
    }

    /// Where `number` comes in the order.
    #[inline]
    pub(crate) fn place(&self, number: u64) -> u64 {
        debug_assert!(number < self.count);
        let mut x = number;
        loop {
            for key in &self.keys {
                x = x.wrapping_add(key.add).wrapping_mul(key.times) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.count {
                return x;
            }
        }
    }

    /// Which number comes at `place`.
    #[inline]
    pub(crate) fn number(&self, place: u64) -> u64 {
        debug_assert!(place < self.count);
        let mut x = place;
        loop {
            for key in self.keys.iter().rev() {
                x ^= x >> self.shift;
                x = x.wrapping_mul(key.inverse).wrapping_sub(key.add) & self.mask;
            }
            if x < self.count {
                return x;
            }
        }
    }
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the right bits, from three.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own_and_is_found_there() {
        for count in [1, 2, 3, 4, 5, 7, 8, 9, 100, 1 << 10, 1000, 1025] {
            for seed in 0..4 {
                let scatter = Scatter::new(count, seed);
                let mut taken = vec![false; count as usize];
                for number in 0..count {
                    let place = scatter.place(number);
                    assert!(!std::mem::replace(&mut taken[place as usize], true), "{count}: {place} twice");
                    assert_eq!(scatter.number(place), number, "{count}");
                }
            }
        }
    }

    #[test]
    fn large_ranges_are_undone_too() {
        for count in [1 << 40, (1 << 40) - 1, (1 << 33) + 12_345, 1 << 63] {
            let (scatter, mut random) = (Scatter::new(count, 9), SplitMix64::new(3));
            for _ in 0..1000 {
                let number = random.below(count);
                assert_eq!(scatter.number(scatter.place(number)), number);
            }
        }
    }

    #[test]
    fn neighbours_are_spread_evenly_over_the_range() {
        // The first 64 k numbers over 64 parts: 1024 each, give or take six deviations.
        for count in [1u64 << 36, (1 << 35) + 77_777] {
            let scatter = Scatter::new(count, 1);
            let mut parts = [0u32; 64];
            (0..1 << 16).for_each(|number| {
                parts[(u128::from(scatter.place(number)) * 64 / u128::from(count)) as usize] += 1;
            });
            assert!(parts.iter().all(|part| (832..=1216).contains(part)), "{count}: {parts:?}");
        }
    }
}
