//! The random numbers of the workloads: published generators, written from their definitions.

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection that maps 0 to 0.
#[inline]
pub(crate) const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// SplitMix64. Number `i` of a stream is a function of seed and `i` alone, so a check can recompute any one.
#[derive(Clone, Copy)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The stream of one item out of many: edge 17, look-up 4711.
    #[inline]
    pub(crate) const fn of_item(seed: u64, item: u64) -> Self {
        Self(mix(seed ^ mix(item.wrapping_add(Self::GAMMA))))
    }

    #[inline]
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::GAMMA);
        mix(self.0)
    }

    /// Uniform in [0, 1), with 53 bits.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform below `bound`, which is not 0 (multiply-shift; the bias is below bound / 2^64).
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }
}

/// `srand48` and `lrand48` of POSIX: x -> (0x5deece66d x + 11) mod 2^48, the upper 31 bits.
pub(crate) struct Lrand48(u64);

impl Lrand48 {
    pub(crate) const fn new(seed: u32) -> Self {
        Self((seed as u64) << 16 | 0x330e)
    }

    #[inline]
    pub(crate) const fn next(&mut self) -> u32 {
        self.0 = (self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(11)) & ((1 << 48) - 1);
        (self.0 >> 17) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lrand48_is_that_of_the_c_library() {
        // glibc 2.36: srand48(0xcafebabe), then three calls of lrand48.
        let mut random = Lrand48::new(0xcafe_babe);
        assert_eq!([random.next(), random.next(), random.next()], LRAND48_OF_GLIBC);
    }

    const LRAND48_OF_GLIBC: [u32; 3] = [814_730_465, 1_249_889_207, 462_792_757];

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
