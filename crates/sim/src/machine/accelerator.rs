//! The page-fault accelerator in a machine: hardware that brings pages, and a system that keeps its queues supplied.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pagewalk_vm::addr::{Asid, PageSize, Pfn, VirtAddr, Vpn};
use pagewalk_vm::fault::{
    Accelerator, AcceleratorDesign, BookkeepingTimer, Depths, Fetch, FrameFifo, NewPage, PageId, RemotePte,
    TimerDesign,
};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::table::{Leaf, PageTable};

use super::paging::Due;
use super::{Machine, MachineError};
use crate::metrics::names::accelerator as names;
use crate::metrics::{KernelStep, Rows};
use crate::spec::settings::{AcceleratorSpec, MachineSpec};
use crate::time::Clock;

/// An accelerator and what the system knows about it.
pub(super) struct Accelerated {
    device: Accelerator,
    frames: FrameFifo,
    timer: Option<BookkeepingTimer>,
    /// The entries of pages that are remote. DEVIATION: they stand beside the page table, whose own entries are empty, so
    /// that any kind of table can have them.
    remote: BTreeMap<(Asid, Vpn), RemotePte>,
    /// Pages that are back and not booked: what the bit in their entries says.
    unbooked: BTreeSet<(Asid, Vpn)>,
    /// When the pages that are on their way out will be away; in order.
    evicting: VecDeque<(PageId, u64)>,
    /// When the last fetches were over: as many as there may be at once.
    fetched_ps: VecDeque<u64>,
    most_fetches: usize,
    /// Until when somebody holds the queues' lock.
    locked_until_ps: u64,
    pub(super) counts: AcceleratorCounts,
}

/// What happened.
#[derive(Clone, Copy, Default)]
pub(super) struct AcceleratorCounts {
    pub(super) fetches: u64,
    /// Page faults because a queue was full or empty.
    pub(super) services: u64,
    pub(super) booked: u64,
    /// Times that pages were booked because the system needed them in order.
    pub(super) early_drains: u64,
    pub(super) evictions: u64,
    pub(super) daemon_runs: u64,
    /// How long the daemon would sleep now.
    pub(super) sleep_ps: u64,
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
        let ram = Pfn(0)..Pfn(spec.frames.memory_bytes() / PageSize::Size4K.bytes());
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
            device: Accelerator::new(design).expect("the machine file was checked"),
            frames: FrameFifo::new(depths),
            timer,
            remote: BTreeMap::new(),
            unbooked: BTreeSet::new(),
            evicting: VecDeque::new(),
            fetched_ps: VecDeque::new(),
            most_fetches: of.fetches as usize,
            locked_until_ps: 0,
            counts: AcceleratorCounts::default(),
        }
    }

    /// How long the daemon sleeps: in the middle of what it may.
    fn sleep_ps(&self) -> Option<u64> {
        let range = self.timer.as_ref()?.sleep_ps();
        Some(range.start() + (range.end() - range.start()) / 2)
    }

    /// Evictions that are over by now.
    fn complete(&mut self, now_ps: u64) {
        while let Some((id, _)) = self.evicting.pop_front_if(|&mut (_, done_ps)| done_ps <= now_ps) {
            self.device.finish_eviction(id).expect("it was sent");
        }
    }

    fn entries(&self, asid: Asid, start: Vpn, end: Vpn) -> Vec<Vpn> {
        if start >= end {
            Vec::new()
        } else {
            self.remote.range((asid, start)..(asid, end)).map(|(page, _)| page.1).collect()
        }
    }

    /// Frames that wait for a page.
    #[cfg(test)]
    pub(super) fn frames_ready(&self) -> u64 {
        (self.frames.len() - self.unbooked.len()) as u64
    }
}

/// A page's permissions, as its entry has them.
fn permissions(leaf: Leaf) -> u16 {
    let bits = [
        (leaf.readable, RemotePte::READ),
        (leaf.writable, RemotePte::WRITE),
        (leaf.executable, RemotePte::EXECUTE),
        (true, RemotePte::USER),
    ];
    bits.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
}

impl<T: PageTable, C: Clock> Machine<T, C> {
    fn accelerator(&mut self) -> &mut Accelerated {
        self.accelerated.as_mut().expect("a machine with an accelerator")
    }

    fn accelerator_costs(&self) -> AcceleratorSpec {
        self.spec.accelerator.clone().expect("a machine with an accelerator")
    }

    /// Brings a remote page. Tells whether there was one to bring.
    pub(super) fn fetch(&mut self, addr: VirtAddr) -> Result<bool, MachineError> {
        let key = PageKey { asid: self.processes[self.process].asid, page: addr.page() };
        let Some(accelerated) = &self.accelerated else { return Ok(false) };
        let Some(&remote) = accelerated.remote.get(&(key.asid, key.page)) else { return Ok(false) };
        loop {
            let now_ps = self.clock.now(self.core);
            let accelerated = self.accelerator();
            accelerated.complete(now_ps);
            match accelerated.device.begin_fetch(remote, addr) {
                Fetch::Read { handle, frame, .. } => {
                    self.wait_for_page();
                    let local = self.accelerator().device.finish_fetch(handle).expect("it was begun");
                    self.finish_fetch(key, frame, local)?;
                    return Ok(true);
                }
                Fetch::NoFreeFrame | Fetch::NewQueueFull => self.serve()?,
                Fetch::AfterEviction(id) => {
                    let mut leaving = accelerated.evicting.iter();
                    let &(_, done_ps) = leaving.find(|(other, _)| *other == id).expect("it is on its way");
                    self.clock.wait(self.core, KernelStep::Read, done_ps);
                }
                Fetch::AfterFetch => unreachable!("every fetch is over before the next access is looked at"),
            }
        }
    }

    /// The hardware's part of a fetch. A core that finds all places taken waits for the oldest. DEVIATION: a fetch is over
    /// before the next core's access is looked at, though not its time.
    fn wait_for_page(&mut self) {
        let costs = self.accelerator_costs();
        let accelerated = self.accelerator();
        if accelerated.fetched_ps.len() == accelerated.most_fetches
            && let Some(done_ps) = accelerated.fetched_ps.pop_front()
        {
            self.clock.wait(self.core, KernelStep::Lock, done_ps);
        }
        self.clock.kernel(self.core, KernelStep::Detect, costs.detect_ps);
        self.clock.kernel(self.core, KernelStep::Request, costs.request_ps);
        let now_ps = self.clock.now(self.core);
        let done_ps = self.clock.swap_in(now_ps).done_ps;
        self.clock.wait(self.core, KernelStep::Read, done_ps);
        self.accelerator().fetched_ps.push_back(done_ps);
    }

    /// The hardware has rewritten the page's entry.
    fn finish_fetch(&mut self, key: PageKey, frame: Pfn, local: u64) -> Result<(), MachineError> {
        let accelerated = self.accelerator();
        accelerated.counts.fetches += 1;
        accelerated.remote.remove(&(key.asid, key.page));
        accelerated.unbooked.insert((key.asid, key.page));
        self.swap.page_in(key);
        let has = |bit: u16| local & u64::from(bit) != 0;
        let leaf = Leaf {
            frame,
            readable: has(RemotePte::READ),
            writable: has(RemotePte::WRITE),
            executable: has(RemotePte::EXECUTE),
            accessed: has(RemotePte::ACCESSED),
            dirty: has(RemotePte::DIRTY),
        };
        self.enter_leaf(key.page, leaf, 0)?;
        self.count_resident(PageSize::Size4K);
        Ok(())
    }

    /// The page-fault handler: a queue was in the way.
    fn serve(&mut self) -> Result<(), MachineError> {
        let trap_ps = self.spec.kernel.paging.trap_ps;
        self.work(KernelStep::Trap, trap_ps);
        let accelerated = self.accelerator();
        accelerated.counts.services += 1;
        if let Some(timer) = &mut accelerated.timer {
            timer.interrupted();
        }
        let locked_until_ps = accelerated.locked_until_ps;
        self.work_until(KernelStep::Lock, locked_until_ps);
        self.supply()?;
        self.drain()
    }

    /// Frames for the device, as many as it takes. Those of pages that leave are given when these are away.
    fn supply(&mut self) -> Result<(), MachineError> {
        let slots = self.accelerator().device.free_slots();
        let mut frames = Vec::with_capacity(slots);
        for _ in 0..slots {
            let taken = match self.frames.take_spare() {
                Ok(taken) => taken,
                Err(full) if frames.is_empty() && slots == self.accelerator().device.design().depths.free => {
                    return Err(self.out_of_frames(full));
                }
                Err(_) => break,
            };
            for victim in taken.evicted {
                self.page_out(victim)?;
            }
            frames.push(taken.frame);
        }
        if let Some(&(_, done_ps)) = self.accelerator().evicting.back() {
            self.work_until(KernelStep::Write, done_ps);
            let now_ps = self.worker_now().max(done_ps);
            self.accelerator().complete(now_ps);
        }
        let Accelerated { device, frames: fifo, .. } = self.accelerator();
        let given = fifo.fill(device, frames.iter().copied()).expect("free frames of the machine");
        debug_assert_eq!(given, frames.len());
        Ok(())
    }

    /// Books the pages that have come.
    fn drain(&mut self) -> Result<(), MachineError> {
        let book_ps = self.accelerator_costs().book_ps;
        let Accelerated { device, frames, .. } = self.accelerator();
        let pages = frames.drain(device).expect("nobody else takes from the new queue");
        for NewPage { addr, frame, reserved, .. } in pages {
            let key = PageKey { asid: Asid(reserved as u16), page: addr.page() };
            let accelerated = self.accelerator();
            accelerated.counts.booked += 1;
            let was_there = accelerated.unbooked.remove(&(key.asid, key.page));
            debug_assert!(was_there, "{key:?} was reported twice, or never came");
            self.work(KernelStep::Book, book_ps);
            let taken = self.frames.adopt(frame, key).map_err(|full| self.out_of_frames(full))?;
            for victim in taken.evicted {
                self.page_out(victim)?;
            }
            if taken.frame != frame {
                self.move_page(key, taken.frame)?;
            }
        }
        // Time has moved on: the next use of every page counts.
        self.cores.iter_mut().for_each(|core| core.front.flush());
        Ok(())
    }

    /// A page belongs into another frame: it is copied, and its entry changes.
    fn move_page(&mut self, key: PageKey, frame: Pfn) -> Result<(), MachineError> {
        let owner = self.processes.iter().position(|process| process.asid == key.asid);
        let current = std::mem::replace(&mut self.process, owner.expect("a page that came has a process"));
        let cleared = self.clear_entries_of(self.process, key.page, Vpn(key.page.0 + 1));
        let [(_, leaf, 0)] = cleared[..] else { unreachable!("{key:?} came but has no entry") };
        let entered = self.enter_leaf(key.page, Leaf { frame, ..leaf }, 0);
        self.process = current;
        entered?;
        self.cores.iter_mut().for_each(|core| core.invalidate(key.asid, key.page));
        self.counts.copied_pages += 1;
        let copy_ps = self.spec.kernel.zero_page_ps;
        self.work(KernelStep::Copy, copy_ps);
        Ok(())
    }

    /// A page has lost its frame: its entry is remote now, if it has a copy, and if that is old, the device sends the page.
    pub(super) fn leave_to_accelerator(&mut self, page: PageKey, leaf: Leaf, written: bool) {
        let Some(slot) = self.swap.slot(page) else { return };
        let id = u32::try_from(slot + 1).ok().and_then(PageId::new).expect("the machine file was checked");
        let protection = RemotePte::VALID | permissions(leaf) | RemotePte::ACCESSED | RemotePte::UNBOOKED;
        let remote = RemotePte { id, protection, reserved: page.asid.0.into() };
        let costs = self.accelerator_costs();
        self.accelerator().remote.insert((page.asid, page.page), remote);
        if !written {
            return;
        }
        while self.accelerator().device.evict_slots() == 0 {
            let &(_, done_ps) = self.accelerator().evicting.front().expect("a full queue is on its way");
            self.work_until(KernelStep::Write, done_ps);
            let now_ps = self.worker_now().max(done_ps);
            self.accelerator().complete(now_ps);
        }
        let Accelerated { device, frames, .. } = self.accelerator();
        frames.evict(device, id, leaf.frame).expect("a booked page, and room in the queue");
        let sent = device.next_eviction();
        debug_assert_eq!(sent.map(|sent| sent.id), Some(id));
        self.accelerator().counts.evictions += 1;
        self.work(KernelStep::Write, costs.request_ps);
        let now_ps = self.worker_now();
        let done_ps = self.clock.swap_out(now_ps).done_ps;
        self.accelerator().evicting.push_back((id, done_ps));
        if costs.waits_for_evictions {
            self.work_until(KernelStep::Write, done_ps);
            self.accelerator().complete(done_ps);
        }
    }

    /// When the daemon runs first.
    pub(super) fn start_accelerator_daemon(&mut self) {
        let sleep_ps = self.accelerated.as_ref().and_then(Accelerated::sleep_ps);
        if let (true, Some(sleep_ps)) = (C::TIMED, sleep_ps) {
            self.paging.push(sleep_ps, Due::AcceleratorDaemon);
        }
    }

    /// The daemon is awake. It has the lock: whoever else had it has finished by now.
    pub(super) fn run_accelerator_daemon(&mut self) -> Result<(), MachineError> {
        let accelerated = self.accelerator();
        accelerated.counts.daemon_runs += 1;
        self.supply()?;
        self.drain()?;
        let now_ps = self.worker_now();
        let accelerated = self.accelerator();
        accelerated.locked_until_ps = now_ps;
        let timer = accelerated.timer.as_mut().expect("a daemon runs");
        timer.ran(true);
        let sleep_ps = accelerated.sleep_ps().expect("a daemon runs");
        accelerated.counts.sleep_ps = sleep_ps;
        self.paging.push(now_ps + sleep_ps, Due::AcceleratorDaemon);
        Ok(())
    }

    /// The system is about to change pages `[start, end)` of the current process: those that have come are booked first.
    pub(super) fn settle_books(&mut self, start: Vpn, end: Vpn) -> Result<(), MachineError> {
        let asid = self.processes[self.process].asid;
        let Some(accelerated) = &mut self.accelerated else { return Ok(()) };
        if start >= end || accelerated.unbooked.range((asid, start)..(asid, end)).next().is_none() {
            return Ok(());
        }
        accelerated.counts.early_drains += 1;
        self.drain()
    }

    /// Remote pages of `[start, end)` of the current process are gone.
    pub(super) fn forget_remote(&mut self, start: Vpn, end: Vpn) {
        let asid = self.processes[self.process].asid;
        let Some(accelerated) = &mut self.accelerated else { return };
        for page in accelerated.entries(asid, start, end) {
            accelerated.remote.remove(&(asid, page));
        }
    }

    /// Remote pages of `[start, end)` of the current process are at `target` now.
    pub(super) fn move_remote(&mut self, start: Vpn, end: Vpn, target: Vpn) {
        let asid = self.processes[self.process].asid;
        let Some(accelerated) = &mut self.accelerated else { return };
        let moved: Vec<(Vpn, RemotePte)> = accelerated
            .entries(asid, start, end)
            .into_iter()
            .filter_map(|page| Some((page, accelerated.remote.remove(&(asid, page))?)))
            .collect();
        for (page, remote) in moved {
            accelerated.remote.insert((asid, Vpn(target.0 + (page.0 - start.0))), remote);
        }
    }

    /// Remote pages of `[start, end)` of one process are those of another, too: each fetches its own.
    pub(super) fn share_remote(&mut self, from: Asid, to: Asid, start: Vpn, end: Vpn) {
        let Some(accelerated) = &mut self.accelerated else { return };
        for page in accelerated.entries(from, start, end) {
            if let Some(&remote) = accelerated.remote.get(&(from, page)) {
                accelerated.remote.insert((to, page), RemotePte { reserved: to.0.into(), ..remote });
            }
        }
    }

    /// Remote pages of `[start, end)` of the current process have other permissions: the device gives what it finds.
    pub(super) fn protect_remote(&mut self, start: Vpn, end: Vpn, write: bool, execute: bool) {
        let asid = self.processes[self.process].asid;
        let Some(accelerated) = &mut self.accelerated else { return };
        for page in accelerated.entries(asid, start, end) {
            if let Some(remote) = accelerated.remote.get_mut(&(asid, page)) {
                let kept = remote.protection & RemotePte::READ | RemotePte::USER;
                let given = [(write, RemotePte::WRITE), (execute, RemotePte::EXECUTE)];
                let given: u16 = given.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum();
                *remote = remote.permitting(kept | given);
            }
        }
    }
}
