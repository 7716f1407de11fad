//! The program's limit of how long files may get.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::kernel;

/// The kernel would end a program that writes beyond its limit.
static HAS_SIZE_LIMIT: AtomicBool = AtomicBool::new(false);

/// Looks again whether the program has a limit of how long files may get.
pub(crate) fn limit_may_have_changed() {
    let mut limit = [0u64; 2];
    let arguments = [0, libc::RLIMIT_FSIZE as usize, 0, limit.as_mut_ptr() as usize];
    // SAFETY: both words are written.
    let failed = unsafe { kernel::call(libc::SYS_prlimit64, arguments) } < 0;
    HAS_SIZE_LIMIT.store(failed || limit[0] != u64::MAX, Ordering::Relaxed);
}

/// Whether the program may have a limit of how long files may get.
#[inline]
pub(crate) fn has_size_limit() -> bool {
    HAS_SIZE_LIMIT.load(Ordering::Relaxed)
}

/// The program is about to change its limits.
pub(crate) fn limit_is_about_to_change() {
    HAS_SIZE_LIMIT.store(true, Ordering::Relaxed);
}
