//! The code of the heap's program and of its collector.

use pagewalk_code::{Class, Register};

use super::heap::{
    ALLOCATE_INSTRUCTIONS, COPY_INSTRUCTIONS, FORWARD_INSTRUCTIONS, REFERENCE_INSTRUCTIONS,
    ROOT_INSTRUCTIONS, SCAN_INSTRUCTIONS, WORD_INSTRUCTIONS,
};
use super::{
    FIELD_INSTRUCTIONS, FIND_INSTRUCTIONS, LINK_INSTRUCTIONS, OPERATION_INSTRUCTIONS, RECORD_INSTRUCTIONS,
    VALUE_INSTRUCTIONS, VISIT_INSTRUCTIONS,
};
use crate::code::{Op, STACK, Site, r};

/// The first records of all chains, the number of the chain at hand, and that of the record that is wanted.
const ROOTS: Register = r(0);
const CHAIN: Register = r(1);
const NUMBER: Register = r(2);
/// The record at hand, the value or another object, and the record whose links are drawn.
const RECORD: Register = r(3);
const OBJECT: Register = r(4);
const SOURCE: Register = r(5);
/// The fields of an object, the one at hand, and a reference from a field.
const FIELDS: Register = r(6);
const FIELD: Register = r(7);
const TARGET: Register = r(8);
/// The state of the generator, a random number, and the bits of one that choose.
const SEED: Register = r(9);
const DRAWN: Register = r(10);
const BITS: Register = r(11);
/// The beginning of free memory; of the collector, the copy that is searched, its references and the one at hand, an object's first
/// word, and its copy. The program needs no number and no bits when a collection ends.
const TOP: Register = r(12);
const SCANNED: Register = r(13);
const REFERENCES: Register = NUMBER;
const AT: Register = BITS;
const MARK: Register = r(14);
const COPY: Register = r(15);

/// Instructions that draw a popular record's number (assumed, of those that a draw and an operation are counted with), and that draw
/// the bits of an operation.
const DRAW_INSTRUCTIONS: u64 = 34;
const BITS_INSTRUCTIONS: u64 = 12;

/// Allocates an object from the beginning of free memory.
pub(super) static ALLOCATE: Site = Site::new(&[
    Op::new(Class::Move, OBJECT, &[TOP]),
    Op::store(8, &[OBJECT], &[NUMBER]),
    Op::store(8, &[OBJECT], &[FIELDS]),
    Op::new(Class::LeaComplex, TOP, &[TOP, FIELDS]),
])
.of(ALLOCATE_INSTRUCTIONS);
/// Draws the fields of a record and of its value; keeps the record while the value is allocated.
pub(super) static BUILD: Site = Site::new(&[
    Op::integer(SEED, &[SEED]),
    Op::new(Class::Multiply, DRAWN, &[SEED]),
    Op::new(Class::Shift, DRAWN, &[DRAWN]),
    Op::new(Class::Multiply, FIELDS, &[DRAWN]),
    Op::new(Class::Shift, FIELDS, &[FIELDS]),
    Op::new(Class::Divide64, CHAIN, &[NUMBER]),
])
.of(RECORD_INSTRUCTIONS - KEEP.instructions() - ENCHAIN.instructions());
pub(super) static KEEP: Site = Site::new(&[
    Op::new(Class::Move, RECORD, &[OBJECT]),
    Op::new(Class::Multiply, FIELDS, &[DRAWN]),
    Op::new(Class::Shift, FIELDS, &[FIELDS]),
]);
/// Puts a record before those of its chain, and gives it its value. Has it no links?
pub(super) static ENCHAIN: Site = Site::new(&[
    Op::load(TARGET, 8, &[ROOTS, CHAIN]),
    Op::store(8, &[RECORD], &[TARGET]),
    Op::store(8, &[ROOTS, CHAIN], &[RECORD]),
    Op::store(8, &[RECORD], &[OBJECT]),
    Op::integer(FIELD, &[]),
    Op::compare(&[FIELDS]),
])
.branches(&SET_BACK);
/// Sets a link of a record, and a field of its value, to the record.
pub(super) static SET_LINK: Site = Site::new(&[
    Op::store(8, &[RECORD, FIELD], &[RECORD]),
    Op::integer(FIELD, &[FIELD]),
    Op::compare(&[FIELD, FIELDS]),
])
.repeats()
.of(FIELD_INSTRUCTIONS);
pub(super) static SET_BACK: Site = Site::new(&[
    Op::store(8, &[OBJECT, FIELD], &[RECORD]),
    Op::integer(FIELD, &[FIELD]),
    Op::compare(&[FIELD, FIELDS]),
])
.repeats()
.of(FIELD_INSTRUCTIONS);

/// Draws the number of a popular record, and loads the first record of its chain.
pub(super) static FIND: Site = Site::new(&[
    Op::integer(SEED, &[SEED]),
    Op::new(Class::Shift, DRAWN, &[SEED]),
    Op::integer(DRAWN, &[DRAWN, SEED]),
    Op::new(Class::Multiply, DRAWN, &[DRAWN]),
    Op::new(Class::Shift, DRAWN, &[DRAWN]),
    Op::new(Class::Multiply, DRAWN, &[DRAWN]),
    Op::new(Class::Shift, DRAWN, &[DRAWN]),
    Op::new(Class::CrossConvert, NUMBER, &[DRAWN]),
    Op::new(Class::FloatMultiply, DRAWN, &[NUMBER]),
    Op::new(Class::FloatMultiply, DRAWN, &[DRAWN, NUMBER]),
    Op::new(Class::FloatMultiply, DRAWN, &[DRAWN]),
    Op::new(Class::CrossConvert, DRAWN, &[DRAWN]),
    Op::new(Class::Multiply, DRAWN, &[DRAWN]),
    Op::new(Class::Divide64, NUMBER, &[DRAWN]),
    Op::new(Class::Divide64, CHAIN, &[NUMBER]),
    Op::load(RECORD, 8, &[ROOTS, CHAIN]),
])
.of(DRAW_INSTRUCTIONS + FIND_INSTRUCTIONS);
/// Is it another record? Goes on with the next one of the chain.
pub(super) static IS_OTHER: Site = Site::new(&[Op::compare_with(NUMBER, 8, &[RECORD])]).branches(&NEXT);
pub(super) static NEXT: Site = Site::new(&[Op::load(RECORD, 8, &[RECORD])]).jumps(&IS_OTHER);

/// Begins with a chain, to draw the links of its records. Has a record none?
pub(super) static BEGIN_CHAIN: Site =
    Site::new(&[Op::load(SOURCE, 8, &[ROOTS, CHAIN]), Op::integer(CHAIN, &[CHAIN])]);
pub(super) static BEGIN_LINKS: Site =
    Site::new(&[Op::load(FIELDS, 4, &[SOURCE]), Op::compare(&[FIELDS])]).branches(&NEXT_SOURCE);
/// Sets a link to the record that was found.
pub(super) static SET_TARGET: Site = Site::new(&[
    Op::store(8, &[SOURCE, FIELD], &[RECORD]),
    Op::integer(FIELD, &[FIELD]),
    Op::compare(&[FIELD, FIELDS]),
])
.branches(&FIND)
.of(LINK_INSTRUCTIONS - DRAW_INSTRUCTIONS);
pub(super) static NEXT_SOURCE: Site =
    Site::new(&[Op::load(SOURCE, 8, &[SOURCE]), Op::compare(&[SOURCE])]).branches(&BEGIN_LINKS);

/// Begins an operation: is there room in the heap? Draws the bits that choose, once the record is found.
pub(super) static OPERATE: Site = Site::new(&[Op::integer(COPY, &[TOP]), Op::compare(&[COPY])])
    .of(OPERATION_INSTRUCTIONS - DRAW_INSTRUCTIONS - BITS_INSTRUCTIONS - 4);
pub(super) static DRAW_BITS: Site = Site::new(&[
    Op::integer(SEED, &[SEED]),
    Op::new(Class::Shift, BITS, &[SEED]),
    Op::integer(BITS, &[BITS, SEED]),
    Op::new(Class::Multiply, BITS, &[BITS]),
    Op::new(Class::Shift, BITS, &[BITS]),
    Op::new(Class::Multiply, BITS, &[BITS]),
    Op::new(Class::Shift, BITS, &[BITS]),
])
.of(BITS_INSTRUCTIONS);
/// Stores the record at hand to the stack. Is it the last one? Follows a link of it.
pub(super) static VISIT: Site =
    Site::new(&[Op::store(8, &[STACK], &[RECORD]), Op::load(FIELDS, 4, &[RECORD]), Op::compare(&[FIELDS])])
        .branches(&IS_VALUE)
        .of(VISIT_INSTRUCTIONS / 2);
pub(super) static FOLLOW: Site = Site::new(&[
    Op::new(Class::Shift, BITS, &[BITS]),
    Op::new(Class::Multiply, FIELD, &[BITS, FIELDS]),
    Op::new(Class::Shift, FIELD, &[FIELD]),
    Op::load(RECORD, 8, &[RECORD, FIELD]),
])
.jumps(&VISIT)
.of(VISIT_INSTRUCTIONS * 2 / 3);
/// Is a value to be replaced? If not, is one to be read? If not, has the record a link to change?
pub(super) static IS_VALUE: Site = Site::new(&[Op::compare(&[BITS])]).branches(&VALUE);
pub(super) static IS_READ: Site = Site::new(&[Op::compare(&[BITS])]).branches(&READ);
pub(super) static IS_LINK: Site = Site::new(&[Op::compare(&[FIELDS])]).branches(&CHANGE);
pub(super) static READ: Site = Site::new(&[Op::load(OBJECT, 8, &[RECORD]), Op::load(TARGET, 8, &[OBJECT])]);
pub(super) static CHANGE: Site = Site::new(&[
    Op::load(TARGET, 8, &[STACK]),
    Op::new(Class::Multiply, FIELD, &[BITS, FIELDS]),
    Op::new(Class::Shift, FIELD, &[FIELD]),
    Op::store(8, &[RECORD, FIELD], &[TARGET]),
]);
/// Draws the fields of a new value; sets one of them; gives the record the value.
pub(super) static VALUE: Site = Site::new(&[
    Op::new(Class::Shift, BITS, &[BITS]),
    Op::new(Class::Multiply, FIELDS, &[BITS]),
    Op::new(Class::Shift, FIELDS, &[FIELDS]),
    Op::integer(FIELD, &[]),
])
.of(VALUE_INSTRUCTIONS - REPLACE.instructions());
pub(super) static SET_FIELD: Site = Site::new(&[
    Op::load(TARGET, 8, &[STACK]),
    Op::store(8, &[OBJECT, FIELD], &[TARGET]),
    Op::integer(FIELD, &[FIELD]),
    Op::compare(&[FIELD, FIELDS]),
])
.repeats()
.of(FIELD_INSTRUCTIONS);
pub(super) static REPLACE: Site = Site::new(&[Op::store(8, &[RECORD], &[OBJECT])]);

/// Of the collector: loads the first record of a chain; stores its copy.
pub(super) static ROOT: Site = Site::new(&[Op::load(OBJECT, 8, &[ROOTS, CHAIN])]);
pub(super) static SET_ROOT: Site =
    Site::new(&[Op::store(8, &[ROOTS, CHAIN], &[COPY]), Op::integer(CHAIN, &[CHAIN]), Op::compare(&[CHAIN])])
        .branches(&ROOT)
        .of(ROOT_INSTRUCTIONS - ROOT.instructions());
/// Is there no copy of an object yet? If there is, the object's first word says where.
pub(super) static FORWARD: Site =
    Site::new(&[Op::load(MARK, 8, &[OBJECT]), Op::new(Class::Shift, COPY, &[MARK]), Op::compare(&[MARK])])
        .branches(&BEGIN_COPY)
        .of(FORWARD_INSTRUCTIONS);
/// Begins to copy an object; copies a word of it; stores where the copy is.
pub(super) static BEGIN_COPY: Site =
    Site::new(&[Op::load(FIELDS, 4, &[OBJECT]), Op::integer(FIELD, &[]), Op::new(Class::Move, COPY, &[TOP])])
        .of(COPY_INSTRUCTIONS - MOVED.instructions());
pub(super) static COPY_WORD: Site = Site::new(&[
    Op::load(TARGET, 8, &[OBJECT, FIELD]),
    Op::store(8, &[COPY, FIELD], &[TARGET]),
    Op::integer(FIELD, &[FIELD]),
    Op::compare(&[FIELD, FIELDS]),
])
.repeats()
.of(WORD_INSTRUCTIONS);
pub(super) static MOVED: Site =
    Site::new(&[Op::new(Class::LeaComplex, TOP, &[TOP, FIELDS]), Op::store(8, &[OBJECT], &[COPY])]);
/// Begins to search a copy; loads a reference of it, which may be none; stores where the copy of its object is; goes on.
pub(super) static SCAN: Site = Site::new(&[
    Op::new(Class::LeaComplex, SCANNED, &[SCANNED, REFERENCES]),
    Op::load(REFERENCES, 4, &[SCANNED]),
    Op::integer(AT, &[]),
])
.of(SCAN_INSTRUCTIONS);
pub(super) static REFERENCE: Site =
    Site::new(&[Op::load(OBJECT, 8, &[SCANNED, AT]), Op::compare(&[OBJECT])]).branches(&NEXT_REFERENCE);
pub(super) static SET_REFERENCE: Site = Site::new(&[Op::store(8, &[SCANNED, AT], &[COPY])]);
pub(super) static NEXT_REFERENCE: Site = Site::new(&[Op::integer(AT, &[AT]), Op::compare(&[AT, REFERENCES])])
    .branches(&REFERENCE)
    .of(REFERENCE_INSTRUCTIONS - REFERENCE.instructions() - SET_REFERENCE.instructions());
