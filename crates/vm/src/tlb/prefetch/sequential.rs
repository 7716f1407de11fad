//! The prefetcher of the next pages.

use super::{TlbMiss, TlbPrefetcher};
use crate::addr::Vpn;

/// Guesses that the pages behind the one that missed come next.
#[derive(Clone, Copy, Debug)]
pub struct Sequential {
    degree: u32,
}

impl Sequential {
    /// Creates a prefetcher of the next `degree` pages.
    pub fn new(degree: u32) -> Self {
        Self { degree }
    }
}

impl TlbPrefetcher for Sequential {
    fn miss(&mut self, miss: &TlbMiss, pages: &mut Vec<Vpn>) {
        let step = miss.size.base_pages() as i64;
        pages.extend((1..=i64::from(self.degree)).map_while(|number| miss.at(number * step)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{Asid, PageSize};

    #[test]
    fn the_next_pages_have_the_size_of_the_one_that_missed() {
        let guesses = |vpn, size| {
            let mut pages = Vec::new();
            Sequential::new(2).miss(&TlbMiss::of(Asid(1), Vpn(vpn), size), &mut pages);
            pages
        };
        assert_eq!(guesses(7, PageSize::Size4K), [Vpn(8), Vpn(9)]);
        assert_eq!(guesses(512 + 9, PageSize::Size2M), [Vpn(1024), Vpn(1536)]);
        assert_eq!(guesses((1 << 42) - 2, PageSize::Size4K), [Vpn((1 << 42) - 1)], "no page behind the last");
    }
}
