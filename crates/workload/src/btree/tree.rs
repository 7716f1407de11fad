//! The B+ tree: nodes in the heap, keys and pointers in blocks of their own, records below the leaves.
//!
//! ```text
//!  node, 48 bytes        0 pointers  8 keys  16 parent  24 leaf (1 byte)  32 key count  40 next (unused)
//!  keys, 60 bytes        15 keys of 4 bytes
//!  pointers, 128 bytes   leaf: one record per key, [15] the leaf to the right; inner node: key count + 1 children
//!  record, 8 bytes       pointer to the element
//!  element, 16 bytes     key, value
//! ```
//!
//! Child `i` of an inner node holds the keys below key `i`, and not below key `i - 1`. The layout is that of
//! the B+ tree by Amittai Aviram (bpt) that the paper's program is built on, with a 64-bit key count; it takes
//! 103.6 bytes an element, 1 % below the 104.1 to 104.7 that the paper's footprints work out to.

use super::memory::{Memory, Pointer};
use super::sites;
use crate::emit::{Emitter, Stop};

/// Most children of a node.
pub(crate) const ORDER: u32 = 16;
/// Most keys of a node.
pub(crate) const MAX_KEYS: u32 = ORDER - 1;
/// Keys that stay in the left leaf of a split: half, rounded up.
pub(crate) const LEAF_SPLIT: u32 = MAX_KEYS.div_ceil(2);
/// Children that stay in the left inner node of a split.
pub(crate) const INNER_SPLIT: u32 = ORDER.div_ceil(2);

pub(crate) const NODE_BYTES: u64 = 48;
pub(crate) const KEYS_BYTES: u64 = MAX_KEYS as u64 * 4;
pub(crate) const POINTERS_BYTES: u64 = ORDER as u64 * 8;
pub(crate) const RECORD_BYTES: u64 = 8;
pub(crate) const ELEMENT_BYTES: u64 = 16;

/// A field of a structure: offset and bytes.
#[derive(Clone, Copy)]
pub(crate) struct Field(pub(crate) u32, pub(crate) u32);

pub(crate) const POINTERS: Field = Field(0, 8);
pub(crate) const KEYS: Field = Field(8, 8);
pub(crate) const PARENT: Field = Field(16, 8);
pub(crate) const IS_LEAF: Field = Field(24, 1);
pub(crate) const KEY_COUNT: Field = Field(32, 8);
/// The record's pointer to its element.
pub(crate) const RECORD_ELEMENT: Field = Field(0, 8);
pub(crate) const ELEMENT_KEY: Field = Field(0, 8);
pub(crate) const ELEMENT_VALUE: Field = Field(8, 8);

/// Slot `i` of a block of keys.
#[inline(always)]
pub(crate) const fn key_slot(i: u32) -> Field {
    Field(4 * i, 4)
}

/// Slot `i` of a block of pointers.
#[inline(always)]
pub(crate) const fn pointer_slot(i: u32) -> Field {
    Field(8 * i, 8)
}

/// Instructions per node on the way down, beside those per key.
pub(super) const NODE_INSTRUCTIONS: u64 = 7;
/// Instructions per key compared.
pub(super) const KEY_INSTRUCTIONS: u64 = 6;
/// Instructions per call of find or insert, beside those per node and key.
pub(super) const CALL_INSTRUCTIONS: u64 = 8;
/// Instructions per key or pointer copied.
pub(super) const COPY_INSTRUCTIONS: u64 = 6;
/// Instructions of putting a key into a leaf, beside finding the place and moving those behind it.
pub(super) const PUT_INSTRUCTIONS: u64 = 20;

/// The tree.
pub(crate) struct Tree {
    pub(crate) memory: Memory,
    pub(crate) root: Pointer,
}

impl Tree {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { memory, root: Pointer::NULL }
    }

    /// The element under `key`.
    #[inline]
    pub(crate) fn find(&self, key: u32, out: &mut Emitter<'_>) -> Result<Option<Pointer>, Stop> {
        let record = self.find_record(key, out)?;
        if record == Pointer::NULL {
            return Ok(None);
        }
        Ok(Some(self.pointer(record, RECORD_ELEMENT, out)?))
    }

    /// Inserts an element with its record; an element that is there already gets the new value.
    pub(crate) fn insert(&mut self, key: u32, value: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        let present = self.find_record(key, out)?;
        if present != Pointer::NULL {
            let element = self.pointer(present, RECORD_ELEMENT, out)?;
            out.enter(&sites::NEW_VALUE)?;
            return self.set(element, ELEMENT_VALUE, value, out);
        }
        let element = self.memory.malloc(ELEMENT_BYTES, out)?;
        out.enter(&sites::NEW_ELEMENT)?;
        self.set(element, ELEMENT_KEY, key, out)?;
        self.set(element, ELEMENT_VALUE, value, out)?;
        let record = self.memory.malloc(RECORD_BYTES, out)?;
        out.enter(&sites::NEW_RECORD)?;
        self.set(record, RECORD_ELEMENT, element.0, out)?;

        if self.root == Pointer::NULL {
            self.root = self.new_node(true, out)?;
            return self.put_into_leaf(self.root, 0, 0, key, record, out);
        }
        let leaf = self.find_leaf(key, out)?;
        let count = self.get(leaf, KEY_COUNT, out)?;
        let at = self.position_in_leaf(leaf, count, key, out)?;
        if count < MAX_KEYS {
            self.put_into_leaf(leaf, at, count, key, record, out)
        } else {
            self.split_leaf(leaf, at, key, record, out)
        }
    }

    fn find_record(&self, key: u32, out: &mut Emitter<'_>) -> Result<Pointer, Stop> {
        if self.root == Pointer::NULL {
            return Ok(Pointer::NULL);
        }
        let leaf = self.find_leaf(key, out)?;
        let count = self.get(leaf, KEY_COUNT, out)?;
        let keys = self.pointer(leaf, KEYS, out)?;
        for i in 0..count {
            out.block(&sites::LEAF_KEY)?;
            if self.get(keys, key_slot(i), out)? == key {
                out.enter(&sites::ELEMENT)?;
                let records = self.pointer(leaf, POINTERS, out)?;
                return self.pointer(records, pointer_slot(i), out);
            }
        }
        Ok(Pointer::NULL)
    }

    /// The leaf that `key` belongs to. The caller goes on with the number of its keys and their block.
    #[inline]
    fn find_leaf(&self, key: u32, out: &mut Emitter<'_>) -> Result<Pointer, Stop> {
        out.work(CALL_INSTRUCTIONS);
        out.enter(&sites::ROOT_IS_LEAF)?;
        let mut node = self.root;
        while self.get(node, IS_LEAF, out)? == 0 {
            out.work(NODE_INSTRUCTIONS);
            out.enter(&sites::LEVEL)?;
            let count = self.get(node, KEY_COUNT, out)?;
            let keys = self.pointer(node, KEYS, out)?;
            let mut i = 0;
            while i < count {
                out.block(&sites::INNER_KEY)?;
                if key < self.get(keys, key_slot(i), out)? {
                    break;
                }
                i += 1;
            }
            out.enter(&sites::CHILD)?;
            let children = self.pointer(node, POINTERS, out)?;
            node = self.pointer(children, pointer_slot(i), out)?;
        }
        out.enter(&sites::LEAF)?;
        Ok(node)
    }

    /// Where in the leaf a new key goes.
    fn position_in_leaf(
        &self,
        leaf: Pointer,
        count: u32,
        key: u32,
        out: &mut Emitter<'_>,
    ) -> Result<u32, Stop> {
        let keys = self.pointer(leaf, KEYS, out)?;
        let mut at = 0;
        while at < count {
            out.enter(&sites::PLACE)?;
            if self.get(keys, key_slot(at), out)? >= key {
                break;
            }
            out.work(KEY_INSTRUCTIONS);
            at += 1;
        }
        Ok(at)
    }

    /// Puts a key and record into a leaf of `count` keys that has room.
    fn put_into_leaf(
        &mut self,
        leaf: Pointer,
        at: u32,
        count: u32,
        key: u32,
        record: Pointer,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        out.work(PUT_INSTRUCTIONS);
        out.enter(&sites::PUT)?;
        let keys = self.pointer(leaf, KEYS, out)?;
        let records = self.pointer(leaf, POINTERS, out)?;
        for i in (at..count).rev() {
            self.copy(keys, key_slot(i), keys, key_slot(i + 1), out)?;
            self.copy(records, pointer_slot(i), records, pointer_slot(i + 1), out)?;
        }
        out.enter(&sites::PUT_END)?;
        self.set(keys, key_slot(at), key, out)?;
        self.set(records, pointer_slot(at), record.0, out)?;
        self.set(leaf, KEY_COUNT, count + 1, out)
    }

    /// Splits a full leaf around a new key and record.
    fn split_leaf(
        &mut self,
        leaf: Pointer,
        at: u32,
        key: u32,
        record: Pointer,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        let right = self.new_node(true, out)?;
        let spare = self.spare(ORDER, ORDER, out)?;
        let old = self.blocks(leaf, out)?;
        for i in 0..MAX_KEYS {
            let to = i + u32::from(i >= at);
            self.copy(old.keys, key_slot(i), spare.keys, key_slot(to), out)?;
            self.copy(old.pointers, pointer_slot(i), spare.pointers, pointer_slot(to), out)?;
        }
        out.enter(&sites::PAIR)?;
        self.set(spare.keys, key_slot(at), key, out)?;
        self.set(spare.pointers, pointer_slot(at), record.0, out)?;

        let new = self.blocks(right, out)?;
        for i in 0..ORDER {
            let (to, slot) = if i < LEAF_SPLIT { (old, i) } else { (new, i - LEAF_SPLIT) };
            self.copy(spare.keys, key_slot(i), to.keys, key_slot(slot), out)?;
            self.copy(spare.pointers, pointer_slot(i), to.pointers, pointer_slot(slot), out)?;
        }
        out.enter(&sites::COUNTS)?;
        self.set(leaf, KEY_COUNT, LEAF_SPLIT, out)?;
        self.set(right, KEY_COUNT, ORDER - LEAF_SPLIT, out)?;
        self.release(spare, ORDER, ORDER, out)?;

        self.copy(old.pointers, pointer_slot(MAX_KEYS), new.pointers, pointer_slot(MAX_KEYS), out)?;
        out.enter(&sites::NEIGHBOUR)?;
        self.set(old.pointers, pointer_slot(MAX_KEYS), right.0, out)?;
        self.clear(old.pointers, LEAF_SPLIT, MAX_KEYS, out)?;
        self.clear(new.pointers, ORDER - LEAF_SPLIT, MAX_KEYS, out)?;

        out.enter(&sites::SEPARATE)?;
        let parent = self.pointer(leaf, PARENT, out)?;
        self.set(right, PARENT, parent.0, out)?;
        let separator = self.get(new.keys, key_slot(0), out)?;
        self.insert_into_parent(parent, leaf, separator, right, out)
    }

    /// Makes `right` the sibling after `left` below `parent`, which is null for the root.
    fn insert_into_parent(
        &mut self,
        parent: Pointer,
        left: Pointer,
        separator: u32,
        right: Pointer,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        if parent == Pointer::NULL {
            return self.grow_root(left, separator, right, out);
        }
        let at = self.index_of_child(parent, left, out)?;
        out.enter(&sites::PARENT_KEYS)?;
        let count = self.get(parent, KEY_COUNT, out)?;
        if count == MAX_KEYS {
            return self.split_inner(parent, at, separator, right, out);
        }
        let Blocks { keys, pointers } = self.blocks(parent, out)?;
        for i in (at..count).rev() {
            self.copy(pointers, pointer_slot(i + 1), pointers, pointer_slot(i + 2), out)?;
            self.copy(keys, key_slot(i), keys, key_slot(i + 1), out)?;
        }
        out.enter(&sites::NEW_CHILD)?;
        self.set(pointers, pointer_slot(at + 1), right.0, out)?;
        self.set(keys, key_slot(at), separator, out)?;
        self.set(parent, KEY_COUNT, count + 1, out)
    }

    fn grow_root(
        &mut self,
        left: Pointer,
        separator: u32,
        right: Pointer,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        let root = self.new_node(false, out)?;
        let Blocks { keys, pointers } = self.blocks(root, out)?;
        out.enter(&sites::NEW_ROOT)?;
        self.set(keys, key_slot(0), separator, out)?;
        self.set(pointers, pointer_slot(0), left.0, out)?;
        self.set(pointers, pointer_slot(1), right.0, out)?;
        self.set(root, KEY_COUNT, 1, out)?;
        self.set(left, PARENT, root.0, out)?;
        self.set(right, PARENT, root.0, out)?;
        self.root = root;
        Ok(())
    }

    fn index_of_child(&self, parent: Pointer, child: Pointer, out: &mut Emitter<'_>) -> Result<u32, Stop> {
        out.enter(&sites::CHILDREN)?;
        let children = self.pointer(parent, POINTERS, out)?;
        let mut i = 0;
        loop {
            out.enter(&sites::IS_CHILD)?;
            if self.pointer(children, pointer_slot(i), out)? == child {
                return Ok(i);
            }
            out.work(KEY_INSTRUCTIONS);
            i += 1;
        }
    }

    /// Splits a full inner node around a new key and the child to its right; the middle key moves up.
    fn split_inner(
        &mut self,
        node: Pointer,
        at: u32,
        separator: u32,
        child: Pointer,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        let spare = self.spare(ORDER, ORDER + 1, out)?;
        let old = self.blocks(node, out)?;
        for i in 0..ORDER {
            let to = i + u32::from(i > at);
            self.copy(old.pointers, pointer_slot(i), spare.pointers, pointer_slot(to), out)?;
        }
        for i in 0..MAX_KEYS {
            let to = i + u32::from(i >= at);
            self.copy(old.keys, key_slot(i), spare.keys, key_slot(to), out)?;
        }
        out.enter(&sites::CHILD_PAIR)?;
        self.set(spare.pointers, pointer_slot(at + 1), child.0, out)?;
        self.set(spare.keys, key_slot(at), separator, out)?;

        let right = self.new_node(false, out)?;
        let new = self.blocks(right, out)?;
        for i in 0..=ORDER {
            let (to, slot) = if i < INNER_SPLIT { (old, i) } else { (new, i - INNER_SPLIT) };
            self.copy(spare.pointers, pointer_slot(i), to.pointers, pointer_slot(slot), out)?;
            // The key after the left node's last child moves up instead.
            if i != INNER_SPLIT - 1 && i < ORDER {
                self.copy(spare.keys, key_slot(i), to.keys, key_slot(slot), out)?;
            }
        }
        out.enter(&sites::MIDDLE)?;
        let middle = self.get(spare.keys, key_slot(INNER_SPLIT - 1), out)?;
        self.set(node, KEY_COUNT, INNER_SPLIT - 1, out)?;
        self.set(right, KEY_COUNT, ORDER - INNER_SPLIT, out)?;
        self.release(spare, ORDER, ORDER + 1, out)?;

        out.enter(&sites::ABOVE)?;
        let parent = self.pointer(node, PARENT, out)?;
        self.set(right, PARENT, parent.0, out)?;
        for i in 0..=ORDER - INNER_SPLIT {
            out.enter(&sites::ADOPT)?;
            let moved = self.pointer(new.pointers, pointer_slot(i), out)?;
            self.set(moved, PARENT, right.0, out)?;
        }
        self.insert_into_parent(parent, node, middle, right, out)
    }

    fn new_node(&mut self, leaf: bool, out: &mut Emitter<'_>) -> Result<Pointer, Stop> {
        let node = self.memory.malloc(NODE_BYTES, out)?;
        let keys = self.memory.malloc(KEYS_BYTES, out)?;
        out.enter(&sites::NEW_KEYS)?;
        self.set(node, KEYS, keys.0, out)?;
        let pointers = self.memory.malloc(POINTERS_BYTES, out)?;
        out.enter(&sites::NEW_FIELDS)?;
        self.set(node, POINTERS, pointers.0, out)?;
        self.set(node, IS_LEAF, u32::from(leaf), out)?;
        self.set(node, KEY_COUNT, 0, out)?;
        self.set(node, PARENT, Pointer::NULL.0, out)?;
        // A block that was used before holds other things.
        self.clear(pointers, 0, ORDER, out)?;
        Ok(node)
    }

    /// Blocks to lay out the keys and pointers of a split in.
    fn spare(&mut self, keys: u32, pointers: u32, out: &mut Emitter<'_>) -> Result<Blocks, Stop> {
        let pointers = self.memory.malloc(u64::from(pointers) * 8, out)?;
        Ok(Blocks { keys: self.memory.malloc(u64::from(keys) * 4, out)?, pointers })
    }

    fn release(
        &mut self,
        spare: Blocks,
        keys: u32,
        pointers: u32,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        self.memory.free(spare.pointers, u64::from(pointers) * 8, out)?;
        self.memory.free(spare.keys, u64::from(keys) * 4, out)
    }

    /// Where a node's keys and pointers lie.
    fn blocks(&self, node: Pointer, out: &mut Emitter<'_>) -> Result<Blocks, Stop> {
        out.enter(&sites::BLOCKS)?;
        Ok(Blocks { keys: self.pointer(node, KEYS, out)?, pointers: self.pointer(node, POINTERS, out)? })
    }

    fn clear(&mut self, pointers: Pointer, from: u32, to: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        (from..to).try_for_each(|i| {
            out.enter(&sites::CLEAR)?;
            self.set(pointers, pointer_slot(i), Pointer::NULL.0, out)
        })
    }

    fn copy(
        &mut self,
        from: Pointer,
        source: Field,
        to: Pointer,
        target: Field,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        out.block(if source.1 == 4 { &sites::COPY_KEY } else { &sites::COPY_POINTER })?;
        let value = self.get(from, source, out)?;
        self.set(to, target, value, out)
    }

    #[inline(always)]
    fn get(&self, block: Pointer, field: Field, out: &mut Emitter<'_>) -> Result<u32, Stop> {
        self.memory.load(block, field.0, field.1, out)
    }

    #[inline(always)]
    fn pointer(&self, block: Pointer, field: Field, out: &mut Emitter<'_>) -> Result<Pointer, Stop> {
        Ok(Pointer(self.get(block, field, out)?))
    }

    #[inline(always)]
    fn set(&mut self, block: Pointer, field: Field, value: u32, out: &mut Emitter<'_>) -> Result<(), Stop> {
        self.memory.store(block, field.0, field.1, value, out)
    }
}

/// A node's block of keys and block of pointers.
#[derive(Clone, Copy)]
struct Blocks {
    keys: Pointer,
    pointers: Pointer,
}
