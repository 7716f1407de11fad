//! The code of a job: computing, and accesses by their size.
//!
//! A server's data structures are reached through one register, which holds where the job is: [`FOLLOW`] goes to where the loaded
//! pointer leads, [`SEEK`] to what a key says, and other accesses have it for their address.

use pagewalk_code::{Class, Register};

use super::job::ENTRY_STORES;
use crate::code::{Op, STACK, Site, r};

/// Where the job is, what it loaded there, and the key that it looks for.
const POINTER: Register = r(0);
const VALUE: Register = r(1);
const KEY: Register = r(2);

/// The number of sizes of an access: 1 to 64 bytes.
pub(super) const SIZES: usize = 7;

/// Loads a value, by the base-2 logarithm of its size.
pub(super) static LOAD: [Site; SIZES] = [
    Site::new(&[Op::load(VALUE, 1, &[POINTER])]),
    Site::new(&[Op::load(VALUE, 2, &[POINTER])]),
    Site::new(&[Op::load(VALUE, 4, &[POINTER])]),
    Site::new(&[Op::load(VALUE, 8, &[POINTER])]),
    Site::new(&[Op::load(VALUE, 16, &[POINTER])]),
    Site::new(&[Op::load(VALUE, 32, &[POINTER])]),
    Site::new(&[Op::load(VALUE, 64, &[POINTER])]),
];

/// Stores a value.
pub(super) static STORE: [Site; SIZES] = [
    Site::new(&[Op::store(1, &[POINTER], &[VALUE])]),
    Site::new(&[Op::store(2, &[POINTER], &[VALUE])]),
    Site::new(&[Op::store(4, &[POINTER], &[VALUE])]),
    Site::new(&[Op::store(8, &[POINTER], &[VALUE])]),
    Site::new(&[Op::store(16, &[POINTER], &[VALUE])]),
    Site::new(&[Op::store(32, &[POINTER], &[VALUE])]),
    Site::new(&[Op::store(64, &[POINTER], &[VALUE])]),
];

/// Loads a pointer, and goes there.
pub(super) static FOLLOW: [Site; SIZES] = [
    Site::new(&[Op::load(POINTER, 1, &[POINTER])]),
    Site::new(&[Op::load(POINTER, 2, &[POINTER])]),
    Site::new(&[Op::load(POINTER, 4, &[POINTER])]),
    Site::new(&[Op::load(POINTER, 8, &[POINTER])]),
    Site::new(&[Op::load(POINTER, 16, &[POINTER])]),
    Site::new(&[Op::load(POINTER, 32, &[POINTER])]),
    Site::new(&[Op::load(POINTER, 64, &[POINTER])]),
];

/// Computes, by the base-2 logarithm of the number of instructions.
pub(super) static COMPUTE: [Site; SIZES] = [
    Site::new(&[]).of(1),
    Site::new(&[]).of(2),
    Site::new(&[]).of(4),
    Site::new(&[]).of(8),
    Site::new(&[]).of(16),
    Site::new(&[]).of(32),
    Site::new(&[]).of(64),
];
/// Goes to where a key says.
pub(super) static SEEK: Site = Site::new(&[Op::new(Class::Move, POINTER, &[KEY])]);
/// Decides by a value that was loaded: yes, or no.
pub(super) static DECIDE: Site = Site::new(&[Op::compare(&[VALUE, KEY])]).branches(&YES);
pub(super) static YES: Site = Site::new(&[Op::integer(VALUE, &[VALUE])]);

/// Enters the job; stores a value to the stack, and loads it again.
pub(super) static ENTER: Site = Site::new(&[Op::store(8, &[STACK], &[KEY]); ENTRY_STORES as usize]);
pub(super) static SPILL: Site = Site::new(&[Op::store(8, &[STACK], &[VALUE])]);
pub(super) static REFILL: Site = Site::new(&[Op::load(VALUE, 8, &[STACK])]);
