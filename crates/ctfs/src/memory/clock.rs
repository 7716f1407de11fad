//! The clock of times in inodes.

/// Returns the time in nanoseconds since 1970, as exact as file systems have it: asking costs next to nothing.
#[allow(unsafe_code)]
pub fn coarse_now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // By the C library: `rustix` finds the kernel's code for it by itself, where valgrind does not let a program go.
    // SAFETY: there is room for the answer, and this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}
