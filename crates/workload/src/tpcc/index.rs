//! A hash index whose buckets are cache lines, as servers have it that keep their data in memory (Lim et al., "MICA: A
//! Holistic Approach to Fast In-Memory Key-Value Storage", NSDI 2014), loaded by arithmetic.
//!
//! The hash function is a bijection of keys and places. Most places are in the buckets that keys hash to; the last eighth is
//! in buckets that hang behind these because they are full (assumed). A key there takes a second access.
//!
//! ```text
//!  | bucket 0: entry, entry, ... | bucket 1 | ...           | buckets behind others |
//!    64 bytes                                 7/8 of places   1/8 of places
//! ```

use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr, VirtRange};

use crate::emit::{Emitter, Stop};
use crate::jobs::{Job, Scatter};
use crate::random::mix;
use crate::space::AddressSpace;

const BUCKET_BYTES: u64 = 64;
/// One in so many keys is in a bucket behind another.
const OVERFLOW: u64 = 8;
/// Accesses to find a key, on average.
pub(super) const FIND_ACCESSES: f64 = 1.0 + 1.0 / OVERFLOW as f64;
/// Instructions to hash a key and to compare those of a bucket (assumed).
pub(super) const FIND_INSTRUCTIONS: u64 = 30;

/// An index over the keys 0 to n - 1; it holds nothing, as nothing in it changes.
#[derive(Clone, Copy)]
pub(super) struct Index {
    places: Scatter,
    /// Places that are in the bucket their key hashes to.
    home_places: u64,
    entry_bytes: u64,
    range: VirtRange,
}

/// The bytes that an index of `keys` entries of `entry_bytes` maps.
pub(super) fn index_bytes(keys: u64, entry_bytes: u64) -> u64 {
    (keys * entry_bytes).next_multiple_of(PAGE_BYTES)
}

impl Index {
    pub(super) fn new(
        keys: u64,
        entry_bytes: u64,
        seed: u64,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Self {
        let range = space.map(index_bytes(keys, entry_bytes), out);
        Self { places: Scatter::new(keys, seed), home_places: keys - keys / OVERFLOW, entry_bytes, range }
    }

    /// Finds the entry of a key.
    #[inline]
    pub(super) fn find(&self, key: u64, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        job.compute(FIND_INSTRUCTIONS)?;
        job.seek()?;
        let place = self.places.place(key);
        if place >= self.home_places {
            // The bucket that the key hashes to says where the next one is.
            let bytes = mix(key) % self.home_places * self.entry_bytes;
            job.follow(self.range.start.add(bytes).align_down(BUCKET_BYTES), 8)?;
        }
        job.follow(self.entry(place), self.entry_bytes as u32)
    }

    fn entry(&self, place: u64) -> VirtAddr {
        self.range.start.add(place * self.entry_bytes)
    }

    #[cfg(test)]
    pub(super) fn range(&self) -> VirtRange {
        self.range
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;
    use crate::jobs::with_job;

    #[test]
    fn each_key_has_an_entry_of_its_own_within_the_index() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        for keys in [1, 7, 8, 1000] {
            for entry_bytes in [16, 32] {
                let index = Index::new(keys, entry_bytes, 3, &mut space, &mut out);
                let mut entries: Vec<_> =
                    (0..keys).map(|key| index.entry(index.places.place(key)).0).collect();
                entries.sort_unstable();
                assert!(entries.windows(2).all(|pair| pair[1] - pair[0] == entry_bytes), "{keys} keys");
                assert!(entries[0] == index.range.start.0);
                assert!(entries[keys as usize - 1] + entry_bytes <= index.range.end.0);
                with_job(|job| (0..keys).try_for_each(|key| index.find(key, job))).unwrap();
            }
        }
    }
}
