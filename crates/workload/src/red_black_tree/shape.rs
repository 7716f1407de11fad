//! The tree as loaded: as balanced as can be, and its shape is arithmetic.
//!
//! Nodes are numbered in the order of their keys. Node i has a *position*, its number from 1 on in the order of keys in
//! the perfect tree of the same height. A position's level is its number of trailing zeros; its children are half a level's
//! distance below and above. Of the lowest level, that of the odd positions, only the first so many may be there:
//!
//! ```text
//!              8                height 4, of the lowest level the first three (1, 3, 5):
//!          /       \            nodes     0 1 2 3 4 5 6  7  8  9
//!        4           12         positions 1 2 3 4 5 6 8 10 12 14
//!      /   \       /    \
//!     2     6    10     14
//!    / \   /
//!   1   3 5
//! ```
//!
//! If the lowest level is not full, its nodes are red; all others are black.

/// The shape of a tree of so many nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    nodes: u64,
    /// The number of levels of the tree.
    height: u32,
    /// Nodes of the lowest level.
    lowest: u64,
}

/// What an intact subtree is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subtree {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Black nodes on each way from its root, which counts, to an end.
    pub(super) black_height: u32,
}

impl Shape {
    pub(super) fn new(nodes: u64) -> Self {
        assert!((1..1 << 62).contains(&nodes), "a tree of {nodes} nodes");
        let height = (nodes + 1).next_power_of_two().ilog2();
        Self { nodes, height, lowest: nodes - ((1 << (height - 1)) - 1) }
    }

    pub(super) fn nodes(&self) -> u64 {
        self.nodes
    }

    pub(super) fn height(&self) -> u32 {
        self.height
    }

    pub(super) fn root(&self) -> u64 {
        self.node(1 << (self.height - 1))
    }

    pub(super) fn parent(&self, node: u64) -> Option<u64> {
        let position = self.position(node);
        let distance = 1 << position.trailing_zeros();
        let parent = (position | distance << 1) & !distance;
        (position != 1 << (self.height - 1)).then(|| self.node(parent))
    }

    pub(super) fn left(&self, node: u64) -> Option<u64> {
        let position = self.position(node);
        self.child(position, |half| position - half)
    }

    pub(super) fn right(&self, node: u64) -> Option<u64> {
        let position = self.position(node);
        self.child(position, |half| position + half)
    }

    pub(super) fn is_red(&self, node: u64) -> bool {
        !self.is_full() && self.position(node) % 2 == 1
    }

    /// The subtree below and with `node`.
    pub(super) fn subtree(&self, node: u64) -> Subtree {
        let position = self.position(node);
        let level = position.trailing_zeros();
        let reach = (1 << level) - 1;
        // Both ends are of the lowest level; where that is missing, the next position inwards is there.
        let [low, high] = [position - reach, position + reach];
        Subtree {
            first: self.node(if self.exists(low) { low } else { low + 1 }),
            last: self.node(if self.exists(high) { high } else { high - 1 }),
            black_height: level + u32::from(self.is_full()),
        }
    }

    fn is_full(&self) -> bool {
        self.lowest == 1 << (self.height - 1)
    }

    fn child(&self, position: u64, at: impl Fn(u64) -> u64) -> Option<u64> {
        let half = (1 << position.trailing_zeros()) >> 1;
        let child = at(half);
        (half > 0 && self.exists(child)).then(|| self.node(child))
    }

    fn exists(&self, position: u64) -> bool {
        position.is_multiple_of(2) || position <= 2 * self.lowest
    }

    fn position(&self, node: u64) -> u64 {
        if node < 2 * self.lowest { node + 1 } else { 2 * (node + 1 - self.lowest) }
    }

    fn node(&self, position: u64) -> u64 {
        if position <= 2 * self.lowest { position - 1 } else { position / 2 + self.lowest - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes through a subtree by children: its nodes in order, and its black height.
    fn walk(shape: &Shape, node: u64, order: &mut Vec<u64>) -> u32 {
        let before = order.len();
        let below = |child: Option<u64>, order: &mut Vec<u64>| {
            let Some(child) = child else { return 0 };
            assert_eq!(shape.parent(child), Some(node));
            assert!(!(shape.is_red(node) && shape.is_red(child)));
            walk(shape, child, order)
        };
        let left = below(shape.left(node), order);
        order.push(node);
        let right = below(shape.right(node), order);
        assert_eq!(left, right, "black heights below {node} of {}", shape.nodes);
        let black_height = left + u32::from(!shape.is_red(node));
        let (first, last) = (order[before], order[order.len() - 1]);
        assert_eq!(shape.subtree(node), Subtree { first, last, black_height });
        black_height
    }

    #[test]
    fn every_size_is_a_red_black_tree_in_order() {
        for nodes in 1..200 {
            let shape = Shape::new(nodes);
            let mut order = Vec::new();
            walk(&shape, shape.root(), &mut order);
            assert_eq!(order, (0..nodes).collect::<Vec<_>>());
            assert_eq!(shape.parent(shape.root()), None);
            assert!(!shape.is_red(shape.root()));
            assert_eq!(shape.height(), nodes.ilog2() + 1);
        }
    }

    #[test]
    fn large_trees_are_as_deep_as_they_must_be() {
        for nodes in [1 << 34, (1 << 34) - 1, (1 << 36) + 123_456_789] {
            let shape = Shape::new(nodes);
            for node in [0, 1, nodes / 3, nodes - 2, nodes - 1] {
                let mut up = std::iter::successors(Some(node), |&node| shape.parent(node));
                assert!(up.by_ref().take(shape.height() as usize).any(|node| node == shape.root()));
            }
        }
    }
}
