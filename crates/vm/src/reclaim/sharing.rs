//! Frames that several pages have.

use std::collections::BTreeMap;

use crate::addr::{PageSize, Pfn, Vpn};
use crate::frame::PageKey;

/// The reverse map: from a shared frame to all pages that have it. The number of them is the frame's reference count.
///
/// Frames of one page are not in it, so that programs of one process cost nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedFrames {
    /// By the first frame of a block: two pages at least.
    pages: BTreeMap<Pfn, Vec<PageKey>>,
}

impl SharedFrames {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The pages of a frame that more than one has; nothing for any other frame.
    pub(super) fn pages(&self, frame: Pfn) -> &[PageKey] {
        if self.pages.is_empty() { &[] } else { self.pages.get(&frame).map_or(&[], Vec::as_slice) }
    }

    /// `other` has the frame of `page`, too.
    pub(super) fn share(&mut self, frame: Pfn, page: PageKey, other: PageKey) {
        let pages = self.pages.entry(frame).or_insert_with(|| vec![page]);
        debug_assert!(
            pages.contains(&page) && !pages.contains(&other),
            "{page:?} and {other:?} in {pages:?}"
        );
        pages.push(other);
    }

    /// `page` does not have the frame any more. Answers one that still has it; none if no other does.
    pub(super) fn leave(&mut self, frame: Pfn, page: PageKey) -> Option<PageKey> {
        let pages = if self.pages.is_empty() { None } else { self.pages.get_mut(&frame) }?;
        let place = pages.iter().position(|other| *other == page);
        pages.swap_remove(
            place.unwrap_or_else(|| panic!("{page:?} does not have {frame:?}, but {pages:?} do")),
        );
        let heir = pages[0];
        if pages.len() == 1 {
            self.pages.remove(&frame);
        }
        Some(heir)
    }

    /// One of the pages has another number now.
    pub(super) fn rename(&mut self, frame: Pfn, from: PageKey, to: PageKey) {
        let pages = self.pages.get_mut(&frame).into_iter().flatten();
        pages.filter(|page| **page == from).for_each(|page| *page = to);
    }

    /// All pages lose the frame: those beside `page`.
    pub(super) fn take_others(&mut self, frame: Pfn, page: PageKey) -> Vec<PageKey> {
        let mut pages =
            if self.pages.is_empty() { None } else { self.pages.remove(&frame) }.unwrap_or_default();
        pages.retain(|other| *other != page);
        pages
    }

    /// A block of one size is many of a smaller one now, each with the parts of the pages that had it.
    pub(super) fn split(&mut self, first: Pfn, from: PageSize, to: PageSize) {
        let Some(pages) = self.pages.remove(&first) else { return };
        for distance in (0..from.base_pages()).step_by(to.base_pages() as usize) {
            let parts = pages.iter().map(|key| PageKey { page: Vpn(key.page.0 + distance), ..*key });
            self.pages.insert(Pfn(first.0 + distance), parts.collect());
        }
    }
}

/// Pages that leave memory together, because they have one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Victim {
    /// The page that the frame was first given to, of those that still had it.
    pub page: PageKey,
    /// The others.
    pub sharers: Vec<PageKey>,
}

impl Victim {
    /// All pages that lose the frame.
    pub fn pages(&self) -> impl Iterator<Item = PageKey> {
        std::iter::once(self.page).chain(self.sharers.iter().copied())
    }
}
