//! The random numbers of the workloads: published generators, written from their definitions.

pub(crate) use pagewalk_vm::random::{SplitMix64, mix};

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
}
