//! What the kernel does: pages for faults, and changes of address spaces.

use pagewalk_trace::{Advice, Mapping, ProcessId, Protection};
use pagewalk_vm::addr::{Asid, PAGE_BYTES, PageSize, Pfn, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::frame::{BuddyAllocator, OutOfFrames};
use pagewalk_vm::space::{AddressSpace, FaultPlan};
use pagewalk_vm::table::{Geometry, Leaf, MapError, Radix};

use super::{END, Machine, MachineError, Process};
use crate::time::Clock;

/// Address-space identifiers that a TLB key holds.
const MOST_PROCESSES: usize = 1 << 12;

/// Above so many pages Linux flushes the whole address space instead of page by page
/// (arch/x86/mm/tlb.c, `tlb_single_page_flush_ceiling`).
const SINGLE_PAGE_FLUSHES: usize = 33;

impl<G: Geometry, C: Clock> Machine<G, C> {
    /// Maps a page for a fault: the largest size that the plan allows, whose slot is empty and for which there
    /// is a frame.
    pub(super) fn map_page(&mut self, vpn: Vpn, write: bool, plan: &FaultPlan) -> Result<(), MachineError> {
        let mut failed = None;
        for &size in plan.page_sizes {
            let first = vpn.align_down(size);
            let level = size as u32;
            let table = &self.processes[self.process].table;
            if size != PageSize::Size4K && !table.is_vacant(&self.memory, first, level) {
                continue;
            }
            match self.frames.alloc(size.order()) {
                Ok(frame) => {
                    self.enter_page(first, frame, level, write, plan)?;
                    self.count_fault(size);
                    return Ok(());
                }
                Err(full) => failed = Some(full),
            }
        }
        Err(match failed {
            Some(full) => self.out_of_frames(full),
            None => unreachable!("a faulting page's own slot is empty"),
        })
    }

    fn enter_page(
        &mut self,
        first: Vpn,
        frame: Pfn,
        level: u32,
        write: bool,
        plan: &FaultPlan,
    ) -> Result<(), MachineError> {
        let protection = plan.vma.protection;
        let leaf = Leaf {
            frame,
            readable: protection.read,
            writable: protection.write,
            executable: protection.execute,
            accessed: true,
            dirty: write,
        };
        let Self { processes, process, memory, frames, .. } = self;
        let mut full = None;
        let mapped =
            processes[*process].table.map(memory, first, leaf, level, || node_frame(frames, &mut full));
        self.counts.table_nodes_peak = self.counts.table_nodes_peak.max(self.table_nodes());
        match (mapped, full) {
            (Ok(()), _) => Ok(()),
            (Err(MapError::OutOfFrames { .. }), Some(full)) => Err(self.out_of_frames(full)),
            (Err(error), _) => unreachable!("the slot was checked: {error}"),
        }
    }

    fn count_fault(&mut self, size: PageSize) {
        self.counts.faults[size as usize] += 1;
        self.counts.resident_pages[size as usize] += 1;
        let resident = self.resident_bytes();
        self.counts.resident_bytes_peak = self.counts.resident_bytes_peak.max(resident);
        let kernel = &self.spec.kernel;
        let zeroing = match size {
            PageSize::Size4K => kernel.zero_page_ps,
            PageSize::Size2M => kernel.zero_huge_page_ps,
            PageSize::Size1G => 512 * kernel.zero_huge_page_ps,
        };
        self.clock.kernel(self.core, kernel.minor_fault_ps + zeroing);
    }

    /// An access outside everything announced: the program made it, so the page is there. The front-end missed
    /// the mapping (or announces none).
    pub(super) fn map_unannounced(&mut self, addr: VirtAddr) {
        let page = VirtRange::sized(addr.align_down(PAGE_BYTES), PAGE_BYTES);
        self.counts.unannounced_pages += 1;
        let mapped = self.processes[self.process].space.map(Mapping::anonymous(page));
        debug_assert!(mapped.is_ok(), "{addr} is a 48-bit address: {mapped:?}");
    }

    pub(super) fn switch_process(&mut self, id: ProcessId) -> Result<(), MachineError> {
        self.process = match self.processes.iter().position(|process| process.id == id) {
            Some(at) => at,
            None => self.new_process(id, None)?,
        };
        // The filter of every core knows one address space only.
        self.cores.iter_mut().for_each(|core| core.front.flush());
        Ok(())
    }

    /// The child gets the parent's mappings. DEVIATION: Linux also copies the page table and shares the frames
    /// until one side writes; here the child's pages fault on first touch, one minor fault each, as its writes
    /// would.
    pub(super) fn fork(&mut self, child: ProcessId) -> Result<(), MachineError> {
        let space = self.processes[self.process].space.clone();
        self.new_process(child, Some(space))?;
        Ok(())
    }

    fn new_process(&mut self, id: ProcessId, space: Option<AddressSpace>) -> Result<usize, MachineError> {
        let taken: Vec<u16> = self.processes.iter().map(|process| process.asid.0).collect();
        let asid = (0..MOST_PROCESSES as u16).find(|asid| !taken.contains(asid)).map(Asid);
        let Some(asid) = asid else {
            let machine = self.spec.name.clone();
            return Err(MachineError::TooManyProcesses { machine, limit: MOST_PROCESSES });
        };
        let root = self.frames.alloc(0).map_err(|full| self.out_of_frames(full))?;
        let space = space.unwrap_or_else(|| self.empty_space());
        let table = Radix::new(root, &mut self.memory);
        self.processes.push(Process { id, asid, space, table });
        Ok(self.processes.len() - 1)
    }

    fn empty_space(&self) -> AddressSpace {
        let policy = self.spec.huge_pages.into();
        if self.announces_mappings { AddressSpace::new(policy) } else { AddressSpace::implicit(policy) }
    }

    pub(super) fn exec(&mut self) -> Result<(), MachineError> {
        self.drop_pages(VirtRange::new(VirtAddr(0), END));
        self.processes[self.process].space = self.empty_space();
        Ok(())
    }

    /// Frees everything of the current process; another one becomes current when it is named.
    pub(super) fn end_process(&mut self) {
        self.drop_pages(VirtRange::new(VirtAddr(0), END));
        if self.processes.len() > 1 {
            let ended = self.processes.remove(self.process);
            self.frames.free(ended.table.root(), 0);
            pagewalk_vm::table::TableMemory::release_frame(&mut self.memory, ended.table.root());
            self.process = 0;
            self.cores.iter_mut().for_each(|core| core.front.flush());
        }
    }

    pub(super) fn map(&mut self, mapping: Mapping) -> Result<(), MachineError> {
        let dropped = self.processes[self.process].space.map(mapping);
        self.drop_ranges(dropped)
    }

    pub(super) fn unmap(&mut self, range: VirtRange) -> Result<(), MachineError> {
        let dropped = self.processes[self.process].space.unmap(range);
        self.drop_ranges(dropped)
    }

    pub(super) fn advise(&mut self, range: VirtRange, advice: Advice) -> Result<(), MachineError> {
        let affected = self.processes[self.process].space.advise(range, advice);
        match advice {
            Advice::DontNeed => self.drop_ranges(affected),
            // DEVIATION: MADV_COLLAPSE is taken as advice for the faults to come; nothing is copied.
            Advice::Collapse | Advice::HugePage | Advice::NoHugePage => self.check_call(affected).map(drop),
        }
    }

    pub(super) fn set_break(&mut self, heap: VirtRange) -> Result<(), MachineError> {
        let dropped = self.processes[self.process].space.set_break(heap);
        self.drop_ranges(dropped)
    }

    pub(super) fn protect(&mut self, range: VirtRange, protection: Protection) -> Result<(), MachineError> {
        let changed = self.processes[self.process].space.protect(range, protection);
        for range in self.check_call(changed)? {
            self.split_edges(range)?;
            let Self { processes, process, memory, .. } = self;
            let mut resident = Vec::new();
            let change = |vpn, leaf, _| {
                resident.push(vpn);
                // A page that lost all access keeps its entry: x86 has no present entry without read access.
                Some(Leaf { writable: protection.write, executable: protection.execute, ..leaf })
            };
            let (start, end) = (range.start.page(), range.end.page());
            processes[*process].table.visit(memory, start, end, change, |_| {});
            self.shoot_down(&resident);
        }
        Ok(())
    }

    pub(super) fn remap(&mut self, from: VirtRange, to: VirtRange) -> Result<(), MachineError> {
        let remapped = match self.processes[self.process].space.remap(from, to) {
            Ok(remapped) => remapped,
            Err(_) => {
                self.counts.refused_calls += 1;
                return Ok(());
            }
        };
        self.drop_ranges(Ok::<_, std::convert::Infallible>(remapped.dropped))?;
        for (range, target) in remapped.moved {
            self.move_pages(range, target)?;
        }
        Ok(())
    }

    /// Moves the entries of `range` to begin at `target`; large pages that would be unaligned there are split.
    fn move_pages(&mut self, range: VirtRange, target: VirtAddr) -> Result<(), MachineError> {
        self.split_edges(range)?;
        let distance = target.page().0.wrapping_sub(range.start.page().0);
        let huge = PageSize::Size2M.base_pages();
        if !distance.is_multiple_of(huge) {
            let first = range.start.page().0.next_multiple_of(huge);
            for vpn in (first..range.end.page().0).step_by(huge as usize) {
                self.split_page(Vpn(vpn))?;
            }
        }
        let mut moved = Vec::new();
        self.clear_entries(range, |vpn, leaf, level| moved.push((vpn, leaf, level)));
        let pages: Vec<Vpn> = moved.iter().map(|page| page.0).collect();
        self.shoot_down(&pages);
        for (vpn, leaf, level) in moved {
            let Self { processes, process, memory, frames, .. } = self;
            let mut full = None;
            let vpn = Vpn(vpn.0.wrapping_add(distance));
            let mapped =
                processes[*process].table.map(memory, vpn, leaf, level, || node_frame(frames, &mut full));
            if let (Err(_), Some(full)) = (mapped, full) {
                return Err(self.out_of_frames(full));
            }
            debug_assert_eq!(mapped, Ok(()), "the destination was dropped before");
        }
        Ok(())
    }

    /// A call that Linux would have refused as well (the front-end reports only calls that succeeded, so this
    /// is a difference between its kernel and ours): counted, without effect.
    fn check_call<E>(&mut self, answer: Result<Vec<VirtRange>, E>) -> Result<Vec<VirtRange>, MachineError> {
        Ok(answer.unwrap_or_else(|_| {
            self.counts.refused_calls += 1;
            Vec::new()
        }))
    }

    fn drop_ranges<E>(&mut self, ranges: Result<Vec<VirtRange>, E>) -> Result<(), MachineError> {
        for range in self.check_call(ranges)? {
            self.split_edges(range)?;
            self.drop_pages(range);
        }
        Ok(())
    }

    /// Splits the large pages that lie across an end of `range`.
    fn split_edges(&mut self, range: VirtRange) -> Result<(), MachineError> {
        for edge in [range.start, range.end] {
            if edge.offset_in(PageSize::Size2M) != 0 {
                self.split_page(edge.page())?;
            }
        }
        Ok(())
    }

    fn split_page(&mut self, vpn: Vpn) -> Result<(), MachineError> {
        let Self { processes, process, memory, frames, counts, .. } = self;
        let table = &mut processes[*process].table;
        let Some((leaf, level @ 1..)) = table.find(memory, vpn) else { return Ok(()) };
        let mut full = None;
        let split = table.split(memory, vpn, || node_frame(frames, &mut full));
        if let Some(full) = full {
            return Err(self.out_of_frames(full));
        }
        debug_assert_eq!(split, Ok(true));
        let (size, below) = (PageSize::ALL[level as usize], PageSize::ALL[level as usize - 1]);
        frames.split(leaf.frame, size.order(), below.order());
        counts.resident_pages[size as usize] -= 1;
        counts.resident_pages[below as usize] += 512;
        counts.splits += 1;
        let asid = self.processes[self.process].asid;
        self.cores.iter_mut().for_each(|core| core.flush(asid));
        Ok(())
    }

    /// Unmaps what is resident in `range` and frees its frames.
    fn drop_pages(&mut self, range: VirtRange) {
        let mut pages = Vec::new();
        self.clear_entries(range, |vpn, leaf, level| pages.push((vpn, leaf.frame, level)));
        for &(_, frame, level) in &pages {
            let size = PageSize::ALL[level as usize];
            self.frames.free(frame, size.order());
            self.counts.resident_pages[level as usize] -= 1;
        }
        self.counts.dropped_pages += pages.len() as u64;
        let pages: Vec<Vpn> = pages.iter().map(|page| page.0).collect();
        self.shoot_down(&pages);
    }

    /// Clears the entries of `range`, frees emptied nodes, and flushes the walk caches if there were any.
    fn clear_entries(&mut self, range: VirtRange, mut taken: impl FnMut(Vpn, Leaf, u32)) {
        let Self { processes, process, memory, frames, cores, .. } = self;
        let process = &mut processes[*process];
        let mut nodes_freed = false;
        process.table.visit(
            memory,
            range.start.page(),
            range.end.page(),
            |vpn, leaf, level| {
                taken(vpn, leaf, level);
                None
            },
            |node| {
                frames.free(node, 0);
                nodes_freed = true;
            },
        );
        if nodes_freed {
            cores.iter_mut().for_each(|core| core.flush_walk_cache(process.asid));
        }
    }

    /// Tells every core's TLBs that these pages changed.
    fn shoot_down(&mut self, pages: &[Vpn]) {
        if pages.is_empty() {
            return;
        }
        let asid = self.processes[self.process].asid;
        for core in &mut self.cores {
            if pages.len() > SINGLE_PAGE_FLUSHES {
                core.flush(asid);
            } else {
                pages.iter().for_each(|&vpn| core.invalidate(asid, vpn));
            }
        }
        self.counts.shootdowns += 1;
        self.clock.kernel(self.core, self.spec.kernel.shootdown_ps);
    }

    /// Page-table nodes of all processes.
    pub(super) fn table_nodes(&self) -> u64 {
        self.processes.iter().map(|process| process.table.nodes()).sum()
    }

    /// Bytes of all resident pages.
    pub(super) fn resident_bytes(&self) -> u64 {
        PageSize::ALL.iter().map(|&size| self.counts.resident_pages[size as usize] * size.bytes()).sum()
    }
}

/// A frame for a page-table node; what the allocator said if there is none goes to `full`.
fn node_frame(frames: &mut BuddyAllocator, full: &mut Option<OutOfFrames>) -> Option<Pfn> {
    frames.alloc(0).map_err(|error| *full = Some(error)).ok()
}
