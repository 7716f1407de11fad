//! A hash index with chains, loaded by arithmetic: keys 0 to n - 1, as many buckets as keys.
//!
//! The hash function takes a key to a place 0 to n - 1 (a bijection), sixteen places to a group, and within its group to one
//! of sixteen buckets at random: so chains are nearly as long as they are in any table of load factor 1 (binomial of 16
//! instead of Poisson's distribution), and which keys a bucket holds can be computed. Keys were inserted in order, so that
//! key k has node k.
//!
//! ```text
//! buckets  8 bytes each: the first node of the chain
//! nodes    next (8 bytes), key, and what the user of the index adds
//! ```

use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

use crate::emit::{Emitter, Halt};
use crate::jobs::{Job, Scatter};
use crate::random::mix;
use crate::space::AddressSpace;

pub(crate) const BUCKET_BYTES: u64 = 8;
/// Where a node holds its key, and what comes behind a key of 8 bytes.
const KEY: u64 = 8;
pub(crate) const BEHIND_KEY: u64 = 16;

/// Places, and buckets, of a group: a bucket's number within its group takes four bits of a mixed word.
const GROUP: u64 = 16;
/// Instructions to hash a key, and to compare the key of one node (assumed).
const HASH_INSTRUCTIONS: u64 = 20;
const NODE_INSTRUCTIONS: u64 = 4;

/// The index; it holds nothing, as nothing in it changes.
#[derive(Clone, Copy)]
pub(crate) struct Index {
    keys: u64,
    seed: u64,
    places: Scatter,
    buckets: VirtAddr,
    nodes: VirtAddr,
    node_bytes: u64,
    key_bytes: u32,
}

/// The bytes that an index maps.
pub(crate) const fn index_bytes(keys: u64, node_bytes: u64) -> u64 {
    (keys.next_multiple_of(GROUP) * BUCKET_BYTES).next_multiple_of(PAGE_BYTES)
        + (keys * node_bytes).next_multiple_of(PAGE_BYTES)
}

impl Index {
    /// Maps an index of `keys` keys, each of `key_bytes` in a node of `node_bytes`.
    pub(crate) fn new(
        (keys, seed): (u64, u64),
        (node_bytes, key_bytes): (u64, u32),
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Self {
        let buckets = (keys.next_multiple_of(GROUP) * BUCKET_BYTES).next_multiple_of(PAGE_BYTES);
        let nodes = (keys * node_bytes).next_multiple_of(PAGE_BYTES);
        Self {
            keys,
            seed: mix(seed ^ GROUP),
            places: Scatter::new(keys, mix(seed)),
            buckets: space.map(buckets, out).start,
            nodes: space.map(nodes, out).start,
            node_bytes,
            key_bytes,
        }
    }

    /// Finds the node of a key by following its chain.
    #[inline]
    pub(crate) fn find(&self, key: u64, job: &mut Job<'_, '_>) -> Result<VirtAddr, Halt> {
        let bucket = self.bucket(key);
        job.compute(HASH_INSTRUCTIONS)?;
        job.seek()?;
        job.follow(self.buckets.add(bucket * BUCKET_BYTES), 8)?;
        for found in self.chain(bucket) {
            let node = self.node(found);
            job.compute(NODE_INSTRUCTIONS)?;
            job.load(node.add(KEY), self.key_bytes)?;
            job.decide(found == key)?;
            if found == key {
                return Ok(node);
            }
            job.follow(node, 8)?;
        }
        Err(Halt::Wrong(format!("key {key} is not in the chain of bucket {bucket}")))
    }

    /// The node of a key.
    fn node(&self, key: u64) -> VirtAddr {
        self.nodes.add(key * self.node_bytes)
    }

    /// Returns a key's bucket, by the hash function.
    fn bucket(&self, key: u64) -> u64 {
        let place = self.places.place(key);
        let group = place / GROUP;
        group * GROUP + (self.buckets_of(group) >> (place % GROUP * 4)) % GROUP
    }

    /// Four bits for each place of a group: which bucket of the group its key is in.
    fn buckets_of(&self, group: u64) -> u64 {
        mix(self.seed.wrapping_add(group))
    }

    /// The keys of a bucket.
    #[inline]
    fn chain(&self, bucket: u64) -> impl Iterator<Item = u64> + '_ {
        let first = bucket - bucket % GROUP;
        let buckets = self.buckets_of(first / GROUP);
        let places = first..(first + GROUP).min(self.keys);
        let is_here = move |place: &u64| (buckets >> ((place - first) * 4)) % GROUP == bucket % GROUP;
        places.filter(is_here).map(|place| self.places.number(place))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    fn index(keys: u64) -> Index {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        Index::new((keys, 3), (64, 8), &mut space, &mut out)
    }

    #[test]
    fn each_key_is_in_one_chain_and_that_is_its_bucket() {
        for keys in [1, 15, 16, 17, 1000, 4096] {
            let index = index(keys);
            let mut seen = vec![false; keys as usize];
            for bucket in 0..keys.next_multiple_of(GROUP) {
                for key in index.chain(bucket) {
                    assert_eq!(index.bucket(key), bucket);
                    assert!(!std::mem::replace(&mut seen[key as usize], true), "{key} twice");
                }
            }
            assert!(seen.iter().all(|&seen| seen), "{keys} keys");
        }
    }

    #[test]
    fn chains_are_as_long_as_chance_makes_them() {
        const KEYS: u64 = 1 << 16;
        let index = index(KEYS);
        let mut lengths = [0u32; 17];
        (0..KEYS).for_each(|bucket| lengths[index.chain(bucket).count()] += 1);
        // Binomial: 16 tries at one in 16. Empty: (15/16)^16 = 0.3561; one: 0.3798; two: 0.1899.
        for (length, share) in [0.3561, 0.3798, 0.1899].into_iter().enumerate() {
            let off = f64::from(lengths[length]) / KEYS as f64 - share;
            assert!(off.abs() < 0.01, "{length}: {lengths:?}");
        }
    }
}
