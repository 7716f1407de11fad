//! The hash functions of a page table's ways.

use super::WayHashes;
use crate::hash::{Crc64, ECMA};
use crate::random::mix;

/// Hashes of line numbers, or of any other keys: page numbers divided by the pages of a line.
#[derive(Clone, Debug)]
pub struct LineHash {
    seed: u64,
    crc: Option<Crc64>,
}

/// The golden ratio's bits: seeds are small numbers.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

impl LineHash {
    /// Multiplications and shifts: all bits mixed into all.
    pub fn mixed(seed: u64) -> Self {
        Self { seed: mix(seed ^ SALT), crc: None }
    }

    /// Returns CRC-64 as hardware would compute it, then mixed:
    pub fn crc(seed: u64) -> Self {
        Self { seed: mix(seed ^ SALT), crc: Some(Crc64::new(ECMA)) }
    }
}

impl WayHashes for LineHash {
    #[inline(always)]
    fn word(&self, key: u64) -> u64 {
        let key = self.crc.as_ref().map_or(key, |crc| crc.hash(key));
        mix(key ^ self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A random function leaves 1/e of as many slots as keys empty.
    #[test]
    fn words_fill_slots_like_a_random_function() {
        let slots = 1 << 14;
        for hash in [LineHash::mixed(1), LineHash::crc(1)] {
            for shift in [0, 21, 42] {
                let mut hit = vec![false; slots];
                (0..slots as u64).for_each(|line| hit[(hash.word(line) >> shift) as usize % slots] = true);
                let filled = hit.iter().filter(|&&hit| hit).count() as f64 / slots as f64;
                assert!((filled - 0.632).abs() < 0.01, "shift {shift}: {filled}");
            }
        }
    }
}
