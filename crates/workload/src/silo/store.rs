//! The memory of the store, and the ways to everything in it.
//!
//! ```text
//! node    | version | 15 keys            | 16 children, or 15 records and the next leaf |
//!         0         8                    128                                             256
//! record  | version | older version | size | value, 100 bytes |
//!         0         8               16     24                  128
//! ```
//!
//! Nodes lie level by level, as loaded in bulk. Records lie in the order in which they came to be, long before the tree
//! was loaded; that is not the order of their keys.

use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

use crate::emit::{Emitter, Stop};
use crate::jobs::{Job, Scatter};
use crate::packed_tree::Shape;
use crate::random::mix;
use crate::space::AddressSpace;

const NODE_BYTES: u64 = 256;
const RECORD_BYTES: u64 = 128;
/// Of a record with its share of the nodes: 256 bytes for 15 keys, and a sixteenth and a bit of that above; rounded up.
const SHARE_BYTES: u64 = RECORD_BYTES + 19;
const KEYS: u64 = 8;
const CHILDREN: u64 = 128;
const VALUE: u64 = 24;
const LINE_BYTES: u64 = 64;

/// Accesses in a node and for the content of a record, the check of its version included; and instructions (assumed).
pub(super) const NODE_ACCESSES: u64 = 4;
pub(super) const READ_ACCESSES: u64 = 4;
pub(super) const NODE_INSTRUCTIONS: u64 = 20;
pub(super) const READ_INSTRUCTIONS: u64 = 40;

/// The tree, the records, and the number of the epoch.
pub(super) struct RecordTree {
    shape: Shape,
    order: Scatter,
    nodes: VirtAddr,
    records: VirtAddr,
    pub(super) epoch: VirtAddr,
}

/// How many records a dataset has.
pub(super) fn records_in(dataset_bytes: u64) -> u64 {
    dataset_bytes / SHARE_BYTES
}

/// The bytes that a store of `records` maps.
pub(super) fn mapped_bytes(records: u64) -> u64 {
    parts(records, &Shape::new(records)).iter().sum()
}

/// The bytes of nodes, records, and what all threads share.
fn parts(records: u64, shape: &Shape) -> [u64; 3] {
    [shape.nodes() * NODE_BYTES, records * RECORD_BYTES, PAGE_BYTES]
        .map(|bytes| bytes.next_multiple_of(PAGE_BYTES))
}

impl RecordTree {
    pub(super) fn new(records: u64, seed: u64, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Self {
        let shape = Shape::new(records);
        let [nodes, all, shared] = parts(records, &shape).map(|bytes| space.map(bytes, out).start);
        Self { shape, order: Scatter::new(records, mix(!seed)), nodes, records: all, epoch: shared }
    }

    /// Goes down to the leaf of a key and answers where its record is.
    ///
    /// A node's version is read before and after, to see whether another transaction changed it. DEVIATION: of the keys that are
    /// compared in a node only the last is emitted; they lie in two lines.
    #[inline]
    pub(super) fn find(&self, key: u64, job: &mut Job<'_, '_>) -> Result<VirtAddr, Stop> {
        job.seek()?;
        for step in self.shape.way(key) {
            let node = self.nodes.add(step.node * NODE_BYTES);
            job.compute(NODE_INSTRUCTIONS)?;
            job.load(node, 8)?;
            // Left of the first key is the first child.
            let compared = if step.height == 0 { step.slot } else { step.slot.saturating_sub(1) };
            job.load(node.add(KEYS + 8 * compared), 8)?;
            job.decide(step.slot.is_multiple_of(2))?;
            job.follow(node.add(CHILDREN + 8 * step.slot), 8)?;
            job.load(node, 8)?;
        }
        Ok(self.record(key))
    }

    /// Reads a record; its version before and after.
    #[inline]
    pub(super) fn read(&self, record: VirtAddr, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        job.compute(READ_INSTRUCTIONS)?;
        job.load(record, 8)?;
        job.load(record.add(VALUE), (LINE_BYTES - VALUE) as u32)?;
        job.load(record.add(LINE_BYTES), LINE_BYTES as u32)?;
        job.load(record, 8)
    }

    /// Writes a record's value and then its version.
    #[inline]
    pub(super) fn write(&self, record: VirtAddr, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        job.compute(READ_INSTRUCTIONS)?;
        job.store(record.add(VALUE), (LINE_BYTES - VALUE) as u32)?;
        job.store(record.add(LINE_BYTES), LINE_BYTES as u32)?;
        job.store(record, 8)
    }

    fn record(&self, key: u64) -> VirtAddr {
        self.records.add(self.order.place(key) * RECORD_BYTES)
    }
}

/// About how many pages are touched on the ways to `keys` different keys, their records not included.
pub(super) fn pages_of_ways(records: u64, keys: u64) -> f64 {
    let shape = Shape::new(records);
    let in_page = PAGE_BYTES / NODE_BYTES;
    // Levels of a few nodes share a page.
    let large =
        (0..shape.levels()).map(|height| shape.nodes_at(height)).filter(|&nodes| nodes >= in_page / 2);
    // How many of `pages` are drawn in so many draws.
    let drawn = |pages: f64| pages * (1.0 - (1.0 - 1.0 / pages).powi(keys as i32));
    1.0 + large.map(|nodes| drawn(nodes.div_ceil(in_page) as f64)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;
    use crate::jobs::with_job;

    #[test]
    fn nodes_and_records_lie_apart_and_each_key_has_its_record() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let count = 5000;
        let store = RecordTree::new(count, 3, &mut space, &mut out);
        let mut found: Vec<_> =
            with_job(|job| (0..count).map(|key| store.find(key, job)).collect::<Result<_, _>>()).unwrap();
        found.sort();
        assert!(found.windows(2).all(|pair| pair[0].add(RECORD_BYTES) == pair[1]));
        // Mappings are handed out downwards: the shared page, the records, the nodes.
        let end = |base: VirtAddr, bytes: u64| base.add(bytes);
        assert!(end(store.epoch, PAGE_BYTES) <= found[0]);
        assert!(end(found[count as usize - 1], RECORD_BYTES) <= store.nodes);
        assert!(mapped_bytes(count) >= store.nodes.0 - store.epoch.0 + store.shape.nodes() * NODE_BYTES);
    }

    #[test]
    fn datasets_are_filled() {
        for dataset in [64 << 10, 1 << 20, 1 << 30, 1 << 40, 4 << 40] {
            let share = mapped_bytes(records_in(dataset)) as f64 / dataset as f64;
            assert!((0.99..1.15).contains(&share), "{dataset}: {share}");
        }
        assert!((0.99..=1.0).contains(&(mapped_bytes(records_in(1 << 40)) as f64 / (1u64 << 40) as f64)));
    }
}
