//! The hash functions of a page table's ways.

use super::WayHashes;
use super::way::HashChoice;
use crate::hash::{Crc64, ECMA};
use crate::random::mix;

/// Hashes of line numbers, or of any other keys: page numbers divided by the pages of a line.
///
/// A way's functions differ by a seed, which goes in after what is common to all: a probe in `n` ways costs one CRC.
#[derive(Clone, Debug)]
pub struct LineHash {
    seed: u64,
    crc: Option<Crc64>,
}

impl LineHash {
    /// Multiplications and shifts: all bits mixed into all.
    pub fn mixed(seed: u64) -> Self {
        Self { seed, crc: None }
    }

    /// CRC-64 as hardware would compute it, then mixed: by itself it would leave a third of the slots that
    /// random numbers reach unused.
    pub fn crc(seed: u64) -> Self {
        Self { seed, crc: Some(Crc64::new(ECMA)) }
    }
}

impl WayHashes for LineHash {
    #[inline(always)]
    fn hash(&self, key: u64, choice: HashChoice) -> u64 {
        let common = self.crc.as_ref().map_or(key, |crc| crc.hash(key));
        // Odd multiples of the golden ratio's bits: different for every way and generation.
        let number = (u64::from(choice.generation) << 4 | choice.way as u64) * 2 + 1;
        mix(common ^ self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}
