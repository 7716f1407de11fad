//! Prefetchers of translations, and the buffer that they fill.
//!
//! A [`TlbPrefetcher`] hears every miss of the last TLB level and names pages that may be next. Walks in the background bring
//! their translations into a [`PrefetchBuffer`] beside the TLBs, which a miss asks before it walks.
//!
//! G. Kandiraju and A. Sivasubramaniam, "Going the Distance for TLB Prefetching", ISCA 2002.

mod buffer;
mod distance;
mod sequential;

pub use buffer::PrefetchBuffer;
pub use distance::Distance;
pub use sequential::Sequential;

use crate::addr::{Asid, PageSize, Vpn};

/// A miss of the last TLB level, whether the prefetch buffer had its translation or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbMiss {
    /// The address space of the program that missed.
    pub asid: Asid,
    /// The first base page of the page that missed.
    pub page: Vpn,
    /// The size of that page.
    pub size: PageSize,
}

impl TlbMiss {
    /// Creates the miss of base page `vpn`, which lies in a page of `size`.
    pub fn of(asid: Asid, vpn: Vpn, size: PageSize) -> Self {
        Self { asid, page: vpn.align_down(size), size }
    }

    /// Returns the page at a distance in base pages, if there is such a page.
    fn at(&self, distance: i64) -> Option<Vpn> {
        self.page.0.checked_add_signed(distance).filter(|page| *page < 1 << PAGE_BITS).map(Vpn)
    }
}

/// Bits of the largest number of a base page that a TLB entry can name.
const PAGE_BITS: u32 = 42;

/// A rule that guesses from misses which translations are wanted next.
///
/// # Contract
///
/// The guesses follow from the misses alone, in their order.
pub trait TlbPrefetcher: std::fmt::Debug + Send {
    /// Takes a miss, and appends the pages whose translations may be wanted next to `pages`, the likeliest first.
    fn miss(&mut self, miss: &TlbMiss, pages: &mut Vec<Vpn>);
}
