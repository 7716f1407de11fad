//! Tabulation hashing with probing: the hash that fits beside a TLB.

use super::HashFamily;
use crate::random::SplitMix64;

/// Tables for 8-bit slices of the key.
const WIDE_TABLES: usize = 5;
/// Bits of the key: 36 of page number and 9 of address space.
const KEY_BITS: u32 = 45;

/// The exclusive or of one table entry for each slice of a 45-bit key.
///
/// ```text
///   44     37 36     29 28     21 20     13 12      5 4    0
///  +---------+---------+---------+---------+---------+------+
///  | table 0 | table 1 | table 2 | table 3 | table 4 | 5    |     entries: 5 times 256, once 32, of 32 bits
///  +---------+---------+---------+---------+---------+------+
/// ```
///
/// Member `k` of the family reads `k` entries further in every table, modulo the table's size (*probing*): hardware
/// needs one set of tables, and evaluates one member for a translation because the frame's code says which. The
/// circuit published with Mosaic Pages does not wrap and reads past its tables (`DEVIATION:` we wrap).
///
/// Bits of the key above the 45th are ignored: pages that differ only there have the same frames to choose from,
/// which is allowed.
#[derive(Clone, Debug)]
pub struct Tabulation {
    wide: Box<[[u32; 256]; WIDE_TABLES]>,
    narrow: [u32; 32],
}

impl Tabulation {
    /// Tables filled by SplitMix64 from a seed, table 0 first.
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut next = || (random.next() >> 32) as u32;
        let wide = Box::new(std::array::from_fn(|_| std::array::from_fn(|_| next())));
        Self { wide, narrow: std::array::from_fn(|_| next()) }
    }

    /// Returns the tables' words in their order, for a circuit that shall compute the same.
    pub fn words(&self) -> impl Iterator<Item = u32> {
        self.wide.iter().flatten().chain(&self.narrow).copied()
    }
}

impl HashFamily for Tabulation {
    #[inline]
    fn hash(&self, key: u64, member: u32) -> u64 {
        let wide = self.wide.iter().enumerate().fold(0, |hash, (number, table)| {
            let shift = KEY_BITS - 8 * (number as u32 + 1);
            hash ^ table[((key >> shift) as u32).wrapping_add(member) as usize % 256]
        });
        u64::from(wide ^ self.narrow[(key as u32).wrapping_add(member) as usize % 32])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, slice by slice.
    fn spelled_out(hash: &Tabulation, key: u64, member: u64) -> u64 {
        let words: Vec<u32> = hash.words().collect();
        let mut result = words[1280 + ((key & 31) + member) as usize % 32];
        for table in 0..5 {
            let slice = key >> (37 - 8 * table) & 255;
            result ^= words[256 * table + (slice + member) as usize % 256];
        }
        u64::from(result)
    }

    #[test]
    fn every_member_reads_further_in_every_table_and_wraps() {
        let hash = Tabulation::new(3);
        assert_eq!(hash.words().count(), 1312);
        let mut key = 1u64;
        for step in 0..20_000 {
            key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let member = step % 9;
            let low = key >> 19;
            assert_eq!(hash.hash(low, member as u32), spelled_out(&hash, low, member), "{low:#x} {member}");
        }
        assert_eq!(hash.hash(u64::MAX, 7), hash.hash(u64::MAX >> 19, 7), "45 bits count");
        // Member 1 of the last entry is member 0 of the first, in every table.
        assert_eq!(hash.hash(u64::MAX, 1), hash.hash(0, 0));
    }

    #[test]
    fn seeds_make_different_tables() {
        assert_ne!(Tabulation::new(1).hash(0, 0), Tabulation::new(2).hash(0, 0));
    }
}
