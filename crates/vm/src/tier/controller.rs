//! The frontside's and the backside controller's state machine.

use std::collections::VecDeque;

use super::evict_buffer::{EvictBuffer, Stage};
use super::miss_status::{EntryIndex, MissStatus};
use super::tags::Candidate;
use super::{
    Blocked, Completion, DesignError, Effect, Event, EventError, FlashPage, FrameIndex, Resident, SlotIndex,
    TagArray, TierCounts, TierDesign, Touch, Victim,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Miss<W> {
    page: FlashPage,
    waiter: W,
    completes: Completion,
}

/// The share of the cache that one controller has.
///
/// # Misses
///
/// The backside takes misses in their order and does for each, as the paper has it: look up the miss status, where a
/// request for a pending page ends; allocate an entry; read; choose a victim and copy it to the evict buffer. On arrival:
/// install, remove the entry, let the victim's write go, wake.
///
/// - It first asks for everything that the miss needs and then does all of it in one step. So a miss that is blocked has done
///   nothing, and it is simply tried anew after every event; hits may have changed its victim. DEVIATION: the paper may read
///   before there is room for the victim.
/// - DEVIATION: the paper copies all victims; here a clean one is discarded.
/// - A page in the evict buffer is served from there; the paper is silent. It comes back dirty if its write has not begun,
///   and its slot is free; otherwise clean, and the slot stays until the write is done.
/// - A page that came while its miss stood in the queue is not read again.
///
/// # It never stops
///
/// Whatever blocks a miss ends with an operation of flash that is under way:
///
/// 1. An entry of the miss status, and a reserved way, belong to a page that is being read.
/// 2. A slot of the evict buffer is *waiting*, for a page that is being read and whose arrival lets the write go; or *held*, by
///    an older write of its page; or *writing*.
/// 3. A page that comes back with its slot needs no further slot for its victim: they change places, by way of one slot beyond
///    the buffer's capacity. One that is being written may have to wait for a slot, and its own becomes free with that write.
///
/// [`Tier::check`] asserts it: while a miss is blocked, something is being read or written.
#[derive(Clone, Debug)]
pub struct Tier<W> {
    pub(super) design: TierDesign,
    pub(super) tags: TagArray,
    pub(super) pending: MissStatus<W>,
    pub(super) leaving: EvictBuffer,
    /// Empty unless its head is blocked.
    pub(super) queue: VecDeque<Miss<W>>,
    pub(super) blocked: Option<Blocked>,
    counts: TierCounts,
}

impl<W: Copy> Tier<W> {
    /// Creates an empty cache of this design.
    ///
    /// # Errors
    ///
    /// The design cannot be.
    pub fn new(design: TierDesign) -> Result<Self, DesignError> {
        design.check()?;
        Ok(Self {
            tags: TagArray::new(&design),
            pending: MissStatus::new(&design),
            leaving: EvictBuffer::new(design.evict_buffer),
            queue: VecDeque::with_capacity(design.queue as usize),
            blocked: None,
            counts: TierCounts::default(),
            design,
        })
    }

    /// Returns the design that the tier was made with.
    #[inline]
    pub fn design(&self) -> &TierDesign {
        &self.design
    }

    /// Returns the counts of what happened so far.
    #[inline]
    pub fn counts(&self) -> &TierCounts {
        &self.counts
    }

    /// Does the tag check of the frontside:
    #[inline]
    pub fn lookup(&mut self, page: FlashPage, write: bool) -> Option<FrameIndex> {
        debug_assert!(!self.design.partition.is_flat(page), "{page:?} is in the flat partition");
        self.tags.lookup(page, write)
    }

    /// Returns whether the backside takes another miss. The frontside stalls exactly while it does not.
    #[inline]
    pub fn accepts(&self) -> bool {
        self.queue.len() < self.design.queue as usize
    }

    /// Takes note of an event and appends what is to be done about it.
    ///
    /// # Errors
    ///
    /// It cannot have happened; nothing is changed.
    pub fn step(&mut self, event: Event<W>, effects: &mut Vec<Effect<W>>) -> Result<(), EventError> {
        match event {
            Event::Miss { page, waiter, completes } => {
                debug_assert!(!self.design.partition.is_flat(page), "{page:?} is in the flat partition");
                if !self.accepts() {
                    return Err(EventError::QueueFull { depth: self.design.queue });
                }
                self.queue.push_back(Miss { page, waiter, completes });
            }
            Event::Arrived { page } => {
                let at = self.pending.find(page).ok_or(EventError::NotPending(page))?;
                self.arrive(at, page, effects);
            }
            Event::Written { page } => {
                let slot = self.leaving.find_writing(page).ok_or(EventError::NotWriting(page))?;
                self.leaving.remove(slot);
                if let Some((newer, Stage::Held)) = self.leaving.find(page) {
                    self.write(newer, effects);
                }
            }
        }
        self.serve(effects);
        Ok(())
    }

    /// Serves the queue as far as possible.
    fn serve(&mut self, effects: &mut Vec<Effect<W>>) {
        while let Some(&miss) = self.queue.front() {
            if let Err(reason) = self.serve_one(miss, effects) {
                self.block(reason);
                return;
            }
            self.queue.pop_front();
            self.blocked = None;
        }
    }

    /// A miss that waits for one thing after the other counts for each.
    fn block(&mut self, reason: Blocked) {
        if self.blocked.replace(reason) != Some(reason) {
            *match reason {
                Blocked::MissStatus => &mut self.counts.blocked_by_miss_status,
                Blocked::Ways => &mut self.counts.blocked_by_ways,
                Blocked::EvictBuffer => &mut self.counts.blocked_by_evict_buffer,
            } += 1;
        }
    }

    /// Serves a miss, or does nothing at all.
    fn serve_one(&mut self, miss: Miss<W>, effects: &mut Vec<Effect<W>>) -> Result<(), Blocked> {
        let Miss { page, waiter, completes } = miss;
        if let Some(at) = self.pending.find(page) {
            self.pending.wait(at, waiter, completes);
            self.counts.merged += 1;
            return Ok(());
        }
        if let Some(Resident { frame, .. }) = self.tags.peek(page) {
            if let Completion::Now { write } = completes {
                self.tags.lookup(page, write);
            }
            self.counts.raced += 1;
            effects.push(Effect::Wake { waiter, completes, page, frame });
            return Ok(());
        }
        match self.leaving.find(page) {
            Some((slot, stage)) => self.restore(miss, slot, stage, effects),
            None => self.fetch(miss, effects),
        }
    }

    /// A page that is on flash only.
    fn fetch(&mut self, miss: Miss<W>, effects: &mut Vec<Effect<W>>) -> Result<(), Blocked> {
        let Miss { page, waiter, completes } = miss;
        let at = self.pending.find_free(page).ok_or(Blocked::MissStatus)?;
        let taken = self.tags.candidate(self.tags.set_of(page)).ok_or(Blocked::Ways)?;
        if taken.dirty && !self.leaving.has_room() {
            return Err(Blocked::EvictBuffer);
        }
        let frame = taken.frame;
        effects.push(Effect::Read { page, frame });
        self.counts.reads += 1;
        let victim = self.vacate(taken, Stage::Waiting(at), effects);
        self.tags.reserve(frame, page);
        self.pending.allocate(at, page, frame, victim);
        self.pending.wait(at, waiter, completes);
        self.counts.most_pending = self.counts.most_pending.max(self.pending.len());
        Ok(())
    }

    /// A page that is in the evict buffer.
    fn restore(
        &mut self,
        miss: Miss<W>,
        slot: SlotIndex,
        stage: Stage,
        effects: &mut Vec<Effect<W>>,
    ) -> Result<(), Blocked> {
        let Miss { page, waiter, completes } = miss;
        let being_written = stage == Stage::Writing;
        let taken = self.tags.candidate(self.tags.set_of(page)).ok_or(Blocked::Ways)?;
        if taken.dirty && being_written && !self.leaving.has_room() {
            return Err(Blocked::EvictBuffer);
        }
        let frame = taken.frame;
        // Its frame is taken at once, so its write can go; it is not held for long in a stage.
        let victim = self.vacate(taken, Stage::Held, effects);
        effects.push(Effect::Restore { page, slot, frame });
        if let Stage::Waiting(replacing) = stage {
            self.pending.forget_victim(replacing);
        }
        if !being_written {
            self.leaving.remove(slot);
        }
        self.tags.install(frame, page, !being_written || completes.writes());
        if let Some(victim) = victim {
            self.write(victim, effects);
        }
        self.counts.restores += 1;
        effects.push(Effect::Wake { waiter, completes, page, frame });
        Ok(())
    }

    /// The page leaves its frame, if there is one. Tells its slot if it is dirty.
    fn vacate(&mut self, taken: Candidate, stage: Stage, effects: &mut Vec<Effect<W>>) -> Option<SlotIndex> {
        let (page, frame) = (taken.page?, taken.frame);
        if !taken.dirty {
            self.counts.discards += 1;
            effects.push(Effect::Discard { page, frame });
            return None;
        }
        let slot = self.leaving.insert(page, stage);
        self.counts.copies += 1;
        effects.push(Effect::Copy { page, frame, slot });
        Some(slot)
    }

    fn arrive(&mut self, at: EntryIndex, page: FlashPage, effects: &mut Vec<Effect<W>>) {
        let entry = self.pending.remove(at);
        let frame = entry.frame;
        self.tags.install(frame, page, entry.dirty);
        effects.push(Effect::Install { page, frame });
        if let Some(victim) = entry.victim {
            self.write(victim, effects);
        }
        self.pending.take_waiters(entry, |waiter, completes| {
            effects.push(Effect::Wake { waiter, completes, page, frame });
        });
    }

    /// The page in the slot goes to flash, unless an older write of it is under way.
    fn write(&mut self, slot: SlotIndex, effects: &mut Vec<Effect<W>>) {
        let (page, now) = self.leaving.release(slot);
        if now {
            self.counts.writes += 1;
            effects.push(Effect::Write { page, slot });
        }
    }

    /// Accesses a page without time, for warming up:
    ///
    /// # Panics
    ///
    /// If anything is under way.
    pub fn touch(&mut self, page: FlashPage, write: bool) -> Touch {
        assert!(self.is_idle(), "touched while {} pages are pending", self.pending.len());
        if let Some(frame) = self.lookup(page, write) {
            return Touch { hit: true, frame, victim: None };
        }
        let taken = self.tags.candidate(self.tags.set_of(page)).expect("no way is reserved");
        self.tags.install(taken.frame, page, write);
        let victim = taken.page.map(|page| Victim { page, dirty: taken.dirty });
        Touch { hit: false, frame: taken.frame, victim }
    }

    /// Returns whether nothing is pending, queued or on its way out.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pending.len() == 0 && self.leaving.len() == 0 && self.queue.is_empty()
    }

    /// Returns the page if it is resident. This does not count as a use.
    pub fn resident(&self, page: FlashPage) -> Option<Resident> {
        self.tags.peek(page)
    }

    /// Returns whether the page is being read.
    pub fn is_pending(&self, page: FlashPage) -> bool {
        self.pending.find(page).is_some()
    }

    /// Returns the reason why the oldest miss of the queue cannot be served.
    #[inline]
    pub fn blocked(&self) -> Option<Blocked> {
        self.blocked
    }

    /// Misses in the queue, the blocked one included.
    #[inline]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the tags of the cache.
    #[inline]
    pub fn tags(&self) -> &TagArray {
        &self.tags
    }

    /// Pages that are being read, with the frames that are reserved for them.
    pub fn pending(&self) -> impl Iterator<Item = (FlashPage, FrameIndex)> {
        self.pending.iter().map(|(page, entry)| (page, entry.frame))
    }

    /// Pages in the evict buffer with their slots, and whether they are being written.
    pub fn leaving(&self) -> impl Iterator<Item = (FlashPage, SlotIndex, bool)> {
        self.leaving.iter().map(|(page, slot, stage)| (page, slot, stage == Stage::Writing))
    }
}
