//! Whether look-ups fetch the line where their item probably is, before they know that there is one.
//!
//! A look-up that finds its key waits for one line less. One that does not has a line fetched for nothing, which from a large
//! table takes as long as the rest of the look-up. Programs tend to do the one or the other for a while, so each thread
//! goes by what its last look-ups came to.

use std::cell::Cell;

thread_local! {
    /// Look-ups in a row that have found nothing, up to [`ENOUGH`].
    static IN_VAIN: Cell<u8> = const { Cell::new(0) };
}

/// After so many in vain none is likely to find its item.
const ENOUGH: u8 = 8;

/// Whether any of this thread's last look-ups found its item.
#[inline(always)]
pub(crate) fn is_worth_it() -> bool {
    IN_VAIN.get() < ENOUGH
}

/// A look-up has found its item.
#[inline(always)]
pub(crate) fn found() {
    if IN_VAIN.get() != 0 {
        IN_VAIN.set(0);
    }
}

/// A look-up has come to the end of the first level. (The few items behind it are not where a guess would have been of
/// use.)
#[inline(always)]
pub(crate) fn in_vain() {
    if IN_VAIN.get() < ENOUGH {
        IN_VAIN.set(IN_VAIN.get() + 1);
    }
}
