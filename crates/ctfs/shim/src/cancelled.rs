//! Threads that are cancelled while one of their calls is in this library.
//!
//! The C library cancels a thread by unwinding its stack. Rust's unwinder ends the whole process if it meets a frame that stands at an
//! instruction from which no panic can come. A frame of this library stands at such an instruction while the kernel makes a call for it,
//! and at many others if the thread can be cancelled anywhere (`PTHREAD_CANCEL_ASYNCHRONOUS`).
//!
//! This library holds nothing in either case. A thread that is cancelled at a call leaves before the library has taken anything, and for
//! a thread that can be cancelled anywhere the library passes every call on to the kernel. So unwinding may simply pass the frames of
//! this library, as it passes those of the C library.

use std::ffi::{c_int, c_void};

/// The bit of an unwinding that no handler ends: a thread leaves (`_UA_FORCE_UNWIND` of the System V ABI).
const FORCED: c_int = 8;
/// The answer that unwinding goes on with the next frame (`_URC_CONTINUE_UNWIND`).
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
