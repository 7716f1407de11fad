//! The system's side of the queues.

use std::collections::VecDeque;

use super::{Accelerator, BookkeepingTimer, Depths, Illegal, NewId, PageId, RefusedFetch, RemotePte};
use crate::addr::{Pfn, VirtAddr};

/// A page that came back, for the system to take note of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewPage {
    /// The id that the page had in remote memory. The number is free again.
    pub id: PageId,
    /// The software's bits of the page's remote entry.
    pub reserved: u32,
    /// The address at which the program sees the page.
    pub addr: VirtAddr,
    /// The frame that holds the page.
    pub frame: Pfn,
}

/// A mistake of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    /// The frame is with the device, or has a page that is not booked.
    #[error("{0} is the device's until its page is booked: it can be neither given nor evicted")]
    NotOurs(Pfn),
    /// The device refused the operation.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// Another caller took an id without its address, or an address without its id.
    #[error("the two new queues are out of step: the next id and the next address are of different pages")]
    OutOfStep,
}

/// The work that a page fault on a remote entry asks for. Both fields are false if what was missing has come in the
/// meantime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceRequest {
    /// Whether the device had no free frame.
    pub no_frames: bool,
    /// Whether a new queue had no room to report a page.
    pub new_queue_full: bool,
}

impl ServiceRequest {
    /// Returns the request of a page fault that met this entry; `None` if the entry is an ordinary one.
    pub fn of_fault(entry: u64, device: &Accelerator) -> Option<Self> {
        RemotePte::decode(entry)?;
        let Depths { free, new, .. } = device.design().depths;
        Some(Self { no_frames: device.free_slots() == free, new_queue_full: device.new_pages() == new })
    }
}

/// The work that the handler did for a [`ServiceRequest`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// Frames that went to the device.
    pub given: usize,
    /// Pages that came back, oldest first.
    pub pages: Vec<NewPage>,
}

/// The frames that the device has, in the order in which it uses them: tells which frame each reported page is in, because
/// the device does not say (thesis, 4.3.2).
///
/// It mirrors the free queue, the fetches under way and the new queue, so every frame must pass through it. As long as a
/// frame is in here, its page is not booked, and it can be neither given again nor evicted.
#[derive(Clone, Debug)]
pub struct FrameFifo {
    frames: VecDeque<Pfn>,
    most: usize,
}

impl FrameFifo {
    /// Creates the bookkeeping for a device with empty queues of these depths.
    pub fn new(depths: Depths) -> Self {
        Self { frames: VecDeque::new(), most: depths.free + depths.new }
    }

    /// Frames that the device has, those of unbooked pages included: as many as the free and the new queue hold, at most.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns whether the device has no frame.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns whether the device has this frame.
    pub fn contains(&self, frame: Pfn) -> bool {
        self.frames.contains(&frame)
    }

    fn check_ours(&self, frame: Pfn) -> Result<(), BookError> {
        if self.contains(frame) { Err(BookError::NotOurs(frame)) } else { Ok(()) }
    }

    /// Gives the device a frame.
    ///
    /// # Errors
    ///
    /// It has it already, or refuses it. Nothing has changed.
    pub fn give(&mut self, device: &mut Accelerator, frame: Pfn) -> Result<(), BookError> {
        self.check_ours(frame)?;
        device.give_frame(frame)?;
        self.frames.push_back(frame);
        assert!(self.frames.len() <= self.most, "more than {} frames in the device's queues", self.most);
        Ok(())
    }

    /// Gives the device frames until its queue is full or there are no more; tells how many.
    ///
    /// # Errors
    ///
    /// A frame cannot be given; those before it are.
    pub fn fill(
        &mut self,
        device: &mut Accelerator,
        frames: impl IntoIterator<Item = Pfn>,
    ) -> Result<usize, BookError> {
        let slots = device.free_slots();
        frames.into_iter().take(slots).try_fold(0, |given, frame| {
            self.give(device, frame)?;
            Ok(given + 1)
        })
    }

    /// Lets the device send a page to remote memory. Its frame is free when that is complete.
    ///
    /// # Errors
    ///
    /// The page is not booked yet, or the device refuses. Nothing has changed.
    pub fn evict(&mut self, device: &mut Accelerator, id: PageId, frame: Pfn) -> Result<(), BookError> {
        self.check_ours(frame)?;
        Ok(device.evict(id, frame)?)
    }

    /// Takes the pages that are in the new queue now, oldest first. The system has to book each: put its entry in order
    /// ([`RemotePte::booked`]), and add it to what it knows about pages in memory.
    ///
    /// # Errors
    ///
    /// The queues are out of step. Nothing has changed.
    ///
    /// # Panics
    ///
    /// The device has fetched into a frame that did not come from here.
    pub fn drain(&mut self, device: &mut Accelerator) -> Result<Vec<NewPage>, BookError> {
        if !device.new_queues_agree() {
            return Err(BookError::OutOfStep);
        }
        let pages = (0..device.new_pages()).map(|_| {
            let NewId { id, reserved } = device.pop_new_id()?;
            let addr = device.pop_new_addr()?;
            let frame = self.frames.pop_front().expect("every frame of the device came from here");
            Ok(NewPage { id, reserved, addr, frame })
        });
        pages.collect()
    }

    /// Takes note that remote memory refused a fetch: To be told before the next [`FrameFifo::drain`]; needless if
    /// one fetch is under way at a time.
    pub fn refused(&mut self, refused: RefusedFetch) {
        let at = self.frames.iter().position(|&frame| frame == refused.frame);
        let at = at.expect("every frame of the device came from here");
        self.frames.remove(at);
        self.frames.insert(at + refused.overtaken_by, refused.frame);
    }

    /// Does the work of the page-fault handler for a [`ServiceRequest`]: Both queues are seen to, whichever was in
    /// the way.
    ///
    /// The handler then flushes the page from the TLB, which may hold the invalid entry (the "one extra TLB flush" of
    /// thesis 4.1), and the access is tried again.
    ///
    /// # Errors
    ///
    /// As of [`FrameFifo::fill`] and [`FrameFifo::drain`].
    pub fn serve(
        &mut self,
        device: &mut Accelerator,
        timer: &mut BookkeepingTimer,
        frames: impl IntoIterator<Item = Pfn>,
    ) -> Result<Served, BookError> {
        let given = self.fill(device, frames)?;
        let pages = self.drain(device)?;
        timer.interrupted();
        Ok(Served { given, pages })
    }
}
