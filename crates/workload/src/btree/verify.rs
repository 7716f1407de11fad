//! The tree's invariants and contents, checked without events.

use super::memory::Pointer;
use super::tree::{
    ELEMENT_KEY, ELEMENT_VALUE, Field, INNER_SPLIT, IS_LEAF, KEY_COUNT, KEYS, LEAF_SPLIT, MAX_KEYS, PARENT,
    POINTERS, RECORD_ELEMENT, Tree, key_slot, pointer_slot,
};

/// Checks that the tree holds exactly the keys `0..elements` with their values, that it is a B+ tree of its
/// order, and that the chain of leaves visits all keys in order.
pub(crate) fn tree(tree: &Tree, elements: u32, value_of: impl Fn(u32) -> u32) -> Result<(), String> {
    let mut walk = Walk { tree, next_key: 0, leaf_depth: None, last_leaf: Pointer::NULL };
    let everything = Bounds { low: 0, high: u32::MAX };
    walk.node(tree.root, Pointer::NULL, 0, everything, &value_of)?;
    if walk.next_key != elements {
        return Err(format!("the tree holds {} keys, not {elements}", walk.next_key));
    }
    match walk.right_of(walk.last_leaf) {
        Pointer::NULL => Ok(()),
        other => Err(format!("the last leaf links to {other:?}")),
    }
}

#[derive(Clone, Copy)]
struct Bounds {
    low: u32,
    high: u32,
}

struct Walk<'t> {
    tree: &'t Tree,
    /// Keys are visited in order and are consecutive.
    next_key: u32,
    leaf_depth: Option<u32>,
    last_leaf: Pointer,
}

impl Walk<'_> {
    fn node(
        &mut self,
        node: Pointer,
        parent: Pointer,
        depth: u32,
        bounds: Bounds,
        value_of: &impl Fn(u32) -> u32,
    ) -> Result<(), String> {
        let count = self.peek(node, KEY_COUNT);
        let keys = Pointer(self.peek(node, KEYS));
        let pointers = Pointer(self.peek(node, POINTERS));
        let leaf = self.peek(node, IS_LEAF) != 0;
        let least = match (parent == Pointer::NULL, leaf) {
            (true, _) => 1,
            (false, true) => LEAF_SPLIT,
            (false, false) => INNER_SPLIT - 1,
        };
        if !(least..=MAX_KEYS).contains(&count) {
            return Err(format!("{node:?} at depth {depth} has {count} keys, not {least} to {MAX_KEYS}"));
        }
        if Pointer(self.peek(node, PARENT)) != parent {
            return Err(format!("{node:?} at depth {depth} does not know its parent {parent:?}"));
        }
        let mut low = bounds.low;
        for i in 0..count {
            let key = self.peek(keys, key_slot(i));
            if key < low || key >= bounds.high || (i > 0 && key == low) {
                return Err(format!(
                    "{node:?} at depth {depth}: key {key} is out of order or not below {}",
                    bounds.high
                ));
            }
            if !leaf {
                let child = Pointer(self.peek(pointers, pointer_slot(i)));
                self.node(child, node, depth + 1, Bounds { low, high: key }, value_of)?;
            }
            low = key;
        }
        if leaf {
            return self.leaf(node, depth, count, value_of);
        }
        let child = Pointer(self.peek(pointers, pointer_slot(count)));
        self.node(child, node, depth + 1, Bounds { low, ..bounds }, value_of)
    }

    fn leaf(
        &mut self,
        leaf: Pointer,
        depth: u32,
        count: u32,
        value_of: &impl Fn(u32) -> u32,
    ) -> Result<(), String> {
        if *self.leaf_depth.get_or_insert(depth) != depth {
            return Err(format!("{leaf:?} lies at depth {depth}, others elsewhere"));
        }
        if self.last_leaf != Pointer::NULL && self.right_of(self.last_leaf) != leaf {
            return Err(format!("the chain of leaves misses {leaf:?}"));
        }
        self.last_leaf = leaf;
        let keys = Pointer(self.peek(leaf, KEYS));
        let records = Pointer(self.peek(leaf, POINTERS));
        for i in 0..count {
            let key = self.peek(keys, key_slot(i));
            if key != self.next_key {
                return Err(format!("key {key} follows where {} should", self.next_key));
            }
            self.next_key += 1;
            let record = Pointer(self.peek(records, pointer_slot(i)));
            let element = Pointer(self.peek(record, RECORD_ELEMENT));
            let (found_key, found_value) =
                (self.peek(element, ELEMENT_KEY), self.peek(element, ELEMENT_VALUE));
            if (found_key, found_value) != (key, value_of(key)) {
                return Err(format!(
                    "key {key} leads to the element ({found_key}, {found_value}), not ({key}, {})",
                    value_of(key)
                ));
            }
        }
        Ok(())
    }

    fn right_of(&self, leaf: Pointer) -> Pointer {
        Pointer(self.peek(Pointer(self.peek(leaf, POINTERS)), pointer_slot(MAX_KEYS)))
    }

    fn peek(&self, block: Pointer, field: Field) -> u32 {
        self.tree.memory.peek(block, field.0)
    }
}
