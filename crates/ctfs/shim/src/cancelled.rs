//! Threads that are cancelled while one of their calls is in this library.
//!
//! The C library cancels a thread by unwinding its stack. Rust's unwinder ends the process where that happens at an instruction that no
//! panic can come from, and such are all those at which a call of the kernel waits, or at which a thread that can be cancelled anywhere
//! (`PTHREAD_CANCEL_ASYNCHRONOUS`) happens to be. Nothing is held at either: the first comes before a call begins here, and the calls of the
//! second are the kernel's. So the unwinding passes by the frames of this library, as it passes by those of the C library.

use std::ffi::{c_int, c_void};

/// The unwinding does not end at a handler but at the stack's end: a thread that leaves, not a panic. Both are the platform's values
/// (System V ABI, x86-64 and AArch64: `_UA_FORCE_UNWIND`, `_URC_CONTINUE_UNWIND`).
const FORCED: c_int = 8;
const CONTINUE: c_int = 8;

unsafe extern "C" {
    fn __real_rust_eh_personality(
        version: c_int,
        actions: c_int,
        class: u64,
        exception: *mut c_void,
        context: *mut c_void,
    ) -> c_int;
}

/// What the unwinder asks at each frame of this library: the linker puts it in the place of Rust's own function (`build.rs`).
///
/// # Safety
///
/// Only the unwinder calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_rust_eh_personality(
    version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    if actions & FORCED != 0 {
        return CONTINUE;
    }
    // SAFETY: the arguments are the unwinder's.
    unsafe { __real_rust_eh_personality(version, actions, class, exception, context) }
}
