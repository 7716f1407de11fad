//! Iceberg LRU: keep a share of memory ready for whatever page comes.
//!
//! The comparison policy of J. Han et al., "Mosaic Pages", IEEE Micro 2024: pages beyond the most recently used 87 % of
//! memory are *ripe*. The strict policy evicts a page the moment it ripens, so that 13 % of memory stays free; the lazy
//! one waits until a frame is wanted, and then takes the oldest ripe page among the new page's own frames.

use super::{Placed, Recency};
use crate::frame::{Iceberg, PageKey};
use crate::hash::HashFamily;

/// The moment at which a ripe page leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ripeness {
    /// A ripe page leaves at once.
    Strict,
    /// A ripe page leaves when its frame is wanted.
    Lazy,
}

/// The order in which pages were used, and the mark between ripe pages and others.
#[derive(Clone, Debug)]
pub struct IcebergLru {
    recency: Recency,
    /// The time of the last use of each frame's page, to compare two of them.
    used_at: Vec<u64>,
    now: u64,
    ripeness: Ripeness,
    evictions: u64,
    forced: u64,
}

impl IcebergLru {
    /// Creates the order of so many frames, of which at most `live` hold pages that are not ripe.
    ///
    /// # Panics
    ///
    /// If there are 2^32 frames or more.
    pub fn new(frames: u64, live: u64, ripeness: Ripeness) -> Self {
        let recency = Recency::new(u32::try_from(live.min(frames)).expect("fewer than 2^32 frames"));
        Self { recency, used_at: vec![0; frames as usize], now: 1, ripeness, evictions: 0, forced: 0 }
    }

    /// Takes note that the page in `frame` is used.
    #[inline]
    pub fn touch(&mut self, frame: u32) {
        self.recency.touch(frame);
        self.stamp(frame);
    }

    /// Makes the page in `frame` count as used before all others.
    pub fn age(&mut self, frame: u32) {
        self.recency.remove(frame);
        self.recency.insert_oldest(frame);
        self.used_at[frame as usize] = 0;
    }

    /// Finds a frame for a page that has none; other pages may have to leave.
    ///
    /// `evicted` names the page whose frame was taken. Under [`Ripeness::Strict`] it may be another page, that ripened
    /// and left its frame free.
    pub fn place<H: HashFamily>(&mut self, frames: &mut Iceberg<H>, key: PageKey) -> Placed {
        let (frame, mut evicted) = self.find(frames, key);
        self.recency.insert(frame);
        self.stamp(frame);
        if self.ripeness == Ripeness::Strict
            && evicted.is_none()
            && let Some(oldest) = self.recency.oldest().filter(|&oldest| self.recency.is_ripe(oldest))
        {
            self.evictions += 1;
            evicted = Some((oldest, self.release(frames, oldest)));
        }
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
        if let Some(victim) = self.oldest(front.clone().filter(|&frame| self.recency.is_ripe(frame))) {
            return self.evict_for(frames, key, victim);
        }
        // The back bucket with the fewest pages that must stay, the last of equals: ripe ones are as good as none.
        let live = |bucket: u32| {
            frames
                .back_frames(bucket)
                .filter(|&frame| frames.owner(frame).is_some() && !self.recency.is_ripe(frame))
                .count()
        };
        let best = frames.back_buckets(key).max_by_key(|&bucket| std::cmp::Reverse(live(bucket)));
        if let Some(bucket) = best {
            if let Some(frame) = frames.take_back(key, bucket) {
                return (frame, None);
            }
            let ripe = frames.back_frames(bucket).filter(|&frame| self.recency.is_ripe(frame));
            if let Some(victim) = self.oldest(ripe) {
                return self.evict_for(frames, key, victim);
            }
        }
        self.forced += 1;
        let backs = frames.back_buckets(key).flat_map(|bucket| frames.back_frames(bucket));
        let victim = self.oldest(front.chain(backs)).expect("a front has frames");
        self.evict_for(frames, key, victim)
    }

    fn oldest(&self, frames: impl Iterator<Item = u32>) -> Option<u32> {
        frames.min_by_key(|&frame| self.used_at[frame as usize])
    }

    fn evict_for<H: HashFamily>(
        &mut self,
        frames: &mut Iceberg<H>,
        key: PageKey,
        victim: u32,
    ) -> (u32, Option<(u32, PageKey)>) {
        let evicted = self.release(frames, victim);
        self.evictions += 1;
        (frames.retake(key, victim), Some((victim, evicted)))
    }

    /// Gives a frame back whose page is gone.
    ///
    /// # Panics
    ///
    /// If no page has the frame.
    pub fn release<H: HashFamily>(&mut self, frames: &mut Iceberg<H>, frame: u32) -> PageKey {
        let owner = frames.release(frame);
        self.recency.remove(frame);
        owner
    }

    fn stamp(&mut self, frame: u32) {
        self.used_at[frame as usize] = self.now;
        self.now += 1;
    }

    /// Returns the order of uses.
    pub fn recency(&self) -> &Recency {
        &self.recency
    }

    /// Pages that had to leave so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns the number of those evictions whose page was not ripe:
    pub fn forced(&self) -> u64 {
        self.forced
    }
}
