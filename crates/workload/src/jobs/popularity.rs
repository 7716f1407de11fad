//! Which record a client asks for: some far more often than others, and these anywhere in memory.

use super::scatter::Scatter;
use super::zipf::Zipf;
use crate::random::SplitMix64;

/// Records 0 to n - 1, drawn by Zipf's law over their ranks; ranks are scattered over the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Popularity {
    zipf: Zipf,
    scatter: Scatter,
}

impl Popularity {
    /// Of `records` records, at most 2^40. `skew` is the exponent in thousandths, 0 for all alike.
    pub(crate) fn new(records: u64, skew: u64, seed: u64) -> Self {
        Self { zipf: Zipf::new(records, skew as f64 / 1000.0), scatter: Scatter::new(records, seed) }
    }

    /// Draws the number of a record.
    #[inline]
    pub(crate) fn draw(&self, random: &mut SplitMix64) -> u64 {
        self.scatter.place(self.zipf.draw(random) - 1)
    }
}
