//! The code of the tree's operations. Splits of nodes, which are rare, have their accesses and no more instructions than those.

use pagewalk_code::{Class, Register};

use super::tree::{
    CALL_INSTRUCTIONS, COPY_INSTRUCTIONS, KEY_INSTRUCTIONS, NODE_INSTRUCTIONS, PUT_INSTRUCTIONS,
};
use crate::code::{Op, Site, r};
use crate::space::ALLOCATED;

/// A node, its block of keys and its block of pointers, a place in both, and how many keys there are.
const NODE: Register = r(0);
const KEYS: Register = r(1);
const POINTERS: Register = r(2);
const AT: Register = r(3);
const COUNT: Register = r(4);
/// A key that is compared, the wanted one, what says which one is wanted, and the record or element that was found.
const OTHER: Register = r(5);
const KEY: Register = r(6);
pub(super) const WANTED: Register = r(7);
pub(super) const FOUND: Register = r(8);
/// The root, the node at the left of a new one, and a value that is moved.
const ROOT: Register = r(9);
const LEFT: Register = r(10);
const MOVED: Register = r(11);

/// Goes to the root: is it a leaf?
pub(super) static ROOT_IS_LEAF: Site = Site::new(&[
    Op::new(Class::Move, NODE, &[ROOT]),
    Op::new(Class::Move, KEY, &[WANTED]),
    Op::load(COUNT, 1, &[NODE]),
    Op::compare(&[COUNT]),
])
.branches(&LEVEL);
/// Begins with the keys of an inner node.
pub(super) static LEVEL: Site = Site::new(&[Op::load(COUNT, 8, &[NODE]), Op::load(KEYS, 8, &[NODE])]);
/// Looks at a key of an inner node.
pub(super) static INNER_KEY: Site = Site::new(&KEY_OPS).repeats().of(KEY_INSTRUCTIONS);
/// Goes to the child: is it a leaf?
pub(super) static CHILD: Site = Site::new(&[
    Op::load(POINTERS, 8, &[NODE]),
    Op::load(NODE, 8, &[POINTERS, AT]),
    Op::load(COUNT, 1, &[NODE]),
    Op::compare(&[COUNT]),
])
.branches(&LEVEL)
.of(NODE_INSTRUCTIONS - LEVEL.instructions());
/// Begins with the keys of a leaf.
pub(super) static LEAF: Site = Site::new(&[Op::load(COUNT, 8, &[NODE]), Op::load(KEYS, 8, &[NODE])])
    .of(CALL_INSTRUCTIONS - ROOT_IS_LEAF.instructions());
/// Looks at a key of a leaf: for the one that is wanted, and for the place of a new one.
pub(super) static LEAF_KEY: Site = Site::new(&KEY_OPS).repeats().of(KEY_INSTRUCTIONS);
pub(super) static PLACE: Site = Site::new(&KEY_OPS).repeats().of(KEY_INSTRUCTIONS);
/// Goes from a key to its record, and from there to its element.
pub(super) static ELEMENT: Site = Site::new(&[
    Op::load(POINTERS, 8, &[NODE]),
    Op::load(FOUND, 8, &[POINTERS, AT]),
    Op::load(FOUND, 8, &[FOUND]),
]);

const KEY_OPS: [Op; 3] =
    [Op::load(OTHER, 4, &[KEYS, AT]), Op::integer(AT, &[AT]), Op::compare(&[OTHER, KEY])];

/// Fills a new element and its record, or stores a new value.
pub(super) static NEW_ELEMENT: Site =
    Site::new(&[Op::store(8, &[ALLOCATED], &[KEY]), Op::store(8, &[ALLOCATED], &[])]);
pub(super) static NEW_RECORD: Site = Site::new(&[Op::store(8, &[ALLOCATED], &[FOUND])]);
pub(super) static NEW_VALUE: Site = Site::new(&[Op::store(8, &[FOUND], &[])]);

/// Puts a key into a leaf: finds its blocks, moves the keys and records behind it, and stores.
pub(super) static PUT: Site = Site::new(&[Op::load(KEYS, 8, &[NODE]), Op::load(POINTERS, 8, &[NODE])])
    .of(PUT_INSTRUCTIONS - PUT_END.instructions());
pub(super) static PUT_END: Site = Site::new(&[
    Op::store(4, &[KEYS, AT], &[KEY]),
    Op::store(8, &[POINTERS, AT], &[ALLOCATED]),
    Op::store(8, &[NODE], &[COUNT]),
]);
/// Copies a key, and a pointer.
pub(super) static COPY_KEY: Site =
    Site::new(&[Op::load(MOVED, 4, &[KEYS, AT]), Op::store(4, &[KEYS, AT], &[MOVED])]).of(COPY_INSTRUCTIONS);
pub(super) static COPY_POINTER: Site = Site::new(&[
    Op::load(MOVED, 8, &[POINTERS, AT]),
    Op::store(8, &[POINTERS, AT], &[MOVED]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT, COUNT]),
])
.branches(&COPY_KEY)
.of(COPY_INSTRUCTIONS);

/// Makes a node: its blocks, its fields, and empty pointers.
pub(super) static NEW_KEYS: Site =
    Site::new(&[Op::new(Class::Move, KEYS, &[ALLOCATED]), Op::store(8, &[NODE], &[KEYS])]);
pub(super) static NEW_FIELDS: Site = Site::new(&[
    Op::new(Class::Move, POINTERS, &[ALLOCATED]),
    Op::store(8, &[NODE], &[POINTERS]),
    Op::store(1, &[NODE], &[]),
    Op::store(8, &[NODE], &[]),
    Op::store(8, &[NODE], &[]),
]);
pub(super) static CLEAR: Site =
    Site::new(&[Op::store(8, &[POINTERS, AT], &[]), Op::integer(AT, &[AT])]).repeats();

/// Finds the blocks of a node.
pub(super) static BLOCKS: Site = Site::new(&[Op::load(KEYS, 8, &[NODE]), Op::load(POINTERS, 8, &[NODE])]);
/// Stores a key and a pointer, or a pointer and a key; the numbers of keys of two nodes; a pointer.
pub(super) static PAIR: Site =
    Site::new(&[Op::store(4, &[KEYS, AT], &[KEY]), Op::store(8, &[POINTERS, AT], &[FOUND])]);
pub(super) static CHILD_PAIR: Site =
    Site::new(&[Op::store(8, &[POINTERS, AT], &[NODE]), Op::store(4, &[KEYS, AT], &[KEY])]);
pub(super) static COUNTS: Site = Site::new(&[Op::store(8, &[LEFT], &[]), Op::store(8, &[NODE], &[])]);
pub(super) static NEIGHBOUR: Site = Site::new(&[Op::store(8, &[POINTERS], &[NODE])]);
/// Ends the split of a leaf: the parent, and the first key at the right.
pub(super) static SEPARATE: Site =
    Site::new(&[Op::load(MOVED, 8, &[LEFT]), Op::store(8, &[NODE], &[MOVED]), Op::load(KEY, 4, &[KEYS])]);
/// The fields of a new root and of its two children.
pub(super) static NEW_ROOT: Site = Site::new(&[
    Op::store(4, &[KEYS], &[KEY]),
    Op::store(8, &[POINTERS], &[LEFT]),
    Op::store(8, &[POINTERS], &[NODE]),
    Op::new(Class::Move, ROOT, &[NODE]),
    Op::store(8, &[ROOT], &[]),
    Op::store(8, &[LEFT], &[ROOT]),
    Op::store(8, &[NODE], &[ROOT]),
]);
/// Looks for a child below its parent; the number of the parent's keys.
pub(super) static CHILDREN: Site = Site::new(&[Op::load(POINTERS, 8, &[LEFT])]);
pub(super) static IS_CHILD: Site =
    Site::new(&[Op::load(MOVED, 8, &[POINTERS, AT]), Op::integer(AT, &[AT]), Op::compare(&[MOVED, NODE])])
        .repeats()
        .of(KEY_INSTRUCTIONS);
pub(super) static PARENT_KEYS: Site = Site::new(&[Op::load(COUNT, 8, &[LEFT])]);
pub(super) static NEW_CHILD: Site = Site::new(&[
    Op::store(8, &[POINTERS, AT], &[NODE]),
    Op::store(4, &[KEYS, AT], &[KEY]),
    Op::store(8, &[LEFT], &[COUNT]),
]);
/// Ends the split of an inner node: the middle key and the counts; the parent; the parent of each moved child.
pub(super) static MIDDLE: Site =
    Site::new(&[Op::load(KEY, 4, &[KEYS]), Op::store(8, &[LEFT], &[]), Op::store(8, &[NODE], &[])]);
pub(super) static ABOVE: Site = Site::new(&[Op::load(MOVED, 8, &[LEFT]), Op::store(8, &[NODE], &[MOVED])]);
pub(super) static ADOPT: Site = Site::new(&[
    Op::load(MOVED, 8, &[POINTERS, AT]),
    Op::store(8, &[MOVED], &[NODE]),
    Op::integer(AT, &[AT]),
])
.repeats();
