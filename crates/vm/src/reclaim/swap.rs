//! Which pages have a copy on the swap device.

use std::collections::BTreeSet;

use crate::addr::{Asid, Vpn};
use crate::frame::PageKey;

/// The slots of a swap device, and whose copies they hold.
///
/// A page that was brought back keeps its copy until it is written to again: if it leaves unchanged, nothing has to be
/// written.
#[derive(Clone, Debug)]
pub struct SwapSpace {
    copies: BTreeSet<(Asid, Vpn)>,
    slots: u64,
    pages_out: u64,
    pages_in: u64,
    clean: u64,
}

/// All slots are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the swap device is full: all of its {slots} pages are taken")]
pub struct SwapFull {
    /// The slots there are.
    pub slots: u64,
}

impl SwapSpace {
    /// An empty device for so many pages.
    pub fn new(slots: u64) -> Self {
        Self { copies: BTreeSet::new(), slots, pages_out: 0, pages_in: 0, clean: 0 }
    }

    /// A page leaves memory. Tells whether it must be written: not if it is clean and its copy is there, or if it was
    /// never written to at all and reads as zeroes.
    ///
    /// # Errors
    ///
    /// There is no slot for its copy.
    pub fn page_out(&mut self, page: PageKey, dirty: bool) -> Result<bool, SwapFull> {
        if !dirty {
            self.clean += 1;
            return Ok(false);
        }
        if self.copies.insert((page.asid, page.page)) && self.copies.len() as u64 > self.slots {
            self.copies.remove(&(page.asid, page.page));
            return Err(SwapFull { slots: self.slots });
        }
        self.pages_out += 1;
        Ok(true)
    }

    /// A page is wanted in memory. Tells whether it must be read.
    pub fn page_in(&mut self, page: PageKey) -> bool {
        let found = !self.copies.is_empty() && self.copies.contains(&(page.asid, page.page));
        self.pages_in += u64::from(found);
        found
    }

    /// Pages `[start, end)` of an address space are unmapped: their copies are worth nothing.
    pub fn discard(&mut self, asid: Asid, start: Vpn, end: Vpn) {
        for page in self.range(asid, start, end) {
            self.copies.remove(&(asid, page));
        }
    }

    /// The copies of pages `[start, end)` belong to the pages from `target` on now.
    pub fn rename(&mut self, asid: Asid, start: Vpn, end: Vpn, target: Vpn) {
        let pages = self.range(asid, start, end);
        self.discard(asid, start, end);
        self.copies.extend(pages.into_iter().map(|page| (asid, Vpn(target.0 + (page.0 - start.0)))));
    }

    fn range(&self, asid: Asid, start: Vpn, end: Vpn) -> Vec<Vpn> {
        if self.copies.is_empty() || start >= end {
            return Vec::new();
        }
        self.copies.range((asid, start)..(asid, end)).map(|copy| copy.1).collect()
    }

    /// Slots taken now.
    pub fn used(&self) -> u64 {
        self.copies.len() as u64
    }

    /// Pages written so far.
    pub fn pages_out(&self) -> u64 {
        self.pages_out
    }

    /// Pages read so far.
    pub fn pages_in(&self) -> u64 {
        self.pages_in
    }

    /// Pages that left without being written.
    pub fn clean(&self) -> u64 {
        self.clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(asid: u16, page: u64) -> PageKey {
        PageKey { asid: Asid(asid), page: Vpn(page) }
    }

    #[test]
    fn a_copy_stays_until_its_page_is_unmapped() {
        let mut swap = SwapSpace::new(3);
        assert!(!swap.page_in(page(1, 10)), "never left");
        assert_eq!(swap.page_out(page(1, 10), true), Ok(true));
        assert!(swap.page_in(page(1, 10)));
        assert_eq!(swap.page_out(page(1, 10), false), Ok(false), "clean, and its copy is there");
        assert!(swap.page_in(page(1, 10)));
        assert!(!swap.page_in(page(2, 10)), "another address space");
        swap.rename(Asid(1), Vpn(8), Vpn(12), Vpn(108));
        assert!(swap.page_in(page(1, 110)) && !swap.page_in(page(1, 10)));
        swap.discard(Asid(1), Vpn(110), Vpn(111));
        assert!(!swap.page_in(page(1, 110)));
        assert_eq!((swap.used(), swap.pages_out(), swap.pages_in(), swap.clean()), (0, 1, 3, 1));
    }

    #[test]
    fn a_full_device_refuses_and_keeps_what_it_has() {
        let mut swap = SwapSpace::new(2);
        assert_eq!(swap.page_out(page(1, 1), true), Ok(true));
        assert_eq!(swap.page_out(page(1, 2), true), Ok(true));
        assert_eq!(swap.page_out(page(1, 3), true), Err(SwapFull { slots: 2 }));
        assert_eq!(swap.page_out(page(1, 2), true), Ok(true), "its slot is written again");
        assert!(swap.page_in(page(1, 1)) && swap.page_in(page(1, 2)) && !swap.page_in(page(1, 3)));
    }
}
