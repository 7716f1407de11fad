//! The two lists of Linux: pages on trial, and pages that have proved themselves.
//!
//! After `mm/vmscan.c` of Linux 5.11, the baseline of Mosaic Pages (IEEE Micro 2024). A new page enters the head of the *inactive* list. When a page has to leave, the tail of that list is asked:
//! a page whose accessed bit is set is cleared and stays, the second time on the *active* list; one that was not used
//! leaves. Before, pages from the active list's tail replenish the inactive one if it is short.
//!
//! DEVIATION: a page that comes back soon after it left is not activated at once (Linux compares its refault distance
//! with the active list's length); scanning is by page, not by batches of 32.

use super::Recency;

/// Linux's clock over two lists, active and inactive pages.
#[derive(Clone, Debug)]
pub struct TwoListClock {
    inactive: Recency,
    active: Recency,
    /// The state of each frame's page.
    states: Vec<State>,
    /// Active pages allowed per inactive one.
    ratio: u32,
    scanned: u64,
}

/// The state of a frame's page.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The accessed bit of its entry, as the walker sets it.
    accessed: bool,
    /// Was found used once while on trial.
    referenced: bool,
    is_active: bool,
}

impl TwoListClock {
    /// Creates empty lists for a memory of so many bytes:
    pub fn new(memory_bytes: u64) -> Self {
        let gib = memory_bytes >> 30;
        // inactive_is_low(): the square root of ten times the GiB, 1 below a GiB.
        let ratio = if gib == 0 { 1 } else { (10 * gib).isqrt() as u32 };
        let list = || Recency::new(u32::MAX);
        Self { inactive: list(), active: list(), states: Vec::new(), ratio, scanned: 0 }
    }

    /// Inserts the page that enters in `frame`.
    pub fn insert(&mut self, frame: u32) {
        if self.states.len() <= frame as usize {
            self.states.resize(frame as usize + 1, State::default());
        }
        self.states[frame as usize] = State { accessed: true, ..State::default() };
        self.inactive.insert(frame);
    }

    /// Takes note that a walk used the page in `frame`.
    #[inline]
    pub fn walked(&mut self, frame: u32) {
        self.states[frame as usize].accessed = true;
    }

    /// Makes the page in `frame` the next to leave, unless it is used before.
    pub fn age(&mut self, frame: u32) {
        self.remove(frame);
        self.states[frame as usize] = State::default();
        self.inactive.insert_oldest(frame);
    }

    /// Removes the page in `frame`, because it is gone.
    pub fn remove(&mut self, frame: u32) {
        if self.states[frame as usize].is_active { &mut self.active } else { &mut self.inactive }
            .remove(frame);
    }

    /// Takes out the page that has to leave; none if there are none.
    pub fn evict(&mut self) -> Option<u32> {
        loop {
            while self.inactive.len().saturating_mul(self.ratio) < self.active.len()
                || self.inactive.is_empty()
            {
                let frame = self.active.oldest()?;
                self.scanned += 1;
                self.active.remove(frame);
                // Also if it was used since: an active list that no page leaves would be no trial.
                self.states[frame as usize] = State::default();
                self.inactive.insert(frame);
            }
            let frame = self.inactive.oldest()?;
            self.scanned += 1;
            self.inactive.remove(frame);
            let state = &mut self.states[frame as usize];
            if !std::mem::take(&mut state.accessed) {
                return Some(frame);
            }
            if std::mem::replace(&mut state.referenced, true) {
                state.is_active = true;
                self.active.insert(frame);
            } else {
                self.inactive.insert(frame);
            }
        }
    }

    /// Pages on both lists.
    pub fn len(&self) -> u32 {
        self.inactive.len() + self.active.len()
    }

    /// Returns whether the lists hold no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pages looked at so far to find those that left.
    pub fn scanned(&self) -> u64 {
        self.scanned
    }
}
