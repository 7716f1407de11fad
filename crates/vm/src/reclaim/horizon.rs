//! Horizon LRU: least recently used, as far as few frames to choose from allow.
//!
//! J. Han et al., "Mosaic Pages", IEEE Micro 2024. Pages carry the time of their last use. The *horizon* is a time before
//! which pages may go: *ghosts*, which stay usable until their frame is wanted. While every new page finds a free frame
//! or a ghost among its own frames the horizon rests; when one finds neither, the oldest page of those frames leaves,
//! and the horizon moves up to its time: everything older is a ghost now.

use super::Placed;
use crate::frame::{Iceberg, PageKey};
use crate::hash::HashFamily;

/// Ages and the horizon.
///
/// Time is the number of pages placed so far: a use is as recent as the newest page.
///
/// # Contract
///
/// All frames that [`place`](Self::place) gives out are given back through [`release`](Self::release).
#[derive(Clone, Debug)]
pub struct HorizonLru {
    /// The time of the last use of each frame's page; 0 for a free frame.
    used_at: Vec<u64>,
    now: u64,
    horizon: u64,
    evictions: u64,
    advances: u64,
}

impl HorizonLru {
    /// Creates the order of so many frames, all free.
    pub fn new(frames: u64) -> Self {
        Self { used_at: vec![0; frames as usize], now: 1, horizon: 0, evictions: 0, advances: 0 }
    }

    /// Takes note that the page in `frame` is used.
    #[inline]
    pub fn touch(&mut self, frame: u32) {
        self.used_at[frame as usize] = self.now;
    }

    /// Makes the page in `frame` count as used before all others.
    pub fn age(&mut self, frame: u32) {
        self.used_at[frame as usize] = 1;
    }

    /// Finds a frame for a page that has none; another page may have to leave.
    pub fn place<H: HashFamily>(&mut self, frames: &mut Iceberg<H>, key: PageKey) -> Placed {
        let (frame, evicted) = self.find(frames, key);
        self.used_at[frame as usize] = self.now;
        self.now += 1;
        Placed { frame, evicted }
    }

    fn find<H: HashFamily>(
        &mut self,
        frames: &mut Iceberg<H>,
        key: PageKey,
    ) -> (u32, Option<(u32, PageKey)>) {
        if let Some(frame) = frames.take_front(key) {
            return (frame, None);
        }
        let front = frames.front_frames(frames.front_bucket(key));
        let oldest_in_front = self.oldest(front).expect("a front has frames");
        if self.used_at[oldest_in_front as usize] < self.horizon {
            return self.evict_for(frames, key, oldest_in_front);
        }
        if let Some(bucket) = frames.emptiest_back(key)
            && let Some(frame) = frames.take_back(key, bucket)
        {
            return (frame, None);
        }
        // All are taken. The back bucket with the fewest pages younger than the horizon, the first of equals.
        let live = |bucket: u32| {
            frames.back_frames(bucket).filter(|&frame| self.used_at[frame as usize] > self.horizon).count()
                as u32
        };
        let best =
            frames.back_buckets(key).map(|bucket| (live(bucket), bucket)).min_by_key(|&(live, _)| live);
        if let Some((live, bucket)) = best
            && live < frames.shape().back
        {
            let oldest = self.oldest(frames.back_frames(bucket)).expect("a back has frames");
            return self.evict_for(frames, key, oldest);
        }
        let backs = frames.back_buckets(key).filter_map(|bucket| self.oldest(frames.back_frames(bucket)));
        let oldest =
            std::iter::once(oldest_in_front).chain(backs).min_by_key(|&frame| self.used_at[frame as usize]);
        let oldest = oldest.expect("the front has one at least");
        self.horizon = self.used_at[oldest as usize];
        self.advances += 1;
        self.evict_for(frames, key, oldest)
    }

    /// The frame used longest ago, the first of equals.
    fn oldest(&self, frames: std::ops::Range<u32>) -> Option<u32> {
        frames.min_by_key(|&frame| self.used_at[frame as usize])
    }

    /// `victim` is among the frames of `key`, and its yard is full: taking from there gives that frame.
    fn evict_for<H: HashFamily>(
        &mut self,
        frames: &mut Iceberg<H>,
        key: PageKey,
        victim: u32,
    ) -> (u32, Option<(u32, PageKey)>) {
        let evicted = frames.release(victim);
        self.evictions += 1;
        (frames.retake(key, victim), Some((victim, evicted)))
    }

    /// Gives a frame back whose page is gone.
    ///
    /// # Panics
    ///
    /// If no page has the frame.
    pub fn release<H: HashFamily>(&mut self, frames: &mut Iceberg<H>, frame: u32) -> PageKey {
        self.used_at[frame as usize] = 0;
        frames.release(frame)
    }

    /// Returns the time of a frame's last use; 0 if the frame is free.
    pub fn used_at(&self, frame: u32) -> u64 {
        self.used_at[frame as usize]
    }

    /// Pages last used before this are ghosts.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Returns the number of resident pages that may leave at any time.
    pub fn ghosts(&self) -> u64 {
        self.used_at.iter().filter(|&&time| 0 < time && time < self.horizon).count() as u64
    }

    /// Pages that had to leave so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns the number of times that the horizon moved.
    pub fn advances(&self) -> u64 {
        self.advances
    }
}
