//! Handlers of `fork`: what a child has of its parent's files, and what it has not.

use crate::{connection, files, mappings, names, offsets, process};

/// When the program is loaded: there is no child of `vfork` yet that could be taken for it.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn begin() {
        process::is_now_ours();
        // SAFETY: handlers of ours, for as long as the program runs.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child));
        }
    }
    begin
};

/// A child has the same descriptors, and the kernel's offsets.
extern "C" fn before_fork() {
    files::shared(true);
    mappings::before_fork();
}

extern "C" fn in_parent() {
    mappings::in_parent();
}

/// A child is another process: the owner does not know it yet.
extern "C" fn in_child() {
    mappings::in_child();
    offsets::in_child();
    files::in_child();
    connection::in_child();
    names::in_child();
    process::is_now_ours();
}
