//! The buffer in which dirty pages wait until they are on flash.

use super::FlashPage;
use super::miss_status::EntryIndex;

/// A page of the evict buffer's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct SlotIndex(pub u16);

/// The progress of a page on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The slot holds no page.
    Free,
    /// The page that takes its frame has not arrived; that one's entry.
    Waiting(EntryIndex),
    /// An older write of the same page is under way.
    Held,
    /// The page is on its way to flash, and its data must stay until they are there.
    Writing,
}

/// Dirty pages that have left the cache.
///
/// A page has at most two slots: one that is [`Stage::Writing`], and a newer one that is not. So no two writes of a page
/// are under way at once, and the newest is the last to arrive.
#[derive(Clone, Debug)]
pub(super) struct EvictBuffer {
    slots: Vec<(FlashPage, Stage)>,
    free: Vec<SlotIndex>,
    capacity: usize,
}

impl EvictBuffer {
    /// Room for `capacity` pages, and one slot more for a page that changes places with another.
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            slots: vec![(FlashPage::default(), Stage::Free); capacity as usize + 1],
            free: (0..=capacity as u16).rev().map(SlotIndex).collect(),
            capacity: capacity as usize,
        }
    }

    /// Returns the number of pages in the buffer.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.len() < self.capacity
    }

    /// The newest data of a page, if it is here.
    pub(super) fn find(&self, page: FlashPage) -> Option<(SlotIndex, Stage)> {
        self.find_newer(page).or_else(|| Some((self.find_writing(page)?, Stage::Writing)))
    }

    /// The page's slot that is not given to flash.
    fn find_newer(&self, page: FlashPage) -> Option<(SlotIndex, Stage)> {
        self.iter()
            .find(|&(other, _, stage)| other == page && stage != Stage::Writing)
            .map(|(_, at, stage)| (at, stage))
    }

    /// The page's slot that is being written.
    pub(super) fn find_writing(&self, page: FlashPage) -> Option<SlotIndex> {
        self.iter().find(|&(other, _, stage)| other == page && stage == Stage::Writing).map(|(_, at, _)| at)
    }

    /// Puts a page in; there is a free slot. It has yet to be told when to go.
    pub(super) fn insert(&mut self, page: FlashPage, stage: Stage) -> SlotIndex {
        debug_assert!(self.find_newer(page).is_none(), "{page:?} left twice");
        let slot = self.free.pop().expect("room was asked for");
        self.slots[usize::from(slot.0)] = (page, stage);
        slot
    }

    /// The page may go: tells which, and whether it goes now. If an older write of it is under way it goes after that.
    pub(super) fn release(&mut self, slot: SlotIndex) -> (FlashPage, bool) {
        let (page, _) = self.slots[usize::from(slot.0)];
        let now = self.find_writing(page).is_none();
        self.slots[usize::from(slot.0)].1 = if now { Stage::Writing } else { Stage::Held };
        (page, now)
    }

    /// Frees the slot of a page.
    pub(super) fn remove(&mut self, slot: SlotIndex) {
        self.slots[usize::from(slot.0)].1 = Stage::Free;
        self.free.push(slot);
    }

    /// All pages in it, with slot and stage.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FlashPage, SlotIndex, Stage)> {
        let all = self.slots.iter().zip(0..).map(|(&(page, stage), slot)| (page, SlotIndex(slot), stage));
        all.filter(|&(.., stage)| stage != Stage::Free)
    }
}
