//! Orders in which movable pages leave ordinary frames.

use std::fmt::Debug;

use super::{Recency, TwoListClock};

/// The uses of pages that a policy wants to hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uses {
    /// The policy wants to hear of no use.
    Nothing,
    /// The uses that take a page walk and set accessed bits.
    Walks,
    /// The first use after each allocation.
    FirstAfterAllocation,
    /// Every use that is not a repetition of the one before.
    Every,
}

/// The order in which pages leave frames that any of them may have. A page is named by its frame.
///
/// # Contract
///
/// - `evict` answers a frame that is listed, and removes it; none only if no frame is listed.
/// - `insert` is called for frames that are not listed, every other call for listed ones.
/// - A frame that was aged leaves before all frames that were inserted or used later and are not used again.
/// - The same calls in the same order give the same answers.
pub trait EvictionOrder: Debug + Send {
    /// Returns the uses of pages that the order wants to hear of.
    fn uses(&self) -> Uses;

    /// Returns the number of listed frames.
    fn listed(&self) -> u64;

    /// Lists the frame of a page that has just come.
    fn insert(&mut self, frame: u32);

    /// Removes the frame of a page that is gone.
    fn remove(&mut self, frame: u32);

    /// Makes a page the next to leave.
    fn age(&mut self, frame: u32);

    /// Removes the frame of the page whose turn it is.
    fn evict(&mut self) -> Option<u32>;

    /// Takes note that a page is used; only called for orders that want to hear of every use, or of the first.
    fn touch(&mut self, frame: u32) {
        let _ = frame;
    }

    /// Takes note that a walk used a page; only called for orders that want to hear of walks.
    fn walked(&mut self, frame: u32) {
        let _ = frame;
    }
}

/// The least recently used page leaves first.
impl EvictionOrder for Recency {
    fn uses(&self) -> Uses {
        Uses::Every
    }

    fn listed(&self) -> u64 {
        self.len().into()
    }

    fn insert(&mut self, frame: u32) {
        Recency::insert(self, frame);
    }

    fn remove(&mut self, frame: u32) {
        Recency::remove(self, frame);
    }

    fn age(&mut self, frame: u32) {
        Recency::remove(self, frame);
        self.insert_oldest(frame);
    }

    fn evict(&mut self) -> Option<u32> {
        let oldest = self.oldest()?;
        Recency::remove(self, oldest);
        Some(oldest)
    }

    fn touch(&mut self, frame: u32) {
        Recency::touch(self, frame);
    }
}

/// Pages leave as Linux's active and inactive lists say.
impl EvictionOrder for TwoListClock {
    fn uses(&self) -> Uses {
        Uses::Walks
    }

    fn listed(&self) -> u64 {
        self.len().into()
    }

    fn insert(&mut self, frame: u32) {
        TwoListClock::insert(self, frame);
    }

    fn remove(&mut self, frame: u32) {
        TwoListClock::remove(self, frame);
    }

    fn age(&mut self, frame: u32) {
        TwoListClock::age(self, frame);
    }

    fn evict(&mut self) -> Option<u32> {
        TwoListClock::evict(self)
    }

    fn walked(&mut self, frame: u32) {
        TwoListClock::walked(self, frame);
    }
}
