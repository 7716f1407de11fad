//! The code of the suffix tree's operations.

use pagewalk_code::Register;

use super::tree::{CHILD_INSTRUCTIONS, NODE_INSTRUCTIONS, READ_INSTRUCTIONS, SUFFIX_INSTRUCTIONS};
use crate::code::{Op, Site, r};
use crate::space::ALLOCATED;

/// A node of the tree, its child that is looked at, where that one occurs in the text, and its depth.
const NODE: Register = r(0);
const CHILD: Register = r(1);
const OCCURS: Register = r(2);
const DEPTH: Register = r(3);
/// The place in the text that is inserted or in the query, its letter, and the letter that it is compared with.
const AT: Register = r(4);
const LETTER: Register = r(5);
const OTHER: Register = r(6);

/// Loads a word of a node, in the order of the words: the first child, the brother, the suffix link, the depth, where it occurs.
pub(super) static LOAD: [Site; 5] = [
    Site::new(&[Op::load(CHILD, 4, &[NODE])]),
    Site::new(&[Op::load(CHILD, 4, &[CHILD])]),
    Site::new(&[Op::load(NODE, 4, &[NODE])]),
    Site::new(&[Op::load(DEPTH, 4, &[CHILD])]),
    Site::new(&[Op::load(OCCURS, 4, &[CHILD])]),
];
pub(super) static STORE: Site = Site::new(&[Op::store(4, &[NODE], &[CHILD])]);
/// The brother of a leaf.
pub(super) static LEAF: Site = Site::new(&[Op::load(CHILD, 4, &[CHILD])]);
pub(super) static STORE_LEAF: Site = Site::new(&[Op::store(4, &[CHILD], &[NODE])]);
/// Loads the next letter of a text, and one where a node occurs.
pub(super) static NEXT: Site = Site::new(&[Op::load(LETTER, 1, &[AT])]);
pub(super) static THERE: Site = Site::new(&[Op::load(OTHER, 1, &[OCCURS, DEPTH])]);
/// Is it the child? Goes down to it then.
pub(super) static IS_CHILD: Site = Site::new(&[Op::compare(&[LETTER, OTHER])]).branches(&FOUND);
pub(super) static FOUND: Site = Site::new(&[Op::integer(NODE, &[CHILD])]);
/// Goes on with a child. Are letters the same? Another one is compared then.
pub(super) static LOOK: Site = Site::new(&[Op::compare(&[CHILD])]).of(CHILD_INSTRUCTIONS - 5);
pub(super) static COMPARE: Site = Site::new(&[Op::integer(AT, &[AT])]);
pub(super) static ARE_SAME: Site = Site::new(&[Op::compare(&[LETTER, OTHER])]).branches(&COMPARE);

/// Inserts a suffix; streams a base of the query: what is beside the accesses.
pub(super) static SUFFIX: Site = Site::new(&[]).of(SUFFIX_INSTRUCTIONS - 9);
pub(super) static STEP: Site = Site::new(&[]).of(super::matches::STEP_INSTRUCTIONS - 5);
/// Fills a new node.
pub(super) static CREATE: Site =
    Site::new(&[Op::store(16, &[ALLOCATED], &[CHILD]), Op::store(4, &[ALLOCATED], &[AT])])
        .of(NODE_INSTRUCTIONS);
/// Stores bases that are read in, by the base-2 logarithm of their number.
pub(super) static READ: [Site; 6] = [
    Site::new(&[Op::store(1, &[AT], &[LETTER])]).of(READ_INSTRUCTIONS),
    Site::new(&[Op::store(2, &[AT], &[LETTER])]).of(READ_INSTRUCTIONS),
    Site::new(&[Op::store(4, &[AT], &[LETTER])]).of(READ_INSTRUCTIONS),
    Site::new(&[Op::store(8, &[AT], &[LETTER])]).of(READ_INSTRUCTIONS),
    Site::new(&[Op::store(16, &[AT], &[LETTER])]).of(READ_INSTRUCTIONS),
    Site::new(&[Op::store(32, &[AT], &[LETTER])]).of(READ_INSTRUCTIONS),
];
