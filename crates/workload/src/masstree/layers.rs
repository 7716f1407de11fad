//! Keys, layers and nodes, and the ways through them.
//!
//! A key has 16 or 24 bytes. Its first eight name one of many groups, and 225 keys are in each:
//!
//! | group | keys | second layer | third layer |
//! |---|---|---|---|
//! | even | 16 bytes | one tree of 225 keys: an interior node over 15 border nodes | none |
//! | odd | 24 bytes | one border node of 15 links | 15 trees of one border node with 15 keys |
//!
//! So each group has 16 nodes, the first of them its root, and each key passes two. The first layer is one tree with a
//! link for each group. All trees were loaded in order ([`crate::packed_tree`]).
//!
//! ```text
//! interior | version | 15 key slices    | 16 children            |
//!          0         8                  128                      256          320
//! border   | version | 15 key lengths | permutation | 15 key slices | 15 links or values | neighbours ... |
//!          0         8                24            32              152                  272            320
//! ```
//!
//! The paper's nodes have these parts (figure 2), and here five lines each. All nodes of the first layer come first, level by
//! level, then the groups, then the rows, in the order of keys. DEVIATION: a key has two rows of 64 bytes, which take turns;
//! Masstree takes a new row from its allocator.

use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

use crate::emit::{Emitter, Stop};
use crate::jobs::Job;
use crate::packed_tree::{LEAF_KEYS, Shape};
use crate::space::AddressSpace;

pub(super) const NODE_BYTES: u64 = 320;
pub(super) const ROW_BYTES: u64 = 64;
/// The rows of a key take turns.
const ROWS: u64 = 2;
pub(super) const GROUP_KEYS: u64 = LEAF_KEYS * LEAF_KEYS;
/// A root, and 15 border nodes below it.
const GROUP_NODES: u64 = 1 + LEAF_KEYS;

const INTERIOR_SLICES: u64 = 8;
const CHILDREN: u64 = 128;
const LENGTHS: u64 = 8;
const PERMUTATION: u64 = 24;
const BORDER_SLICES: u64 = 32;
const LINKS: u64 = 152;

// The parts of nodes lie apart.
const _: () = assert!(INTERIOR_SLICES + 8 * 15 <= CHILDREN && CHILDREN + 8 * 16 <= NODE_BYTES);
const _: () = assert!(LENGTHS + 15 <= PERMUTATION && PERMUTATION + 8 <= BORDER_SLICES);
const _: () = assert!(BORDER_SLICES + 8 * 15 <= LINKS && LINKS + 8 * 15 <= NODE_BYTES);

/// Accesses of a step down from an interior and from a border node, and instructions in a node (assumed).
const INTERIOR_ACCESSES: f64 = 4.0;
const BORDER_ACCESSES: f64 = 5.0;
const NODE_INSTRUCTIONS: u64 = 24;

/// What was found: where the link to the row is, and the rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) border: VirtAddr,
    pub(super) link: VirtAddr,
    rows: VirtAddr,
}

impl Found {
    /// The row of a key that had so many puts.
    pub(super) fn row(&self, puts: u32) -> VirtAddr {
        self.rows.add(u64::from(puts) % ROWS * ROW_BYTES)
    }
}

/// The trees of all layers.
pub(super) struct Layers {
    first: Shape,
    base: VirtAddr,
    groups: VirtAddr,
    rows: VirtAddr,
}

/// How many groups a dataset has, at least one.
pub(super) fn groups_in(dataset_bytes: u64) -> u64 {
    // The first layer has a node for 15 groups, and a sixteenth and a bit of that above; rounded up.
    let group_bytes = GROUP_NODES * NODE_BYTES + GROUP_KEYS * ROWS * ROW_BYTES + NODE_BYTES / 14;
    (dataset_bytes / group_bytes).max(1)
}

/// The bytes of the first layer, the groups and the rows.
fn parts(groups: u64) -> [u64; 3] {
    let first = Shape::new(groups).nodes() * NODE_BYTES;
    [first, groups * GROUP_NODES * NODE_BYTES, groups * GROUP_KEYS * ROWS * ROW_BYTES]
        .map(|bytes| bytes.next_multiple_of(PAGE_BYTES))
}

/// The bytes that so many groups map.
pub(super) fn mapped_bytes(groups: u64) -> u64 {
    parts(groups).iter().sum()
}

/// Accesses and instructions on the way to a key's row, on average.
pub(super) fn way_cost(groups: u64) -> (f64, u64) {
    // Half of the keys pass an interior and a border node in their group, half two border nodes.
    let levels = u64::from(Shape::new(groups).levels());
    let (interior, border) = (levels as f64 - 1.0 + 0.5, 1.0 + 1.5);
    (1.0 + interior * INTERIOR_ACCESSES + border * BORDER_ACCESSES, (levels + 2) * NODE_INSTRUCTIONS)
}

/// About how many pages the way touches: two in the group, most often, and one on each large level of the first layer.
pub(super) fn pages_of_way(groups: u64) -> f64 {
    let first = Shape::new(groups);
    let small = |height: &u32| first.nodes_at(*height) * NODE_BYTES < PAGE_BYTES / 2;
    let large = (0..first.levels()).filter(|height| !small(height)).count();
    large as f64 + f64::from(first.nodes() > first.nodes_at(0)) + IN_GROUP_PAGES
}

/// Of 16 nodes over 5 KiB the root and another: counted.
const IN_GROUP_PAGES: f64 = 1.6;

impl Layers {
    pub(super) fn new(groups: u64, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Self {
        // Mappings are handed out downwards.
        let [base, nodes, rows] = parts(groups).map(|bytes| space.map(bytes, out).start);
        Self { first: Shape::new(groups), base, groups: nodes, rows }
    }

    /// Goes to the border node that has a key's row, through all layers.
    ///
    /// Going down is hand over hand (section 4.6): the version of the node below is read before that of the node above
    /// is read again, to see whether another thread changed it meanwhile. DEVIATION: of the slices that are compared only the
    /// last is emitted; they lie in two lines.
    #[inline]
    pub(super) fn find(&self, key: u64, job: &mut Job<'_, '_>) -> Result<Found, Stop> {
        let (group, in_group) = (key / GROUP_KEYS, key % GROUP_KEYS);
        let root = self.groups.add(group * GROUP_NODES * NODE_BYTES);
        let below = root.add((1 + in_group / LEAF_KEYS) * NODE_BYTES);
        job.seek()?;
        job.load(self.base, 8)?;
        let mut way = self.first.way(group).peekable();
        while let Some(step) = way.next() {
            let node = self.base.add(step.node * NODE_BYTES);
            match way.peek() {
                Some(next) => {
                    let next = self.base.add(next.node * NODE_BYTES);
                    interior(node, step.slot, next, job)?;
                }
                None => _ = border(node, step.slot, Some(root), job)?,
            }
        }
        let (upper, lower) = (in_group / LEAF_KEYS, in_group % LEAF_KEYS);
        if has_short_keys(group) {
            interior(root, upper, below, job)?;
        } else {
            border(root, upper, Some(below), job)?;
        }
        let link = border(below, lower, None, job)?;
        Ok(Found { border: below, link, rows: self.rows.add(key * ROWS * ROW_BYTES) })
    }
}

/// Whether the keys of a group have 16 bytes, and therefore one layer less.
fn has_short_keys(group: u64) -> bool {
    group.is_multiple_of(2)
}

/// Goes from an interior node, whose version was read, to a child.
#[inline]
fn interior(node: VirtAddr, slot: u64, child: VirtAddr, job: &mut Job<'_, '_>) -> Result<(), Stop> {
    job.compute(NODE_INSTRUCTIONS)?;
    // Left of the first slice is the first child.
    job.load(node.add(INTERIOR_SLICES + 8 * slot.saturating_sub(1)), 8)?;
    job.decide(slot.is_multiple_of(2))?;
    job.follow(node.add(CHILDREN + 8 * slot), 8)?;
    job.load(child, 8)?;
    job.load(node, 8)
}

/// Finds a slot of a border node, whose version was read, and goes on to the root of the next layer, if there is one.
/// Answers where the slot's link is.
#[inline]
fn border(
    node: VirtAddr,
    slot: u64,
    next: Option<VirtAddr>,
    job: &mut Job<'_, '_>,
) -> Result<VirtAddr, Stop> {
    job.compute(NODE_INSTRUCTIONS)?;
    let link = node.add(LINKS + 8 * slot);
    job.load(node.add(PERMUTATION), 8)?;
    job.load(node.add(BORDER_SLICES + 8 * slot), 8)?;
    job.decide(slot.is_multiple_of(2))?;
    job.load(node.add(LENGTHS + slot), 1)?;
    job.follow(link, 8)?;
    if let Some(root) = next {
        job.load(root, 8)?;
    }
    job.load(node, 8)?;
    Ok(link)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;
    use crate::jobs::with_job;

    fn layers(groups: u64) -> Layers {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        Layers::new(groups, &mut space, &mut out)
    }

    #[test]
    fn each_key_has_a_link_and_rows_of_its_own() {
        let groups = 40;
        let layers = layers(groups);
        let (mut links, mut rows) = (BTreeSet::new(), BTreeSet::new());
        for key in 0..groups * GROUP_KEYS {
            let found = with_job(|job| layers.find(key, job)).unwrap();
            assert!(
                links.insert(found.link) && rows.insert(found.row(0)) && rows.insert(found.row(1)),
                "{key}"
            );
            let slot = (found.link.0 - found.border.0 - LINKS) / 8;
            assert_eq!(slot, key % LEAF_KEYS);
            // It lies in the group, and not in its root.
            let node = (found.border.0 - layers.groups.0) / NODE_BYTES;
            assert_eq!(node / GROUP_NODES, key / GROUP_KEYS);
            assert_ne!(node % GROUP_NODES, 0);
        }
        let rows: Vec<_> = rows.into_iter().collect();
        assert!(rows.windows(2).all(|pair| pair[0].add(ROW_BYTES) == pair[1]));
        assert!(rows[rows.len() - 1].add(ROW_BYTES) <= layers.groups);
        assert!(layers.groups.add(groups * GROUP_NODES * NODE_BYTES) <= layers.base);
    }

    #[test]
    fn datasets_are_filled() {
        for dataset in [1 << 20, 1 << 30, 1 << 40, 4 << 40] {
            let share = mapped_bytes(groups_in(dataset)) as f64 / dataset as f64;
            assert!((0.95..1.01).contains(&share), "{dataset}: {share}");
        }
    }
}
