//! Results of calls, as C has them.

use libc::{c_int, ssize_t};

/// A call's result as C has it; the error's number is in its place.
pub(crate) type Answer = Option<ssize_t>;

/// The result of a call that has failed, with this number in `errno`.
pub(crate) fn failed(number: c_int) -> Answer {
    // SAFETY: it is this thread's.
    unsafe { *libc::__errno_location() = number };
    Some(-1)
}

/// The same as an `int`.
pub(crate) fn refused(number: c_int) -> c_int {
    failed(number);
    -1
}

/// A call's result as C has it.
#[inline]
pub(crate) fn answer(done: Result<usize, c_int>) -> Answer {
    match done {
        Ok(done) => Some(done as ssize_t),
        Err(number) => failed(number),
    }
}
