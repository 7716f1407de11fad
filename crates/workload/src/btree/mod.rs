//! BTree: a B+ tree of order 16, built by insertions from both ends of the key range, then random look-ups.
//!
//! Keys `i` and `n - i - 1` are inserted for even `i`, each with an element and a record from malloc. A look-up
//! iteration draws `r` with lrand48 and finds the keys `r mod n` and `((r + 1) * 4) mod n`. The original's
//! generator is seeded with 0xcafebabe; so is ours for seed 0.

mod memory;
mod sites;
mod tree;
mod verify;

use pagewalk_code::{Class, Register};

use self::memory::{MAX_HEAP_BYTES, Memory};
use self::tree::{
    ELEMENT_BYTES, ELEMENT_VALUE, KEYS_BYTES, LEAF_SPLIT, NODE_BYTES, POINTERS_BYTES, RECORD_BYTES, Tree,
};
use crate::code::{Op, Site, r};
use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::random::{Lrand48, mix};
use crate::space::{AddressSpace, chunk_bytes};
use crate::units::about;
use crate::values::Values;

pub(crate) const ENTRY: Entry = Entry {
    name: "btree",
    summary: "a B+ tree of order 16: insertions, then random look-ups",
    phases: &["build", "lookup"],
    parameters: &[
        Parameter {
            name: "elements",
            summary: "keys inserted, an even number",
            kind: Kind::Count { min: 2, max: 600_000_000 },
            default: "1M",
        },
        Parameter {
            name: "lookups",
            summary: "look-up iterations, of two finds each",
            kind: Kind::Count { min: 0, max: 1_000_000_000_000 },
            default: "500k",
        },
    ],
    presets: &[
        Preset {
            name: "btree-small",
            summary: "10 MiB, for tests",
            values: &[("elements", "100k"), ("lookups", "50k")],
        },
        Preset {
            name: "btree-paper",
            summary: "the Mosaic paper's footprint, 2618 MiB (25 * 2^20 elements), 10 million look-ups",
            values: &[("elements", "26214400"), ("lookups", "10M")],
        },
    ],
    make: |values| Ok(Box::new(BTree::new(values)?)),
};

/// The seed of the original program.
const SEED: u32 = 0xcafe_babe;
/// Instructions per look-up iteration beside the finds: the generator and two divisions.
const LOOKUP_INSTRUCTIONS: u64 = 32;

/// The state of the generator, and the divisor.
const STATE: Register = r(12);
const ELEMENTS: Register = r(13);

/// Draws two keys: steps the generator, and divides twice.
static DRAW: Site = Site::new(&[
    Op::new(Class::Multiply, STATE, &[STATE]),
    Op::integer(STATE, &[STATE]),
    Op::integer(STATE, &[STATE]),
    Op::new(Class::Shift, sites::WANTED, &[STATE]),
    Op::new(Class::Divide64, sites::WANTED, &[STATE, ELEMENTS]),
    Op::new(Class::Divide64, sites::WANTED, &[STATE, ELEMENTS]),
])
.of(LOOKUP_INSTRUCTIONS - 2 * (sites::ELEMENT.instructions() + VALUE.instructions()));
/// Reads the value of an element that was found.
static VALUE: Site = Site::new(&[Op::load(r(14), 8, &[sites::FOUND]), Op::compare(&[r(14)])]);

struct BTree {
    elements: u32,
    lookups: u64,
    seed: u32,
}

impl BTree {
    fn new(values: &Values) -> Result<Self, String> {
        let elements = values.get("elements");
        if elements % 2 == 1 {
            return Err(format!(
                "elements={elements} is odd; keys are inserted in pairs, choose {}",
                elements + 1
            ));
        }
        let tree = Self {
            elements: elements as u32,
            lookups: values.get("lookups"),
            seed: SEED ^ mix(values.seed) as u32,
        };
        if tree.footprint_bytes() > MAX_HEAP_BYTES {
            return Err(format!("elements={elements} needs more than {} of heap", about(MAX_HEAP_BYTES)));
        }
        Ok(tree)
    }

    fn value_of(key: u32) -> u32 {
        key.wrapping_mul(0x9e37_79b1) ^ 0x5bd1_e995
    }

    fn build(&self, tree: &mut Tree, out: &mut Emitter<'_>) -> Result<(), Halt> {
        for i in (0..self.elements).step_by(2) {
            for key in [i, self.elements - i - 1] {
                tree.insert(key, Self::value_of(key), out)?;
            }
        }
        Ok(())
    }

    fn look_up(&self, tree: &Tree, out: &mut Emitter<'_>) -> Result<(), Halt> {
        let elements = u64::from(self.elements);
        let mut random = Lrand48::new(self.seed);
        for i in 0..self.lookups {
            out.work(LOOKUP_INSTRUCTIONS);
            out.enter(&DRAW)?;
            let r = u64::from(random.next());
            for key in [r % elements, (r + 1) * 4 % elements] {
                let found = match tree.find(key as u32, out)? {
                    None => None,
                    Some(element) => {
                        out.enter(&VALUE)?;
                        Some(tree.memory.load(element, ELEMENT_VALUE.0, ELEMENT_VALUE.1, out)?)
                    }
                };
                if found != Some(Self::value_of(key as u32)) {
                    return Err(Halt::Wrong(format!("look-up {i} of key {key} found {found:?}")));
                }
            }
        }
        Ok(())
    }

    /// Inner levels of the tree, where all nodes but the root are about half full.
    fn inner_levels(&self) -> f64 {
        let leaves = f64::from(self.elements) / f64::from(LEAF_SPLIT);
        leaves.log(f64::from(LEAF_SPLIT)).ceil().max(0.0)
    }
}

impl Program for BTree {
    fn footprint_bytes(&self) -> u64 {
        let elements = u64::from(self.elements);
        let records = elements * (chunk_bytes(ELEMENT_BYTES) + chunk_bytes(RECORD_BYTES));
        let node = chunk_bytes(NODE_BYTES) + chunk_bytes(KEYS_BYTES) + chunk_bytes(POINTERS_BYTES);
        // The order of insertion leaves 8 keys a leaf and, counted on runs, 11 children an inner node: one inner
        // node for 10 leaves, over all levels.
        let leaves = elements / u64::from(LEAF_SPLIT) + 1;
        let inner = leaves / 10 + 1;
        records + (leaves + inner) * node
    }

    fn host_bytes(&self) -> u64 {
        self.footprint_bytes() + self.footprint_bytes() / 50 + (4 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        // Counted on runs of 10^4 to 10^7 elements; see the test.
        let per_level = 9.0;
        let find = self.inner_levels() * per_level + 12.0;
        let insert = 2.0 * find + 60.0;
        (f64::from(self.elements) * insert + 2.0 * self.lookups as f64 * find) as u64
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("build")?;
        let space = AddressSpace::new(out);
        let mut tree = Tree::new(Memory::new(space, self.footprint_bytes() + (1 << 18)));
        self.build(&mut tree, out)?;
        out.phase("lookup")?;
        self.look_up(&tree, out)?;
        verify::tree(&tree, self.elements, Self::value_of).map_err(Halt::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::memory::Pointer;
    use super::tree::{IS_LEAF, KEYS, POINTERS, RECORD_ELEMENT};
    use super::*;

    fn built(elements: u32) -> Tree {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let space = AddressSpace::new(&mut out);
        // Too small on purpose: the contents must be able to move.
        let mut tree = Tree::new(Memory::new(space, 1 << 10));
        BTree { elements, lookups: 0, seed: SEED }.build(&mut tree, &mut out).unwrap();
        tree
    }

    #[test]
    fn trees_of_every_small_size_are_right() {
        for elements in (2..400).step_by(2).chain([10_000]) {
            let tree = built(elements);
            assert_eq!(verify::tree(&tree, elements, BTree::value_of), Ok(()), "{elements}");
        }
    }

    #[test]
    fn random_order_and_repeated_keys_are_right_too() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let space = AddressSpace::new(&mut out);
        let mut tree = Tree::new(Memory::new(space, 0));
        // 7919 is prime: its multiples visit every key.
        for round in 1..=2 {
            for i in 0..5_000u32 {
                let key = i * 7919 % 5_000;
                tree.insert(key, key * round, &mut out).unwrap();
            }
            assert_eq!(verify::tree(&tree, 5_000, |key| key * round), Ok(()));
        }
        assert_eq!(tree.find(5_000, &mut out), Ok(None));
    }

    #[test]
    fn bytes_per_element_are_those_of_the_paper() {
        let elements = 200_000;
        let tree = built(elements);
        let btree = BTree { elements, lookups: 0, seed: SEED };
        let mapped = tree.memory.space().peak_bytes() as f64;
        assert!((mapped / btree.footprint_bytes() as f64 - 1.0).abs() < 0.02, "{mapped}");
        let per_element = mapped / f64::from(elements);
        assert!((103.0..107.0).contains(&per_element), "{per_element}");
    }

    #[test]
    fn faults_are_found_by_verification() {
        let elements = 3_000;
        let first_leaf = |tree: &Tree| {
            let mut node = tree.root;
            while tree.memory.peek(node, IS_LEAF.0) == 0 {
                node = Pointer(tree.memory.peek(Pointer(tree.memory.peek(node, POINTERS.0)), 0));
            }
            node
        };
        let corrupted = |corrupt: &dyn Fn(&mut Tree)| {
            let mut tree = built(elements);
            corrupt(&mut tree);
            verify::tree(&tree, elements, BTree::value_of).unwrap_err()
        };
        let value = corrupted(&|tree| {
            let records = Pointer(tree.memory.peek(first_leaf(tree), POINTERS.0));
            let element = Pointer(tree.memory.peek(Pointer(tree.memory.peek(records, 0)), RECORD_ELEMENT.0));
            tree.memory.poke(element, ELEMENT_VALUE.0, 1);
        });
        assert!(value.contains("key 0 leads to the element"), "{value}");
        let key = corrupted(&|tree| {
            let keys = Pointer(tree.memory.peek(first_leaf(tree), KEYS.0));
            tree.memory.poke(keys, 4, 3);
        });
        assert!(key.contains("key"), "{key}");
        let chain = corrupted(&|tree| {
            let records = Pointer(tree.memory.peek(first_leaf(tree), POINTERS.0));
            let root = tree.root;
            tree.memory.poke(records, 8 * tree::MAX_KEYS, root.0);
        });
        assert!(chain.contains("chain of leaves"), "{chain}");
        let parent = corrupted(&|tree| {
            let leaf = first_leaf(tree);
            tree.memory.poke(leaf, tree::PARENT.0, leaf.0);
        });
        assert!(parent.contains("parent"), "{parent}");
    }

    #[test]
    fn a_corrupt_record_is_found_by_look_ups() {
        let elements = 64;
        let mut tree = built(elements);
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let element = tree.find(17, &mut out).unwrap().unwrap();
        tree.memory.poke(element, ELEMENT_VALUE.0, 0);
        let answer = BTree { elements, lookups: 1_000, seed: SEED }.look_up(&tree, &mut out);
        assert!(matches!(answer, Err(Halt::Wrong(text)) if text.contains("of key 17 found Some(0)")));
    }
}
