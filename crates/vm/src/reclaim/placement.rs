//! Policies that place pages in hash-placed frames, and make room for them there.

use std::fmt::Debug;

use super::{HorizonLru, IcebergLru, Placed, TimestampDaemon, Uses};
use crate::frame::{Iceberg, OutOfFrames, PageKey};
use crate::hash::PageHash;

/// Memory in which a hash of the page's key selects the few frames that the page may have.
pub type HashedFrames = Iceberg<PageHash>;

/// A policy that places pages in the few frames that each may have. A frame is named by its number in that memory.
///
/// # Contract
///
/// - `place` gives the page one of its frames, and answers the page that had it, if one had.
/// - `release` gives a frame back that was placed by the same policy.
/// - A policy that does not [evict](Self::evicts) answers an error when a page has no free frame.
/// - The same calls in the same order give the same answers.
pub trait PlacementPolicy: Debug + Send {
    /// Returns the uses of pages that the policy wants to hear of.
    fn uses(&self) -> Uses;

    /// Returns whether pages leave for others.
    fn evicts(&self) -> bool {
        true
    }

    /// Gives a page one of its frames.
    ///
    /// # Errors
    ///
    /// None of its frames is free, and no page may leave.
    fn place(&mut self, frames: &mut HashedFrames, key: PageKey) -> Result<Placed, OutOfFrames>;

    /// Gives back the frame of a page that is gone.
    fn release(&mut self, frames: &mut HashedFrames, frame: u32);

    /// Makes a page the next to leave.
    fn age(&mut self, frame: u32);

    /// Takes note that a page is used.
    fn touch(&mut self, frame: u32) {
        let _ = frame;
    }

    /// Takes note that a walk used a page.
    fn walked(&mut self, frame: u32) {
        let _ = frame;
    }

    /// Runs the policy's daemon once, if it has one.
    fn scan(&mut self) {}

    /// Returns the policy's own counts, with a name for each; always the same names.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// No page leaves: a page without a free frame is out of frames.
#[derive(Clone, Copy, Debug)]
pub struct NoEviction;

impl PlacementPolicy for NoEviction {
    fn uses(&self) -> Uses {
        Uses::Nothing
    }

    fn evicts(&self) -> bool {
        false
    }

    fn place(&mut self, frames: &mut HashedFrames, key: PageKey) -> Result<Placed, OutOfFrames> {
        match frames.take_free(key) {
            Some(frame) => Ok(Placed { frame, evicted: None }),
            None => Err(OutOfFrames {
                order: 0,
                free_frames: frames.shape().frames() - frames.used(),
                largest_free_order: Some(0),
            }),
        }
    }

    fn release(&mut self, frames: &mut HashedFrames, frame: u32) {
        frames.release(frame);
    }

    fn age(&mut self, _: u32) {}
}

/// Horizon LRU, by exact times of use.
impl PlacementPolicy for HorizonLru {
    fn uses(&self) -> Uses {
        Uses::FirstAfterAllocation
    }

    fn place(&mut self, frames: &mut HashedFrames, key: PageKey) -> Result<Placed, OutOfFrames> {
        Ok(HorizonLru::place(self, frames, key))
    }

    fn release(&mut self, frames: &mut HashedFrames, frame: u32) {
        HorizonLru::release(self, frames, frame);
    }

    fn age(&mut self, frame: u32) {
        HorizonLru::age(self, frame);
    }

    fn touch(&mut self, frame: u32) {
        HorizonLru::touch(self, frame);
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("horizon-advances", self.advances())]
    }
}

/// Horizon LRU, by times of use that a daemon estimates.
#[derive(Clone, Debug)]
pub struct SampledHorizon {
    lru: HorizonLru,
    daemon: TimestampDaemon,
}

impl SampledHorizon {
    /// Creates the policy for memory of so many frames.
    pub fn new(frames: u64, seed: u64) -> Self {
        Self { lru: HorizonLru::new(frames), daemon: TimestampDaemon::new(frames, seed) }
    }
}

impl PlacementPolicy for SampledHorizon {
    fn uses(&self) -> Uses {
        Uses::Walks
    }

    fn place(&mut self, frames: &mut HashedFrames, key: PageKey) -> Result<Placed, OutOfFrames> {
        let placed = self.lru.place(frames, key);
        if let Some((frame, _)) = placed.evicted {
            self.daemon.forget(frame);
        }
        self.daemon.walked(placed.frame);
        Ok(placed)
    }

    fn release(&mut self, frames: &mut HashedFrames, frame: u32) {
        self.lru.release(frames, frame);
        self.daemon.forget(frame);
    }

    fn age(&mut self, frame: u32) {
        self.lru.age(frame);
        self.daemon.forget(frame);
    }

    fn walked(&mut self, frame: u32) {
        self.daemon.walked(frame);
    }

    fn scan(&mut self) {
        self.daemon.scan(&mut self.lru);
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("horizon-advances", self.lru.advances()),
            ("scans", self.daemon.scans()),
            ("accessed-bits-read", self.daemon.asked()),
        ]
    }
}

/// Iceberg LRU, the policy that Horizon LRU is compared with.
impl PlacementPolicy for IcebergLru {
    fn uses(&self) -> Uses {
        Uses::Every
    }

    fn place(&mut self, frames: &mut HashedFrames, key: PageKey) -> Result<Placed, OutOfFrames> {
        Ok(IcebergLru::place(self, frames, key))
    }

    fn release(&mut self, frames: &mut HashedFrames, frame: u32) {
        IcebergLru::release(self, frames, frame);
    }

    fn age(&mut self, frame: u32) {
        IcebergLru::age(self, frame);
    }

    fn touch(&mut self, frame: u32) {
        IcebergLru::touch(self, frame);
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("forced-evictions", self.forced())]
    }
}
