//! The shape of a B+-tree that was loaded in the order of its keys: all nodes are full but the last of each level. A loader
//! in bulk leaves it so, and so do inserts in order, if a node that is split at its right end stays as it is (Mao, Kohler,
//! Morris, "Cache Craftiness for Fast Multicore Key-Value Storage", EuroSys 2012, section 4.3). So a node's place follows
//! from the rank of a key.
//!
//! Nodes are numbered level by level, from the root on: its number is 0. Heights count from the leaves, which have height 0.

/// Keys of a leaf, and children of an inner node, which has one key less.
pub(crate) const LEAF_KEYS: u64 = 15;
pub(crate) const CHILDREN: u64 = 1 << CHILDREN_LOG2;
const CHILDREN_LOG2: u32 = 4;
/// Enough for 2^40 keys, more than 15 * 16^9.
const MOST_LEVELS: usize = 11;

/// The shape of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    levels: u32,
    /// Of each height the number of the first node.
    first: [u64; MOST_LEVELS],
    nodes: u64,
}

/// A node on the way to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathNode {
    /// The number of the node.
    pub(crate) node: u64,
    pub(crate) height: u32,
    /// Which of its children, or of a leaf which of its keys, the way goes on with.
    pub(crate) slot: u64,
}

impl Shape {
    /// The tree of so many keys, 1 to 2^40.
    pub(crate) fn new(keys: u64) -> Self {
        assert!((1..=1 << 40).contains(&keys), "a tree of {keys} keys");
        let leaves = keys.div_ceil(LEAF_KEYS);
        let nodes_at = |height: u32| leaves.div_ceil(1 << (CHILDREN_LOG2 * height));
        let levels = (1..).find(|&levels| nodes_at(levels - 1) == 1).unwrap_or(1);
        let (mut first, mut nodes) = ([0; MOST_LEVELS], 0);
        for height in (0..levels).rev() {
            first[height as usize] = nodes;
            nodes += nodes_at(height);
        }
        Self { levels, first, nodes }
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// How many nodes are on each way.
    pub(crate) fn levels(&self) -> u32 {
        self.levels
    }

    /// How many nodes have this height.
    pub(crate) fn nodes_at(&self, height: u32) -> u64 {
        let end = if height == 0 { self.nodes } else { self.first[height as usize - 1] };
        end - self.first[height as usize]
    }

    /// The way from the root to the key of a rank.
    #[inline]
    pub(crate) fn way(&self, rank: u64) -> impl Iterator<Item = PathNode> + '_ {
        let leaf = rank / LEAF_KEYS;
        (0..self.levels).rev().map(move |height| PathNode {
            node: self.first[height as usize] + (leaf >> (CHILDREN_LOG2 * height)),
            height,
            slot: match height {
                0 => rank % LEAF_KEYS,
                _ => (leaf >> (CHILDREN_LOG2 * (height - 1))) % CHILDREN,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree built node by node: children of inner nodes, least ranks.
    struct Model {
        /// Nodes from the root on, with their least rank; and children or, of leaves, ranks.
        nodes: Vec<(u64, Vec<u64>)>,
        leaves_from: usize,
    }

    impl Model {
        fn new(keys: u64) -> Self {
            let ranks: Vec<u64> = (0..keys).collect();
            let mut levels = vec![ranks.chunks(15).map(|leaf| (leaf[0], leaf.to_vec())).collect::<Vec<_>>()];
            while levels[levels.len() - 1].len() > 1 {
                let below = &levels[levels.len() - 1];
                let numbers: Vec<u64> = (0..below.len() as u64).collect();
                levels.push(
                    numbers.chunks(16).map(|part| (below[part[0] as usize].0, part.to_vec())).collect(),
                );
            }
            let (mut nodes, mut first) = (Vec::new(), 0);
            let leaves_from = levels.iter().skip(1).map(Vec::len).sum();
            for (height, level) in levels.iter().enumerate().rev() {
                first += level.len() as u64;
                let add = if height > 0 { first } else { 0 };
                nodes.extend(level.iter().map(|(least, children)| {
                    (*least, children.iter().map(|child| child + add).collect::<Vec<_>>())
                }));
            }
            Self { nodes, leaves_from }
        }

        /// The way to a rank, by comparing it with the least ranks of children.
        fn way(&self, rank: u64) -> Vec<(u64, u64)> {
            let (mut node, mut way) = (0, Vec::new());
            while node < self.leaves_from {
                let children = &self.nodes[node].1;
                let slot = children.partition_point(|&child| self.nodes[child as usize].0 <= rank) - 1;
                way.push((node as u64, slot as u64));
                node = children[slot] as usize;
            }
            let slot = self.nodes[node].1.iter().position(|&key| key == rank).unwrap();
            way.push((node as u64, slot as u64));
            way
        }
    }

    #[test]
    fn ways_are_those_of_a_search() {
        for keys in [1, 14, 15, 16, 240, 241, 1000, 3840, 3841, 4000] {
            let (shape, model) = (Shape::new(keys), Model::new(keys));
            assert_eq!(shape.nodes(), model.nodes.len() as u64, "{keys} keys");
            for rank in 0..keys {
                let way: Vec<_> = shape.way(rank).map(|step| (step.node, step.slot)).collect();
                assert_eq!(way, model.way(rank), "{keys} keys, rank {rank}");
            }
        }
    }

    #[test]
    fn large_trees_have_the_levels_that_they_need() {
        for (keys, levels) in [(1 << 40, 11), (15 << 32, 9), ((15 << 32) + 1, 10), (7_500_000_000, 9)] {
            let shape = Shape::new(keys);
            assert_eq!(shape.levels(), levels, "{keys}");
            let last = shape.way(keys - 1).last().unwrap();
            assert_eq!((last.node, last.height), (shape.nodes() - 1, 0));
            assert_eq!(shape.nodes_at(levels - 1), 1);
            assert_eq!((0..levels).map(|height| shape.nodes_at(height)).sum::<u64>(), shape.nodes());
        }
    }
}
