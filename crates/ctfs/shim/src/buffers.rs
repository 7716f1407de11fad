//! Memory for the paths of one call.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// Bytes of a path at most, with its end.
pub(crate) const PATH_BYTES: usize = 4_096;

/// Buffers with room for one path each. Not on the stack: a handler of a signal may have very little.
struct Buffers(UnsafeCell<[MaybeUninit<[u8; PATH_BYTES]>; 4]>);

// SAFETY: only a process with one thread uses them, and only within a call, which nothing comes between.
unsafe impl Sync for Buffers {}

static BUFFERS: Buffers = Buffers(UnsafeCell::new([const { MaybeUninit::uninit() }; 4]));

/// Which of them: a call's paths, an answer, and a path that is put together.
pub(crate) const FIRST: usize = 0;
pub(crate) const SECOND: usize = 1;
pub(crate) const ANSWERED: usize = 2;
pub(crate) const WHOLE: usize = 3;

/// Returns one of the buffers.
///
/// # Safety
///
/// No other part of the same call has that one.
pub(crate) unsafe fn buffer<'a>(which: usize) -> &'a mut MaybeUninit<[u8; PATH_BYTES]> {
    // SAFETY: (1) as `Sync` says; (2) the caller's.
    unsafe { &mut (*BUFFERS.0.get())[which] }
}

/// Returns one of the buffers, cleared.
///
/// # Safety
///
/// The same.
pub(crate) unsafe fn cleared<'a>(which: usize) -> &'a mut [u8; PATH_BYTES] {
    // SAFETY: the caller's.
    unsafe { buffer(which) }.write([0; PATH_BYTES])
}
