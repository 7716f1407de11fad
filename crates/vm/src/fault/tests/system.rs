//! A small operating system with a page table, and pages with a word of data each. Every page's data, place and permissions
//! are also kept in plain lists, and compared.

use std::collections::VecDeque;

use super::*;
use crate::random::SplitMix64;

/// In a frame or at an id that holds no page.
const POISON: u64 = 0xdead_dead_dead_dead;
const READ_WRITE: u16 = RemotePte::READ | RemotePte::WRITE | RemotePte::USER;

pub(super) struct System {
    pub(super) device: Accelerator,
    fifo: FrameFifo,
    timer: BookkeepingTimer,
    /// The page table, by page.
    pub(super) entries: Vec<u64>,
    /// What each page must hold, what may be done to it, and where it is in remote memory or came from.
    truth: Vec<u64>,
    allowed: Vec<u16>,
    id_of: Vec<Option<PageId>>,
    /// Pages in memory as far as the system knows, in the order in which it heard of them.
    pub(super) resident: Vec<usize>,
    /// Pages that the device must report, in that order.
    to_report: VecDeque<usize>,
    /// By frame of memory, and by id.
    memory: Vec<u64>,
    remote: Vec<u64>,
    /// Frames and ids without an owner.
    pub(super) pool: VecDeque<Pfn>,
    ids: VecDeque<PageId>,
    /// Frames of pages that left, until all evictions are complete.
    leaving: Vec<Pfn>,
    fetching: Vec<(FetchHandle, usize, PageId, Pfn)>,
    sending: Vec<Eviction>,
    /// Whether the handler waits for its evictions, as the published system does.
    pub(super) spins: bool,
    pub(super) random: SplitMix64,
    /// Fetches, reports, waits for evictions, page faults for the queues' sake.
    pub(super) counts: [u64; 4],
}

impl System {
    pub(super) fn new(seed: u64, pages: usize, frames: u64, depths: Depths, fetches: usize) -> Self {
        let ids = pages as u32 + 2;
        Self {
            device: device_with(depths, fetches),
            fifo: FrameFifo::new(depths),
            timer: BookkeepingTimer::default(),
            entries: vec![0; pages],
            truth: vec![0; pages],
            allowed: vec![READ_WRITE; pages],
            id_of: vec![None; pages],
            resident: Vec::new(),
            to_report: VecDeque::new(),
            memory: vec![POISON; frames as usize],
            remote: vec![POISON; ids as usize],
            pool: (0..frames).map(frame).collect(),
            ids: (0..ids).map(id).collect(),
            leaving: Vec::new(),
            fetching: Vec::new(),
            sending: Vec::new(),
            spins: false,
            random: SplitMix64::of_item(seed, 1),
            counts: [0; 4],
        }
    }

    pub(super) fn any(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn data(&mut self, frame: Pfn) -> &mut u64 {
        &mut self.memory[(frame.0 - RAM.start.0) as usize]
    }

    fn frame_of(local: u64) -> Pfn {
        Pfn(local >> 10)
    }

    /// An access. Tells whether it was made; if not, it is to be tried again.
    pub(super) fn touch(&mut self, page: usize, store: bool) -> bool {
        let entry = self.entries[page];
        if let Some(remote) = RemotePte::decode(entry) {
            self.fetch(page, remote);
            return false;
        }
        if entry == 0 {
            let Some(frame) = self.pool.pop_front() else {
                self.evict_any();
                return false;
            };
            *self.data(frame) = self.truth[page];
            self.entries[page] = frame.0 << 10 | u64::from(self.allowed[page] | RemotePte::VALID);
            self.resident.push(page);
        }
        let frame = Self::frame_of(self.entries[page]);
        let data = *self.data(frame);
        assert_eq!(data, self.truth[page], "page {page} has lost its data");
        if store && self.entries[page] & u64::from(RemotePte::WRITE) != 0 {
            let word = self.random.next();
            (self.truth[page], *self.data(frame)) = (word, word);
        }
        true
    }

    fn fetch(&mut self, page: usize, remote: RemotePte) {
        assert_eq!(Some(remote.id), self.id_of[page]);
        let at = VirtAddr(addr(page as u32).0 ^ self.random.below(4096));
        match self.device.begin_fetch(remote, at) {
            Fetch::NoFreeFrame | Fetch::NewQueueFull => {
                self.counts[3] += 1;
                let request = ServiceRequest::of_fault(self.entries[page], &self.device).unwrap();
                assert!(request.no_frames || request.new_queue_full || !self.fetching.is_empty());
                self.serve();
            }
            Fetch::AfterEviction(id) => {
                assert!(id == remote.id && self.device.is_evicting(id));
                self.counts[2] += 1;
            }
            Fetch::AfterFetch => assert!(!self.fetching.is_empty()),
            Fetch::Read { handle, id, frame } => {
                self.fetching.push((handle, page, id, frame));
                self.to_report.push_back(page);
                self.counts[0] += 1;
            }
        }
    }

    /// A fetch that is under way ends.
    pub(super) fn arrive(&mut self, at: usize, refused: bool) {
        let (handle, page, id, frame) = self.fetching.swap_remove(at);
        if refused {
            self.fifo.refused(self.device.refuse_fetch(handle).unwrap());
            self.to_report.retain(|&other| other != page);
            self.counts[0] -= 1;
            return;
        }
        *self.data(frame) = self.remote[id.number() as usize];
        let local = self.device.finish_fetch(handle).unwrap();
        assert_eq!(Self::frame_of(local), frame);
        self.entries[page] = local;
        assert!(RemotePte::is_unbooked(local) && self.fifo.contains(frame));
        self.check_permissions(page);
    }

    fn check_permissions(&self, page: usize) {
        let wider = self.entries[page] & u64::from(RemotePte::PERMISSIONS & !self.allowed[page]);
        assert_eq!(wider, 0, "page {page} permits what its mapping does not");
    }

    /// The handler. If there is no frame for the device then, pages have to leave.
    pub(super) fn serve(&mut self) {
        let Self { device, fifo, timer, pool, .. } = self;
        let slots = device.free_slots().min(pool.len());
        let served = fifo.serve(device, timer, pool.drain(..slots)).unwrap();
        served.pages.into_iter().for_each(|page| self.book(page));
        let depth = self.device.design().depths.free;
        if self.device.free_slots() == depth && !self.spins {
            self.evict_any();
        } else if self.device.free_slots() == depth {
            for _ in 0..depth {
                self.evict_any();
                self.complete_all();
            }
            let Self { device, fifo, pool, .. } = self;
            fifo.fill(device, pool.drain(..depth.min(pool.len()))).unwrap();
        }
    }

    pub(super) fn drain(&mut self) {
        let pages = self.fifo.drain(&mut self.device).unwrap();
        pages.into_iter().for_each(|page| self.book(page));
    }

    fn book(&mut self, new: NewPage) {
        let page = self.to_report.pop_front().expect("a page that was fetched");
        self.counts[1] += 1;
        assert_eq!(new.addr.0, addr(page as u32).0 & !0xfff);
        assert_eq!((Some(new.id), new.reserved), (self.id_of[page].take(), page as u32));
        assert_eq!(Self::frame_of(self.entries[page]), new.frame);
        assert!(RemotePte::is_unbooked(self.entries[page]) && !self.resident.contains(&page));
        self.entries[page] = RemotePte::booked(self.entries[page], self.allowed[page]);
        self.resident.push(page);
        self.ids.push_back(new.id);
    }

    fn evict_any(&mut self) {
        if !self.resident.is_empty() {
            let victim = self.any(self.resident.len());
            self.evict(self.resident[victim]);
        }
    }

    /// Lets a page leave that is in memory, if it is booked and there is room.
    pub(super) fn evict(&mut self, page: usize) {
        let local = self.entries[page];
        let frame = Self::frame_of(local);
        let Some(&id) = self.ids.front().filter(|_| self.device.evict_slots() > 0) else { return };
        if RemotePte::is_unbooked(local) {
            let refused = self.fifo.evict(&mut self.device, id, frame);
            assert_eq!(refused, Err(BookError::NotOurs(frame)));
            return;
        }
        self.ids.pop_front();
        let protection = local as u16 & 0x3ff | RemotePte::UNBOOKED;
        let entry = RemotePte { id, protection, reserved: page as u32 }.encode();
        // Both orders are allowed.
        let entry_first = self.random.below(2) == 0;
        if entry_first {
            self.entries[page] = entry;
        }
        self.fifo.evict(&mut self.device, id, frame).unwrap();
        self.entries[page] = entry;
        self.id_of[page] = Some(id);
        self.resident.retain(|&other| other != page);
        self.leaving.push(frame);
        self.remote[id.number() as usize] = POISON;
    }

    pub(super) fn send(&mut self) {
        self.sending.extend(self.device.next_eviction());
    }

    /// An eviction that was sent is complete. When all are, their frames are free.
    pub(super) fn complete(&mut self, at: usize) {
        let Eviction { id, frame } = self.sending.swap_remove(at);
        self.remote[id.number() as usize] = *self.data(frame);
        assert_eq!(self.device.finish_eviction(id), Ok(frame));
        if self.device.evict_slots() == self.device.design().depths.evict {
            for frame in std::mem::take(&mut self.leaving) {
                *self.data(frame) = POISON;
                self.pool.push_back(frame);
            }
        }
    }

    /// Other permissions from now on. False if the page is being fetched, and the system has to wait.
    pub(super) fn protect(&mut self, page: usize, allowed: u16) -> bool {
        self.drain();
        let entry = self.entries[page];
        let remote = RemotePte::decode(entry);
        if RemotePte::is_unbooked(entry) || remote.is_some_and(|remote| self.device.is_fetching(remote.id)) {
            return false;
        }
        self.allowed[page] = allowed;
        self.entries[page] = match remote {
            Some(remote) => remote.permitting(allowed).encode(),
            None if entry == 0 => 0,
            None => RemotePte::booked(entry, allowed),
        };
        true
    }

    /// Something happens.
    pub(super) fn step(&mut self) {
        let page = self.any(self.entries.len());
        match self.any(16) {
            0..=5 => {
                let store = self.any(2) == 0;
                self.touch(page, store);
            }
            6 | 7 if self.entries[page] & 1 == 1 => self.evict(page),
            8..=10 if !self.fetching.is_empty() => {
                let (at, refused) = (self.any(self.fetching.len()), self.any(10) == 0);
                self.arrive(at, refused);
            }
            11 => self.send(),
            12 if !self.sending.is_empty() => {
                let at = self.any(self.sending.len());
                self.complete(at);
            }
            13 => {
                let allowed = RemotePte::READ | RemotePte::USER | [0, RemotePte::WRITE][self.any(2)];
                self.protect(page, allowed);
            }
            14 => self.drain(),
            15 => self.mischief(),
            _ => {}
        }
    }

    /// Illegal operations, which must change nothing.
    fn mischief(&mut self) {
        let before = self.device.clone();
        for offset in [0, 16, 56, 4, 7, 9, 64] {
            assert!(self.device.load(offset, 8).is_err());
        }
        for offset in [8, 24, 32, 40, 48, 12, 64] {
            assert!(self.device.store(offset, 8, frame(0).addr().0).is_err());
        }
        assert!(self.device.store(0, 4, frame(0).addr().0).is_err() && self.device.load(48, 4).is_err());
        assert!(self.device.store(0, 8, frame(0).addr().0 + 1).is_err());
        assert!(self.device.evict(id(1), RAM.end).is_err());
        assert_eq!(self.device, before);
    }

    /// Checks that every frame has exactly one owner.
    pub(super) fn check_frames(&self) {
        let mut owners = vec![0; self.memory.len()];
        let locals = self.resident.iter().map(|&page| Self::frame_of(self.entries[page]));
        for frame in self.pool.iter().chain(&self.leaving).copied().chain(locals) {
            owners[(frame.0 - RAM.start.0) as usize] += 1;
        }
        for (index, count) in (0..).zip(owners) {
            let total = count + u32::from(self.fifo.contains(frame(index)));
            assert_eq!(total, 1, "frame {index} has {total} owners");
        }
    }

    /// Lets everything end that is under way.
    pub(super) fn settle(&mut self) {
        while !self.fetching.is_empty() {
            self.arrive(0, false);
        }
        self.drain();
        self.complete_all();
    }

    fn complete_all(&mut self) {
        while self.device.evict_slots() < self.device.design().depths.evict {
            self.send();
            self.complete(0);
        }
    }

    /// An access by a hart that waits for its page.
    pub(super) fn access(&mut self, page: usize, store: bool) {
        for _ in 0..100 {
            if self.touch(page, store) {
                return;
            }
            if self.fetching.is_empty() {
                self.send();
            }
            if !self.fetching.is_empty() {
                self.arrive(0, false);
            } else if !self.sending.is_empty() {
                let at = self.any(self.sending.len());
                self.complete(at);
            }
        }
        panic!("page {page} cannot be had: {:?}", self.device);
    }

    /// Every page is there and has its data, and what was fetched was reported.
    pub(super) fn check_all(&mut self) {
        self.settle();
        for page in 0..self.entries.len() {
            self.access(page, false);
        }
        self.settle();
        self.check_frames();
        assert!(self.to_report.is_empty());
        assert_eq!(self.counts[0], self.counts[1], "fetched, and reported");
    }
}
