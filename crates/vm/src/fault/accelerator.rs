//! The device: three queues, fetches and evictions.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::{AcceleratorDesign, Depths, DesignError, Illegal, PageId, RemotePte};
use crate::addr::{PAGE_BYTES, Pfn, VirtAddr};

/// The number of a fetch, which no two fetches of an accelerator share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FetchHandle(u64);

/// The outcome of a walk that met a remote entry. Unless it is [`Fetch::Read`], nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetch {
    /// No free frame is left: the walk is an ordinary page fault. The system gives some, and the access is tried
    /// again.
    NoFreeFrame,
    /// One of the new queues is full: the walk is an ordinary page fault. The system drains them, and the access is
    /// tried again.
    NewQueueFull,
    /// The page is still on its way out. The access waits until [`Accelerator::is_evicting`] says no, and is tried again.
    AfterEviction(PageId),
    /// The same page is under way, or too many others. The access waits until a fetch is over, and is tried again. There
    /// is no such thing if a hart waits for its fetch and is the only one.
    AfterFetch,
    /// The page is to be read into the frame, and then [`Accelerator::finish_fetch`] or [`Accelerator::refuse_fetch`].
    Read {
        /// The handle under which the fetch is completed.
        handle: FetchHandle,
        /// The page to read from remote memory.
        id: PageId,
        /// The frame that the page goes to.
        frame: Pfn,
    },
}

/// The error that no such fetch or eviction is under way, because it was finished or refused before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotUnderWay {
    /// The fetch with this handle.
    #[error("fetch {} is not under way", .0.0)]
    Fetch(FetchHandle),
    /// The eviction of this page.
    #[error("no eviction of page {0} is under way")]
    Eviction(PageId),
}

/// A fetch that remote memory refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedFetch {
    /// The frame, which is the next to be used again.
    pub frame: Pfn,
    /// The number of later fetches that already have their frames. Theirs are used before this one now, which a
    /// system that keeps its own list of frames must know; always 0 if one fetch is under way at a time.
    pub overtaken_by: usize,
}

/// A page on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Eviction {
    /// The id by which remote memory is to know the page.
    pub id: PageId,
    /// The frame that holds the page.
    pub frame: Pfn,
}

/// A page that was fetched, as the new queue reports it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NewId {
    /// The id of the page in remote memory.
    pub id: PageId,
    /// The software's bits of the page's remote entry.
    pub reserved: u32,
}

impl NewId {
    /// Returns the word that NEW_PGID gives: `reserved` above the 28 bits of the id.
    #[inline]
    pub const fn word(self) -> u64 {
        (self.reserved as u64) << PageId::BITS | self.id.number() as u64
    }
}

/// A page that is being fetched, or that came before an older one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct UnderWay {
    handle: FetchHandle,
    remote: RemotePte,
    addr: VirtAddr,
    frame: Pfn,
    finished: bool,
}

/// The Page Fault Accelerator.
///
/// The methods with names are the device itself; [`Accelerator::load`] and [`Accelerator::store`] are the same behind
/// registers. What is illegal changes nothing.
///
/// - Frames are used in the order in which they were given, and pages are reported in the order of their frames, whatever
///   the order in which they arrive: the system finds a page's frame by counting. A page that arrives before an older one
///   is there for the program at once, but is reported after it.
/// - A fetch under way holds a slot in each of the new queues, and that of its frame in the free queue until it ends,
///   because the frame goes back there if remote memory refuses.
/// - An access faults only if the system can do something about it. If all slots that are missing are held by fetches
///   under way, it waits instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accelerator {
    design: AcceleratorDesign,
    free: VecDeque<Pfn>,
    under_way: VecDeque<UnderWay>,
    next_handle: u64,
    new_ids: VecDeque<NewId>,
    new_addrs: VecDeque<VirtAddr>,
    queued: VecDeque<Eviction>,
    active: Vec<Eviction>,
    /// The pages that have a place in remote memory, if the places are limited.
    stored: FxHashSet<PageId>,
    init_word: Option<u64>,
}

impl Accelerator {
    /// Bits of a frame number in the word of an eviction.
    pub(super) const FRAME_BITS: u32 = 36;

    /// Creates an idle accelerator with empty queues.
    ///
    /// # Errors
    ///
    /// The design cannot be.
    pub fn new(design: AcceleratorDesign) -> Result<Self, DesignError> {
        design.check()?;
        Ok(Self {
            design,
            free: VecDeque::new(),
            under_way: VecDeque::new(),
            next_handle: 0,
            new_ids: VecDeque::new(),
            new_addrs: VecDeque::new(),
            queued: VecDeque::new(),
            active: Vec::new(),
            stored: FxHashSet::default(),
            init_word: None,
        })
    }

    /// Returns the design that the accelerator was made with.
    #[inline]
    pub fn design(&self) -> &AcceleratorDesign {
        &self.design
    }

    /// Gives the accelerator a free frame for a page to come (FREE).
    ///
    /// # Errors
    ///
    /// The queue is full, or there is no such frame.
    pub fn give_frame(&mut self, frame: Pfn) -> Result<(), Illegal> {
        if self.free_slots() == 0 {
            return Err(Illegal::FreeQueueFull { depth: self.design.depths.free });
        }
        self.check_frame(frame)?;
        self.free.push_back(frame);
        Ok(())
    }

    /// Returns the number of unused slots of the free queue (FREE_STAT).
    #[inline]
    pub fn free_slots(&self) -> usize {
        self.design.depths.free - self.free.len() - self.arriving()
    }

    /// Asks for a page to be moved to remote memory (EVICT). A page of the same id that is already in remote memory,
    /// or on its way, is replaced; that ids are unique is the system's duty.
    ///
    /// # Errors
    ///
    /// The queue or remote memory is full, or there is no such frame.
    pub fn evict(&mut self, id: PageId, frame: Pfn) -> Result<(), Illegal> {
        if self.evict_slots() == 0 {
            return Err(Illegal::EvictQueueFull { depth: self.design.depths.evict });
        }
        self.check_frame(frame)?;
        if let Some(pages) = self.design.remote_pages {
            if self.stored.len() as u64 >= u64::from(pages) && !self.stored.contains(&id) {
                return Err(Illegal::RemoteMemoryFull { pages });
            }
            self.stored.insert(id);
        }
        self.queued.push_back(Eviction { id, frame });
        Ok(())
    }

    /// Cancels an eviction, because remote memory has no room for the page: Gives the frame.
    ///
    /// # Errors
    ///
    /// No such eviction is queued.
    pub fn refuse_eviction(&mut self, id: PageId) -> Result<Pfn, NotUnderWay> {
        let found = self.queued.iter().rposition(|eviction| eviction.id == id);
        let refused = found.and_then(|at| self.queued.remove(at)).ok_or(NotUnderWay::Eviction(id))?;
        if !self.is_evicting(id) {
            self.stored.remove(&id);
        }
        Ok(refused.frame)
    }

    /// Returns the number of unused slots of the evict queue (EVICT_STAT). Once all are unused, every eviction is
    /// complete.
    #[inline]
    pub fn evict_slots(&self) -> usize {
        self.design.depths.evict - self.queued.len() - self.active.len()
    }

    /// Takes the oldest id from the new queue (NEW_PGID).
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn pop_new_id(&mut self) -> Result<NewId, Illegal> {
        self.new_ids.pop_front().ok_or(Illegal::NewQueueEmpty)
    }

    /// Takes the oldest address from the new queue (NEW_VADDR): that of the page's first byte. The address belongs to
    /// the id that was or will be taken as the same one in turn.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn pop_new_addr(&mut self) -> Result<VirtAddr, Illegal> {
        self.new_addrs.pop_front().ok_or(Illegal::NewQueueEmpty)
    }

    /// Returns the number of pages in the new queue (NEW_STAT); in the fuller one of its two halves, if they are not
    /// popped together.
    #[inline]
    pub fn new_pages(&self) -> usize {
        self.new_ids.len().max(self.new_addrs.len())
    }

    /// Returns whether as many ids as addresses were taken, so that the next of each belong together.
    #[inline]
    pub fn new_queues_agree(&self) -> bool {
        self.new_ids.len() == self.new_addrs.len()
    }

    /// Returns what was last stored to INIT_MEM: the address of a scratch page, or of the remote memory in the
    /// network (48 bits). Nothing here depends on it.
    #[inline]
    pub fn init_word(&self) -> Option<u64> {
        self.init_word
    }

    /// Stores a word to the register INIT_MEM.
    #[inline]
    pub fn set_init_word(&mut self, word: u64) {
        self.init_word = Some(word);
    }

    fn check_frame(&self, frame: Pfn) -> Result<(), Illegal> {
        let there = self.design.ram.contains(&frame);
        if there { Ok(()) } else { Err(Illegal::NoMemory(frame.addr())) }
    }

    /// Fetches that wait for their page.
    fn arriving(&self) -> usize {
        self.under_way.iter().filter(|fetch| !fetch.finished).count()
    }

    /// Begins a fetch, because a walk for `addr` met a remote entry. Only the queues are looked at before the page's
    /// id is, so that a page fault for their sake does not depend on it.
    pub fn begin_fetch(&mut self, remote: RemotePte, addr: VirtAddr) -> Fetch {
        let Depths { free, new, .. } = self.design.depths;
        let Some(&frame) = self.free.front() else {
            return if self.arriving() == free { Fetch::AfterFetch } else { Fetch::NoFreeFrame };
        };
        if self.new_pages() == new {
            return Fetch::NewQueueFull;
        }
        if self.is_evicting(remote.id) {
            return Fetch::AfterEviction(remote.id);
        }
        let held = self.under_way.len();
        if self.new_pages() + held == new || held == self.design.fetches || self.is_fetching(remote.id) {
            return Fetch::AfterFetch;
        }
        self.free.pop_front();
        let handle = FetchHandle(self.next_handle);
        self.next_handle += 1;
        let addr = addr.align_down(PAGE_BYTES);
        self.under_way.push_back(UnderWay { handle, remote, addr, frame, finished: false });
        Fetch::Read { handle, id: remote.id, frame }
    }

    /// Completes a fetch, because the page is in its frame:
    ///
    /// # Errors
    ///
    /// There is no such fetch under way.
    pub fn finish_fetch(&mut self, handle: FetchHandle) -> Result<u64, NotUnderWay> {
        let at = self.find_fetch(handle)?;
        let fetch = &mut self.under_way[at];
        fetch.finished = true;
        let local = fetch.remote.local(fetch.frame);
        self.report();
        Ok(local)
    }

    /// Cancels a fetch, because remote memory has no such page:
    ///
    /// # Errors
    ///
    /// There is no such fetch under way.
    pub fn refuse_fetch(&mut self, handle: FetchHandle) -> Result<RefusedFetch, NotUnderWay> {
        let at = self.find_fetch(handle)?;
        let frame = self.under_way.remove(at).expect("it was found there").frame;
        self.free.push_front(frame);
        let overtaken_by = self.under_way.len() - at;
        self.report();
        Ok(RefusedFetch { frame, overtaken_by })
    }

    /// Reports the pages that no older one is waited for.
    fn report(&mut self) {
        while let Some(fetch) = self.under_way.pop_front_if(|fetch| fetch.finished) {
            let RemotePte { id, reserved, .. } = fetch.remote;
            self.new_ids.push_back(NewId { id, reserved });
            self.new_addrs.push_back(fetch.addr);
        }
    }

    fn find_fetch(&self, handle: FetchHandle) -> Result<usize, NotUnderWay> {
        let found = self.under_way.iter().position(|fetch| fetch.handle == handle && !fetch.finished);
        found.ok_or(NotUnderWay::Fetch(handle))
    }

    /// Fetches that have begun and are neither finished nor refused.
    #[inline]
    pub fn fetches_under_way(&self) -> usize {
        self.arriving()
    }

    /// Returns whether the page is being fetched. Its entry must be left alone: the device overwrites it with what it
    /// found there.
    pub fn is_fetching(&self, id: PageId) -> bool {
        self.under_way.iter().any(|fetch| !fetch.finished && fetch.remote.id == id)
    }

    /// Returns the oldest page that is to leave and is not under way yet, so that the caller sends it. It is under
    /// way from now on.
    ///
    /// A page whose last eviction is still under way waits, and so do those behind it: the newest must be the last to
    /// arrive.
    pub fn next_eviction(&mut self) -> Option<Eviction> {
        let active = &self.active;
        let next = self.queued.pop_front_if(|next| active.iter().all(|active| active.id != next.id))?;
        self.active.push(next);
        Some(next)
    }

    /// Completes an eviction, because remote memory has the page; with the published protocol, when it has said so.
    /// Gives the frame, which is free.
    ///
    /// # Errors
    ///
    /// No such eviction is under way.
    pub fn finish_eviction(&mut self, id: PageId) -> Result<Pfn, NotUnderWay> {
        let found = self.active.iter().position(|eviction| eviction.id == id);
        let at = found.ok_or(NotUnderWay::Eviction(id))?;
        Ok(self.active.remove(at).frame)
    }

    /// Returns whether the page is on its way out, queued or sent.
    pub fn is_evicting(&self, id: PageId) -> bool {
        self.queued.iter().chain(&self.active).any(|eviction| eviction.id == id)
    }

    /// Pages that have been sent and are not complete.
    #[inline]
    pub fn evictions_under_way(&self) -> usize {
        self.active.len()
    }
}
