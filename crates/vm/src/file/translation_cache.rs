//! The frames of pages that a store found last, as a TLB keeps them.
//!
//! A change of names reads some hundred words of headers and inodes, which lie in a few pages. Without this cache each of those reads walks
//! four levels of the page table.

use std::sync::atomic::{AtomicU64, Ordering};

use super::mapping::SPACE_END;
use super::memory::Remapped;
use super::store::MOST_FRAMES;
use crate::addr::{Pfn, Vpn};

const ENTRIES: usize = 256;
const FRAME_BITS: u32 = MOST_FRAMES.trailing_zeros();
/// No page has this entry: frame 0 holds the superblock.
const EMPTY: u64 = 0;

const _: () = assert!(SPACE_END.0.trailing_zeros() + FRAME_BITS <= u64::BITS);

/// A directly mapped cache of translations.
///
/// ```text
///  63                        28 27              0
/// +----------------------------+-----------------+
/// |            page            |      frame      |
/// +----------------------------+-----------------+
/// ```
///
/// Threads that share a store may look pages up side by side: an entry is one word.
#[derive(Debug)]
pub(super) struct TranslationCache(Box<[AtomicU64; ENTRIES]>);

impl Default for TranslationCache {
    fn default() -> Self {
        Self(Box::new([const { AtomicU64::new(EMPTY) }; ENTRIES]))
    }
}

impl TranslationCache {
    /// The entry that a page shares with others. Headers lie at multiples of 512 pages: a page's lowest bits would not tell them apart.
    #[inline]
    fn entry(&self, page: Vpn) -> &AtomicU64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        &self.0[(page.0.wrapping_mul(GOLDEN) >> (u64::BITS - ENTRIES.trailing_zeros())) as usize]
    }

    /// The frame of a page, from the cache or by a walk. A page without a frame is not remembered.
    #[inline]
    pub(super) fn frame(&self, page: Vpn, walk: impl FnOnce(Vpn) -> Option<Pfn>) -> Option<Pfn> {
        let entry = self.entry(page);
        let word = entry.load(Ordering::Relaxed);
        if word >> FRAME_BITS == page.0 && word != EMPTY {
            return Some(Pfn(word & (MOST_FRAMES - 1)));
        }
        let frame = walk(page)?;
        // A damaged table may name a frame that no store has.
        if frame.0 < MOST_FRAMES {
            entry.store(page.0 << FRAME_BITS | frame.0, Ordering::Relaxed);
        }
        Some(frame)
    }

    /// Forgets the pages that a change of the page table concerns.
    pub(super) fn forget(&mut self, change: Remapped) {
        match change {
            Remapped::Changed { first, pages: 1 } => {
                let entry = self.entry(first);
                if entry.load(Ordering::Relaxed) >> FRAME_BITS == first.0 {
                    entry.store(EMPTY, Ordering::Relaxed);
                }
            }
            change => {
                let is_stale = |word: u64| concerns(change, Vpn(word >> FRAME_BITS));
                self.0
                    .iter_mut()
                    .map(AtomicU64::get_mut)
                    .filter(|word| is_stale(**word))
                    .for_each(|word| *word = EMPTY);
            }
        }
    }
}

/// Whether a change of the page table concerns a page.
pub(super) fn concerns(change: Remapped, page: Vpn) -> bool {
    let is_in = |first: Vpn, pages: u64| page.0.wrapping_sub(first.0) < pages;
    match change {
        Remapped::Changed { first, pages } => is_in(first, pages),
        Remapped::Swapped { a, b, pages } => is_in(a, pages) || is_in(b, pages),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A cache over a table that the test changes, and the number of walks.
    struct Walked {
        cache: TranslationCache,
        walks: Cell<u64>,
    }

    impl Walked {
        fn frame(&self, page: u64, frame: Option<u64>) -> (Option<u64>, u64) {
            let walk = |walked: Vpn| {
                assert_eq!(walked, Vpn(page));
                self.walks.set(self.walks.get() + 1);
                frame.map(Pfn)
            };
            let found = self.cache.frame(Vpn(page), walk);
            (found.map(|frame| frame.0), self.walks.get())
        }
    }

    #[test]
    fn a_page_is_walked_to_once_until_it_is_remapped() {
        let mut walked = Walked { cache: TranslationCache::default(), walks: Cell::new(0) };
        let (last_page, last_frame) = (SPACE_END.0 - 1, MOST_FRAMES - 1);
        for page in [0, 1, 512, last_page] {
            walked.walks.set(0);
            assert_eq!(walked.frame(page, None), (None, 1));
            assert_eq!(
                walked.frame(page, Some(last_frame)),
                (Some(last_frame), 2),
                "a gap is not remembered"
            );
            assert_eq!(walked.frame(page, Some(7)), (Some(last_frame), 2));
            walked.cache.forget(Remapped::Changed { first: Vpn(page), pages: 1 });
            assert_eq!(walked.frame(page, Some(7)), (Some(7), 3));
            let change = Remapped::Swapped { a: Vpn(page & !7), b: Vpn(1 << 20), pages: 8 };
            walked.cache.forget(change);
            assert_eq!(walked.frame(page, Some(8)), (Some(8), 4));
            let change = Remapped::Swapped { a: Vpn(1 << 20), b: Vpn(page & !7), pages: 8 };
            walked.cache.forget(change);
            assert_eq!(walked.frame(page, Some(9)), (Some(9), 5));
        }
    }

    #[test]
    fn others_keep_their_entries() {
        let mut walked = Walked { cache: TranslationCache::default(), walks: Cell::new(0) };
        walked.frame(40, Some(4));
        for change in [
            Remapped::Changed { first: Vpn(39), pages: 1 },
            Remapped::Changed { first: Vpn(41), pages: 1 },
            Remapped::Changed { first: Vpn(0), pages: 40 },
            Remapped::Changed { first: Vpn(41), pages: u64::MAX },
            Remapped::Swapped { a: Vpn(32), b: Vpn(41), pages: 8 },
        ] {
            walked.cache.forget(change);
            assert_eq!(walked.frame(40, None), (Some(4), 1), "{change:?}");
        }
        walked.cache.forget(Remapped::Changed { first: Vpn(32), pages: 16 });
        assert_eq!(walked.frame(40, None), (None, 2));
    }

    #[test]
    fn a_frame_that_no_store_has_is_not_remembered() {
        let walked = Walked { cache: TranslationCache::default(), walks: Cell::new(0) };
        for walks in 1..4 {
            assert_eq!(walked.frame(5, Some(MOST_FRAMES)), (Some(MOST_FRAMES), walks));
        }
    }
}
