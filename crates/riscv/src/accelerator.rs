//! The page fault accelerator on its registers, with remote memory behind it.
//!
//! The mechanism is [`Accelerator`] alone; here it gets a clock (the hart's cycles), memory and somewhere to send pages.

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, PhysAddr, VirtAddr};
use pagewalk_vm::fault::{
    Accelerator, AcceleratorDesign, DesignError, Eviction, Fetch, Illegal, PageId, Register, RemotePte,
};
use pagewalk_vm::table::TableMemory;
use rustc_hash::FxHashSet;

use crate::memory::{Ram, Touched};
use crate::remote::{Page, RemoteError, RemoteMemory, address_of};

/// The time that remote memory takes beside what it takes for real, in cycles of the hart. No program's result
/// depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceTimes {
    /// Until a fetched page is there; the hart waits.
    pub fetch: u64,
    /// The time from when a page is given to leave until its eviction is complete; the hart goes on.
    pub eviction: u64,
}

/// The accelerator as a device of the machine.
pub(crate) struct Device {
    accelerator: Accelerator,
    times: DeviceTimes,
    sent: Vec<Sent>,
    /// Pages that remote memory has a place for.
    placed: FxHashSet<PageId>,
    /// Pages that are there already, before their eviction is sent.
    written: FxHashSet<PageId>,
    pub(crate) counts: DeviceCounts,
}

/// An eviction that has been sent.
#[derive(Clone, Copy)]
struct Sent {
    id: PageId,
    /// When it may be complete.
    due: u64,
    /// Whether remote memory has the page.
    stored: bool,
}

/// The counts of what the device did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounts {
    /// The number of pages that came.
    pub fetches: u64,
    /// The number of pages that left.
    pub evictions: u64,
    /// Walks that found no free frame.
    pub without_frame: u64,
    /// Walks that found a new queue full.
    pub new_queue_full: u64,
    /// Fetches that waited for the same page's eviction.
    pub after_eviction: u64,
    /// Fetches and evictions that remote memory refused.
    pub refused: u64,
}

/// What came of a walk that met a remote entry.
pub(crate) enum Outcome {
    /// The page is there, its entry is local; the store of the page may have met code.
    Fetched { id: PageId, frame: Pfn, took: u64, touched: Touched },
    /// An ordinary page fault.
    PageFault,
    /// Remote memory does not give the page: an access fault.
    Refused(RemoteError),
}

/// Why an access to a register is a fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denied {
    #[error(transparent)]
    Illegal(#[from] Illegal),
    #[error(transparent)]
    Remote(RemoteError),
}

impl Device {
    pub(crate) fn new(design: AcceleratorDesign, times: DeviceTimes) -> Result<Self, DesignError> {
        Ok(Self {
            accelerator: Accelerator::new(design)?,
            times,
            sent: Vec::new(),
            placed: FxHashSet::default(),
            written: FxHashSet::default(),
            counts: DeviceCounts::default(),
        })
    }

    pub(crate) fn load(
        &mut self,
        offset: u64,
        bytes: u64,
        now: u64,
        ram: &Ram,
        remote: &mut dyn RemoteMemory,
    ) -> Result<Result<u64, Denied>, RemoteError> {
        self.advance(now, ram, remote)?;
        Ok(self.accelerator.load(offset, bytes).map_err(Denied::from))
    }

    pub(crate) fn store(
        &mut self,
        offset: u64,
        bytes: u64,
        value: u64,
        now: u64,
        ram: &Ram,
        remote: &mut dyn RemoteMemory,
    ) -> Result<Result<(), Denied>, RemoteError> {
        self.advance(now, ram, remote)?;
        let stored = self.accelerator.store(offset, bytes, value);
        if offset == Register::Evict.offset()
            && stored.is_ok()
            && let Err(refused) = self.place(Accelerator::eviction_of(value), ram, remote)?
        {
            return Ok(Err(Denied::Remote(refused)));
        }
        // The register was for a scratch page, and became that for the blade's address.
        let is_page = ram.offset(value, PAGE_BYTES).is_some() && value.is_multiple_of(PAGE_BYTES);
        if offset == Register::InitMem.offset()
            && stored.is_ok()
            && !is_page
            && let Some(address) = address_of(value)
        {
            remote.turn_to(address)?;
            self.placed.clear();
        }
        self.send(now, ram, remote)?;
        Ok(match stored {
            // Of one kind with the refusals of remote memory elsewhere.
            Err(Illegal::RemoteMemoryFull { pages }) => {
                self.counts.refused += 1;
                let page = Accelerator::eviction_of(value).id.number().into();
                let why = format!("it holds {pages} pages, as many as it may (`--remote-pages`)");
                Err(Denied::Remote(RemoteError::Refused { page, why }))
            }
            stored => stored.map_err(Denied::from),
        })
    }

    /// Makes sure that remote memory has a place for a page that is to leave: the first time it is written at once, since a
    /// refusal is the fault of the store to EVICT (thesis, Appendix B). A page that has a place is written beside the program.
    fn place(
        &mut self,
        Eviction { id, frame }: Eviction,
        ram: &Ram,
        remote: &mut dyn RemoteMemory,
    ) -> Result<Result<(), RemoteError>, RemoteError> {
        if self.placed.contains(&id) {
            return Ok(Ok(()));
        }
        match remote.write_page(id.number().into(), &ram.read_page(frame)) {
            Err(refused @ RemoteError::Refused { .. }) => {
                self.accelerator.refuse_eviction(id).expect("it has just been queued");
                self.counts.refused += 1;
                Ok(Err(refused))
            }
            other => {
                other?;
                self.placed.insert(id);
                self.written.insert(id);
                Ok(Ok(()))
            }
        }
    }

    /// Sends what can be sent: all but pages whose last eviction is not complete.
    fn send(&mut self, now: u64, ram: &Ram, remote: &mut dyn RemoteMemory) -> Result<(), RemoteError> {
        while let Some(Eviction { id, frame }) = self.accelerator.next_eviction() {
            let stored = self.written.remove(&id);
            if !stored {
                remote.begin_write(id.number().into(), &ram.read_page(frame))?;
            }
            self.sent.push(Sent { id, due: now + self.times.eviction, stored });
        }
        Ok(())
    }

    /// Completes the evictions that have taken their time and that remote memory has, in order of time. A page that waited
    /// for its last eviction is sent when that is complete.
    pub(crate) fn advance(
        &mut self,
        now: u64,
        ram: &Ram,
        remote: &mut dyn RemoteMemory,
    ) -> Result<(), RemoteError> {
        while !self.sent.is_empty() {
            while self.hear(false, remote)? {}
            let ready = (0..self.sent.len()).filter(|&at| self.sent[at].stored && self.sent[at].due <= now);
            let Some(first) = ready.min_by_key(|&at| self.sent[at].due) else { break };
            let Sent { id, due, .. } = self.sent.remove(first);
            self.accelerator.finish_eviction(id).expect("it was sent, and is finished once");
            self.counts.evictions += 1;
            self.send(due, ram, remote)?;
        }
        Ok(())
    }

    /// Whether a page is on its way out.
    pub(crate) fn is_evicting(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Hears of the end of a write, if there is one; whether there was.
    fn hear(&mut self, wait: bool, remote: &mut dyn RemoteMemory) -> Result<bool, RemoteError> {
        let Some(page) = remote.finished_write(wait)? else { return Ok(false) };
        let ended = self.sent.iter_mut().find(|sent| u64::from(sent.id.number()) == page && !sent.stored);
        if let Some(sent) = ended {
            sent.stored = true;
        }
        Ok(true)
    }

    /// Waits for the end of a page's eviction; returns when that is.
    fn wait_for(
        &mut self,
        id: PageId,
        now: u64,
        ram: &Ram,
        remote: &mut dyn RemoteMemory,
    ) -> Result<u64, RemoteError> {
        let mut now = now;
        while self.accelerator.is_evicting(id) {
            // One that has not been sent comes behind another's end: that of the first to end, then of the next.
            let sent = self.sent.iter().find(|sent| sent.id == id);
            let sent = sent.or_else(|| self.sent.iter().min_by_key(|sent| sent.due)).copied();
            let Sent { id: awaited, due, stored } = sent.expect("the oldest eviction is always sent");
            if !stored && !self.hear(true, remote)? {
                return Err(RemoteError::Unreachable(format!("the eviction of page {awaited} does not end")));
            }
            now = now.max(due);
            self.advance(now, ram, remote)?;
        }
        Ok(now)
    }

    /// A walk for `addr` met the remote entry at `entry`: brings the page, or says why not.
    pub(crate) fn fetch(
        &mut self,
        remote_pte: RemotePte,
        entry: PhysAddr,
        addr: VirtAddr,
        now: u64,
        ram: &mut Ram,
        remote: &mut dyn RemoteMemory,
    ) -> Result<Outcome, RemoteError> {
        let mut at = now;
        let (handle, id, frame) = loop {
            match self.accelerator.begin_fetch(remote_pte, addr) {
                Fetch::NoFreeFrame => {
                    self.counts.without_frame += 1;
                    return Ok(Outcome::PageFault);
                }
                Fetch::NewQueueFull => {
                    self.counts.new_queue_full += 1;
                    return Ok(Outcome::PageFault);
                }
                Fetch::AfterEviction(id) => {
                    self.counts.after_eviction += 1;
                    at = self.wait_for(id, at, ram, remote)?;
                }
                Fetch::AfterFetch => unreachable!("the only hart waits for its fetches"),
                Fetch::Read { handle, id, frame } => break (handle, id, frame),
            }
        };
        let mut page: Page = [0; _];
        if let Err(error) = remote.read_page(id.number().into(), &mut page) {
            self.accelerator.refuse_fetch(handle).expect("it has just begun");
            self.counts.refused += 1;
            return match error {
                refused @ RemoteError::Refused { .. } => Ok(Outcome::Refused(refused)),
                error @ RemoteError::Unreachable(_) => Err(error),
            };
        }
        let touched = ram.write_page(frame, &page);
        let local = self.accelerator.finish_fetch(handle).expect("it has just begun");
        ram.write(entry, local);
        self.counts.fetches += 1;
        Ok(Outcome::Fetched { id, frame, took: at - now + self.times.fetch, touched })
    }
}
