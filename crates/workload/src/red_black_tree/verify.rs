//! Whether a changed tree still is a red-black tree: all of it, by looking at what changed and what is above.
//!
//! A subtree in which no node changed is as it was loaded, and what it holds is known by arithmetic. So the check goes down
//! from the root, but not into such subtrees.

use rustc_hash::FxHashSet;

use super::tree::{NIL, Tree};
use crate::emit::Halt;

/// The black height and the number of nodes of a subtree.
type Size = (u32, u64);

/// What must hold for a subtree, from above.
#[derive(Clone, Copy)]
struct Bounds {
    parent: u64,
    parent_is_red: bool,
    /// Its keys are above this and below that.
    above: u64,
    below: u64,
}

impl Tree {
    /// Links fit, keys are in order, no red node has a red child, all ways down have the same number of black nodes, and no
    /// node was lost.
    pub(super) fn verify(&self) -> Result<(), Halt> {
        let around = self.around_changes()?;
        let bounds = Bounds { parent: NIL, parent_is_red: true, above: 0, below: u64::MAX };
        let (_, nodes) = self.verify_below(self.root(), bounds, &around)?;
        let expected = self.shape.nodes() + self.inserted.len() as u64;
        match nodes == expected {
            true => Ok(()),
            false => wrong(format!("a tree of {expected} nodes has {nodes}")),
        }
    }

    /// All nodes that changed, and those above them.
    fn around_changes(&self) -> Result<FxHashSet<u64>, Halt> {
        let first = self.shape.nodes();
        let mut around = FxHashSet::default();
        let inserted = (0..self.inserted.len() as u64).map(|number| first + number);
        for start in self.changed.keys().copied().chain(inserted) {
            let mut node = start;
            while node != NIL && around.insert(node) {
                node = self.links(node).parent;
            }
        }
        Ok(around)
    }

    fn verify_below(&self, node: u64, bounds: Bounds, around: &FxHashSet<u64>) -> Result<Size, Halt> {
        if node == NIL {
            return Ok((0, 0));
        }
        let (links, key) = (self.links(node), self.key(node));
        if links.parent != bounds.parent {
            return wrong(format!("node {node} has parent {}, but {} has it", links.parent, bounds.parent));
        }
        if links.is_red && bounds.parent_is_red {
            return wrong(format!("node {node} is red, and so is its parent, or it is the root"));
        }
        if !around.contains(&node) {
            let subtree = self.shape.subtree(node);
            let [first, last] = [subtree.first, subtree.last].map(|node| self.key(node));
            if !(bounds.above < first && last < bounds.below) {
                return wrong(format!(
                    "keys {first} to {last} are not between {} and {}",
                    bounds.above, bounds.below
                ));
            }
            return Ok((subtree.black_height, subtree.last - subtree.first + 1));
        }
        if !(bounds.above < key && key < bounds.below) {
            return wrong(format!("key {key} is not between {} and {}", bounds.above, bounds.below));
        }
        let inner = Bounds { parent: node, parent_is_red: links.is_red, ..bounds };
        let (left, before) = self.verify_below(links.left, Bounds { below: key, ..inner }, around)?;
        let (right, behind) = self.verify_below(links.right, Bounds { above: key, ..inner }, around)?;
        match left == right {
            true => Ok((left + u32::from(!links.is_red), before + 1 + behind)),
            false => wrong(format!("below node {node} are {left} and {right} black nodes")),
        }
    }
}

fn wrong<T>(what: String) -> Result<T, Halt> {
    Err(Halt::Wrong(what))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pagewalk_vm::addr::VirtAddr;

    use super::super::shape::Shape;
    use super::super::tree::{Found, GAP_LOG2, Links};
    use super::*;
    use crate::jobs::with_job;
    use crate::random::SplitMix64;

    fn tree(nodes: u64) -> Tree {
        Tree::new(Shape::new(nodes), 10_000, VirtAddr(1 << 40), VirtAddr(1 << 30))
    }

    /// Inserts what `draw` says, and compares with an ordered map: key and node.
    fn inserted(nodes: u64, inserts: u64, mut draw: impl FnMut(u64) -> u64) -> Tree {
        let mut tree = tree(nodes);
        let mut model: BTreeMap<_, _> =
            (0..nodes.min(10_000)).map(|node| (Tree::loaded_key(node), node)).collect();
        with_job(|job| {
            for i in 0..inserts {
                let key = draw(i);
                let node = match tree.find(key, job).unwrap() {
                    Found::Node(node) => node,
                    Found::Place(place) => tree.insert(place, job).unwrap(),
                };
                assert_eq!(*model.entry(key).or_insert(node), node);
            }
            for (&key, &node) in &model {
                assert!(matches!(tree.find(key, job).unwrap(), Found::Node(found) if found == node), "{key}");
            }
        });
        assert_eq!(tree.verify(), Ok(()));
        tree
    }

    #[test]
    fn it_stays_a_red_black_tree_whatever_is_inserted() {
        for nodes in [1, 2, 3, 7, 10, 100, 1000, 1 << 30] {
            let mut random = SplitMix64::of_item(1, nodes);
            inserted(nodes, 3000, |_| (1 << GAP_LOG2) + random.below(nodes.min(5000) << GAP_LOG2));
            // One after the other, at one place.
            inserted(nodes, 3000, |i| (1 << GAP_LOG2) + 1 + i);
            inserted(nodes, 3000, |i| (2 << GAP_LOG2) - 1 - i);
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        let mut random = SplitMix64::new(2);
        let whole = inserted(1000, 500, |_| (1 << GAP_LOG2) + random.below(1000 << GAP_LOG2));
        let mut numbers: Vec<u64> = whole.changed.keys().copied().collect();
        numbers.sort_unstable();
        for node in numbers {
            let mut tree = whole.clone();
            assert_eq!(tree.verify(), Ok(()));
            let links = tree.changed[&node];
            let spoil = [
                Links { is_red: !links.is_red, ..links },
                Links { left: NIL, right: links.left, ..links },
                Links { left: links.right, right: links.left, ..links },
                Links { parent: node ^ 1, ..links },
            ];
            for spoilt in spoil.into_iter().filter(|spoilt| *spoilt != links) {
                tree.changed.insert(node, spoilt);
                assert!(tree.verify().is_err(), "{links:?} became {spoilt:?}");
            }
        }
    }
}
