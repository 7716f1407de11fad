//! Work that is done with this process's memory and other descriptors.

use std::ffi::{c_int, c_void};
use std::io;

use rustix::mm::{MapFlags, ProtFlags};

const STACK_BYTES: usize = 256 << 10;

/// Does something in a task that has this process's memory, and a copy of its descriptors: what the task opens no thread of this process
/// can use. The calling thread waits; others go on.
///
/// # Errors
///
/// The kernel makes no such task.
///
/// # Safety
///
/// `act` does not panic, and takes no lock that another thread may have.
#[allow(unsafe_code)]
pub(crate) unsafe fn apart<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    struct Call<A, T> {
        act: Option<A>,
        answer: Option<T>,
    }
    extern "C" fn call<A: FnOnce() -> T, T>(on: *mut c_void) -> c_int {
        // SAFETY: it is the value below, and the thread that has it waits.
        let call = unsafe { &mut *on.cast::<Call<A, T>>() };
        call.answer = call.act.take().map(|act| act());
        0
    }
    fn function<A: FnOnce() -> T, T>(_: &Call<A, T>) -> extern "C" fn(*mut c_void) -> c_int {
        call::<A, T>
    }
    let mut on = Call { act: Some(act), answer: None };
    let function = function(&on);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: (1) a fresh mapping, unmapped when the task has ended; (2) the task runs on it alone, from its end on; (3) the caller's.
    let ended = unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let stack =
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), STACK_BYTES, protection, MapFlags::PRIVATE)?;
        let task = libc::clone(function, stack.byte_add(STACK_BYTES), flags, (&raw mut on).cast());
        let error = io::Error::last_os_error();
        // It tells by no signal, and programs that wait for children do not find it.
        let ended = task >= 0 && libc::waitpid(task, std::ptr::null_mut(), libc::__WCLONE) == task;
        rustix::mm::munmap(stack, STACK_BYTES)?;
        if ended { Ok(()) } else { Err(error) }
    };
    ended?;
    on.answer.ok_or_else(|| io::ErrorKind::Other.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn descriptors_stay_apart() {
        let mut seen = 0;
        let file = std::fs::File::open("/proc/self/status").expect("open");
        // SAFETY: it opens a file.
        let opened = unsafe {
            apart(|| {
                seen += 1;
                // SAFETY: it touches nothing that is in use.
                libc::fcntl(libc::dup(std::os::fd::AsRawFd::as_raw_fd(&file)), libc::F_GETFD) >= 0
            })
        };
        assert!(opened.expect("it is done"));
        assert_eq!(seen, 1, "its memory is this one's");
    }
}
