//! Memory that is no cache.

use std::ops::Range;

use super::FlashPage;

/// The pages that lie in memory for good: the rows of memory that carry no tags and have physical addresses of their
/// own. The system keeps page tables there, so that walks never wait for flash. Fixed at boot; empty by default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Partition {
    /// The page numbers of the flat part.
    pub flat: Range<FlashPage>,
}

impl Partition {
    /// Returns whether the page is always in memory. Such a page is never given to a [`Tier`](super::Tier).
    #[inline]
    pub fn is_flat(&self, page: FlashPage) -> bool {
        self.flat.contains(&page)
    }
}
