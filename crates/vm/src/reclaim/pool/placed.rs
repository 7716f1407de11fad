//! Movable pages in hash-placed frames.

use super::super::{HashedFrames, Placed, PlacementPolicy};
use crate::addr::Pfn;
use crate::frame::{Cpfn, OutOfFrames, PageKey};

/// Movable pages in hash-placed frames.
#[derive(Debug)]
pub struct HashPlaced {
    frames: HashedFrames,
    policy: Box<dyn PlacementPolicy>,
    first_conflict: Option<u64>,
    most_used: u64,
}

impl HashPlaced {
    pub(super) fn new(frames: HashedFrames, policy: Box<dyn PlacementPolicy>) -> Self {
        Self { frames, policy, first_conflict: None, most_used: 0 }
    }

    /// Returns the hash-placed frames of this memory.
    pub fn frames(&self) -> &HashedFrames {
        &self.frames
    }

    /// Returns the policy that places pages in the frames.
    pub fn policy(&self) -> &dyn PlacementPolicy {
        &*self.policy
    }

    /// Returns the number of frames in use when a page had to leave, or found no frame, for the first time.
    pub fn first_conflict(&self) -> Option<u64> {
        self.first_conflict
    }

    /// Returns the most frames that were in use at once.
    pub fn most_used(&self) -> u64 {
        self.most_used
    }

    /// Returns the code by which a page finds its frame; `None` for a page in an ordinary frame.
    pub fn code(&self, key: PageKey, frame: Pfn) -> Option<Cpfn> {
        self.frames.cpfn(key, self.frames.frame(frame)?)
    }

    /// Returns the frame that a code means for a page: what the hardware computes with one evaluation of the hash.
    ///
    /// # Panics
    ///
    /// If the code names no frame: page tables hold no such code.
    #[inline]
    pub fn decode(&self, key: PageKey, code: Cpfn) -> Pfn {
        let frame = self.frames.translate(key, code);
        self.frames.pfn(frame.unwrap_or_else(|| panic!("{code:?} of {key:?} names no frame")))
    }

    /// Returns whether the frame is one of these.
    #[inline]
    pub(super) fn holds(&self, frame: Pfn) -> bool {
        self.frames.frame(frame).is_some()
    }

    pub(super) fn place(&mut self, key: PageKey) -> Result<Placed, OutOfFrames> {
        let before = self.frames.used();
        let placed = self.policy.place(&mut self.frames, key);
        if self.first_conflict.is_none() && placed.as_ref().map_or(true, |placed| placed.evicted.is_some()) {
            self.first_conflict = Some(before);
        }
        self.most_used = self.most_used.max(self.frames.used());
        placed
    }

    /// Gives a frame back; returns whether it is one of these.
    pub(super) fn release(&mut self, frame: Pfn) -> bool {
        let Some(frame) = self.frames.frame(frame) else { return false };
        self.policy.release(&mut self.frames, frame);
        true
    }

    pub(super) fn age(&mut self, frame: Pfn) {
        if let Some(frame) = self.frames.frame(frame) {
            self.policy.age(frame);
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, frame: Pfn) {
        if let Some(frame) = self.frames.frame(frame) {
            self.policy.touch(frame);
        }
    }

    #[inline]
    pub(super) fn walked(&mut self, frame: Pfn) {
        if let Some(frame) = self.frames.frame(frame) {
            self.policy.walked(frame);
        }
    }

    pub(super) fn scan(&mut self) {
        self.policy.scan();
    }

    pub(super) fn owner(&self, frame: Pfn) -> Option<PageKey> {
        self.frames.owner(self.frames.frame(frame)?)
    }

    /// The book of a frame has another page.
    pub(super) fn give_to(&mut self, frame: Pfn, key: PageKey) {
        if let Some(frame) = self.frames.frame(frame) {
            self.frames.give_to(frame, key);
        }
    }
}
