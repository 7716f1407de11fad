//! The frames that a trace gives, in a pool that takes them.
//!
//! Given frames are no part of the memory that the pool manages: they are never free, and no page leaves for them. The
//! pool only counts which of them pages have. They are never in the map of shared frames either: that several pages have a
//! given frame is what the trace says, and no store changes it.

use crate::addr::{Asid, PageSize, Pfn, Vpn};
use crate::frame::{GivenBlocks, GivenPages, PageFrame};

/// The given frames, and the blocks of them that are in use.
#[derive(Clone, Debug, Default)]
pub struct GivenFrames {
    pages: GivenPages,
    blocks: GivenBlocks,
}

impl GivenFrames {
    /// Takes in where a page of an address space is from now on. Tells whether that is new.
    pub fn learn(&mut self, asid: Asid, given: PageFrame) -> bool {
        self.pages.insert(asid, given)
    }

    /// Returns the given frame of a page, if it has one.
    pub fn of(&self, asid: Asid, vpn: Vpn) -> Option<PageFrame> {
        self.pages.find(asid, vpn)
    }

    /// Returns whether any page in the slot of `size` that begins at `first` has a given frame.
    pub fn any_in(&self, asid: Asid, first: Vpn, size: PageSize) -> bool {
        self.pages.any_in(asid, first, size)
    }

    /// Forgets where the pages of an address space are.
    pub fn forget(&mut self, asid: Asid) {
        self.pages.forget(asid);
    }

    /// Takes the given block of a page, or of a part of one; [`PagePool::give_page`](super::PagePool::give_page) gives it
    /// back.
    pub fn take(&mut self, page: PageFrame) {
        self.blocks.take(page.frame(), page.size());
    }

    /// Returns the number of given blocks that pages have, by size:
    pub fn resident(&self) -> [u64; 3] {
        self.blocks.resident()
    }

    pub(super) fn give(&mut self, frame: Pfn, size: PageSize) {
        self.blocks.release(frame, size);
    }

    /// A block is several smaller ones from now on.
    pub(super) fn split(&mut self, first: Pfn, from: PageSize, to: PageSize) {
        self.blocks.release(first, from);
        let parts = (0..from.base_pages()).step_by(to.base_pages() as usize);
        parts.for_each(|distance| self.blocks.take(first.add(distance), to));
    }
}
