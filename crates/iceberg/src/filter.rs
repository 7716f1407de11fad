//! The spill filter: whether a key that is not in its first-level block can be anywhere else.
//!
//! DEVIATION: `IcebergHT` has none; there, a key that is not in the first level is looked for in two blocks of the
//! second. At load 0.95 a block has six of its items there, on average. The filter lists eight bits of the hash of
//! each, so that 97 of 100 look-ups for absent keys end in the first level.

use std::num::NonZeroU8;

use crate::tags::equal;

/// Room on the list. One block in 500 has more items behind its first level at load 0.95.
const LISTED: usize = 28;

/// Bytes of the hashes of a first-level block's keys that stand in the second level.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    /// Zero is a free place.
    listed: [u8; LISTED],
    /// The number of items that found no free place. A count that has reached its maximum stays there.
    unlisted: u8,
}

impl Filter {
    #[cfg(test)]
    pub(crate) const EMPTY: Self = Self { listed: [0; LISTED], unlisted: 0 };

    /// False if no such key is in the second level.
    #[inline(always)]
    pub(crate) fn may_hold(&self, spill: NonZeroU8) -> bool {
        !equal(&self.listed, spill.get()).is_empty() | (self.unlisted != 0)
    }

    /// Such a key has come into the second level.
    pub(crate) fn add(&mut self, spill: NonZeroU8) {
        match equal(&self.listed, 0).lowest() {
            Some(free) => self.listed[free] = spill.get(),
            None => self.unlisted = self.unlisted.saturating_add(1),
        }
    }

    /// Such a key has left the second level.
    pub(crate) fn remove(&mut self, spill: NonZeroU8) {
        // Of equal bytes it does not matter which one goes, a listed or an unlisted one.
        if let Some(listed) = equal(&self.listed, spill.get()).lowest() {
            self.listed[listed] = 0;
        } else if self.unlisted != u8::MAX {
            // Not below zero, unless a key's hash has changed while it was in the map.
            self.unlisted = self.unlisted.saturating_sub(1);
        }
    }
}
