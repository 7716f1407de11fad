//! The kernel of a machine: address spaces, page tables, frames, the swap device and its daemons, the accelerator.
//!
//! The kernel is asked, and answers: [`Kernel::fault`] brings a page, [`Kernel::change`] changes an address space. Both
//! run on a [`Processor`], which takes the time of what they do and forgets the translations that they change.
//!
//! ```text
//! change   advice   copy_to_user   fork    daemons          what the kernel is asked
//!    \       |           |          /        |
//!     fault, sharing        books            a page comes
//!          |      \          /
//!     read_ahead   reclaim                   a page leaves, or comes back
//!                    |
//!     residents    remote                    what stands beside the page table
//!                    |
//!       context, page_tables, state          entries, frames, time
//! ```

mod accelerator;
mod advice;
mod books;
mod change;
mod context;
mod copy_to_user;
mod counts;
mod fault;
mod fork;
mod page_tables;
mod processor;
mod read_ahead;
mod reclaim;
mod remote;
mod residents;
mod rows;
mod sharing;
mod state;
mod swap;
mod tables;
#[cfg(test)]
mod tests;
mod tier;
mod writes;

use std::sync::Arc;

use pagewalk_trace::{Event, ProcessId};
use pagewalk_vm::addr::{Asid, Pfn, VirtAddr, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::reclaim::{PagePool, Uses};
use pagewalk_vm::table::{Leaf, PageTable};
use pagewalk_vm::tier::FlashPage;

use self::accelerator::Accelerated;
use self::context::Context;
use self::counts::KernelCounts;
pub(crate) use self::fault::FaultFailure;
use self::page_tables::{TableShape, TablesOf};
pub(crate) use self::processor::{Processor, Worker};
use self::state::{Due, Processes};
pub(crate) use self::state::{Process, State};
use self::swap::Swap;
use self::tables::TableSpace;
use self::tier::KernelTier;
use crate::error::MachineError;
use crate::metrics::{KernelStep, Rows};
use crate::spec::settings::MachineSpec;
use crate::time::{EventQueue, Waiter};

/// The kernel of a machine whose page tables are `T`.
pub(crate) struct Kernel<T: PageTable> {
    pub(crate) state: State,
    /// The page tables of the processes, as the hardware walks them.
    pub(crate) tables: TablesOf<T>,
    /// The place of the current process.
    current: usize,
    /// Its address space: each reference that the front filter does not know asks for it.
    asid: Asid,
    /// The uses of pages that the frames want to hear of.
    pub(crate) uses: Uses,
    scans: Option<Scans>,
    tier: Option<KernelTier>,
}

/// When the timestamp daemon runs, in accesses.
#[derive(Clone, Copy)]
struct Scans {
    interval: u64,
    left: u64,
}

impl<T: PageTable> Kernel<T> {
    /// Creates the kernel of a machine with these frames.
    pub(crate) fn new(
        spec: &Arc<MachineSpec>,
        design: T::Design,
        frames: PagePool,
        seed: u64,
        announces_mappings: bool,
        is_timed: bool,
    ) -> Self {
        let interval = spec.paging.reclaim.as_ref().and_then(|policy| policy.scan_interval());
        let scans = interval.map(|interval| Scans { interval, left: interval });
        let interrupt_ps = spec.tier.as_ref().and_then(|tier| tier.manager.kernel_interrupt_ps());
        let tier = interrupt_ps.map(|interrupt_ps| KernelTier::new(spec.core.count, interrupt_ps));
        let state = State {
            spec: Arc::clone(spec),
            is_timed,
            processes: Processes::new(seed, announces_mappings),
            table_space: TableSpace::new(TableShape::of::<T>(), frames.ordinary().start()),
            swap: Swap::new(spec.paging.swap.bytes),
            accelerator: spec.paging.accelerator.as_ref().map(|of| Accelerated::new(of, spec)),
            due: EventQueue::new(),
            is_reclaiming: false,
            counts: KernelCounts::default(),
            frames,
        };
        let tables = TablesOf::new(design);
        Self { current: 0, asid: Asid::default(), uses: state.frames.uses(), scans, tier, state, tables }
    }

    /// Switches the machine on: the first process runs, and the daemons sleep.
    pub(crate) fn start(&mut self, processor: &mut dyn Processor) -> Result<(), MachineError> {
        self.switch(processor, ProcessId(0))?;
        books::start_daemon(&mut self.context(processor));
        Ok(())
    }

    fn context<'a>(&'a mut self, processor: &'a mut dyn Processor) -> Context<'a> {
        Context { state: &mut self.state, tables: &mut self.tables, processor, process: self.current }
    }

    /// Returns the current process.
    #[inline(always)]
    pub(crate) fn process(&self) -> &Process {
        &self.state.processes[self.current]
    }

    /// Returns the page table of the current process.
    #[inline(always)]
    pub(crate) fn table(&self) -> &T {
        &self.tables.list[self.current]
    }

    /// Brings the page of an access that has no entry.
    pub(crate) fn fault(
        &mut self,
        processor: &mut dyn Processor,
        addr: VirtAddr,
        write: bool,
    ) -> Result<(), FaultFailure> {
        fault::fault(&mut self.context(processor), addr, write)
    }

    /// Brings a page that may be written to, for a store whose entry does not allow it.
    pub(crate) fn write_protected(
        &mut self,
        processor: &mut dyn Processor,
        addr: VirtAddr,
    ) -> Result<(), FaultFailure> {
        fault::write_protected(&mut self.context(processor), addr)
    }

    /// Gives the program a signal instead of its access.
    pub(crate) fn signal(&mut self, processor: &mut dyn Processor) {
        self.state.counts.faults.protection += 1;
        let ps = self.state.spec.kernel.minor_fault_ps;
        self.context(processor).charge(KernelStep::Signal, ps);
    }

    /// Makes a change of the address space; does nothing for events of another kind.
    pub(crate) fn change(
        &mut self,
        processor: &mut dyn Processor,
        event: &Event,
    ) -> Result<(), MachineError> {
        match event {
            Event::Process(id) => return self.switch(processor, *id),
            Event::ProcessEnd => return self.end_process(processor),
            _ => {}
        }
        let cx = &mut self.context(processor);
        let change_ps = cx.state.spec.kernel.change_mapping_ps;
        // A step without time would still end what overlaps with it.
        if change_ps > 0 && change::is_of_mappings(event) {
            cx.work(KernelStep::Map, change_ps);
        }
        match event {
            Event::Fork { child } => fork::fork(cx, *child),
            Event::Exec => change::exec(cx),
            Event::Map(mapping) => change::map(cx, *mapping),
            Event::Unmap(range) => change::unmap(cx, *range),
            Event::Protect(range, protection) => change::protect(cx, *range, *protection),
            Event::Advise(range, advice) => advice::advise(cx, *range, *advice),
            Event::Remap { from, to } => change::remap(cx, *from, *to),
            Event::Break(heap) => change::set_break(cx, *heap),
            Event::Frame(given) => change::learn_frame(cx, *given),
            Event::KernelWrite(range) => copy_to_user::kernel_write(cx, *range),
            _ => Ok(()),
        }
    }

    fn switch(&mut self, processor: &mut dyn Processor, id: ProcessId) -> Result<(), MachineError> {
        let processes = &self.state.processes;
        let left = self.tables.list.get(self.current).map_or(0, T::chunk_rows);
        let entered = match processes.list.iter().position(|process| process.id == id) {
            Some(at) => at,
            None => change::new_process(&mut self.context(processor), id, None)?,
        };
        self.enter(entered);
        if left > 0 {
            let entered = self.table().chunk_rows();
            self.state.counts.upkeep.chunk_rows_switched += (left + entered) as u64;
        }
        // The filter of every core knows one address space only.
        processor.forget_repetitions();
        Ok(())
    }

    /// Ends the process; another one becomes current when it is named.
    fn end_process(&mut self, processor: &mut dyn Processor) -> Result<(), MachineError> {
        if change::end_process(&mut self.context(processor))? {
            self.enter(0);
            processor.forget_repetitions();
        }
        Ok(())
    }

    /// Makes a process the current one; that which ended last may have been the only one.
    fn enter(&mut self, process: usize) {
        self.current = process;
        if let Some(process) = self.state.processes.list.get(process) {
            self.asid = process.asid;
        }
    }

    /// Returns when a daemon has something to do next.
    #[inline(always)]
    pub(crate) fn due_ps(&self) -> u64 {
        self.state.due.next_ps()
    }

    /// Daemons do what is due.
    #[cold]
    pub(crate) fn run_due(&mut self, processor: &mut dyn Processor) -> Result<(), MachineError> {
        let cx = &mut self.context(processor);
        let now_ps = cx.now();
        while let Some((at_ps, due)) = cx.state.due.pop_by(now_ps) {
            let shares_core = cx.state.spec.kernel.daemons_share_core;
            cx.processor.run_as(if shares_core { Worker::Between } else { Worker::Beside { now_ps: at_ps } });
            if shares_core {
                // The daemon's thread and back; a daemon that works page by page stays on.
                let switch_ps = cx.state.spec.kernel.paging.switch_ps;
                cx.work(KernelStep::Switch, if due == Due::Reclaim { 0 } else { 2 * switch_ps });
            }
            let done = match due {
                Due::Reclaim => reclaim::run_daemon(cx),
                Due::AcceleratorDaemon => books::run_daemon(cx),
            };
            let end_ps = cx.now();
            cx.processor.run_as(Worker::Program);
            done?;
            if due == Due::Reclaim && cx.state.is_reclaiming {
                cx.state.due.push(end_ps, Due::Reclaim);
            }
        }
        Ok(())
    }

    /// Returns the number of accesses until the timestamp daemon runs, if it does so within `accesses`; counts these.
    pub(crate) fn accesses_to_scan(&mut self, accesses: u64) -> Option<u64> {
        let scans = self.scans.as_mut()?;
        if scans.left > accesses {
            scans.left -= accesses;
            return None;
        }
        Some(std::mem::replace(&mut scans.left, scans.interval))
    }

    /// Returns whether the kernel manages a tier.
    #[inline(always)]
    pub(crate) fn manages_tier(&self) -> bool {
        self.tier.is_some()
    }

    /// Returns whether the page is in memory whose frame a walk found in a tier that the kernel manages. Returns whether its page
    /// is in memory.
    #[cold]
    pub(crate) fn is_in_memory(
        &mut self,
        processor: &mut dyn Processor,
        vpn: Vpn,
        frame: Pfn,
        write: bool,
    ) -> bool {
        let page = FlashPage(frame.0);
        if let Some(tier) = &mut self.tier {
            tier.note_owner(page, self.current, vpn);
        }
        processor.is_in_memory(page, write)
    }

    /// Does the first half of a page fault for a page on flash.
    pub(crate) fn begin_page_in(&mut self, processor: &mut dyn Processor, page: FlashPage, waiter: Waiter) {
        let Some(mut tier) = self.tier.take() else { return };
        tier::begin_page_in(&mut self.context(processor), &mut tier, page, waiter);
        self.tier = Some(tier);
    }

    /// Does the second half of a page fault for a page on flash.
    pub(crate) fn end_page_in(&mut self, processor: &mut dyn Processor) {
        tier::end_page_in(&mut self.context(processor));
    }

    /// Removes the translations of pages that left the tier.
    pub(crate) fn forget_left(&mut self, processor: &mut dyn Processor) {
        let Some(mut tier) = self.tier.take() else { return };
        tier::take_left(&mut self.context(processor), &mut tier);
        self.tier = Some(tier);
    }

    /// Returns the time that interrupts took from a core since the last call.
    #[inline]
    pub(crate) fn take_stolen_ps(&mut self, core: usize) -> u64 {
        self.tier.as_mut().map_or(0, |tier| tier.take_stolen_ps(core))
    }

    /// Makes an entry dirty because of a store.
    pub(crate) fn set_dirty(&mut self, vpn: Vpn) {
        let set = |leaf: &mut Leaf| leaf.dirty = true;
        self.tables.list[self.current].update(&mut self.state.table_space.memory, vpn, set);
    }

    /// Returns whether the frames' own book says nothing else than that the current process's page is in `frame`.
    pub(crate) fn may_be_in(&self, page: Vpn, frame: Pfn) -> bool {
        self.state.frames.may_hold(frame, PageKey { asid: self.process().asid, page })
    }

    /// Adds the kernel's counts to the rows.
    pub(crate) fn rows(&self, rows: &mut Rows) {
        let chunk_rows = self.tables.list.iter().map(T::chunk_rows).sum();
        self.state.rows(chunk_rows, self.manages_tier(), rows);
    }

    /// Returns the entries of pages `[start, end)` of a process.
    #[cfg(test)]
    pub(crate) fn entries_of(
        &mut self,
        processor: &mut dyn Processor,
        process: usize,
        start: Vpn,
        end: Vpn,
    ) -> Vec<(Vpn, Leaf, u32)> {
        self.context(processor).of(process).entries(start, end)
    }

    /// Returns the number of frames whose pages have no entries: read ahead, or kept ready.
    #[cfg(test)]
    pub(crate) fn frames_without_entry(&self) -> u64 {
        let ready = self.state.accelerator.as_ref().map_or(0, Accelerated::frames_ready);
        self.state.swap.frames_without_entry() + ready
    }

    /// Returns the address-space identifier of the current process.
    #[inline(always)]
    pub(crate) fn asid(&self) -> Asid {
        self.asid
    }
}
