//! Addresses that are this process's own, before anything is mapped there.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

/// A range of addresses. Whatever was mapped in it goes with it.
#[derive(Debug)]
pub(crate) struct Reserved {
    all: NonNull<c_void>,
    all_bytes: usize,
    start: NonNull<u8>,
}

// SAFETY: it is a range of addresses, and the only one to unmap it.
#[allow(unsafe_code)]
unsafe impl Send for Reserved {}
// SAFETY: as for `Send`.
#[allow(unsafe_code)]
unsafe impl Sync for Reserved {}

impl Reserved {
    /// So many bytes from an aligned address on.
    #[allow(unsafe_code)]
    pub(crate) fn new(bytes: u64, alignment: u64) -> io::Result<Self> {
        let all_bytes = (bytes + alignment) as usize;
        let how = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing else.
        let all =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), all_bytes, ProtFlags::empty(), how)? };
        let all = NonNull::new(all).expect("no mapping is at address 0");
        let bytes_before = all.cast::<u8>().as_ptr().align_offset(alignment as usize);
        // SAFETY: less than the alignment, which was reserved beside the bytes.
        let start = unsafe { all.cast::<u8>().add(bytes_before) };
        Ok(Self { all, all_bytes, start })
    }

    /// The first byte's address, aligned.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Reserved {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: no thread borrows what is mapped there any more.
        let unmapped = unsafe { rustix::mm::munmap(self.all.as_ptr(), self.all_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
