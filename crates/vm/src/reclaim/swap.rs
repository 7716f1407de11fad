//! Which pages have a copy on the swap device.

use std::collections::{BTreeMap, BTreeSet};

use crate::addr::{Asid, Vpn};
use crate::frame::PageKey;

/// The slots of a swap device, and whose copies they hold.
///
/// A page that was brought back keeps its copy until it is written to again: if it leaves unchanged, nothing has to be
/// written. Pages that shared a frame when they left share a copy, which a page gives up when it has been written to.
/// New copies take slots in order, so that pages that leave together lie together; given-up slots are taken
/// again when there are no fresh ones.
#[derive(Clone, Debug)]
pub struct SwapSpace {
    copies: BTreeMap<(Asid, Vpn), u64>,
    /// The page that each slot was given to, for as many slots as were ever taken.
    owners: Vec<Option<PageKey>>,
    /// The further pages that share the copy in a slot.
    sharers: BTreeMap<u64, Vec<PageKey>>,
    /// Slots below those that were never taken.
    given_up: BTreeSet<u64>,
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
    /// Creates an empty device for so many pages.
    pub fn new(slots: u64) -> Self {
        Self {
            copies: BTreeMap::new(),
            owners: Vec::new(),
            sharers: BTreeMap::new(),
            given_up: BTreeSet::new(),
            slots,
            pages_out: 0,
            pages_in: 0,
            clean: 0,
        }
    }

    /// Moves a page out of memory. Tells whether it must be written: not if it is clean and its copy is there, or if
    /// it was never written to at all and reads as zeroes.
    ///
    /// # Errors
    ///
    /// There is no slot for its copy.
    pub fn page_out(&mut self, page: PageKey, dirty: bool) -> Result<bool, SwapFull> {
        if !dirty {
            self.clean += 1;
            return Ok(false);
        }
        if self.slot(page).is_some_and(|slot| self.sharers.contains_key(&slot)) {
            self.give_up(page);
        }
        if self.slot(page).is_none() {
            let fresh = self.owners.len() as u64;
            let slot = match fresh < self.slots {
                true => fresh,
                false => self.given_up.pop_first().ok_or(SwapFull { slots: self.slots })?,
            };
            if slot == fresh {
                self.owners.push(None);
            }
            self.owners[slot as usize] = Some(page);
            self.copies.insert((page.asid, page.page), slot);
        }
        self.pages_out += 1;
        Ok(true)
    }

    /// Gives the copy of `page` to `other`, too, if there is one; `other` gives up the copy that it had.
    pub fn share(&mut self, page: PageKey, other: PageKey) {
        self.give_up(other);
        if let Some(slot) = self.slot(page) {
            self.copies.insert((other.asid, other.page), slot);
            self.sharers.entry(slot).or_default().push(other);
        }
    }

    /// A page's copy is worth nothing to it any more.
    fn give_up(&mut self, page: PageKey) {
        let Some(slot) = self.copies.remove(&(page.asid, page.page)) else { return };
        let owner = &mut self.owners[slot as usize];
        let Some(sharers) = self.sharers.get_mut(&slot) else {
            *owner = None;
            self.given_up.insert(slot);
            return;
        };
        match sharers.iter().position(|other| *other == page) {
            Some(at) => drop(sharers.swap_remove(at)),
            None => *owner = sharers.pop(),
        }
        if sharers.is_empty() {
            self.sharers.remove(&slot);
        }
    }

    /// Takes note that a page is wanted in memory. Tells whether it must be read.
    pub fn page_in(&mut self, page: PageKey) -> bool {
        let found = self.slot(page).is_some();
        self.pages_in += u64::from(found);
        found
    }

    /// Returns the slot that holds a page's copy, if there is a copy.
    pub fn slot(&self, page: PageKey) -> Option<u64> {
        self.copies.get(&(page.asid, page.page)).copied()
    }

    /// Returns the other pages whose copies lie in the same aligned run of so many slots.
    pub fn neighbours(&self, slot: u64, run: u64) -> impl Iterator<Item = PageKey> {
        let first = slot / run * run;
        let owners = self.owners.iter().enumerate().skip(first as usize).take(run as usize);
        owners.filter(move |&(at, _)| at as u64 != slot).filter_map(|(_, owner)| *owner)
    }

    /// Pages `[start, end)` of an address space are unmapped: their copies are worth nothing.
    pub fn discard(&mut self, asid: Asid, start: Vpn, end: Vpn) {
        for (page, _) in self.range(asid, start, end) {
            self.give_up(PageKey { asid, page });
        }
    }

    /// Renames the copies of pages `[start, end)` to the pages from `target` on.
    pub fn rename(&mut self, asid: Asid, start: Vpn, end: Vpn, target: Vpn) {
        let copies = self.range(asid, start, end);
        for (page, _) in &copies {
            self.copies.remove(&(asid, *page));
        }
        for (old, slot) in copies {
            let page = Vpn(target.0 + (old.0 - start.0));
            let (from, to) = (PageKey { asid, page: old }, PageKey { asid, page });
            let owners = self.owners[slot as usize].iter_mut();
            let sharers = self.sharers.get_mut(&slot).into_iter().flatten();
            owners.chain(sharers).filter(|owner| **owner == from).for_each(|owner| *owner = to);
            let before = self.copies.insert((asid, page), slot);
            debug_assert_eq!(before, None, "{page} was not unmapped before others moved there");
        }
    }

    /// Returns those of pages `[start, end)` that have a copy.
    pub fn pages(&self, asid: Asid, start: Vpn, end: Vpn) -> Vec<Vpn> {
        self.range(asid, start, end).into_iter().map(|(page, _)| page).collect()
    }

    fn range(&self, asid: Asid, start: Vpn, end: Vpn) -> Vec<(Vpn, u64)> {
        if self.copies.is_empty() || start >= end {
            return Vec::new();
        }
        self.copies.range((asid, start)..(asid, end)).map(|(copy, &slot)| (copy.1, slot)).collect()
    }

    /// Returns the number of slots that hold a page's copy now.
    pub fn used(&self) -> u64 {
        self.owners.len() as u64 - self.given_up.len() as u64
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

    /// A child's pages have the copies of its parent's, until either is written to or unmapped.
    #[test]
    fn pages_may_share_a_copy() {
        let mut swap = SwapSpace::new(3);
        assert_eq!(swap.page_out(page(1, 10), true), Ok(true));
        swap.share(page(1, 10), page(2, 10));
        swap.share(page(1, 10), page(3, 10));
        assert_eq!((swap.used(), swap.slot(page(2, 10))), (1, swap.slot(page(1, 10))));
        assert_eq!(swap.page_out(page(1, 10), true), Ok(true), "written to: a copy of its own");
        assert_eq!((swap.slot(page(1, 10)), swap.slot(page(2, 10)), swap.used()), (Some(1), Some(0), 2));
        swap.rename(Asid(2), Vpn(10), Vpn(11), Vpn(20));
        swap.discard(Asid(3), Vpn(0), Vpn(99));
        assert_eq!(swap.neighbours(1, 2).collect::<Vec<_>>(), [page(2, 20)]);
        assert_eq!(swap.page_out(page(2, 20), true), Ok(true), "the last one writes its copy again");
        assert_eq!((swap.slot(page(2, 20)), swap.used()), (Some(0), 2));
        swap.share(page(1, 10), page(2, 20));
        assert_eq!(swap.used(), 1, "what it had is free");
        swap.share(page(4, 4), page(2, 20));
        assert_eq!(swap.slot(page(2, 20)), None, "the other has none");
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

    #[test]
    fn copies_that_came_together_lie_together() {
        let mut swap = SwapSpace::new(8);
        (0..6).for_each(|number| assert_eq!(swap.page_out(page(1, 100 + number), true), Ok(true)));
        let around = |swap: &SwapSpace, number| {
            let slot = swap.slot(page(1, number)).expect("a copy");
            swap.neighbours(slot, 4).map(|page| page.page.0).collect::<Vec<_>>()
        };
        assert_eq!(around(&swap, 101), [100, 102, 103]);
        assert_eq!(around(&swap, 104), [105]);
        swap.discard(Asid(1), Vpn(102), Vpn(104));
        assert_eq!(around(&swap, 101), [100]);
        // Fresh slots first, then the lowest that was given up.
        (0..3).for_each(|number| assert_eq!(swap.page_out(page(2, number), true), Ok(true)));
        assert_eq!((swap.slot(page(2, 1)), swap.slot(page(2, 2)), swap.used()), (Some(7), Some(2), 7));
        swap.rename(Asid(2), Vpn(2), Vpn(3), Vpn(50));
        assert_eq!(around(&swap, 101), [100, 50]);
    }
}
