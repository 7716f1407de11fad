//! The code of openG's objects and of what the algorithms do with them.
//!
//! An operation of an algorithm is made of a few small sites. Its count is that of the whole operation, which these nearly add up to.

use pagewalk_code::{Class, Register};

use crate::code::{Op, Site, r};
use crate::space::ALLOCATED;

/// The number of a vertex that is looked for, its node in the index, and the vertex; the one that is next in the list of all.
pub(super) const NUMBER: Register = r(0);
const NODE: Register = r(1);
pub(super) const VERTEX: Register = r(2);
const ALL: Register = r(3);
/// The number of the next vertex, of those that come in turn; the buckets of the vertices' index.
const COUNTER: Register = r(4);
const BUCKETS: Register = r(5);
/// The edge that is looked at, and the one behind it.
const EDGE: Register = r(6);
const NEXT: Register = r(7);
/// What was loaded of a vertex, of an edge or of an array, and what is computed with it.
pub(super) const LOADED: Register = r(8);
pub(super) const VALUE: Register = r(9);
/// The ends of the queue; a place in an array; the elements of two sets.
const HEAD: Register = r(10);
const TAIL: Register = r(11);
pub(super) const AT: Register = r(12);
pub(super) const FIRST: Register = r(13);
pub(super) const SECOND: Register = r(14);

/// Instructions per vertex created (estimated by hand from the compiled code).
pub(super) const VERTEX_INSTRUCTIONS: u64 = 60;
/// Instructions per edge created beside its allocations and its indices, per vertex found by number, per step along
/// the vertices or a list of edges (counted with callgrind over equivalent C++). An edge has 1500 altogether, those of
/// temporary copies, `operator new` and atomic reference counts among them.
pub(super) const EDGE_INSTRUCTIONS: u64 = 415;
pub(super) const FIND_INSTRUCTIONS: u64 = 13;
pub(super) const STEP_INSTRUCTIONS: u64 = 4;
/// Instructions per insertion into an index, per node looked at, per node moved, and per store that clears buckets (estimated by
/// hand from the compiled loops; a division is one).
pub(super) const INSERT_INSTRUCTIONS: u64 = 45;
pub(super) const NODE_INSTRUCTIONS: u64 = 5;
pub(super) const MOVE_INSTRUCTIONS: u64 = 12;
const CLEAR_INSTRUCTIONS: u64 = 3;
/// Instructions per push or pop (estimated by hand from the compiled loop).
const QUEUE_INSTRUCTIONS: u64 = 5;

/// Finds a vertex by its number.
pub(super) static FIND: Site = Site::new(&[
    Op::load(NODE, 8, &[BUCKETS, NUMBER]),
    Op::load(LOADED, 8, &[NODE]),
    Op::load(VERTEX, 8, &[NODE]),
    Op::compare(&[LOADED, NUMBER]),
])
.branches(&FIND_FURTHER)
.of(FIND_INSTRUCTIONS);
/// The rest of a chain of an index, which is never there.
static FIND_FURTHER: Site = Site::new(&[]).jumps(&FIND);
/// The number of the next vertex, of those that are found in turn.
pub(super) static IN_TURN: Site =
    Site::new(&[Op::integer(COUNTER, &[COUNTER]), Op::new(Class::Move, NUMBER, &[COUNTER])]);
/// Goes to the next vertex in the list of all.
pub(super) static PASS: Site =
    Site::new(&[Op::load(ALL, 8, &[ALL]), Op::new(Class::Move, VERTEX, &[ALL])]).of(STEP_INSTRUCTIONS);
/// Loads, stores and changes a field of a vertex.
pub(super) static LOAD: Site = Site::new(&[Op::load(LOADED, 8, &[VERTEX])]);
pub(super) static STORE: Site = Site::new(&[Op::store(8, &[VERTEX], &[VALUE])]);
pub(super) static INCREMENT: Site = Site::new(&[Op::modify(8, &[VERTEX], &[])]);
pub(super) static ADD: Site = Site::new(&[
    Op::load(LOADED, 8, &[VERTEX]),
    Op::new(Class::FloatAdd, LOADED, &[LOADED, VALUE]),
    Op::store(8, &[VERTEX], &[LOADED]),
]);
/// Divides a rank among the edges.
pub(super) static SHARE: Site = Site::new(&[
    Op::new(Class::CrossConvert, VALUE, &[VALUE]),
    Op::new(Class::FloatDivide, VALUE, &[LOADED, VALUE]),
]);
/// Loads the count of a vertex's out-edges, and the first of them.
pub(super) static DEGREE: Site = Site::new(&[Op::load(VALUE, 8, &[VERTEX])]);
pub(super) static BEGIN: Site = Site::new(&[Op::load(NEXT, 8, &[VERTEX])]);
/// Goes to the next edge of a list. Is there another one behind it?
pub(super) static STEP: Site = Site::new(&[
    Op::new(Class::Move, EDGE, &[NEXT]),
    Op::load(NUMBER, 8, &[EDGE]),
    Op::load(NEXT, 8, &[EDGE]),
]);
pub(super) static MORE: Site = Site::new(&[Op::compare(&[NEXT])]).branches(&STEP);
/// Loads an edge's property.
pub(super) static EDGE_PROPERTY: Site =
    Site::new(&[Op::load(VALUE, 8, &[EDGE]), Op::load(VALUE, 8, &[VALUE])]);
/// Does what was loaded ask for nothing? Otherwise something is done.
pub(super) static ASK: Site = Site::new(&[Op::compare(&[LOADED, VALUE])]).branches(&MORE);
pub(super) static ANSWER: Site = Site::new(&[Op::integer(VALUE, &[VALUE])]).of(2);

/// Appends a vertex to the queue; takes the first, and the last.
pub(super) static PUSH: Site =
    Site::new(&[Op::store(8, &[TAIL], &[NUMBER]), Op::integer(TAIL, &[TAIL])]).of(QUEUE_INSTRUCTIONS);
pub(super) static POP_FIRST: Site =
    Site::new(&[Op::load(NUMBER, 8, &[HEAD]), Op::integer(HEAD, &[HEAD])]).of(QUEUE_INSTRUCTIONS);
pub(super) static POP_LAST: Site =
    Site::new(&[Op::load(NUMBER, 8, &[TAIL]), Op::integer(TAIL, &[TAIL])]).of(QUEUE_INSTRUCTIONS);

/// Clears the fields of a new vertex; appends it to the list of all; fills its node in the index.
pub(super) static NEW_VERTEX: Site = Site::new(&[
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(8, &[ALLOCATED], &[]),
]);
pub(super) static LINK_VERTEX: Site = Site::new(&[Op::store(8, &[VERTEX], &[ALLOCATED])]);
pub(super) static NEW_NODE: Site =
    Site::new(&[Op::store(16, &[ALLOCATED], &[]), Op::store(8, &[ALLOCATED], &[])])
        .of(VERTEX_INSTRUCTIONS - NEW_VERTEX.instructions() - LINK_VERTEX.instructions());
/// Stores where the node of a vertex lies.
pub(super) static BUCKET: Site =
    Site::new(&[Op::store(8, &[BUCKETS, AT], &[]), Op::integer(AT, &[AT])]).repeats();

/// Creates an edge: what is beside the following.
pub(super) static NEW_EDGE: Site = Site::new(&[]).of(EDGE_INSTRUCTIONS - 13);
/// The property that both elements share, and its reference count, which the second one increments.
pub(super) static NEW_SHARED: Site = Site::new(&[Op::store(8, &[ALLOCATED], &[])]);
pub(super) static NEW_REFERENCES: Site =
    Site::new(&[Op::store(16, &[ALLOCATED], &[]), Op::store(16, &[ALLOCATED], &[])]);
pub(super) static REFER: Site = Site::new(&[Op::modify(4, &[ALLOCATED], &[])]);
/// Appends an element to a list of edges.
pub(super) static APPEND: Site = Site::new(&[
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::store(16, &[ALLOCATED], &[]),
    Op::load(LOADED, 8, &[VERTEX]),
    Op::store(8, &[LOADED], &[ALLOCATED]),
    Op::store(8, &[VERTEX], &[ALLOCATED]),
    Op::modify(8, &[VERTEX], &[]),
]);

/// Clears the buckets of an index, of 32 bytes, and what is left.
pub(super) static CLEAR: Site = Site::new(&[Op::store(32, &[ALLOCATED, AT], &[]), Op::integer(AT, &[AT])])
    .repeats()
    .of(CLEAR_INSTRUCTIONS);
pub(super) static CLEAR_HALF: Site = Site::new(&[Op::store(16, &[ALLOCATED], &[])]).of(CLEAR_INSTRUCTIONS);
pub(super) static CLEAR_WORD: Site = Site::new(&[Op::store(8, &[ALLOCATED], &[])]).of(CLEAR_INSTRUCTIONS);
/// Moves the nodes of a bucket to other buckets; the new buckets are those of the index.
pub(super) static OLD_BUCKET: Site = Site::new(&[Op::load(NODE, 8, &[VERTEX, AT]), Op::integer(AT, &[AT])]);
pub(super) static MOVE: Site = Site::new(&[
    Op::load(NUMBER, 8, &[NODE]),
    Op::load(FIRST, 8, &[NODE]),
    Op::new(Class::Divide64, AT, &[NUMBER]),
    Op::load(SECOND, 8, &[ALLOCATED, AT]),
    Op::store(8, &[NODE], &[SECOND]),
    Op::store(8, &[ALLOCATED, AT], &[NODE]),
    Op::new(Class::Move, NODE, &[FIRST]),
    Op::compare(&[NODE]),
])
.repeats()
.of(MOVE_INSTRUCTIONS);
pub(super) static NEW_BUCKETS: Site = Site::new(&[Op::store(16, &[VERTEX], &[ALLOCATED])]);
/// Looks through a bucket for an edge that is not there, and puts its node in front.
pub(super) static OPEN_BUCKET: Site = Site::new(&[
    Op::load(LOADED, 8, &[VERTEX]),
    Op::load(VALUE, 8, &[VERTEX]),
    Op::new(Class::Divide64, AT, &[NUMBER, VALUE]),
    Op::load(NODE, 8, &[LOADED, AT]),
    Op::compare(&[NODE]),
])
.branches(&IN_BUCKET)
.of(INSERT_INSTRUCTIONS - INTO_BUCKET.instructions());
pub(super) static IN_BUCKET: Site =
    Site::new(&[Op::load(FIRST, 8, &[NODE]), Op::load(NODE, 8, &[NODE]), Op::compare(&[NODE])])
        .repeats()
        .of(NODE_INSTRUCTIONS);
pub(super) static INTO_BUCKET: Site = Site::new(&[
    Op::store(16, &[ALLOCATED], &[NUMBER]),
    Op::store(8, &[ALLOCATED], &[LOADED]),
    Op::store(8, &[LOADED, AT], &[ALLOCATED]),
    Op::modify(8, &[VERTEX], &[]),
]);

/// Puts a neighbour into a set; begins with two sets; compares their elements, and goes to the next of either.
pub(super) static INTO_SET: Site = Site::new(&[Op::store(8, &[AT], &[NUMBER]), Op::integer(AT, &[AT])]);
pub(super) static SETS: Site = Site::new(&[Op::load(FIRST, 8, &[LOADED]), Op::load(SECOND, 8, &[VALUE])]);
pub(super) static COMPARE: Site = Site::new(&[Op::compare(&[FIRST, SECOND])]).branches(&NEXT_OF_FIRST);
pub(super) static NEXT_OF_FIRST: Site =
    Site::new(&[Op::integer(LOADED, &[LOADED]), Op::load(FIRST, 8, &[LOADED])]);
pub(super) static NEXT_OF_SECOND: Site =
    Site::new(&[Op::integer(VALUE, &[VALUE]), Op::load(SECOND, 8, &[VALUE])]);
/// Ends the comparison with the set that ends.
pub(super) static END_OF_SET: Site = Site::new(&[Op::integer(LOADED, &[LOADED]), Op::compare(&[LOADED])]);
