//! The random numbers of everything that needs some: a published generator, written from its definition.

/// Mixes a word by the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014):
#[inline]
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The random number generator SplitMix64. Number `i` of a stream is a function of seed and `i` alone, so a check can
/// recompute any one.
#[derive(Clone, Copy, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Returns the stream of a seed, as published.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the stream of one item out of many: edge 17, look-up 4711.
    #[inline]
    pub const fn of_item(seed: u64, item: u64) -> Self {
        Self(mix(seed ^ mix(item.wrapping_add(Self::GAMMA))))
    }

    /// Returns the next number of the stream. The stream never ends, so this is no iterator.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::GAMMA);
        mix(self.0)
    }

    /// Returns a number that is uniform in [0, 1), with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns a number that is uniform below `bound`, which is not 0 (multiply-shift; the bias is below bound /
    /// 2^64).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_and_are_reached() {
        let mut random = SplitMix64::of_item(7, 0);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[random.below(10) as usize] = true;
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert_eq!(seen, [true; 10]);
    }
}
