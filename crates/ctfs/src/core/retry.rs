//! The one retry of operations that find no room.

use rustix::io::Errno;

use crate::core::error::Result;

/// Does something, and once more if it finds no room (`ENOSPC`) and `reclaim` has given frames back.
///
/// # Errors
///
/// What the operation answers the last time, or what `reclaim` answers.
pub(crate) fn or_reclaim<S: ?Sized, T>(
    on: &mut S,
    mut act: impl FnMut(&mut S) -> Result<T>,
    reclaim: impl FnOnce(&mut S) -> Result<bool>,
) -> Result<T> {
    match act(on) {
        Err(Errno::NOSPC) if reclaim(on)? => act(on),
        done => done,
    }
}
