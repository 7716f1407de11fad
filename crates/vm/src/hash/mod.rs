//! Families of hash functions for placing pages.
//!
//! A hash-placed frame allocator needs several functions of one key: one for the front yard and one for each choice
//! in the back yard. A *family* has numbered members; [`PageHash`] is any of the families, chosen by a machine file.

mod tabulation;

pub use tabulation::Tabulation;
use xxhash_rust::xxh64::xxh64;

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

/// A family, whichever.
#[derive(Clone, Debug)]
pub enum PageHash {
    /// Tabulation with probing, as the hardware computes it.
    Tabulation(Tabulation),
    /// xxh64, as the operating system computes it.
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

/// xxh64 of the key's eight bytes, low byte first, with a seed for each member.
#[derive(Clone, Copy, Debug)]
pub struct Xxh64 {
    seed: u64,
}

impl Xxh64 {
    /// Seeds of the first seven members in the Linux prototype of Mosaic Pages (ASPLOS 2023 artifact).
    const PROTOTYPE: [u64; 7] = [2_846_245, 8_384_032, 4_392_830, 6_382_738, 3_994_928, 9_820_291, 920_194];
    /// Between the seeds of a member under two family seeds: the golden ratio in 64 bits, so that none repeat.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// A family. Seed 0 gives the prototype's functions.
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
        xxh64(&key.to_le_bytes(), self.member_seed(member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xxh64_is_the_published_function_with_the_prototypes_seeds() {
        // The reference implementation's test vector for an empty input and seed 0 pins the algorithm.
        assert_eq!(xxh64(&[], 0), 0xef46_db37_51d8_e999);
        let family = Xxh64::new(0);
        assert_eq!(family.hash(7, 0), xxh64(&[7, 0, 0, 0, 0, 0, 0, 0], 2_846_245));
        assert_eq!(family.hash(7, 6), xxh64(&[7, 0, 0, 0, 0, 0, 0, 0], 920_194));
        assert_ne!(family.hash(7, 7), family.hash(7, 8), "there are members beyond the prototype's");
        assert_ne!(Xxh64::new(1).hash(7, 0), family.hash(7, 0));
    }
}
