//! The code of construction and search.

use pagewalk_code::{Class, Register};

use crate::code::{Op, Site, r};

/// The edge that is next, and its ends; a random number, and the highest vertex.
const EDGE: Register = r(0);
const A: Register = r(1);
const B: Register = r(2);
const DRAWN: Register = r(3);
/// The rows of vertices, or the heads of their lists; the neighbours, or the links of the lists. They stay.
const ROWS: Register = r(4);
const NEIGHBOURS: Register = r(5);
/// The place among the neighbours, where they end, and what is moved.
const AT: Register = r(6);
const END: Register = r(7);
const MOVED: Register = r(8);
/// The vertex of a search, its neighbour, and that one's parent.
const VERTEX: Register = r(9);
const NEIGHBOUR: Register = r(10);
const PARENT: Register = r(11);
/// The array of parents, which stays; the ends of the queue.
const PARENTS: Register = r(12);
const HEAD: Register = r(13);
const TAIL: Register = r(14);

/// Instructions per edge and level of the generator, and per edge beside that.
const LEVEL_INSTRUCTIONS: u64 = 25;
const EDGE_INSTRUCTIONS: u64 = 89;
/// Instructions per edge of the pass that finds the highest vertex number.
const HIGHEST_INSTRUCTIONS: u64 = 9;
/// Instructions per vertex of clearing the rows, the heads or the parents.
const CLEAR_INSTRUCTIONS: u64 = 4;
/// Instructions per vertex of the prefix sum.
const SUM_INSTRUCTIONS: u64 = 8;
/// Instructions per edge of counting degrees.
pub(super) const COUNT_INSTRUCTIONS: u64 = 11;
/// Instructions per edge of filling the rows.
pub(super) const FILL_INSTRUCTIONS: u64 = 20;
/// Instructions per edge of linking both its ends into lists.
pub(super) const LINK_INSTRUCTIONS: u64 = 16;
/// Instructions per vertex taken from the queue.
const DEQUEUE_INSTRUCTIONS: u64 = 4;
/// Instructions per row of a search, and per neighbour in it.
pub(super) const ROW_INSTRUCTIONS: u64 = 8;
pub(super) const NEIGHBOUR_INSTRUCTIONS: u64 = 7;
/// Instructions per list of a search, and per neighbour in it.
const LIST_INSTRUCTIONS: u64 = 3;
pub(super) const LIST_NEIGHBOUR_INSTRUCTIONS: u64 = 14;
/// Instructions per vertex discovered, beyond those of looking at it.
const DISCOVER_INSTRUCTIONS: u64 = 3;

/// Draws a level of an edge; stores the edge.
pub(super) static LEVEL: Site = Site::new(&[
    Op::new(Class::Multiply, DRAWN, &[AT]),
    Op::new(Class::Shift, DRAWN, &[DRAWN]),
    Op::new(Class::Multiply, DRAWN, &[DRAWN]),
    Op::new(Class::Condition, A, &[A, DRAWN]),
    Op::new(Class::Condition, B, &[B, DRAWN]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(LEVEL_INSTRUCTIONS);
pub(super) static STORE_EDGE: Site =
    Site::new(&[Op::store(8, &[EDGE], &[A]), Op::store(8, &[EDGE], &[B]), Op::integer(EDGE, &[EDGE])])
        .branches(&LEVEL)
        .of(EDGE_INSTRUCTIONS);

/// Keeps the highest end of the edges.
pub(super) static HIGHEST: Site = Site::new(&[
    Op::load(A, 8, &[EDGE]),
    Op::load(B, 8, &[EDGE]),
    Op::new(Class::Condition, DRAWN, &[DRAWN, A]),
    Op::new(Class::Condition, DRAWN, &[DRAWN, B]),
    Op::integer(EDGE, &[EDGE]),
    Op::compare(&[EDGE]),
])
.repeats()
.of(HIGHEST_INSTRUCTIONS);

/// Clears a row, a head of a list, or a parent.
pub(super) static CLEAR: Site = Site::new(&CLEAR_OPS).repeats().of(CLEAR_INSTRUCTIONS);
pub(super) static CLEAR_PARENT: Site = Site::new(&CLEAR_OPS).repeats().of(CLEAR_INSTRUCTIONS);
const CLEAR_OPS: [Op; 3] = [Op::store(8, &[ROWS, AT], &[]), Op::integer(AT, &[AT]), Op::compare(&[AT, END])];

/// Loads an edge, and leaves it if both ends are the same.
const PROPER_OPS: [Op; 4] =
    [Op::load(A, 8, &[EDGE]), Op::load(B, 8, &[EDGE]), Op::integer(EDGE, &[EDGE]), Op::compare(&[A, B])];
/// Counts an edge at both its ends.
pub(super) static COUNT: Site = Site::new(&PROPER_OPS).repeats();
pub(super) static COUNT_ENDS: Site =
    Site::new(&[Op::modify(8, &[ROWS, A], &[]), Op::modify(8, &[ROWS, B], &[])])
        .branches(&COUNT)
        .of(COUNT_INSTRUCTIONS - COUNT.instructions());
/// Turns a degree into an empty row.
pub(super) static SUM: Site = Site::new(&[
    Op::load(MOVED, 8, &[ROWS, AT]),
    Op::store(8, &[ROWS, AT], &[END]),
    Op::store(8, &[ROWS, AT], &[END]),
    Op::integer(END, &[END, MOVED]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT]),
])
.repeats()
.of(SUM_INSTRUCTIONS);
/// Appends both ends of an edge to each other's rows.
pub(super) static FILL: Site = Site::new(&PROPER_OPS).repeats();
pub(super) static FILL_ENDS: Site = Site::new(&[
    Op::load(MOVED, 8, &[ROWS, A]),
    Op::store(8, &[NEIGHBOURS, MOVED], &[B]),
    Op::store(8, &[ROWS, A], &[MOVED]),
    Op::load(MOVED, 8, &[ROWS, B]),
    Op::store(8, &[NEIGHBOURS, MOVED], &[A]),
    Op::store(8, &[ROWS, B], &[MOVED]),
])
.branches(&FILL)
.of(FILL_INSTRUCTIONS - FILL.instructions());
/// Puts both ends of an edge in front of each other's lists.
pub(super) static LINK: Site = Site::new(&PROPER_OPS).repeats();
pub(super) static LINK_ENDS: Site = Site::new(&[
    Op::load(MOVED, 8, &[ROWS, A]),
    Op::store(8, &[NEIGHBOURS, EDGE], &[MOVED]),
    Op::store(8, &[ROWS, A], &[EDGE]),
    Op::load(MOVED, 8, &[ROWS, B]),
    Op::store(8, &[NEIGHBOURS, EDGE], &[MOVED]),
    Op::store(8, &[ROWS, B], &[EDGE]),
])
.branches(&LINK)
.of(LINK_INSTRUCTIONS - LINK.instructions());

/// Begins a search: the root is its own parent, and in the queue.
pub(super) static ROOT: Site =
    Site::new(&[Op::store(8, &[PARENTS, VERTEX], &[VERTEX]), Op::store(8, &[TAIL], &[VERTEX])]);
/// Takes a vertex from the queue.
pub(super) static DEQUEUE: Site =
    Site::new(&[Op::load(VERTEX, 8, &[HEAD]), Op::integer(HEAD, &[HEAD]), Op::compare(&[HEAD, TAIL])])
        .of(DEQUEUE_INSTRUCTIONS);
/// Discovers a neighbour.
pub(super) static DISCOVER: Site = Site::new(&[
    Op::store(8, &[PARENTS, NEIGHBOUR], &[VERTEX]),
    Op::store(8, &[TAIL], &[NEIGHBOUR]),
    Op::integer(TAIL, &[TAIL]),
])
.of(DISCOVER_INSTRUCTIONS);

/// Begins with the row of a vertex.
pub(super) static ROW: Site =
    Site::new(&[Op::load(AT, 8, &[ROWS, VERTEX]), Op::load(END, 8, &[ROWS, VERTEX])])
        .of(ROW_INSTRUCTIONS - IN_ROW.instructions());
/// Is there another neighbour? Behind the last one, too.
pub(super) static IN_ROW: Site =
    Site::new(&[Op::integer(AT, &[AT]), Op::compare(&[AT, END])]).branches(&LOOK);
/// Looks at a neighbour: has it a parent? Then there is nothing to do.
pub(super) static LOOK: Site = Site::new(&[
    Op::load(NEIGHBOUR, 8, &[NEIGHBOURS, AT]),
    Op::load(PARENT, 8, &[PARENTS, NEIGHBOUR]),
    Op::compare(&[PARENT]),
])
.branches(&IN_ROW)
.of(NEIGHBOUR_INSTRUCTIONS - IN_ROW.instructions());

/// Begins with the list of a vertex.
pub(super) static LIST: Site = Site::new(&[Op::load(AT, 8, &[ROWS, VERTEX]), Op::compare(&[AT])])
    .branches(&LOOK_IN_LIST)
    .of(LIST_INSTRUCTIONS);
/// Looks at a neighbour: has it a parent? Then there is nothing to do.
pub(super) static LOOK_IN_LIST: Site = Site::new(&[
    Op::load(NEIGHBOUR, 8, &[EDGE, AT]),
    Op::load(PARENT, 8, &[PARENTS, NEIGHBOUR]),
    Op::compare(&[PARENT]),
])
.branches(&FOLLOW)
.of(LIST_NEIGHBOUR_INSTRUCTIONS - FOLLOW.instructions());
/// Follows the list.
pub(super) static FOLLOW: Site =
    Site::new(&[Op::load(AT, 8, &[NEIGHBOURS, AT]), Op::compare(&[AT])]).branches(&LOOK_IN_LIST);
