//! Pages that leave memory and come back, as the kernel does it: step by step, with the time of each.

use std::collections::{BTreeMap, VecDeque};

use pagewalk_vm::addr::{Asid, PageSize, Pfn, Vpn};
use pagewalk_vm::frame::{OutOfFrames, PageKey};
use pagewalk_vm::reclaim::{Uses, Victim};
use pagewalk_vm::space::FaultPlan;
use pagewalk_vm::table::{Leaf, PageTable};

use super::kernel::is_movable;
use super::{Machine, MachineError};
use crate::metrics::KernelStep;
use crate::time::{Clock, EventQueue, Transfer};

/// Most pages on their way to a disk: more have to wait, as Linux's writers do. A cluster of 32 for every place in the
/// queue of a usual disk; assumed.
const MOST_LEAVING: usize = 1_024;

/// Pages that leave for one shootdown (`SWAP_CLUSTER_MAX` of Linux).
const SHOOTDOWN_CLUSTER: u64 = 32;

/// What is under way.
pub(super) struct Paging {
    /// What the machine does by itself, in time.
    due: EventQueue<Due>,
    /// Pages in frames that no entry names yet: they were read ahead.
    cached: BTreeMap<(Asid, Vpn), Cached>,
    /// Pages on their way to the device, that can still be had from memory; in the order of leaving.
    leaving: VecDeque<(PageKey, u64)>,
    worker: Worker,
    is_reclaiming: bool,
    /// Pages that have left since the other cores were last told.
    unflushed: u64,
}

/// Something that a machine does by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// The reclaim daemon lets the next page leave.
    Reclaim,
    /// The accelerator's daemon wakes up.
    AcceleratorDaemon,
}

/// A page that was read ahead.
#[derive(Clone, Copy)]
struct Cached {
    frame: Pfn,
    ready_ps: u64,
}

/// Whose time the kernel's work takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Worker {
    /// That of the program's core.
    Program,
    /// A daemon's, on the program's core.
    Between,
    /// A daemon's on a core of its own, where it is as late as this.
    Beside { now_ps: u64 },
}

impl Default for Paging {
    fn default() -> Self {
        Self {
            due: EventQueue::new(),
            cached: BTreeMap::new(),
            leaving: VecDeque::new(),
            worker: Worker::Program,
            is_reclaiming: false,
            unflushed: 0,
        }
    }
}

impl Paging {
    /// When something happens next.
    #[inline(always)]
    pub(super) fn due_ps(&self) -> u64 {
        self.due.next_ps()
    }

    pub(super) fn push(&mut self, at_ps: u64, due: Due) {
        self.due.push(at_ps, due);
    }

    /// Whether a page is still on its way to the device.
    fn is_leaving(&mut self, page: PageKey, now_ps: u64) -> bool {
        while self.leaving.front().is_some_and(|&(_, done_ps)| done_ps <= now_ps) {
            self.leaving.pop_front();
        }
        self.leaving.iter().any(|&(other, _)| other == page)
    }
}

impl<T: PageTable, C: Clock> Machine<T, C> {
    /// Maps a page for a fault.
    pub(super) fn map_page(&mut self, vpn: Vpn, write: bool, plan: &FaultPlan) -> Result<(), MachineError> {
        let key = PageKey { asid: self.processes[self.process].asid, page: vpn };
        if is_movable(&plan.vma) && self.swap.slot(key).is_some() {
            return self.bring_back(key, write, plan);
        }
        self.map_new(vpn, write, plan)
    }

    /// A page that was never there: as the trace has it, if it says so; otherwise the largest size that the plan allows, whose
    /// slot is empty and for which there is a frame.
    fn map_new(&mut self, vpn: Vpn, write: bool, plan: &FaultPlan) -> Result<(), MachineError> {
        if let Some(given) = self.take_given(vpn, plan) {
            self.counts.given_pages += 1;
            return self.enter_new(given.page(), given.size(), given.frame(), write, plan);
        }
        let mut failed = None;
        let possible = |size: &PageSize| *size as u32 <= T::MAX_LEAF_LEVEL;
        let mut sizes = plan.page_sizes.iter().copied().filter(possible).peekable();
        // DEVIATION: a mapping of huge pages gets small ones where the table holds no others.
        let smallest = sizes.peek().is_none().then_some(PageSize::Size4K);
        for size in sizes.chain(smallest) {
            let first = vpn.align_down(size);
            let level = size as u32;
            let process = &self.processes[self.process];
            let is_free = || {
                process.table.is_vacant(&self.tables.memory, first, level)
                    && !self.frames.gives_any(process.asid, first, size)
            };
            if size != PageSize::Size4K && !is_free() {
                continue;
            }
            let key = PageKey { asid: process.asid, page: first };
            if self.map_cached(first, size, write, plan)? {
                return Ok(());
            }
            let taken = match size == PageSize::Size4K && is_movable(&plan.vma) {
                true => self.take_movable(key)?,
                false => self.frames.take_kept(size),
            };
            match taken {
                Ok(frame) => {
                    self.note_cached(first, size, frame, write, plan);
                    self.counts.own_pages += 1;
                    self.counts.resident_pages[size as usize] += 1;
                    return self.enter_new(first, size, frame, write, plan);
                }
                Err(full) => failed = Some(full),
            }
        }
        Err(match failed {
            Some(full) => self.out_of_frames(full),
            None => unreachable!("a faulting page's own slot is empty"),
        })
    }

    /// Maps a page that was never there to its frame.
    fn enter_new(
        &mut self,
        first: Vpn,
        size: PageSize,
        frame: Pfn,
        write: bool,
        plan: &FaultPlan,
    ) -> Result<(), MachineError> {
        self.enter_page(first, frame, size as u32, write, plan)?;
        if plan.vma.locked {
            self.frames.lock(frame, true);
        }
        self.counts.faults[size as usize] += 1;
        self.note_resident();
        let kernel = &self.spec.kernel;
        let zeroing = match size {
            PageSize::Size4K => kernel.zero_page_ps,
            PageSize::Size2M => kernel.zero_huge_page_ps,
            PageSize::Size1G => 512 * kernel.zero_huge_page_ps,
        };
        self.charge(KernelStep::FirstTouch, self.spec.kernel.minor_fault_ps);
        self.work(KernelStep::Zero, zeroing);
        Ok(())
    }

    /// A page that has left. It may still be in memory, on its way out, or again, because it was read ahead.
    fn bring_back(&mut self, key: PageKey, write: bool, plan: &FaultPlan) -> Result<(), MachineError> {
        let costs = self.spec.kernel.paging.clone();
        self.work(KernelStep::Trap, costs.trap_ps);
        self.work(KernelStep::Find, costs.find_ps);
        let frame = if let Some(cached) = self.paging.cached.remove(&(key.asid, key.page)) {
            self.counts.swap_cache_hits += 1;
            self.clock.wait(self.core, KernelStep::Read, cached.ready_ps);
            cached.frame
        } else {
            let now_ps = self.clock.now(self.core);
            let is_here = self.paging.is_leaving(key, now_ps);
            self.work(KernelStep::Allocate, costs.allocate_ps);
            // Before the page's own: theirs must not push it out again.
            let ahead = if is_here { Vec::new() } else { self.frames_ahead(key)? };
            let frame = self.take_movable(key)?.map_err(|full| self.out_of_frames(full))?;
            if is_here {
                self.counts.swap_cache_hits += 1;
            } else {
                self.counts.major_faults += 1;
                self.read_page(key, &ahead);
            }
            frame
        };
        self.enter_page(key.page, frame, 0, write, plan)?;
        if plan.vma.locked {
            self.frames.lock(frame, true);
        }
        self.count_resident(PageSize::Size4K);
        self.charge(KernelStep::Enter, costs.enter_ps);
        self.work(KernelStep::Book, costs.book_ps);
        Ok(())
    }

    /// Frames for the pages whose copies lie beside `key`'s, unless they are in memory. They get no entries.
    fn frames_ahead(&mut self, key: PageKey) -> Result<Vec<PageKey>, MachineError> {
        let run = u64::from(self.spec.swap.readahead);
        if run == 1 {
            return Ok(Vec::new());
        }
        let slot = self.swap.slot(key).expect("a page that is read has a copy");
        let mut pages: Vec<PageKey> = self.swap.neighbours(slot, run).collect();
        pages.retain(|page| {
            let owner = self.processes.iter().find(|process| process.asid == page.asid);
            let is_mapped =
                |process: &super::Process<T>| process.table.find(&self.tables.memory, page.page).is_some();
            !owner.is_none_or(is_mapped) && !self.paging.cached.contains_key(&(page.asid, page.page))
        });
        for (number, &page) in pages.iter().enumerate() {
            let Ok(frame) = self.take_movable(page)? else {
                pages.truncate(number);
                break;
            };
            self.paging.cached.insert((page.asid, page.page), Cached { frame, ready_ps: 0 });
        }
        Ok(pages)
    }

    /// Reads a page, and others `ahead`, unless their frames are gone again; waits for the one only.
    fn read_page(&mut self, key: PageKey, ahead: &[PageKey]) {
        let costs = self.spec.kernel.paging.clone();
        self.work(KernelStep::Request, costs.request_ps);
        self.swap.page_in(key);
        let now_ps = self.clock.now(self.core);
        let Transfer { done_ps, holds_core } = self.clock.swap_in(now_ps);
        ahead.iter().for_each(|&page| self.read_cached(page));
        let switch_ps = if holds_core { 0 } else { costs.switch_ps };
        self.work(KernelStep::Switch, switch_ps);
        self.clock.wait(self.core, KernelStep::Read, done_ps);
        self.work(KernelStep::Switch, switch_ps);
    }

    /// Reads a page that has a frame and no entry, without waiting for it; nothing if its frame is gone again.
    fn read_cached(&mut self, page: PageKey) {
        if !self.paging.cached.contains_key(&(page.asid, page.page)) {
            return;
        }
        self.work(KernelStep::Request, self.spec.kernel.paging.request_ps);
        self.swap.page_in(page);
        self.counts.read_ahead += 1;
        let now_ps = self.clock.now(self.core);
        let ready_ps = self.clock.swap_in(now_ps).done_ps;
        if let Some(cached) = self.paging.cached.get_mut(&(page.asid, page.page)) {
            cached.ready_ps = ready_ps;
        }
    }

    /// Reads a page that has left, before it is touched. Tells whether there was a frame for it.
    pub(super) fn read_ahead_of(&mut self, page: PageKey) -> Result<bool, MachineError> {
        if self.paging.cached.contains_key(&(page.asid, page.page)) {
            return Ok(true);
        }
        let Ok(frame) = self.take_movable(page)? else { return Ok(false) };
        self.paging.cached.insert((page.asid, page.page), Cached { frame, ready_ps: 0 });
        self.read_cached(page);
        Ok(true)
    }

    /// A frame for a page that may have to leave again. Others leave for it, if they must.
    pub(super) fn take_movable(&mut self, key: PageKey) -> Result<Result<Pfn, OutOfFrames>, MachineError> {
        // First: the daemon must not find the page's frame before its entry is made.
        self.wake_reclaim()?;
        let taken = match self.frames.take_movable(key) {
            Ok(taken) => taken,
            Err(full) => return Ok(Err(full)),
        };
        for victim in taken.evicted {
            self.page_out(victim)?;
        }
        if self.uses == Uses::FirstAfterAllocation {
            // Time has moved on: the next use of every page counts.
            self.cores.iter_mut().for_each(|core| core.front.flush());
        }
        Ok(Ok(taken.frame))
    }

    /// A page has lost its frame: its entry goes, and it is written to the swap device if need be. DEVIATION: Linux
    /// keeps an emptied table node for the entries that name swap slots; here it is freed. The translation is gone at once,
    /// the time of the other cores' shootdown is charged once for a cluster.
    pub(super) fn page_out(&mut self, victim: Victim) -> Result<(), MachineError> {
        let page = victim.page;
        let evict_ps = match &self.spec.accelerator {
            Some(accelerator) => accelerator.evict_ps,
            None => self.spec.kernel.paging.evict_ps,
        };
        self.work(KernelStep::Evict, evict_ps);
        self.paging.unflushed += 1;
        if self.paging.unflushed == SHOOTDOWN_CLUSTER {
            self.paging.unflushed = 0;
            // Of the other cores; that of this one's TLB is in the price.
            let shootdown_ps = if self.cores.len() > 1 { self.spec.kernel.shootdown_ps } else { 0 };
            self.work(KernelStep::Shootdown, shootdown_ps);
        }
        if self.paging.cached.remove(&(page.asid, page.page)).is_some() {
            // It was read ahead, and nobody wanted it.
            self.swap.page_out(page, false).expect("a clean page needs no slot");
            self.counts.read_ahead_unused += 1;
            return Ok(());
        }
        let leaves: Vec<(PageKey, Leaf)> =
            victim.pages().map(|page| (page, self.clear_victim(page))).collect();
        self.counts.resident_pages[0] -= 1;
        let is_dirty = leaves.iter().any(|(_, leaf)| leaf.dirty);
        let written = self
            .swap
            .page_out(page, is_dirty)
            .map_err(|reason| MachineError::SwapFull { machine: self.spec.name.clone(), reason })?;
        victim.sharers.iter().for_each(|&other| self.swap.share(page, other));
        if self.accelerated.is_some() {
            for (page, leaf) in leaves {
                self.leave_to_accelerator(page, leaf, written && page == victim.page);
            }
        } else if written {
            self.write_page(page);
        }
        Ok(())
    }

    /// The entry of a page that has lost its frame goes.
    fn clear_victim(&mut self, page: PageKey) -> Leaf {
        let cleared = self.clear_entries_of(self.process_of(page.asid), page.page, Vpn(page.page.0 + 1));
        let [(_, leaf, 0)] = cleared[..] else { unreachable!("{page:?} had a frame but no entry") };
        self.cores.iter_mut().for_each(|core| core.invalidate(page.asid, page.page));
        leaf
    }

    /// A page's contents go to the device. A disk works by itself; whoever writes too much has to wait.
    fn write_page(&mut self, page: PageKey) {
        self.work(KernelStep::Write, self.spec.kernel.paging.request_ps);
        let now_ps = self.worker_now();
        let Transfer { done_ps, holds_core } = self.clock.swap_out(now_ps);
        if holds_core {
            self.work_until(KernelStep::Write, done_ps);
            return;
        }
        if done_ps == 0 {
            return;
        }
        self.paging.leaving.push_back((page, done_ps));
        if self.paging.leaving.len() > MOST_LEAVING
            && let Some((_, done_ps)) = self.paging.leaving.pop_front()
        {
            self.work_until(KernelStep::Write, done_ps);
        }
    }

    /// Starts the reclaim daemon when half of what it keeps free is taken.
    fn wake_reclaim(&mut self) -> Result<(), MachineError> {
        let Some(keep) = self.kept_free() else { return Ok(()) };
        if self.paging.is_reclaiming || self.frames.headroom().is_none_or(|free| free >= keep / 2) {
            return Ok(());
        }
        self.paging.is_reclaiming = true;
        if C::TIMED {
            let now_ps = self.worker_now();
            self.paging.push(now_ps, Due::Reclaim);
            return Ok(());
        }
        while self.paging.is_reclaiming {
            self.reclaim_ahead()?;
        }
        Ok(())
    }

    /// Pages that the reclaim daemon keeps free.
    fn kept_free(&self) -> Option<u64> {
        let percent = u64::from(self.spec.background_percent);
        self.frames.limit().filter(|_| percent > 0).map(|limit| (limit * percent / 100).max(2))
    }

    /// The reclaim daemon lets one page leave, if that is still due.
    fn reclaim_ahead(&mut self) -> Result<(), MachineError> {
        let keep = self.kept_free().expect("a daemon runs");
        self.paging.is_reclaiming = self.frames.headroom().is_some_and(|free| free < keep);
        if !self.paging.is_reclaiming {
            return Ok(());
        }
        match self.frames.evict_ahead() {
            Some(victim) => {
                self.counts.reclaimed_ahead += 1;
                self.page_out(victim)
            }
            None => {
                self.paging.is_reclaiming = false;
                Ok(())
            }
        }
    }

    /// What is due has happened.
    #[cold]
    pub(super) fn run_due(&mut self) -> Result<(), MachineError> {
        let now_ps = self.clock.now(self.core);
        while let Some((at_ps, due)) = self.paging.due.pop_by(now_ps) {
            self.paging.worker = match self.spec.kernel.daemons_share_core {
                true => Worker::Between,
                false => Worker::Beside { now_ps: at_ps },
            };
            if self.paging.worker == Worker::Between {
                // The daemon's thread and back; a daemon that works page by page stays on.
                let switch_ps = self.spec.kernel.paging.switch_ps;
                self.work(KernelStep::Switch, if due == Due::Reclaim { 0 } else { 2 * switch_ps });
            }
            let done = match due {
                Due::Reclaim => self.reclaim_ahead(),
                Due::AcceleratorDaemon => self.run_accelerator_daemon(),
            };
            let end_ps = self.worker_now();
            self.paging.worker = Worker::Program;
            done?;
            if due == Due::Reclaim && self.paging.is_reclaiming {
                self.paging.push(end_ps, Due::Reclaim);
            }
        }
        Ok(())
    }

    /// The kernel takes so long for a step, whoever runs it.
    pub(super) fn work(&mut self, step: KernelStep, ps: u64) {
        match &mut self.paging.worker {
            Worker::Program => self.clock.kernel(self.core, step, ps),
            Worker::Between => drop(self.clock.daemon(Some(self.core), 0, step, ps)),
            Worker::Beside { now_ps } => *now_ps = self.clock.daemon(None, *now_ps, step, ps),
        }
    }

    /// Whoever runs waits.
    pub(super) fn work_until(&mut self, step: KernelStep, until_ps: u64) {
        let now_ps = self.worker_now();
        self.work(step, until_ps.saturating_sub(now_ps));
    }

    /// The time of whoever runs.
    pub(super) fn worker_now(&mut self) -> u64 {
        match self.paging.worker {
            Worker::Program | Worker::Between => self.clock.now(self.core),
            Worker::Beside { now_ps } => now_ps,
        }
    }

    pub(super) fn count_resident(&mut self, size: PageSize) {
        self.counts.resident_pages[size as usize] += 1;
        self.note_resident();
    }

    fn note_resident(&mut self) {
        let resident = self.resident_bytes();
        self.counts.resident_bytes_peak = self.counts.resident_bytes_peak.max(resident);
    }

    /// Pages `[start, end)` of the current process are gone: so are those that were read ahead.
    pub(super) fn drop_cached(&mut self, start: Vpn, end: Vpn) {
        let asid = self.processes[self.process].asid;
        let pages: Vec<Vpn> =
            self.paging.cached.range((asid, start)..(asid, end)).map(|(page, _)| page.1).collect();
        for page in pages {
            let cached = self.paging.cached.remove(&(asid, page)).expect("it was found");
            self.frames.give_page(cached.frame, PageSize::Size4K);
            self.counts.read_ahead_unused += 1;
        }
    }

    /// Frames whose pages have no entries: read ahead, or kept ready.
    #[cfg(test)]
    pub(super) fn frames_without_entry(&self) -> u64 {
        self.paging.cached.len() as u64 + self.accelerated.as_ref().map_or(0, |of| of.frames_ready())
    }
}
