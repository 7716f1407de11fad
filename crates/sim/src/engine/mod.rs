//! The way of a reference: translate, then access.
//!
//! This is the one driver of an access. Whatever decides which access is next (the program's order, the earliest core, a
//! core's scheduler) calls [`Engine::access`] for it, and takes care of a page that is not in DRAM.

mod blocks;
mod fetch;
mod pieces;
mod prefetch;
mod processor;
mod threads;
mod waiting;

use pagewalk_trace::{Access, Event, ThreadId};
use pagewalk_vm::addr::{Asid, PageSize, Pfn, PhysAddr, VirtAddr, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::reclaim::Uses;
use pagewalk_vm::table::{PageTable, WalkEnd, WalkOutcome, WalkRead};
use pagewalk_vm::tier::FlashPage;
use pagewalk_vm::tlb::Translation;

pub(crate) use self::blocks::{begin_block, follows_blocks};
pub(crate) use self::fetch::Fetching;
pub(crate) use self::pieces::{Accesses, Place, Then, pieces};
use self::processor::Running;
use self::threads::Threads;
use crate::error::MachineError;
use crate::kernel::{FaultFailure, Kernel};
use crate::metrics::names::program;
use crate::metrics::{KernelStep, Rows};
use crate::mmu::{Mmu, PageUse, WalkListener, Walked, translation_of};
use crate::time::{Clock, MissKind, Missed, WalkBegin};

/// The cores of a machine, its kernel and its clock.
pub(crate) struct Engine<T: PageTable, C> {
    pub(crate) mmu: Mmu<T>,
    pub(crate) kernel: Kernel<T>,
    pub(crate) clock: C,
    /// The core that runs.
    pub(crate) core: usize,
    pub(crate) threads: Threads,
    pub(crate) counts: ProgramCounts,
    /// Instructions and accesses of the current segment.
    pub(crate) segment: Option<(u64, u64)>,
    /// The fetch of instructions, if it is modelled.
    pub(crate) fetching: Option<Box<Fetching>>,
}

/// Counts of what the program did.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramCounts {
    pub(crate) stores: u64,
    /// Accesses that were made again because a page was not in DRAM.
    pub(crate) repeated: u64,
    pub(crate) instructions: u64,
}

/// The reason why a reference is not completed.
enum Stopped {
    /// The kernel brought no page.
    Fault(FaultFailure),
    /// A page is not in DRAM: the access has to be made again.
    Missed(Missed),
}

impl From<FaultFailure> for Stopped {
    fn from(failure: FaultFailure) -> Self {
        Self::Fault(failure)
    }
}

/// The reason why an access has not happened.
pub(crate) enum NotMade {
    /// A page is not in DRAM: the access has to be made again.
    Missed(Missed),
    /// The machine cannot go on.
    Failed(MachineError),
}

/// The answer to an access. The box lets it fit into a register: through memory, it takes 3 % of a timed run.
pub(crate) type Made = Result<(), Box<NotMade>>;

/// Returns the error of an access for which no page has to come.
fn failure_of(made: Made) -> Result<(), MachineError> {
    match made.map_err(|not_made| *not_made) {
        Err(NotMade::Failed(error)) => Err(error),
        Ok(()) | Err(NotMade::Missed(_)) => Ok(()),
    }
}

impl From<Missed> for Box<NotMade> {
    fn from(missed: Missed) -> Self {
        Self::new(NotMade::Missed(missed))
    }
}

impl From<MachineError> for Box<NotMade> {
    fn from(error: MachineError) -> Self {
        Self::new(NotMade::Failed(error))
    }
}

/// The clock hears what a walk of a core reads.
struct Timed<'a, C> {
    clock: &'a mut C,
    core: usize,
    /// The address whose page is walked to.
    addr: VirtAddr,
}

impl<C: Clock> WalkListener for Timed<'_, C> {
    #[inline(always)]
    fn leads_to(&mut self, end: WalkEnd) {
        if let WalkEnd::Leaf { leaf, level: 0 } = end {
            self.clock.expect(self.core, PhysAddr(leaf.frame.addr().0 | self.addr.0 & 0xfff));
        }
    }

    #[inline(always)]
    fn reads(&mut self, reads: impl Iterator<Item = WalkRead>, begins: WalkBegin) -> Option<Missed> {
        self.clock.walk(self.core, reads, begins)
    }

    fn exits(&mut self, ps: u64) {
        self.clock.kernel(self.core, KernelStep::FirstTouch, ps);
    }
}

impl<T: PageTable, C: Clock> Engine<T, C> {
    /// Switches the cores on.
    pub(crate) fn start(mmu: Mmu<T>, kernel: Kernel<T>, clock: C) -> Result<Self, MachineError> {
        let counts = ProgramCounts::default();
        let threads = Threads::new(mmu.cores());
        let mut engine = Self { mmu, kernel, clock, core: 0, threads, counts, segment: None, fetching: None };
        let (kernel, mut processor) = engine.parts();
        kernel.start(&mut processor)?;
        Ok(engine)
    }

    /// Returns the kernel, and the running core as a processor for it.
    #[inline(always)]
    fn parts(&mut self) -> (&mut Kernel<T>, Running<'_, T, C>) {
        let Self { mmu, kernel, clock, core, .. } = self;
        (kernel, Running::program(mmu, clock, *core))
    }

    /// Takes a change of thread or of the address space; other events have no effect.
    pub(crate) fn event(&mut self, event: &Event) -> Result<(), MachineError> {
        match event {
            Event::Thread(thread) => self.switch_thread(*thread),
            Event::Code(code) => {
                self.clock.code(code);
                self.fetching.iter_mut().for_each(|fetching| fetching.code(code));
            }
            // It faults as the program's own stores do, and moves nothing.
            Event::KernelWrite(_) => {}
            // The addresses of the lines that were fetched may be others' now.
            _ => self.fetching.iter_mut().for_each(|fetching| fetching.forget()),
        }
        let (kernel, mut processor) = self.parts();
        kernel.change(&mut processor, event)
    }

    /// Notes that so many instructions of the running core hold the next accesses.
    pub(crate) fn begin_segment(&mut self, instructions: u64, accesses: u64) {
        self.counts.instructions += instructions;
        self.segment = Some((instructions, accesses));
        self.clock.segment(self.core, Some(instructions), accesses);
    }

    /// Switches to another thread.
    fn switch_thread(&mut self, thread: ThreadId) {
        self.core = self.threads.core(thread);
        if let Some((instructions, accesses @ 1..)) = self.segment {
            self.clock.segment(self.core, Some(instructions), accesses);
        }
    }

    /// Takes accesses between two marks; the timestamp daemon runs after every so many.
    #[inline]
    pub(crate) fn accesses(&mut self, mut accesses: Accesses<'_>) -> Result<(), MachineError> {
        while let Some(left) = self.kernel.accesses_to_scan(accesses.list.len() as u64) {
            let (before, after) = accesses.split_at(left as usize);
            self.uninterrupted(before)?;
            self.kernel.state.frames.scan();
            accesses = after;
        }
        self.uninterrupted(accesses)
    }

    /// Makes accesses up to the next event; those that the front filter knows to change nothing cost a comparison.
    #[inline]
    fn uninterrupted(&mut self, accesses: Accesses<'_>) -> Result<(), MachineError> {
        self.mmu.count_accesses(self.core, accesses.list.len() as u64);
        match C::TIMED {
            true => self.steps(accesses),
            false if self.fetching.is_some() => self.blocks(accesses),
            false => self.untimed(accesses.list),
        }
    }

    /// Makes the references of a run without time.
    #[inline(always)]
    fn untimed(&mut self, accesses: &[Access]) -> Result<(), MachineError> {
        let mut rest = accesses.iter();
        let stores = accesses.iter().map(|access| u64::from(access.is_write())).sum::<u64>();
        self.counts.stores += stores;
        loop {
            let front = self.mmu.front(self.core);
            // A loop, because the compiler does not inline the search of an iterator into a function of this size.
            let access = loop {
                let Some(&access) = rest.next() else { return Ok(()) };
                let known = front.lookup(PageUse::of(access));
                debug_assert!(
                    known.is_none_or(|frame| self.kernel.may_be_in(access.addr().page(), frame)),
                    "the page of {access:?} is in another's frame"
                );
                if known.is_none() {
                    break access;
                }
            };
            if let Err(stopped) = self.translate(access.addr(), access.is_write()) {
                failure_of(self.stop(stopped))?;
            }
        }
    }

    /// Makes one reference of a timed run.
    #[inline(always)]
    fn step(&mut self, access: Access) -> Result<(), MachineError> {
        let (addr, write) = (access.addr(), access.is_write());
        self.counts.stores += u64::from(write);
        self.clock.begin(self.core);
        self.dispatched(addr, write)
    }

    /// Makes a reference that has been dispatched, and waits for a page that is not in DRAM.
    #[inline(always)]
    fn dispatched(&mut self, addr: VirtAddr, write: bool) -> Result<(), MachineError> {
        match self.access(addr, write) {
            Ok(()) => Ok(()),
            Err(not_made) => self.wait_for(addr, write, not_made),
        }
    }

    /// Does what is due, and then lets the running core translate and access.
    #[inline]
    pub(crate) fn access(&mut self, addr: VirtAddr, write: bool) -> Made {
        if self.clock.is_due(self.core, self.kernel.due_ps()) {
            let (kernel, mut processor) = self.parts();
            kernel.run_due(&mut processor)?;
        }
        self.attempt(addr, write)
    }

    #[inline]
    fn attempt(&mut self, addr: VirtAddr, write: bool) -> Made {
        let frame = match self.mmu.front(self.core).lookup(PageUse::new(addr, write)) {
            Some(frame) => frame,
            None => match self.translate(addr, write) {
                Ok(translation) => translation.frame_of(addr.page()),
                Err(stopped) => return self.stop(stopped),
            },
        };
        let physical = PhysAddr(frame.addr().0 | addr.0 & 0xfff);
        self.clock.data(self.core, (addr, physical), write).map_or(Ok(()), |missed| Err(missed.into()))
    }

    /// Translates an address: by the TLB, on a miss by the walker over the page table, on a fault by the kernel and another walk.
    #[inline(always)]
    fn translate(&mut self, addr: VirtAddr, write: bool) -> Result<Translation, Stopped> {
        let vpn = addr.page();
        let asid = self.kernel.asid();
        let translation = match self.mmu.lookup(self.core, asid, vpn, write) {
            Some(hit) => {
                if hit.level > 0 {
                    self.clock.tlb_hit(self.core, hit.level as usize);
                }
                hit.translation
            }
            None if self.mmu.has_prefetcher(self.core) => self.translate_by_prefetch(addr, write)?,
            None => self.walk_and_fill(addr, write)?,
        };
        let translation = match write {
            true if !translation.is_writable() => {
                let (kernel, mut processor) = self.parts();
                kernel.write_protected(&mut processor, addr)?;
                self.walk_and_fill(addr, write)?
            }
            true if !translation.is_dirty() => self.store_to_clean(addr, translation),
            _ => translation,
        };
        let translation = self.decompressed(asid, vpn, translation);
        if matches!(self.kernel.uses, Uses::Every | Uses::FirstAfterAllocation) {
            self.kernel.state.frames.touch(translation.frame_of(vpn));
        }
        self.mmu.learn(self.core, vpn, translation);
        Ok(translation)
    }

    /// Makes a frame number of a code, as hash-placed machines do beside the TLB.
    #[inline]
    fn decompressed(&self, asid: Asid, vpn: Vpn, translation: Translation) -> Translation {
        if !T::IS_COMPRESSED {
            return translation;
        }
        let Some(code) = translation.frame().code() else { return translation };
        let Some(placed) = self.kernel.state.frames.hash_placed() else {
            unreachable!("{code:?} in a machine without hash-placed frames")
        };
        let frame = placed.decode(PageKey { asid, page: vpn }, code);
        debug_assert!(self.kernel.may_be_in(vpn, frame), "{code:?} leads to another page's frame");
        Translation::new(frame, PageSize::Size4K, translation.is_writable(), translation.is_dirty())
    }

    /// Walks until a page is found, faulting as often as necessary, and fills the TLBs.
    fn walk_and_fill(&mut self, addr: VirtAddr, write: bool) -> Result<Translation, Stopped> {
        let vpn = addr.page();
        loop {
            let Self { mmu, kernel, clock, core, .. } = self;
            let walked = walked(kernel);
            let finished = mmu.walk(*core, &walked, vpn, &mut Timed { clock, core: *core, addr });
            match finished.end.map_err(Stopped::Missed)? {
                WalkEnd::Leaf { leaf, level } if leaf.writable || !write => {
                    let translation = translation_of::<T>(leaf, level);
                    if C::TIMED && kernel.manages_tier() {
                        self.page_in(vpn, translation.frame_of(vpn), write)?;
                    }
                    let walked = self::walked(&self.kernel);
                    self.mmu.fill(self.core, &walked, vpn, translation, &finished.walk);
                    if self.kernel.uses == Uses::Walks {
                        let frame = self.decompressed(self.kernel.asid(), vpn, translation).frame_of(vpn);
                        self.kernel.state.frames.walked(frame);
                    }
                    return Ok(translation);
                }
                WalkEnd::Leaf { .. } => {
                    let (kernel, mut processor) = self.parts();
                    kernel.write_protected(&mut processor, addr)?;
                }
                WalkEnd::Empty { .. } => {
                    // Without a core that executes instructions, the store of one that loads first may fault again.
                    let write = write || self.clock.modifies(self.core);
                    let (kernel, mut processor) = self.parts();
                    kernel.fault(&mut processor, addr, write)?;
                }
            }
        }
    }

    /// Sets the dirty bit of an entry, as the walker does for a store through a translation that is not known to be dirty.
    fn store_to_clean(&mut self, addr: VirtAddr, translation: Translation) -> Translation {
        self.kernel.set_dirty(addr.page());
        self.mmu.set_dirty(self.core, self.kernel.asid(), addr.page());
        if C::TIMED && self.kernel.manages_tier() {
            // A page that was only read until now has to be written when it leaves.
            self.clock.is_in_memory(FlashPage(translation.frame_of(addr.page()).0), true);
        }
        translation.dirtied()
    }

    /// Checks a frame that a walk found in a tier which the kernel manages: its page may still be on flash.
    #[cold]
    fn page_in(&mut self, vpn: Vpn, frame: Pfn, write: bool) -> Result<(), Stopped> {
        let (kernel, mut processor) = self.parts();
        if kernel.is_in_memory(&mut processor, vpn, frame, write) {
            return Ok(());
        }
        let signal_ps = self.clock.now(self.core);
        Err(Stopped::Missed(Missed { page: FlashPage(frame.0), signal_ps, kind: MissKind::Fault }))
    }

    /// Handles a reference that is not completed: it has to be made again, the program gets a signal, or the machine cannot go on.
    #[cold]
    fn stop(&mut self, stopped: Stopped) -> Made {
        match stopped {
            Stopped::Missed(missed) => Err(missed.into()),
            Stopped::Fault(FaultFailure::Machine(error)) => Err(error.into()),
            Stopped::Fault(FaultFailure::Signal) => {
                // The page may have been used in the TLB, or not: the filter cannot know.
                self.mmu.forget_repetitions_of(self.core);
                let (kernel, mut processor) = self.parts();
                kernel.signal(&mut processor);
                Ok(())
            }
        }
    }

    /// Returns the frame of a page that is used without time; none if its mapping does not allow the use.
    pub(crate) fn frame_without_time(
        &mut self,
        addr: VirtAddr,
        write: bool,
    ) -> Result<Option<Pfn>, MachineError> {
        loop {
            let Walked { asid, table, memory, .. } = walked(&self.kernel);
            if let WalkEnd::Leaf { leaf, .. } = table.walk(memory, asid, addr.page(), None).end() {
                return Ok(Some(leaf.frame));
            }
            let (kernel, mut processor) = self.parts();
            match kernel.fault(&mut processor, addr, write) {
                Ok(()) => {}
                Err(FaultFailure::Machine(error)) => return Err(error),
                Err(FaultFailure::Signal) => return Ok(None),
            }
        }
    }

    /// Charges the running core for the time that interrupts took.
    #[inline]
    pub(crate) fn notice_interrupts(&mut self) {
        let ps = self.kernel.take_stolen_ps(self.core);
        if ps > 0 {
            self.clock.kernel(self.core, KernelStep::Shootdown, ps);
        }
    }

    /// Returns the entries of pages `[start, end)` of a process.
    #[cfg(test)]
    pub(crate) fn entries_of(
        &mut self,
        process: usize,
        start: Vpn,
        end: Vpn,
    ) -> Vec<(Vpn, pagewalk_vm::table::Leaf, u32)> {
        let (kernel, mut processor) = self.parts();
        kernel.entries_of(&mut processor, process, start, end)
    }

    /// Returns all counts now, always the same rows in the same order; those of jobs stand before the clock's.
    pub(crate) fn rows(&self, of_jobs: impl FnOnce(&mut Rows)) -> Rows {
        let mut rows = Rows::default();
        let accesses = self.mmu.accesses() - self.counts.repeated;
        rows.sum(program::ACCESSES, accesses);
        rows.sum(program::LOADS, accesses - self.counts.stores);
        rows.sum(program::STORES, self.counts.stores);
        rows.sum(program::INSTRUCTIONS, self.counts.instructions);
        self.mmu.rows(&mut rows);
        self.kernel.rows(&mut rows);
        of_jobs(&mut rows);
        self.clock.rows(&mut rows);
        self.fetching.iter().for_each(|fetching| fetching.rows(&mut rows));
        rows
    }
}

/// Returns the page table of the current process, as a walker reads it.
#[inline(always)]
fn walked<T: PageTable>(kernel: &Kernel<T>) -> Walked<'_, T> {
    Walked { asid: kernel.asid(), table: kernel.table(), memory: &kernel.state.table_space.memory }
}
