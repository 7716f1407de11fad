//! A record for tests of hits, evictions, arrivals and decisions, in order.

use std::cell::RefCell;

thread_local! {
    static SEEN: RefCell<Option<Vec<[u64; 4]>>> = const { RefCell::new(None) };
}

/// Begins to watch this thread's machines.
pub(crate) fn begin() {
    SEEN.with_borrow_mut(|seen| *seen = Some(Vec::new()));
}

/// Returns all that was seen.
pub(crate) fn end() -> Vec<[u64; 4]> {
    SEEN.take().expect("it was begun")
}

/// Notes an event, if this thread's machines are watched.
pub(crate) fn note(what: u64, a: u64, b: u64, at_ps: u64) {
    SEEN.with_borrow_mut(|seen| seen.iter_mut().for_each(|seen| seen.push([what, a, b, at_ps])));
}
