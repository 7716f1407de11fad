//! Which item a line of an order is for: Zipf's law from a table.
//!
//! An order draws ten items, which by the general method would take a third of its time in the warm-up. There are few enough
//! for the alias method (Walker, "An efficient method for generating discrete random variables with general distributions",
//! ACM TOMS 3(3), 1977; built as Vose does, IEEE TSE 17(9), 1991): each item has a slot, which it shares with one other.

use libm::{exp, log};

use super::tables::ITEMS;
use crate::jobs::Scatter;
use crate::random::SplitMix64;

/// The distribution from which items are drawn.
pub(super) struct Items {
    slots: Vec<Slot>,
}

/// A slot is drawn for its own item with a probability of `own` / 2^32, else for the other.
#[derive(Clone, Copy)]
struct Slot {
    own: u32,
    other: u32,
}

impl Items {
    /// By Zipf's law with an exponent in thousandths; ranks are scattered over the items.
    pub(super) fn new(skew: u64, seed: u64) -> Self {
        let (skew, ranks) = (skew as f64 / 1000.0, Scatter::new(ITEMS, seed));
        let weights: Vec<f64> =
            (0..ITEMS).map(|item| exp(-skew * log((ranks.number(item) + 1) as f64))).collect();
        let mean = weights.iter().sum::<f64>() / ITEMS as f64;
        // What is left of each item's share, in slots.
        let mut left: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..ITEMS as u32).partition(|&item| left[item as usize] < 1.0);
        let mut slots: Vec<Slot> =
            (0..ITEMS as u32).map(|item| Slot { own: u32::MAX, other: item }).collect();
        while let (Some(item), Some(&other)) = (small.pop(), large.last()) {
            let own = left[item as usize];
            slots[item as usize] = Slot { own: (own * (1u64 << 32) as f64) as u32, other };
            left[other as usize] -= 1.0 - own;
            if left[other as usize] < 1.0 {
                large.pop();
                small.push(other);
            }
        }
        Self { slots }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut SplitMix64) -> u64 {
        let drawn = random.next();
        let item = ((drawn >> 32) * ITEMS) >> 32;
        let slot = self.slots[item as usize];
        if (drawn as u32) < slot.own { item } else { u64::from(slot.other) }
    }

    /// The bytes of the host that the table takes.
    pub(super) const fn host_bytes() -> u64 {
        ITEMS * size_of::<Slot>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_together_are_the_law() {
        for skew in [0, 500, 1000, 1300, 4000] {
            let items = Items::new(skew, 7);
            let mut shares = vec![0.0; ITEMS as usize];
            for (item, slot) in items.slots.iter().enumerate() {
                let own = (f64::from(slot.own) / (1u64 << 32) as f64).min(1.0);
                shares[item] += own;
                shares[slot.other as usize] += 1.0 - own;
            }
            let ranks = Scatter::new(ITEMS, 7);
            let weight = |rank: u64| exp(-(skew as f64) / 1000.0 * log((rank + 1) as f64));
            let total: f64 = (0..ITEMS).map(weight).sum();
            for rank in 0..ITEMS {
                let expected = weight(rank) / total * ITEMS as f64;
                let off = shares[ranks.place(rank) as usize] - expected;
                assert!(
                    off.abs() < 1e-4 * expected.max(1e-3),
                    "skew {skew}, rank {rank}: {off} of {expected}"
                );
            }
        }
    }

    #[test]
    fn draws_follow_the_slots() {
        let (items, mut random) = (Items::new(1000, 7), SplitMix64::new(2));
        let first = Scatter::new(ITEMS, 7).place(0);
        // One in 12.09, the harmonic number of 100,000.
        let drawn = (0..100_000).filter(|_| items.draw(&mut random) == first).count();
        assert!((7_900..8_650).contains(&drawn), "{drawn}");
    }
}
