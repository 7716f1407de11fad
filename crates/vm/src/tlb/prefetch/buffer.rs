//! The translations that were prefetched and not yet used.

use crate::addr::PageSize;
use crate::addr::{Asid, Vpn};
use crate::sets::{Replacement, ShapeError};
use crate::tlb::{SetAssociative, TlbArray, Translation};

/// A small fully associative buffer of prefetched translations of any size. The oldest leaves when it is full; one that is used
/// moves to the TLBs.
#[derive(Clone, Debug)]
pub struct PrefetchBuffer {
    entries: SetAssociative,
}

impl PrefetchBuffer {
    /// Creates an empty buffer of so many entries.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if there are none.
    pub fn new(entries: u32) -> Result<Self, ShapeError> {
        SetAssociative::new(entries, entries, Replacement::Fifo, &PageSize::EVERY)
            .map(|entries| Self { entries })
    }

    /// Removes the translation of base page `vpn` and returns it, if it is here.
    pub fn take(&mut self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        self.entries.take(asid, vpn)
    }

    /// Returns whether the translation of base page `vpn` is here.
    pub fn contains(&self, asid: Asid, vpn: Vpn) -> bool {
        self.entries.contains(asid, vpn)
    }

    /// Adds the translation of a page that is not here.
    pub fn put(&mut self, asid: Asid, vpn: Vpn, translation: Translation) {
        self.entries.exchange(asid, vpn, translation);
    }

    /// Notes that the page table knows that the page of `vpn` is dirty.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        self.entries.set_dirty(asid, vpn);
    }

    /// Removes the translation of `vpn`.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        self.entries.invalidate(asid, vpn);
    }

    /// Removes all translations of an address space, or of all.
    pub fn flush(&mut self, asid: Option<Asid>) {
        self.entries.flush(asid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Pfn;

    const ASID: Asid = Asid(1);

    fn translation(vpn: u64, size: PageSize) -> Translation {
        Translation::new(Pfn(vpn), size, true, false)
    }

    #[test]
    fn the_oldest_leaves_and_a_used_one_is_gone() {
        let mut buffer = PrefetchBuffer::new(3).expect("three entries");
        (1..5).for_each(|vpn| buffer.put(ASID, Vpn(vpn), translation(vpn, PageSize::Size4K)));
        assert_eq!([1, 2, 3, 4].map(|vpn| buffer.contains(ASID, Vpn(vpn))), [false, true, true, true]);
        assert_eq!(buffer.take(ASID, Vpn(3)), Some(translation(3, PageSize::Size4K)));
        assert_eq!(buffer.take(ASID, Vpn(3)), None);
        buffer.put(ASID, Vpn(5), translation(5, PageSize::Size4K));
        assert!(buffer.contains(ASID, Vpn(2)), "the free entry was taken");
        buffer.invalidate(ASID, Vpn(2));
        buffer.flush(Some(Asid(2)));
        assert_eq!([2, 4, 5].map(|vpn| buffer.contains(ASID, Vpn(vpn))), [false, true, true]);
        buffer.flush(None);
        assert!(!buffer.contains(ASID, Vpn(4)));
    }

    #[test]
    fn a_huge_page_is_found_by_any_of_its_pages() {
        let mut buffer = PrefetchBuffer::new(2).expect("two entries");
        buffer.put(ASID, Vpn(512), translation(512, PageSize::Size2M));
        assert!(buffer.contains(ASID, Vpn(512 + 77)) && !buffer.contains(ASID, Vpn(1024)));
        assert_eq!(buffer.take(ASID, Vpn(900)), Some(translation(512, PageSize::Size2M)));
    }
}
