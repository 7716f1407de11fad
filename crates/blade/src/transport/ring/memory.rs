//! A mapped file as atomic words: with the Ethernet socket's address, the unsafe code of this crate.
//!
//! No safe interface to a shared mapping exists, because another process can change it at any time. Here it is only ever seen
//! as atomics, for which that is no data race.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{CONTROL_BYTES, FILE_BYTES};

/// The whole file, mapped for as long as this lives.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
}

// SAFETY: (1) the pointer is to a mapping that nothing else in this process names; (2) all access to it is by atomics.
unsafe impl Send for Memory {}

impl Memory {
    /// The file must have `FILE_BYTES` bytes.
    pub(super) fn map(file: &File, bytes: usize) -> io::Result<Self> {
        assert_eq!(bytes, FILE_BYTES);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses a free range of addresses, so that no memory of this process is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start })
    }

    /// Returns the control block of the ring.
    pub(super) fn control(&self) -> &[AtomicU32] {
        // SAFETY: (1) the mapping begins at a page, is FILE_BYTES long and lives as long as `self`; (2) these bytes are
        // accessed as 4-byte atomics only, by this process and by the other.
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), CONTROL_BYTES / 4) }
    }

    /// The slots of both rings.
    pub(super) fn slots(&self) -> &[AtomicU64] {
        // SAFETY: (1) as above; CONTROL_BYTES is a multiple of 8 within the mapping; (2) these bytes are accessed as 8-byte
        // atomics only.
        unsafe {
            let start = self.start.add(CONTROL_BYTES).cast().as_ptr();
            std::slice::from_raw_parts(start, (FILE_BYTES - CONTROL_BYTES) / 8)
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `map`, and no reference into it outlives `self`. It cannot fail for such a range.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), FILE_BYTES) };
    }
}
