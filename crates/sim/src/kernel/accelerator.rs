//! The page-fault accelerator as the kernel sees it: the device's queues, and the entries of remote pages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pagewalk_trace::Protection;
use pagewalk_vm::addr::{Asid, PageSize, Pfn, VirtAddr, Vpn};
use pagewalk_vm::fault::{
    Accelerator, AcceleratorDesign, BookkeepingTimer, Depths, Fetch, FetchHandle, FrameFifo, NewPage, PageId,
    RemotePte, TimerDesign,
};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::table::Leaf;

use crate::metrics::Rows;
use crate::metrics::names::accelerator as names;
use crate::spec::settings::{AcceleratorSpec, MachineSpec};

/// An accelerator, and what the kernel knows about its pages.
pub(super) struct Accelerated {
    costs: AcceleratorSpec,
    device: Accelerator,
    frames: FrameFifo,
    timer: Option<BookkeepingTimer>,
    pages: RemotePages,
    /// When the pages that are on their way out will be away; in order.
    evicting: VecDeque<(PageId, u64)>,
    /// When the last fetches were over: as many as there may be at once.
    fetched_ps: VecDeque<u64>,
    /// Until when the daemon holds the queues' lock.
    locked_until_ps: u64,
    pub(super) counts: AcceleratorCounts,
}

/// The pages that the accelerator has to do with.
#[derive(Default)]
struct RemotePages {
    /// The entries of pages that are remote. DEVIATION: they stand beside the page table, whose own entries are empty, so
    /// that any kind of table can have them.
    remote: BTreeMap<(Asid, Vpn), RemotePte>,
    /// Pages that are back and not booked: what the bit in their entries says.
    unbooked: BTreeSet<(Asid, Vpn)>,
}

/// Counts of what the accelerator and its bookkeeping did.
#[derive(Clone, Copy, Default)]
pub(super) struct AcceleratorCounts {
    fetches: u64,
    /// Page faults because a queue was full or empty.
    pub(super) services: u64,
    booked: u64,
    /// Times that pages were booked because the system needed them in order.
    early_drains: u64,
    evictions: u64,
    daemon_runs: u64,
    /// The time that the daemon would sleep now.
    sleep_ps: u64,
}

impl AcceleratorCounts {
    pub(super) fn rows(&self, rows: &mut Rows) {
        rows.sum(names::FETCHES, self.fetches);
        rows.sum(names::SERVICE_FAULTS, self.services);
        rows.sum(names::BOOKED, self.booked);
        rows.sum(names::EARLY_DRAINS, self.early_drains);
        rows.sum(names::EVICTIONS, self.evictions);
        rows.sum(names::DAEMON_RUNS, self.daemon_runs);
        rows.level(names::DAEMON_SLEEP, self.sleep_ps);
    }
}

impl Accelerated {
    pub(super) fn new(of: &AcceleratorSpec, spec: &MachineSpec) -> Self {
        let [free, new, evict] = of.queues.map(|slots| slots as usize);
        let depths = Depths { free, new, evict };
        let ram = Pfn(0)..Pfn(spec.paging.frames.memory_bytes() / PageSize::Size4K.bytes());
        let design = AcceleratorDesign { depths, ..AcceleratorDesign::of_ram(ram) };
        let timer = of.daemon.as_ref().map(|daemon| {
            let design = TimerDesign {
                first_ps: daemon.first_ps,
                longer_ps: daemon.longer_ps,
                shorter_ps: daemon.shorter_ps,
                least_ps: daemon.least_ps,
                most_ps: daemon.most_ps,
                slack_ps: daemon.slack_ps,
            };
            BookkeepingTimer::new(design).expect("the machine file was checked")
        });
        Self {
            costs: of.clone(),
            device: Accelerator::new(design).expect("the machine file was checked"),
            frames: FrameFifo::new(depths),
            timer,
            pages: RemotePages::default(),
            evicting: VecDeque::new(),
            fetched_ps: VecDeque::new(),
            locked_until_ps: 0,
            counts: AcceleratorCounts::default(),
        }
    }

    pub(super) fn costs(&self) -> &AcceleratorSpec {
        &self.costs
    }

    /// Makes the entry of a page remote that has lost its frame, and whose copy has this number.
    pub(super) fn leave(&mut self, page: PageKey, leaf: Leaf, id: PageId) {
        let protection = RemotePte::VALID | permissions(leaf) | RemotePte::ACCESSED | RemotePte::UNBOOKED;
        let remote = RemotePte { id, protection, reserved: page.asid.0.into() };
        self.pages.remote.insert((page.asid, page.page), remote);
    }

    /// Returns when the device has room for an eviction, if it has none now.
    pub(super) fn eviction_room_ps(&self) -> Option<u64> {
        let is_full = self.device.evict_slots() == 0;
        is_full.then(|| self.evicting.front().expect("a full queue is on its way").1)
    }

    /// Gives the device a page to send.
    pub(super) fn begin_eviction(&mut self, id: PageId, frame: Pfn) {
        self.frames.evict(&mut self.device, id, frame).expect("a booked page, and room in the queue");
        let sent = self.device.next_eviction();
        debug_assert_eq!(sent.map(|sent| sent.id), Some(id));
        self.counts.evictions += 1;
    }

    /// Notes that a page which the device has taken will be away at `done_ps`.
    pub(super) fn note_eviction(&mut self, id: PageId, done_ps: u64) {
        self.evicting.push_back((id, done_ps));
    }

    /// Returns the entry of a remote page.
    pub(super) fn remote(&self, page: PageKey) -> Option<RemotePte> {
        self.pages.remote.get(&(page.asid, page.page)).copied()
    }

    /// Begins the device's fetch of a page.
    pub(super) fn begin_fetch(&mut self, remote: RemotePte, addr: VirtAddr, now_ps: u64) -> Fetch {
        self.complete(now_ps);
        self.device.begin_fetch(remote, addr)
    }

    /// Returns when a page that is on its way out will be away.
    pub(super) fn evicted_ps(&self, id: PageId) -> u64 {
        let mut leaving = self.evicting.iter();
        leaving.find(|(other, _)| *other == id).expect("the page is on its way").1
    }

    /// Returns when the oldest of the fetches is over, if there may be no more of them at once.
    pub(super) fn wait_for_place(&mut self) -> Option<u64> {
        let is_full = self.fetched_ps.len() == self.costs.fetches as usize;
        is_full.then(|| self.fetched_ps.pop_front())?
    }

    /// Notes that a fetch is over at `done_ps`.
    pub(super) fn note_fetch(&mut self, done_ps: u64) {
        self.fetched_ps.push_back(done_ps);
    }

    /// Ends a fetch, after which the device has rewritten a page's entry; returns the entry.
    pub(super) fn finish_fetch(&mut self, page: PageKey, handle: FetchHandle) -> u64 {
        let local = self.device.finish_fetch(handle).expect("the fetch was begun");
        self.counts.fetches += 1;
        self.pages.remote.remove(&(page.asid, page.page));
        self.pages.unbooked.insert((page.asid, page.page));
        local
    }

    /// Begins a page fault that followed because a queue was in the way. Returns until when the queues are locked.
    pub(super) fn begin_service(&mut self) -> u64 {
        self.counts.services += 1;
        if let Some(timer) = &mut self.timer {
            timer.interrupted();
        }
        self.locked_until_ps
    }

    /// Returns the number of frames that the device takes.
    pub(super) fn free_slots(&self) -> usize {
        self.device.free_slots()
    }

    /// Returns whether the device has no frame at all.
    pub(super) fn is_starved(&self) -> bool {
        self.device.free_slots() == self.device.design().depths.free
    }

    /// Gives the device frames.
    pub(super) fn give(&mut self, frames: &[Pfn]) {
        let given = self.frames.fill(&mut self.device, frames.iter().copied());
        debug_assert_eq!(given.expect("free frames of the machine"), frames.len());
    }

    /// Takes the pages that have come, to book them.
    pub(super) fn take_new(&mut self) -> Vec<NewPage> {
        self.frames.drain(&mut self.device).expect("only the kernel takes from the new queue")
    }

    /// Books a page that has come.
    pub(super) fn book(&mut self, page: PageKey) {
        self.counts.booked += 1;
        let was_there = self.pages.unbooked.remove(&(page.asid, page.page));
        debug_assert!(was_there, "{page:?} was reported twice, or never came");
    }

    /// Returns whether one of pages `[start, end)` has come and is not booked; counts that it must be.
    pub(super) fn must_settle(&mut self, asid: Asid, start: Vpn, end: Vpn) -> bool {
        let unbooked = &self.pages.unbooked;
        let must = start < end && unbooked.range((asid, start)..(asid, end)).next().is_some();
        self.counts.early_drains += u64::from(must);
        must
    }

    /// Returns when the last of the pages that are on their way out will be away.
    pub(super) fn all_evicted_ps(&self) -> Option<u64> {
        self.evicting.back().map(|&(_, done_ps)| done_ps)
    }

    /// Evictions that are over by now are finished.
    pub(super) fn complete(&mut self, now_ps: u64) {
        while let Some((id, _)) = self.evicting.pop_front_if(|&mut (_, done_ps)| done_ps <= now_ps) {
            self.device.finish_eviction(id).expect("the page was sent");
        }
    }

    /// Returns how long the daemon sleeps: in the middle of what it may.
    pub(super) fn sleep_ps(&self) -> Option<u64> {
        let range = self.timer.as_ref()?.sleep_ps();
        Some(range.start() + (range.end() - range.start()) / 2)
    }

    /// Ends a run of the daemon now; returns how long the daemon sleeps.
    pub(super) fn end_daemon_run(&mut self, now_ps: u64) -> u64 {
        self.locked_until_ps = now_ps;
        self.timer.as_mut().expect("a daemon runs").ran(true);
        self.counts.daemon_runs += 1;
        self.counts.sleep_ps = self.sleep_ps().expect("a daemon runs");
        self.counts.sleep_ps
    }

    /// Forgets the remote pages of `[start, end)`.
    pub(super) fn forget_remote(&mut self, asid: Asid, start: Vpn, end: Vpn) {
        for page in self.pages.entries(asid, start, end) {
            self.pages.remote.remove(&(asid, page));
        }
    }

    /// Moves the remote pages of `[start, end)` to `target`.
    pub(super) fn move_remote(&mut self, asid: Asid, start: Vpn, end: Vpn, target: Vpn) {
        let pages = self.pages.entries(asid, start, end);
        let moved: Vec<(Vpn, RemotePte)> = pages
            .into_iter()
            .filter_map(|page| Some((page, self.pages.remote.remove(&(asid, page))?)))
            .collect();
        for (page, remote) in moved {
            self.pages.remote.insert((asid, Vpn(target.0 + (page.0 - start.0))), remote);
        }
    }

    /// Shares the remote pages of `[start, end)` of one address space with another: each fetches its own.
    pub(super) fn share_remote(&mut self, from: Asid, to: Asid, start: Vpn, end: Vpn) {
        for page in self.pages.entries(from, start, end) {
            if let Some(&remote) = self.pages.remote.get(&(from, page)) {
                self.pages.remote.insert((to, page), RemotePte { reserved: to.0.into(), ..remote });
            }
        }
    }

    /// Changes the permissions of the remote pages of `[start, end)`: the device gives what it finds.
    pub(super) fn protect_remote(&mut self, asid: Asid, start: Vpn, end: Vpn, protection: Protection) {
        for page in self.pages.entries(asid, start, end) {
            if let Some(remote) = self.pages.remote.get_mut(&(asid, page)) {
                let kept = remote.protection & RemotePte::READ | RemotePte::USER;
                let given = [(protection.write, RemotePte::WRITE), (protection.execute, RemotePte::EXECUTE)];
                let given: u16 = given.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum();
                *remote = remote.permitting(kept | given);
            }
        }
    }

    /// Returns the number of frames that wait for a page.
    #[cfg(test)]
    pub(super) fn frames_ready(&self) -> u64 {
        (self.frames.len() - self.pages.unbooked.len()) as u64
    }
}

impl RemotePages {
    fn entries(&self, asid: Asid, start: Vpn, end: Vpn) -> Vec<Vpn> {
        if start >= end {
            Vec::new()
        } else {
            self.remote.range((asid, start)..(asid, end)).map(|(page, _)| page.1).collect()
        }
    }
}

/// Returns a page's permissions, as its entry has them.
fn permissions(leaf: Leaf) -> u16 {
    let bits = [
        (leaf.readable, RemotePte::READ),
        (leaf.writable, RemotePte::WRITE),
        (leaf.executable, RemotePte::EXECUTE),
        (true, RemotePte::USER),
    ];
    bits.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
}

/// Returns the leaf of a local entry.
pub(super) fn leaf_of(local: u64, frame: Pfn) -> Leaf {
    let has = |bit: u16| local & u64::from(bit) != 0;
    Leaf {
        frame,
        readable: has(RemotePte::READ),
        writable: has(RemotePte::WRITE),
        executable: has(RemotePte::EXECUTE),
        accessed: has(RemotePte::ACCESSED),
        dirty: has(RemotePte::DIRTY),
    }
}
