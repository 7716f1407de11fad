//! Frames that several pages have.

use std::collections::BTreeMap;

use crate::addr::{PageSize, Pfn, Vpn};
use crate::frame::PageKey;
use crate::space::ObjectId;

/// The reverse map: from a frame to all pages that have it; their number is the frame's reference count. And the page cache:
/// from a page of a file, or of shared memory, to its frame.
///
/// Frames of one page that are not in the page cache are not in the map, so that programs of one process cost nothing.
#[derive(Clone, Debug, Default)]
pub struct SharedFrames {
    /// The sharers of each block, by its first frame.
    frames: BTreeMap<Pfn, Sharing>,
    cached: BTreeMap<ObjectPage, Pfn>,
}

/// A page of an object, in frames of a size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectPage {
    /// The object that the page belongs to.
    pub object: ObjectId,
    /// The size of its frame: an object that is mapped with pages of several sizes has frames of each.
    pub size: PageSize,
    /// The number of its first base page.
    pub number: u64,
}

/// The record of a frame: two pages at least, or one and the page of an object that it shows.
#[derive(Clone, Debug)]
struct Sharing {
    pages: Vec<PageKey>,
    shows: Option<ObjectPage>,
}

impl SharedFrames {
    /// Returns whether no frame is shared or in the page cache.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    fn get(&self, frame: Pfn) -> Option<&Sharing> {
        if self.is_empty() { None } else { self.frames.get(&frame) }
    }

    /// Returns the pages of a frame that more than one page has, or that is in the page cache; no page for any other frame.
    pub fn pages(&self, frame: Pfn) -> &[PageKey] {
        self.get(frame).map_or(&[], |sharing| &sharing.pages)
    }

    /// Returns whether more than one page has the frame, or may have it:
    pub fn is_shared(&self, frame: Pfn) -> bool {
        !self.pages(frame).is_empty()
    }

    /// Returns whether a frame is in the page cache.
    pub fn is_cached(&self, frame: Pfn) -> bool {
        self.get(frame).is_some_and(|sharing| sharing.shows.is_some())
    }

    /// Returns the frame of a page of an object, if any page has it.
    pub fn cached(&self, page: ObjectPage) -> Option<Pfn> {
        self.cached.get(&page).copied()
    }

    /// Returns the frames of those of an object's 4 KiB pages `[first, end)` that any page has.
    pub fn cached_in(&self, object: ObjectId, first: u64, end: u64) -> impl Iterator<Item = Pfn> {
        let page = |number| ObjectPage { object, size: PageSize::Size4K, number };
        self.cached.range(page(first)..page(end.max(first))).map(|(_, &frame)| frame)
    }

    /// The frame, which `page` alone has, shows a page of an object.
    pub(super) fn cache(&mut self, frame: Pfn, shows: ObjectPage, page: PageKey) {
        let before = self.cached.insert(shows, frame);
        debug_assert_eq!(before, None, "{shows:?} is in two frames");
        self.frames.insert(frame, Sharing { pages: vec![page], shows: Some(shows) });
    }

    /// `other` has the frame of `page`, too.
    pub(super) fn share(&mut self, frame: Pfn, page: PageKey, other: PageKey) {
        let fresh = || Sharing { pages: vec![page], shows: None };
        let pages = &mut self.frames.entry(frame).or_insert_with(fresh).pages;
        debug_assert!(
            pages.contains(&page) && !pages.contains(&other),
            "{page:?} and {other:?} in {pages:?}"
        );
        pages.push(other);
    }

    /// `page` does not have the frame any more. Answers one that still has it; none if no other does, and then the frame is
    /// not in the page cache any more.
    pub(super) fn leave(&mut self, frame: Pfn, page: PageKey) -> Option<PageKey> {
        let sharing = if self.is_empty() { None } else { self.frames.get_mut(&frame) }?;
        let place = sharing.pages.iter().position(|other| *other == page);
        let place =
            place.unwrap_or_else(|| panic!("{page:?} does not have {frame:?}, but {:?}", sharing.pages));
        sharing.pages.swap_remove(place);
        let heir = sharing.pages.first().copied();
        let shows = sharing.shows;
        if sharing.pages.len() < 2 && (heir.is_none() || shows.is_none()) {
            self.frames.remove(&frame);
            shows.map(|page| self.cached.remove(&page));
        }
        heir
    }

    /// Changes the number of one of the frame's pages.
    pub(super) fn rename(&mut self, frame: Pfn, from: PageKey, to: PageKey) {
        let pages = self.frames.get_mut(&frame).into_iter().flat_map(|sharing| &mut sharing.pages);
        pages.filter(|page| **page == from).for_each(|page| *page = to);
    }

    /// All pages lose a frame that is not in the page cache: those beside `page`.
    pub(super) fn take_others(&mut self, frame: Pfn, page: PageKey) -> Vec<PageKey> {
        let sharing = if self.is_empty() { None } else { self.frames.remove(&frame) };
        let mut pages = sharing.map_or_else(Vec::new, |sharing| sharing.pages);
        pages.retain(|other| *other != page);
        pages
    }

    /// A block of one size is many of a smaller one now, each with the parts of the pages that had it. Blocks in the page
    /// cache are not split.
    pub(super) fn split(&mut self, first: Pfn, from: PageSize, to: PageSize) {
        let Some(Sharing { pages, .. }) = self.frames.remove(&first) else { return };
        for distance in (0..from.base_pages()).step_by(to.base_pages() as usize) {
            let parts = pages.iter().map(|key| PageKey { page: Vpn(key.page.0 + distance), ..*key });
            let part = Sharing { pages: parts.collect(), shows: None };
            self.frames.insert(Pfn(first.0 + distance), part);
        }
    }
}

/// Pages that leave memory together, because they have one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Victim {
    /// The page that the frame was first given to, of those that still had it.
    pub page: PageKey,
    /// The other pages that had the frame.
    pub sharers: Vec<PageKey>,
}

impl Victim {
    /// Returns all pages that lose the frame.
    pub fn pages(&self) -> impl Iterator<Item = PageKey> {
        std::iter::once(self.page).chain(self.sharers.iter().copied())
    }
}
