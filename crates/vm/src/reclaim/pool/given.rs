//! A pool that also hands out the frames that a trace gives.
//!
//! Given frames are no part of the memory that the pool manages: they are never free, and no page leaves for them. The
//! pool only counts which of them pages have. They are never in the map of shared frames either: that several pages have a
//! given frame is what the trace says, and no store changes it.

use super::{Movable, PagePool};
use crate::addr::{Asid, PageSize, Pfn, Vpn};
use crate::frame::{GivenBlocks, GivenPages, OWN_START, PageFrame};

/// The given frames, and the blocks of them that are in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    pages: GivenPages,
    pub(super) blocks: GivenBlocks,
}

impl PagePool {
    /// Returns the pool, which takes given frames from now on; its own frames are above all of these.
    ///
    /// # Panics
    ///
    /// If its pages may have to leave, or are placed by hashing: then frames change hands.
    pub fn with_given(self) -> Self {
        assert!(matches!(self.movable, Movable::Kept), "pages that leave, or that are placed by hashing");
        Self { ordinary: self.ordinary.starting_at(OWN_START), given: Some(Box::default()), ..self }
    }

    /// Returns the first frame of the pool's own memory.
    pub fn start(&self) -> Pfn {
        self.ordinary.start()
    }

    /// Returns whether the pool takes given frames.
    pub fn takes_given(&self) -> bool {
        self.given.is_some()
    }

    /// Returns whether the frame is a given one, and not the pool's own.
    #[inline]
    pub fn is_given(&self, frame: Pfn) -> bool {
        self.given.is_some() && frame < OWN_START
    }

    /// Takes in where a page of an address space is from now on. Tells whether that is new.
    ///
    /// # Panics
    ///
    /// If the pool takes no given frames.
    pub fn learn(&mut self, asid: Asid, given: PageFrame) -> bool {
        self.given.as_mut().expect("a pool that takes given frames").pages.insert(asid, given)
    }

    /// Returns the given frame of a page, if it has one.
    pub fn given(&self, asid: Asid, vpn: Vpn) -> Option<PageFrame> {
        self.given.as_ref()?.pages.find(asid, vpn)
    }

    /// Returns whether any page in the slot of `size` that begins at `first` has a given frame.
    pub fn gives_any(&self, asid: Asid, first: Vpn, size: PageSize) -> bool {
        self.given.as_ref().is_some_and(|given| given.pages.any_in(asid, first, size))
    }

    /// Forgets where the pages of an address space are.
    pub fn forget_given(&mut self, asid: Asid) {
        if let Some(given) = &mut self.given {
            given.pages.forget(asid);
        }
    }

    /// Takes the given block of a page, or of a part of one; [`give_page`](Self::give_page) gives it back.
    ///
    /// # Panics
    ///
    /// If the pool takes no given frames.
    pub fn take_given(&mut self, page: PageFrame) {
        self.given.as_mut().expect("a pool that takes given frames").blocks.take(page.frame(), page.size());
    }

    /// Returns the number of given blocks that pages have, by size:
    pub fn given_resident(&self) -> [u64; 3] {
        self.given.as_ref().map_or([0; 3], |given| given.blocks.resident())
    }
}
