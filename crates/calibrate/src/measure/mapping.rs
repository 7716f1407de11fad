//! Anonymous memory in pages of a chosen size.

use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

/// The size of a huge page, to which mappings are aligned.
pub(super) const HUGE_BYTES: usize = 2 << 20;
/// The size of a small page.
pub(super) const PAGE_BYTES: usize = 4 << 10;

/// The area that [`change_mappings`] maps, and the calls that it makes.
const AREA_BYTES: usize = 64 << 10;
pub(super) const CALLS_OF_A_CHANGE: usize = 4;

/// The pages that a mapping asks the kernel for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pages {
    /// Pages of the base size.
    Small,
    /// Transparent huge pages, if the kernel has any.
    Huge,
}

/// Maps an area, takes a page out of it by another protection, gives it back, and unmaps the area: calls of an allocator, and of a runtime
/// that makes guard pages. No page is touched.
pub(super) fn change_mappings() {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address, so no memory in use is replaced.
    let area = unsafe { mmap_anonymous(null_mut(), AREA_BYTES, protection, MapFlags::PRIVATE) };
    let Ok(area) = area else { return };
    // SAFETY: the area is this function's own, and nothing uses its memory.
    unsafe {
        let _ = mprotect(area, PAGE_BYTES, MprotectFlags::empty());
        let _ = mprotect(area, PAGE_BYTES, MprotectFlags::READ | MprotectFlags::WRITE);
        let _ = munmap(area, AREA_BYTES);
    }
}

/// Private anonymous memory, aligned to a huge page; it is unmapped with its owner.
#[derive(Debug)]
pub(super) struct Mapping {
    /// The whole mapping, a huge page larger than what is used.
    whole: NonNull<c_void>,
    whole_bytes: usize,
    words: NonNull<u64>,
    count: usize,
}

impl Mapping {
    /// Maps memory of so many bytes, rounded up to whole huge pages. It takes no frames before it is touched.
    ///
    /// # Errors
    ///
    /// The kernel refuses the mapping.
    pub(super) fn new(bytes: usize, pages: Pages) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(HUGE_BYTES);
        let whole_bytes = bytes + HUGE_BYTES;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced.
        let whole = unsafe { mmap_anonymous(null_mut(), whole_bytes, protection, MapFlags::PRIVATE) }?;
        let address = whole.map_addr(|address| address.next_multiple_of(HUGE_BYTES));
        let advice = match pages {
            Pages::Small => Advice::LinuxNoHugepage,
            Pages::Huge => Advice::LinuxHugepage,
        };
        // SAFETY: `bytes` from the aligned address on lie in the mapping, and the advice does not change what they hold. A kernel
        // without huge pages refuses it, and has small pages only.
        let _ = unsafe { madvise(address, bytes, advice) };
        let (whole, words) = (NonNull::new(whole), NonNull::new(address.cast()));
        let (Some(whole), Some(words)) = (whole, words) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        Ok(Self { whole, whole_bytes, words, count: bytes / size_of::<u64>() })
    }

    /// Returns the memory, zero until it is written.
    pub(super) fn words(&self) -> &[u64] {
        // SAFETY: (1) `count` words from `words` on are mapped, readable and aligned as long as `self` lives; (2) the kernel fills
        // them with zeros; (3) `&self` keeps a `&mut` from `words_mut` away.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// Returns the memory to write to.
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `words`; `&mut self` keeps every other reference away.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_ptr(), self.count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it outlives the value. A failure would leave it mapped,
        // which is harmless.
        let _ = unsafe { munmap(self.whole.as_ptr(), self.whole_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_ours() {
        for pages in [Pages::Small, Pages::Huge] {
            let mut mapping = Mapping::new(3 << 20, pages).expect("memory");
            assert_eq!(mapping.words().len() * 8, 2 * HUGE_BYTES);
            assert_eq!(mapping.words().as_ptr() as usize % HUGE_BYTES, 0);
            assert!(mapping.words().iter().all(|&word| word == 0));
            mapping.words_mut().fill(7);
            assert!(mapping.words().iter().all(|&word| word == 7));
        }
    }

    #[test]
    fn more_memory_than_there_are_addresses_is_refused() {
        assert!(Mapping::new(1 << 60, Pages::Small).is_err());
    }
}
