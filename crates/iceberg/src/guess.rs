//! Whether look-ups fetch the line where their item probably is, before they know that there is one.
//!
//! Who finds what he looks for waits for one line less. Who does not has a line fetched for nothing, which from a large
//! table takes as long as the rest of the look-up. Programs tend to do the one or the other for a while, so each thread
//! goes by what its last look-ups came to.

use std::cell::Cell;

thread_local! {
    /// The last eight look-ups, a bit each, the last one's the lowest: whether it found its item.
    static FOUND: Cell<u8> = const { Cell::new(u8::MAX) };
}

/// Whether any of this thread's last look-ups found its item.
#[inline(always)]
pub(crate) fn is_worth_it() -> bool {
    FOUND.get() != 0
}

/// A look-up has come to its end. (Or to the end of the first level: the few items behind it are not where a guess would
/// have been of use.)
#[inline(always)]
pub(crate) fn note(found: bool) {
    FOUND.set(FOUND.get() << 1 | u8::from(found));
}
