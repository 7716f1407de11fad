//! Growing without stopping: a doubling adds a part; then blocks hand half of their items on, one by one.
//!
//! Each block knows how many doublings its items have gone through, and a thread that locks a block compares that with the
//! number that the block was computed with. If the block is behind, it is *settled* first: its items are shared out
//! between it and the new block. So an operation never waits for more than the blocks that it needs itself. Insertions
//! settle a further block now and then, so that a doubling ends; the next one begins after that.
//!
//! **Order of locks.** First-level blocks before second-level blocks; two blocks of one level by their numbers. The
//! only exception, from the second level back up, never waits.
//!
//! DEVIATION: `IcebergHT` leaves items of the second level there; then the second level would be full when the
//! table is again (it keeps the items that it had, and the first level's share comes on top). Here, an item whose
//! second-level block is settled goes up to the first level, where half of the slots have become free.

use std::hash::{BuildHasher, Hash as KeyHash};

use crate::lock::Lock;
use crate::map::IcebergMap;
use crate::place::{At, Hash, MAX_BLOCKS};
use crate::store::{FIRST_SLOTS, FirstYard, SECOND_SLOTS};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// An insertion in so many settles a block, during a doubling. A doubling settles two blocks per 72 slots, and the
/// next comes after 34 insertions for each.
const HELP_EVERY: isize = 4;

/// The progress of a table's growth.
#[repr(align(64))]
pub(crate) struct Growth {
    doublings: AtomicU32,
    grows: bool,
    progress: Progress,
}

/// The counters of a doubling, on a cache line of their own: they change often while a doubling lasts.
#[repr(align(64))]
struct Progress {
    /// Blocks of both levels that the last doubling has still to settle.
    pending: AtomicUsize,
    /// The next block that an insertion settles, first-level blocks before second-level ones.
    cursor: AtomicUsize,
    /// The lock of the thread that doubles the table.
    doubling: Lock,
}

impl Growth {
    pub(crate) fn new(grows: bool) -> Self {
        let progress =
            Progress { pending: AtomicUsize::new(0), cursor: AtomicUsize::new(0), doubling: Lock::new() };
        Self { doublings: AtomicU32::new(0), grows, progress }
    }

    #[inline(always)]
    pub(crate) fn doublings(&self) -> u32 {
        self.doublings.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn grows(&self) -> bool {
        self.grows
    }

    fn settled_one(&self) {
        self.progress.pending.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<K: KeyHash + Eq, V, S: BuildHasher> IcebergMap<K, V, S> {
    /// Does the work that an insertion owes the table. `before` is this thread's share of the items.
    #[inline]
    pub(crate) fn after_insert(&self, before: isize) {
        if !self.growth.grows {
            return;
        }
        if self.growth.progress.pending.load(Ordering::Relaxed) != 0 {
            if before % HELP_EVERY == 0 {
                self.help();
            }
        } else if before & self.check_mask() == 0 {
            self.grow_if_full();
        }
    }

    /// A small table is looked at after each insertion, a large one after each 64th of a thread.
    #[inline]
    fn check_mask(&self) -> isize {
        if self.shape.blocks(self.growth.doublings()) >= 64 { 63 } else { 0 }
    }

    #[cold]
    fn grow_if_full(&self) {
        if self.len() < self.capacity() {
            return;
        }
        let Some(_alone) = self.growth.progress.doubling.try_lock() else { return };
        let doublings = self.growth.doublings();
        let blocks = self.shape.blocks(doublings);
        let progress = &self.growth.progress;
        let idle = progress.pending.load(Ordering::Acquire) == 0;
        if !idle || self.len() < self.capacity() || 2 * blocks > MAX_BLOCKS {
            return;
        }
        self.add_part(doublings);
        progress.cursor.store(0, Ordering::Relaxed);
        progress.pending.store(2 * blocks, Ordering::Relaxed);
        // A thread that reads this finds the part and the number of pending blocks, too.
        self.growth.doublings.store(doublings + 1, Ordering::Release);
    }

    /// Settles the next block in order.
    #[cold]
    fn help(&self) {
        let doublings = self.growth.doublings();
        let old_blocks = self.shape.blocks(doublings) / 2;
        // Round and round: if a key's hash panics, its block stays behind, and must find its turn again.
        let next = self.growth.progress.cursor.fetch_add(1, Ordering::Relaxed) % (2 * old_blocks).max(1);
        match next.checked_sub(old_blocks) {
            None => self.settle_first(self.shape.block(next), doublings),
            Some(second) => self.settle_second(self.shape.block(second), doublings),
        }
    }

    /// Makes sure that the first level of a block has its items after the last of `doublings`. To be called without
    /// any lock.
    #[cold]
    pub(crate) fn settle_first(&self, at: At, doublings: u32) {
        if doublings == 0 {
            return;
        }
        let (old_at, new_at) = at.pair(doublings);
        let mut old = self.lock_first(old_at, None);
        if old.doublings() >= doublings {
            return;
        }
        let mut new = self.lock_first(new_at, None);
        // Everything that may panic comes before the first change.
        let mut hashes = [None; FIRST_SLOTS];
        for slot in old.used() {
            hashes[slot] = old.get(slot).map(|(key, _)| self.hash(key));
        }
        let chained: Vec<Hash> = old.chain().iter().map(|(_, (key, _))| self.hash(key)).collect();
        for (slot, hash) in hashes.into_iter().enumerate() {
            let Some(hash) = hash else { continue };
            if self.shape.first(hash, doublings) == new_at
                && let Some(item) = old.take(slot)
            {
                new.put(slot, hash.tag(), item);
            }
        }
        // Which half each item of the second level belongs to is not known; both filters admit it.
        new.filter_mut().clone_from(old.filter());
        self.unchain(&mut old, &mut new, new_at, doublings, &chained);
        old.set_doublings(doublings);
        new.set_doublings(doublings);
        self.growth.settled_one();
    }

    /// Shares out the third level, and makes use of the slots that have become free.
    fn unchain<'a>(
        &self,
        old: &mut FirstYard<'a, (K, V)>,
        new: &mut FirstYard<'a, (K, V)>,
        new_at: At,
        doublings: u32,
        hashes: &[Hash],
    ) {
        let mut chain = old.change_chain(|chain| std::mem::replace(chain, crate::chain::Chain::EMPTY));
        for &hash in hashes {
            let Some(item) = chain.pop() else { break };
            let yard = if self.shape.first(hash, doublings) == new_at { &mut *new } else { &mut *old };
            match yard.free_near(hash.home()) {
                Some(slot) => {
                    yard.put(slot, hash.tag(), item);
                    self.chained.fetch_sub(1, Ordering::Relaxed);
                }
                None => {
                    yard.change_chain(|chain| chain.push(item));
                }
            }
        }
    }

    /// Settles a block like [`settle_first`](Self::settle_first), in the second level.
    #[cold]
    pub(crate) fn settle_second(&self, at: At, doublings: u32) {
        if doublings == 0 {
            return;
        }
        let (old_at, new_at) = at.pair(doublings);
        let mut old = self.lock_second(old_at);
        if old.doublings() >= doublings {
            return;
        }
        let mut new = self.lock_second(new_at);
        let mut hashes = [None; SECOND_SLOTS];
        for slot in old.used() {
            hashes[slot] = old.get(slot).map(|(key, _)| self.hash(key));
        }
        for (slot, hash) in hashes.into_iter().enumerate() {
            let Some(hash) = hash else { continue };
            if let Some((mut yard, free)) = self.room_above(hash, doublings) {
                if let Some(item) = old.take(slot) {
                    yard.put(free, hash.tag(), item);
                }
                continue;
            }
            let choices = self.shape.second(hash, doublings);
            if !choices.contains(&old_at)
                && choices.contains(&new_at)
                && let Some(item) = old.take(slot)
            {
                new.put(slot, hash.tag(), item);
            }
        }
        old.set_doublings(doublings);
        new.set_doublings(doublings);
        self.growth.settled_one();
    }

    /// A free slot in the first level for an item of the second, if it can be had at once; the item no longer counts
    /// in the filters.
    ///
    /// Not while a thread walks over the map: first levels come before second levels there, and an item that goes up
    /// behind the walk's back would be missed. The locks order the two: if the walk has read the block, it was counted
    /// before this lock was taken.
    fn room_above(&self, hash: Hash, doublings: u32) -> Option<(FirstYard<'_, (K, V)>, usize)> {
        let at = self.shape.first(hash, doublings);
        let (old_at, new_at) = at.pair(doublings);
        let mut old = self.try_lock_first(old_at)?;
        let mut new = self.try_lock_first(new_at)?;
        let settled = old.doublings() == doublings;
        if !settled || self.walks.load(Ordering::Acquire) != 0 {
            return None;
        }
        let free = if at == old_at { &old } else { &new }.free_near(hash.home())?;
        old.filter_mut().remove(hash.spill());
        new.filter_mut().remove(hash.spill());
        Some((if at == old_at { old } else { new }, free))
    }
}
