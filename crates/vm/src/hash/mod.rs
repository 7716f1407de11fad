//! Families of hash functions for placing pages.
//!
//! A hash-placed frame allocator needs several functions of one key: one for the front yard and one for each choice
//! in the back yard. A *family* has numbered members; [`PageHash`] is any of the families, chosen by a machine file.

mod crc;
mod tabulation;

pub use crc::{Crc64, ECMA};
pub use tabulation::Tabulation;

/// Hash functions of a 64-bit key, by number.
///
/// # Contract
///
/// `hash(key, member)` is a function of its arguments and the family's seeds alone, the same on every machine.
pub trait HashFamily {
    /// Member `member` of `key`.
    fn hash(&self, key: u64, member: u32) -> u64;
}

/// Bits of a key that are the page number; above them stands the address space.
pub const PAGE_NUMBER_BITS: u32 = 36;

/// A hash family that is chosen at run time.
#[derive(Clone, Debug)]
pub enum PageHash {
    /// Tabulation with probing, as the hardware computes it.
    Tabulation(Tabulation),
    /// The function xxh64, as the operating system computes it.
    Xxh64(Xxh64),
    /// The page number's low bits: no hash at all. With one choice of buckets this is a set-partitioned memory.
    LowBits,
}

impl HashFamily for PageHash {
    #[inline]
    fn hash(&self, key: u64, member: u32) -> u64 {
        match self {
            Self::Tabulation(family) => family.hash(key, member),
            Self::Xxh64(family) => family.hash(key, member),
            Self::LowBits => key & ((1 << PAGE_NUMBER_BITS) - 1),
        }
    }
}

/// The function xxh64 of the key's eight bytes, low byte first, with a seed for each member.
#[derive(Clone, Copy, Debug)]
pub struct Xxh64 {
    seed: u64,
}

impl Xxh64 {
    /// Seeds of the first seven members in the Linux prototype of Mosaic Pages (ASPLOS 2023 artifact).
    const PROTOTYPE: [u64; 7] = [2_846_245, 8_384_032, 4_392_830, 6_382_738, 3_994_928, 9_820_291, 920_194];
    /// Between the seeds of a member under two family seeds: the golden ratio in 64 bits, so that none repeat.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Returns the family of this seed. Seed 0 gives the prototype's functions.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    fn member_seed(self, member: u32) -> u64 {
        let first = Self::PROTOTYPE.get(member as usize).copied().unwrap_or(u64::from(member));
        first.wrapping_add(self.seed.wrapping_mul(Self::STEP))
    }
}

impl HashFamily for Xxh64 {
    #[inline]
    fn hash(&self, key: u64, member: u32) -> u64 {
        xxh64_of_word(key, self.member_seed(member))
    }
}

/// xxh64 of eight bytes: what is left of the algorithm (Y. Collet, xxHash specification, version 0.2) at that length,
/// in line with its callers. One runs on every access that a TLB with compressed frame numbers serves.
#[inline]
pub(crate) fn xxh64_of_word(word: u64, seed: u64) -> u64 {
    const PRIME_1: u64 = 0x9e37_79b1_85eb_ca87;
    const PRIME_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
    const PRIME_3: u64 = 0x1656_67b1_9e37_79f9;
    const PRIME_4: u64 = 0x85eb_ca77_c2b2_ae63;
    const PRIME_5: u64 = 0x27d4_eb2f_1656_67c5;
    let lane = word.wrapping_mul(PRIME_2).rotate_left(31).wrapping_mul(PRIME_1);
    let hash = seed.wrapping_add(PRIME_5).wrapping_add(8) ^ lane;
    let hash = hash.rotate_left(27).wrapping_mul(PRIME_1).wrapping_add(PRIME_4);
    let hash = (hash ^ hash >> 33).wrapping_mul(PRIME_2);
    let hash = (hash ^ hash >> 29).wrapping_mul(PRIME_3);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh64::xxh64;

    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn xxh64_is_the_published_function_with_the_prototypes_seeds() {
        let mut random = SplitMix64::new(1);
        for _ in 0..10_000 {
            let (word, seed) = (random.next(), random.next());
            assert_eq!(xxh64_of_word(word, seed), xxh64(&word.to_le_bytes(), seed));
        }
        let family = Xxh64::new(0);
        assert_eq!(family.hash(7, 0), xxh64(&[7, 0, 0, 0, 0, 0, 0, 0], 2_846_245));
        assert_eq!(family.hash(7, 6), xxh64(&[7, 0, 0, 0, 0, 0, 0, 0], 920_194));
        assert_ne!(family.hash(7, 7), family.hash(7, 8), "there are members beyond the prototype's");
        assert_ne!(Xxh64::new(1).hash(7, 0), family.hash(7, 0));
    }
}
