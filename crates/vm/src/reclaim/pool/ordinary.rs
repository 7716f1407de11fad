//! Movable pages in ordinary frames.

use std::collections::BTreeMap;

use arrayvec::ArrayVec;

use super::super::sharing::{SharedFrames, Victim};
use super::super::{EvictionOrder, MOST_EVICTED};
use crate::addr::Pfn;
use crate::frame::{CrowdedMemory, PageKey};

/// Movable pages leave the last ordinary frames to table nodes: a new page needs at most four.
const RESERVE: u64 = 8;

/// Movable pages in ordinary frames.
#[derive(Debug)]
pub(super) struct Ordinary {
    order: Box<dyn EvictionOrder>,
    /// The page that has each frame, for as many frames as were ever taken. None for frames that are on no list.
    owners: Vec<Option<PageKey>>,
    /// Frames whose pages must not leave, and that are on no list.
    locked: BTreeMap<Pfn, PageKey>,
    /// Most of them at once.
    limit: u64,
    /// Frames that are taken for movable pages, but are on no list: kept ready, or of pages that are not booked.
    spares: u64,
}

impl Ordinary {
    pub(super) fn new(order: Box<dyn EvictionOrder>, limit: u64) -> Self {
        Self { order, owners: Vec::new(), locked: BTreeMap::new(), limit: limit.max(1), spares: 0 }
    }

    pub(super) fn order(&self) -> &dyn EvictionOrder {
        &*self.order
    }

    /// Most pages at once, in memory of so many frames.
    pub(super) fn limit(&self, memory: &CrowdedMemory) -> u64 {
        self.limit.min(memory.allocator().total_frames())
    }

    /// Pages that there could be more before others have to leave.
    pub(super) fn headroom(&self, memory: &CrowdedMemory) -> u64 {
        let frames = memory.available_frames().saturating_sub(RESERVE);
        self.limit.saturating_sub(self.resident()).min(frames)
    }

    fn is_pressed(&self, memory: &CrowdedMemory) -> bool {
        self.resident() >= self.limit || memory.available_frames() <= RESERVE
    }

    fn resident(&self) -> u64 {
        self.order.listed() + self.spares + self.locked.len() as u64
    }

    /// Lets pages leave until there is room for one.
    pub(super) fn make_room(
        &mut self,
        memory: &mut CrowdedMemory,
        shared: &mut SharedFrames,
        evicted: &mut ArrayVec<Victim, MOST_EVICTED>,
    ) {
        while self.is_pressed(memory) && !evicted.is_full() {
            let Some((frame, page)) = self.evict() else { break };
            memory.free(frame, 0);
            evicted.push(Victim { page, sharers: shared.take_others(frame, page) });
        }
    }

    pub(super) fn insert(&mut self, frame: Pfn, key: PageKey) {
        let at = frame.0 as usize;
        if self.owners.len() <= at {
            self.owners.resize(at + 1, None);
        }
        self.owners[at] = Some(key);
        self.order.insert(at as u32);
    }

    /// One more frame, or one less, is kept ready.
    pub(super) fn count_spare(&mut self, more: bool) {
        if more { self.spares += 1 } else { self.spares -= 1 }
    }

    pub(super) fn evict(&mut self) -> Option<(Pfn, PageKey)> {
        let frame = self.order.evict()?;
        let owner = self.owners[frame as usize].take().expect("a frame of the list has a page");
        Some((Pfn(frame.into()), owner))
    }

    /// The page in `frame`, if it is one of these, is gone: which it was.
    pub(super) fn forget(&mut self, frame: Pfn) -> Option<PageKey> {
        let Some(owner) = self.owners.get_mut(frame.0 as usize).and_then(Option::take) else {
            return if self.locked.is_empty() { None } else { self.locked.remove(&frame) };
        };
        self.order.remove(frame.0 as u32);
        Some(owner)
    }

    #[inline]
    pub(super) fn is_listed(&self, frame: Pfn) -> bool {
        self.owners.get(frame.0 as usize).is_some_and(Option::is_some)
    }

    /// The page in `frame`, if it is listed, is the next to leave.
    pub(super) fn age(&mut self, frame: Pfn) {
        if self.is_listed(frame) {
            self.order.age(frame.0 as u32);
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, frame: Pfn) {
        if self.is_listed(frame) {
            self.order.touch(frame.0 as u32);
        }
    }

    #[inline]
    pub(super) fn walked(&mut self, frame: Pfn) {
        if self.is_listed(frame) {
            self.order.walked(frame.0 as u32);
        }
    }

    /// The page in `frame` must not leave from now on, or may leave again.
    pub(super) fn lock(&mut self, frame: Pfn, is_locked: bool) {
        if is_locked == self.locked.contains_key(&frame) {
            return;
        }
        let Some(owner) = self.forget(frame) else { return };
        match is_locked {
            true => drop(self.locked.insert(frame, owner)),
            false => self.insert(frame, owner),
        }
    }

    pub(super) fn owner(&self, frame: Pfn) -> Option<PageKey> {
        let listed = self.owners.get(frame.0 as usize).copied().flatten();
        listed.or_else(|| self.locked.get(&frame).copied())
    }

    /// The book of a frame has another page.
    pub(super) fn give_to(&mut self, frame: Pfn, key: PageKey) {
        let listed = self.owners.get_mut(frame.0 as usize).and_then(Option::as_mut);
        if let Some(owner) = listed.or_else(|| self.locked.get_mut(&frame)) {
            *owner = key;
        }
    }
}
