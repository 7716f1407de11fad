//! Times of use by sampling: what an operating system can know that only has accessed bits.

use super::HorizonLru;
use crate::random::SplitMix64;

/// Scans all frames now and then and guesses when their pages were last used, for [`HorizonLru`].
///
/// As in the Linux prototype of Mosaic Pages (ASPLOS 2023 artifact): a frame has a history of eight scans and a score.
/// A page with a negative score is *cold*; its accessed bit is read and cleared at every scan. Of the others only one
/// in five is asked, because clearing a bit costs a TLB miss; the rest is taken to be in use.
#[derive(Clone, Debug)]
pub struct TimestampDaemon {
    /// What the daemon knows of each frame's page.
    pages: Vec<Page>,
    random: SplitMix64,
    scans: u64,
    asked: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// The accessed bit of its entry, as the walker sets it.
    accessed: bool,
    /// Newest scan in bit 0.
    history: u8,
    /// Survives its page, as in the prototype.
    score: i16,
}

impl TimestampDaemon {
    /// Creates a daemon for so many frames. `seed` decides which pages are asked.
    pub fn new(frames: u64, seed: u64) -> Self {
        let pages = vec![Page::default(); frames as usize];
        Self { pages, random: SplitMix64::of_item(seed, 0), scans: 0, asked: 0 }
    }

    /// Sets the accessed bit of the page in `frame`, because a walk used the page.
    #[inline]
    pub fn walked(&mut self, frame: u32) {
        self.pages[frame as usize].accessed = true;
    }

    /// Forgets the history of the page in `frame`, because the page is gone.
    pub fn forget(&mut self, frame: u32) {
        let page = &mut self.pages[frame as usize];
        *page = Page { score: page.score, ..Page::default() };
    }

    /// Scans the memory once.
    pub fn scan(&mut self, lru: &mut HorizonLru) {
        self.scans += 1;
        for (frame, page) in (0u32..).zip(&mut self.pages) {
            if lru.used_at(frame) == 0 {
                continue;
            }
            let ask = page.score < 0 || self.random.below(5) == 0;
            self.asked += u64::from(ask);
            let used = !ask || std::mem::take(&mut page.accessed);
            page.history = page.history << 1 | u8::from(used);
            if used {
                lru.touch(frame);
            }
            page.score = next_score(page.score, page.history);
        }
    }

    /// Returns the number of scans so far.
    pub fn scans(&self) -> u64 {
        self.scans
    }

    /// Returns the number of accessed bits that were read and cleared so far.
    pub fn asked(&self) -> u64 {
        self.asked
    }
}

/// The prototype's integer arithmetic, which divides the share of the newest scans by 100 once too often: a page
/// becomes cold only when at most one of the last eight scans found it used.
fn next_score(score: i16, history: u8) -> i16 {
    let newest = 100 * history.count_ones() as i32 - 480;
    ((70 * i32::from(score) + 30 * newest / 100) / 100) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cold_when_at_most_one_of_eight_scans_found_it_used() {
        for used in 0..=8u32 {
            let history = ((1u32 << used) - 1) as u8;
            assert_eq!(next_score(0, history) < 0, used <= 1, "{used} of 8");
        }
    }

    #[test]
    fn scores_stay_small() {
        let (mut low, mut high) = (0, 0);
        for _ in 0..1_000 {
            (low, high) = (next_score(low, 0), next_score(high, 0xff));
        }
        assert!((-10..0).contains(&low) && (0..10).contains(&high), "{low} {high}");
    }
}
