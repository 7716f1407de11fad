//! Data in frames, slots and flash, which effects move, and threads that look at them. A page's data are a version that every
//! write increases.

use std::collections::BTreeMap;

use super::*;

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Access {
    pub(super) page: u64,
    pub(super) write: bool,
}

pub(super) struct World {
    frames: Vec<Option<(u64, u64)>>,
    slots: Vec<Option<(u64, u64)>>,
    flash: BTreeMap<u64, u64>,
    /// The version that a page must have, wherever it is.
    newest: BTreeMap<u64, u64>,
    /// Reads under way.
    pub(super) reading: Vec<u64>,
    /// Writes under way: page, slot, and the version that was given.
    pub(super) writing: Vec<(u64, u16, u64)>,
    /// Waiting threads: what for, and how it is completed.
    pub(super) waiting: Vec<Option<(Access, Completion)>>,
    /// Threads that were woken and must do this again.
    pub(super) again: Vec<Option<Access>>,
    pub(super) wakes: u64,
}

impl World {
    pub(super) fn new(design: &TierDesign, threads: usize) -> Self {
        Self {
            frames: vec![None; design.frames() as usize],
            slots: vec![None; design.slots() as usize],
            flash: BTreeMap::new(),
            newest: BTreeMap::new(),
            reading: Vec::new(),
            writing: Vec::new(),
            waiting: vec![None; threads],
            again: vec![None; threads],
            wakes: 0,
        }
    }

    fn on_flash(&self, page: u64) -> u64 {
        self.flash.get(&page).copied().unwrap_or(0)
    }

    fn newest(&self, page: u64) -> u64 {
        self.newest.get(&page).copied().unwrap_or(0)
    }

    /// The access finds the newest data.
    pub(super) fn access(&mut self, frame: FrameIndex, Access { page, write }: Access) {
        let newest = self.newest(page);
        assert_eq!(self.frames[frame.0 as usize], Some((page, newest)), "page {page} in {frame:?}");
        if write {
            self.newest.insert(page, newest + 1);
            self.frames[frame.0 as usize] = Some((page, newest + 1));
        }
    }

    pub(super) fn perform(&mut self, effect: Effect<u32>) {
        match effect {
            Effect::Read { page: FlashPage(page), .. } => {
                assert!(!self.reading.contains(&page), "page {page} is read twice");
                assert!(
                    self.writing.iter().all(|&(other, ..)| other != page),
                    "page {page} is read and written"
                );
                self.reading.push(page);
            }
            Effect::Copy { page, frame, slot } => {
                let data = self.take(page.0, frame);
                let before = self.slots[usize::from(slot.0)].replace((page.0, data));
                assert_eq!(before, None, "{slot:?} is overwritten");
            }
            Effect::Discard { page, frame } => {
                let data = self.take(page.0, frame);
                let sent = self.writing.iter().any(|&(other, _, version)| (other, version) == (page.0, data));
                assert!(sent || self.on_flash(page.0) == data, "page {} is lost", page.0);
            }
            Effect::Install { page, frame } => {
                let data = (page.0, self.on_flash(page.0));
                let before = self.frames[frame.0 as usize].replace(data);
                assert_eq!(before, None, "{frame:?} is overwritten");
            }
            Effect::Restore { page, slot, frame } => {
                let at = &mut self.slots[usize::from(slot.0)];
                let is_written =
                    self.writing.iter().any(|&(other, from, _)| (other, from) == (page.0, slot.0));
                let data = if is_written { *at } else { at.take() };
                assert_eq!(data.unwrap().0, page.0, "{slot:?}");
                let before = std::mem::replace(&mut self.frames[frame.0 as usize], data);
                assert_eq!(before, None, "{frame:?} is overwritten");
            }
            Effect::Write { page: FlashPage(page), slot } => {
                let data = self.slots[usize::from(slot.0)].unwrap();
                assert_eq!(data.0, page, "{slot:?}");
                assert!(
                    self.writing.iter().all(|&(other, ..)| other != page),
                    "page {page} is written twice"
                );
                assert!(!self.reading.contains(&page), "page {page} is written and read");
                self.writing.push((page, slot.0, data.1));
            }
            Effect::Wake { waiter, completes, page, frame } => {
                let (access, expected) = self.waiting[waiter as usize].take().expect("woken once");
                assert_eq!((completes, page.0), (expected, access.page));
                self.wakes += 1;
                if completes == LATER {
                    self.again[waiter as usize] = Some(access);
                } else {
                    self.access(frame, access);
                }
            }
        }
    }

    fn take(&mut self, page: u64, frame: FrameIndex) -> u64 {
        let (found, data) = self.frames[frame.0 as usize].take().unwrap();
        assert_eq!(found, page, "{frame:?}");
        assert!(self.frames.iter().flatten().all(|&(other, _)| other != page), "two copies of page {page}");
        data
    }

    /// Flash has read the page; the data come with the installation.
    pub(super) fn finish_read(&mut self, at: usize) -> Event<u32> {
        Event::Arrived { page: P(self.reading.swap_remove(at)) }
    }

    /// Flash has written the page.
    pub(super) fn finish_write(&mut self, at: usize) -> Event<u32> {
        let (page, slot, version) = self.writing.swap_remove(at);
        assert_eq!(
            self.slots[usize::from(slot)].take(),
            Some((page, version)),
            "changed while it was written"
        );
        self.flash.insert(page, version);
        Event::Written { page: P(page) }
    }

    /// Nothing is under way: the newest version of every page is in its frame, or on flash if it has none or is clean.
    pub(super) fn check_drained(&self, tier: &Tier<u32>) {
        assert!(tier.is_idle() && self.waiting.iter().all(Option::is_none), "something is left");
        assert!(self.slots.iter().all(Option::is_none));
        for (&page, &version) in &self.newest {
            let resident = tier.resident(P(page));
            if let Some(Resident { frame, .. }) = resident {
                assert_eq!(self.frames[frame.0 as usize], Some((page, version)));
            }
            if !resident.is_some_and(|resident| resident.dirty) {
                assert_eq!(self.on_flash(page), version, "page {page} is lost");
            }
        }
    }
}
