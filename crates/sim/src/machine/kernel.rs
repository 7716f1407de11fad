//! What the kernel does: pages for faults, and changes of address spaces.

use pagewalk_trace::{Backing, Mapping, ProcessId, Protection};
use pagewalk_vm::addr::{Asid, PAGE_BYTES, PageSize, Pfn, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::reclaim::PagePool;
use pagewalk_vm::space::{AddressSpace, FaultPlan, Vma};
use pagewalk_vm::table::{Leaf, PageTable, Radix, Upkeep};

use super::advice::pages_of;
use super::{END, Machine, MachineError, Process};
use crate::metrics::KernelStep;
use crate::time::Clock;

/// Address-space identifiers that a TLB key holds.
const MOST_PROCESSES: usize = 1 << 12;

/// Above so many pages Linux flushes the whole address space instead of page by page
/// (arch/x86/mm/tlb.c, `tlb_single_page_flush_ceiling`).
const SINGLE_PAGE_FLUSHES: usize = 33;

impl<T: PageTable, C: Clock> Machine<T, C> {
    pub(super) fn enter_page(
        &mut self,
        first: Vpn,
        frame: Pfn,
        level: u32,
        write: bool,
        plan: &FaultPlan,
    ) -> Result<(), MachineError> {
        let protection = plan.vma.protection;
        // A private mapping has a page of the page cache until it is written to.
        let is_borrowed = !plan.vma.shared && self.frames.is_cached(frame);
        let leaf = Leaf {
            frame,
            readable: protection.read,
            writable: protection.write && !is_borrowed,
            executable: protection.execute,
            accessed: true,
            dirty: write,
        };
        self.enter_leaf(first, leaf, level)
    }

    /// Maps a page of the current process; its slot is empty. Where the table holds codes, the frame becomes one.
    pub(super) fn enter_leaf(&mut self, first: Vpn, leaf: Leaf, level: u32) -> Result<(), MachineError> {
        let Self { processes, process, tables, frames, spec, .. } = self;
        let Process { asid, table, ordinary, .. } = &mut processes[*process];
        let code = match T::IS_COMPRESSED {
            true => frames.code(PageKey { asid: *asid, page: first }, leaf.frame),
            false => None,
        };
        let entry = Leaf { frame: code.map_or(leaf.frame, Pfn::of_code), ..leaf };
        let mut mapped = table.map(&mut tables.store(frames, &spec.kernel), first, entry, level);
        if let (Some(ordinary), None, Ok(_)) = (ordinary, code, mapped) {
            mapped = ordinary.map(&mut tables.store(frames, &spec.kernel), first, leaf, level);
        }
        match mapped {
            Ok(None) => {
                self.note_moves();
                Ok(())
            }
            // It still has room, but only for as long as it takes to fill up: the system gives up here.
            Ok(Some(missing)) => Err(tables.no_memory(missing, spec, frames)),
            Err(error) => Err(tables.not_mapped(error, spec, frames)),
        }
    }

    /// Pages that made room for a table are in other frames now. What that costs is in the price of the table's memory.
    fn note_moves(&mut self) {
        for (key, frame) in self.frames.take_moved() {
            let owner = self.processes.iter_mut().find(|process| process.asid == key.asid);
            let owner = owner.expect("a page that was moved has a process");
            let moved = owner.table.update(&mut self.tables.memory, key.page, |leaf| leaf.frame = frame);
            debug_assert!(moved.is_some(), "{key:?} had a frame but no entry");
            self.cores.iter_mut().for_each(|core| core.invalidate(key.asid, key.page));
        }
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
        let left = self.processes.get(self.process).map_or(0, |process| process.table.chunk_rows());
        self.process = match self.processes.iter().position(|process| process.id == id) {
            Some(at) => at,
            None => self.new_process(id, None)?,
        };
        if left > 0 {
            let entered = self.processes[self.process].table.chunk_rows();
            self.counts.chunk_rows_switched += (left + entered) as u64;
        }
        // The filter of every core knows one address space only.
        self.cores.iter_mut().for_each(|core| core.front.flush());
        Ok(())
    }

    pub(super) fn new_process(
        &mut self,
        id: ProcessId,
        space: Option<AddressSpace>,
    ) -> Result<usize, MachineError> {
        let taken: Vec<u16> = self.processes.iter().map(|process| process.asid.0).collect();
        let asid = (0..MOST_PROCESSES as u16).find(|asid| !taken.contains(asid)).map(Asid);
        let Some(asid) = asid else {
            let machine = self.spec.name.clone();
            return Err(MachineError::TooManyProcesses { machine, limit: MOST_PROCESSES });
        };
        let space = space.unwrap_or_else(|| self.empty_space());
        let Self { tables, frames, spec, design, seed, .. } = self;
        let mut store = tables.store(frames, &spec.kernel);
        let made = T::new(design, *seed ^ u64::from(asid.0) << 16, &mut store).and_then(|table| {
            let ordinary = T::IS_COMPRESSED.then(|| Radix::new(&(), 0, &mut store)).transpose()?;
            Ok((table, ordinary))
        });
        let (table, ordinary) = made.map_err(|missing| tables.no_memory(missing, spec, frames))?;
        self.processes.push(Process { id, asid, space, table, paid: Upkeep::default(), ordinary });
        Ok(self.processes.len() - 1)
    }

    fn empty_space(&self) -> AddressSpace {
        let policy = self.spec.huge_pages.into();
        if self.announces_mappings { AddressSpace::new(policy) } else { AddressSpace::implicit(policy) }
    }

    pub(super) fn exec(&mut self) -> Result<(), MachineError> {
        self.drop_pages(VirtRange::new(VirtAddr(0), END))?;
        self.frames.forget_given(self.processes[self.process].asid);
        self.processes[self.process].space = self.empty_space();
        Ok(())
    }

    /// Frees everything of the current process; another one becomes current when it is named.
    pub(super) fn end_process(&mut self) -> Result<(), MachineError> {
        self.drop_pages(VirtRange::new(VirtAddr(0), END))?;
        self.frames.forget_given(self.processes[self.process].asid);
        if self.processes.len() > 1 {
            let ended = self.processes.remove(self.process);
            let mut store = self.tables.store(&mut self.frames, &self.spec.kernel);
            ended.table.release(&mut store);
            if let Some(table) = ended.ordinary {
                table.release(&mut store);
            }
            self.process = 0;
            self.cores.iter_mut().for_each(|core| core.front.flush());
        }
        Ok(())
    }

    pub(super) fn map(&mut self, mapping: Mapping) -> Result<(), MachineError> {
        let object = self.object_of(&mapping);
        let dropped = self.processes[self.process].space.map(Mapping { object, ..mapping });
        self.drop_ranges(dropped)
    }

    pub(super) fn unmap(&mut self, range: VirtRange) -> Result<(), MachineError> {
        let dropped = self.processes[self.process].space.unmap(range);
        self.drop_ranges(dropped)
    }

    pub(super) fn set_break(&mut self, heap: VirtRange) -> Result<(), MachineError> {
        let dropped = self.processes[self.process].space.set_break(heap);
        self.drop_ranges(dropped)
    }

    pub(super) fn protect(&mut self, range: VirtRange, protection: Protection) -> Result<(), MachineError> {
        let changed = self.processes[self.process].space.protect(range, protection);
        for range in self.check_call(changed)? {
            self.split_edges(range)?;
            let (start, end) = (range.start.page(), range.end.page());
            self.settle_books(start, end)?;
            let to_copy = self.pages_to_copy(range);
            let Self { processes, process, tables, frames, spec, .. } = self;
            let mut resident = Vec::new();
            let change = |vpn, leaf, _| {
                resident.push(vpn);
                // A page that lost all access keeps its entry: x86 has no present entry without read access.
                let writable = protection.write && to_copy.binary_search(&vpn).is_err();
                Some(Leaf { writable, executable: protection.execute, ..leaf })
            };
            let mut store = tables.store(frames, &spec.kernel);
            processes[*process].table.visit(&mut store, start, end, change);
            self.protect_remote(start, end, protection.write, protection.execute);
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
        let (start, end) = (range.start.page(), range.end.page());
        self.settle_books(start, end)?;
        self.drop_cached(start, end);
        self.move_remote(start, end, target.page());
        let moved = self.clear_entries(range);
        self.shoot_down(&pages_of(&moved));
        let asid = self.processes[self.process].asid;
        self.swap.rename(asid, start, end, target.page());
        let key_of = |vpn: Vpn| PageKey { asid, page: Vpn(vpn.0.wrapping_add(distance)) };
        let moves = |page: Vpn| (PageKey { asid, page }, key_of(page));
        // A hash-placed page may not stay where it is under another number: it is copied. All give their frames back
        // before the first takes a new one.
        let must_copy = |frames: &mut PagePool, vpn, frame| {
            let is_shared = frames.is_shared(frame);
            let (from, to) = moves(vpn);
            let stays = frames.rename(frame, from, to);
            (!stays, is_shared)
        };
        let copied: Vec<(bool, bool)> =
            moved.iter().map(|&(vpn, leaf, _)| must_copy(&mut self.frames, vpn, leaf.frame)).collect();
        for ((vpn, mut leaf, level), (copied, was_shared)) in moved.into_iter().zip(copied) {
            let key = key_of(vpn);
            if copied {
                // One frame more, if others keep the one that the page had.
                if was_shared {
                    self.count_resident(PageSize::Size4K);
                }
                // Entered at once: the next one may already push it out.
                leaf.frame = self.take_movable(key)?.map_err(|full| self.out_of_frames(full))?;
                self.counts.copied_pages += 1;
                self.charge(KernelStep::Copy, self.spec.kernel.zero_page_ps);
            }
            self.enter_leaf(key.page, leaf, level)?;
        }
        Ok(())
    }

    /// A call that Linux would have refused as well (the front-end reports only calls that succeeded, so this
    /// is a difference between its kernel and ours): counted, without effect.
    pub(super) fn check_call<E>(
        &mut self,
        answer: Result<Vec<VirtRange>, E>,
    ) -> Result<Vec<VirtRange>, MachineError> {
        Ok(answer.unwrap_or_else(|_| {
            self.counts.refused_calls += 1;
            Vec::new()
        }))
    }

    fn drop_ranges<E>(&mut self, ranges: Result<Vec<VirtRange>, E>) -> Result<(), MachineError> {
        self.check_call(ranges)?.into_iter().try_for_each(|range| self.drop_range(range))
    }

    /// Unmaps what is resident in `range`; a huge page that lies across its end is split.
    pub(super) fn drop_range(&mut self, range: VirtRange) -> Result<(), MachineError> {
        self.split_edges(range)?;
        self.drop_pages(range)
    }

    /// Splits the large pages that lie across an end of `range`.
    pub(super) fn split_edges(&mut self, range: VirtRange) -> Result<(), MachineError> {
        for edge in [range.start, range.end] {
            if edge.offset_in(PageSize::Size2M) != 0 {
                self.split_page(edge.page())?;
            }
        }
        Ok(())
    }

    pub(super) fn split_page(&mut self, vpn: Vpn) -> Result<(), MachineError> {
        let asid = self.processes[self.process].asid;
        let Some((leaf, level @ 1..)) = self.processes[self.process].table.find(&self.tables.memory, vpn)
        else {
            return Ok(());
        };
        let mut owners: Vec<(Asid, Vpn)> =
            self.frames.sharers(leaf.frame).iter().map(|key| (key.asid, key.page)).collect();
        if owners.is_empty() {
            owners.push((asid, vpn));
        }
        for &(asid, page) in &owners {
            let owner = self.process_of(asid);
            let Self { processes, tables, frames, spec, .. } = self;
            let split = processes[owner].table.split(&mut tables.store(frames, &spec.kernel), page);
            let split = split.map_err(|error| tables.not_mapped(error, spec, frames))?;
            debug_assert!(split);
            self.note_moves();
        }
        let Self { frames, counts, .. } = self;
        let (size, below) = (PageSize::ALL[level as usize], PageSize::ALL[level as usize - 1]);
        frames.split(leaf.frame, size, below);
        if !frames.is_given(leaf.frame) {
            counts.resident_pages[size as usize] -= 1;
            counts.resident_pages[below as usize] += 512;
        }
        counts.splits += owners.len() as u64;
        for (asid, _) in owners {
            self.cores.iter_mut().for_each(|core| core.flush(asid));
        }
        Ok(())
    }

    /// Unmaps what is resident in `range` and frees its frames.
    pub(super) fn drop_pages(&mut self, range: VirtRange) -> Result<(), MachineError> {
        let (start, end) = (range.start.page(), range.end.page());
        self.settle_books(start, end)?;
        self.drop_cached(start, end);
        self.forget_remote(start, end);
        let pages = self.clear_entries(range);
        for &(vpn, leaf, level) in &pages {
            self.release_page(vpn, leaf.frame, level);
        }
        let asid = self.processes[self.process].asid;
        self.swap.discard(asid, start, end);
        self.counts.dropped_pages += pages.len() as u64;
        self.shoot_down(&pages_of(&pages));
        Ok(())
    }

    /// Clears the entries of `range`; returns them, with frame numbers whatever the table holds.
    pub(super) fn clear_entries(&mut self, range: VirtRange) -> Vec<(Vpn, Leaf, u32)> {
        self.clear_entries_of(self.process, range.start.page(), range.end.page())
    }

    /// Clears the entries of pages `[start, end)` of a process, frees emptied nodes, and flushes the walk caches if
    /// there were any.
    pub(super) fn clear_entries_of(&mut self, process: usize, start: Vpn, end: Vpn) -> Vec<(Vpn, Leaf, u32)> {
        self.visit_entries(process, start, end, |_| None)
    }

    /// The entries of pages `[start, end)` of a process, with frame numbers whatever the table holds.
    pub(super) fn entries_of(&mut self, process: usize, start: Vpn, end: Vpn) -> Vec<(Vpn, Leaf, u32)> {
        self.visit_entries(process, start, end, Some)
    }

    /// What the entries of pages `[start, end)` are, before each of them is changed or cleared.
    fn visit_entries(
        &mut self,
        process: usize,
        start: Vpn,
        end: Vpn,
        change: impl Fn(Leaf) -> Option<Leaf>,
    ) -> Vec<(Vpn, Leaf, u32)> {
        let Self { processes, tables, frames, cores, spec, .. } = self;
        let Process { asid, table, ordinary, .. } = &mut processes[process];
        let (mut visited, mut ordinary_frames) = (Vec::new(), Vec::new());
        let mut store = tables.store(frames, &spec.kernel);
        let visit = |vpn, leaf, level| {
            visited.push((vpn, leaf, level));
            change(leaf)
        };
        let mut nodes_freed = table.visit(&mut store, start, end, visit);
        if let Some(ordinary) = ordinary {
            let visit = |_, leaf: Leaf, _| {
                ordinary_frames.push(leaf.frame);
                change(leaf)
            };
            nodes_freed |= ordinary.visit(&mut store, start, end, visit);
        }
        if nodes_freed {
            cores.iter_mut().for_each(|core| core.flush_walk_cache(*asid));
        }
        if T::IS_COMPRESSED {
            // Both tables were visited in the order of pages.
            let mut ordinary_frames = ordinary_frames.into_iter();
            for (page, leaf, _) in &mut visited {
                leaf.frame = match leaf.frame.code() {
                    Some(code) => frames.placed_frame(PageKey { asid: *asid, page: *page }, code),
                    None => ordinary_frames.next().expect("a page without a code has an ordinary frame"),
                };
            }
        }
        visited
    }

    /// Tells every core's TLBs that these pages changed.
    pub(super) fn shoot_down(&mut self, pages: &[Vpn]) {
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
        self.charge(KernelStep::Shootdown, self.spec.kernel.shootdown_ps);
    }

    /// The kernel takes so long for a step, and for what the current process's page table has cost since it last did.
    pub(super) fn charge(&mut self, step: KernelStep, ps: u64) {
        let process = &mut self.processes[self.process];
        let upkeep = process.table.upkeep();
        let visited = upkeep.visited - process.paid.visited;
        let moved = upkeep.moved - process.paid.moved;
        process.paid = upkeep;
        let kernel = &self.spec.kernel;
        let table_ps = self.tables.take_bill() + visited * kernel.visit_line_ps + moved * kernel.move_line_ps;
        self.counts.table_upkeep_ps += table_ps;
        self.counts.lines_visited += visited;
        self.counts.lines_moved += moved;
        self.work(step, ps);
        self.work(KernelStep::Table, table_ps);
    }

    /// Bytes of all resident pages.
    pub(super) fn resident_bytes(&self) -> u64 {
        PageSize::ALL.iter().zip(self.resident_pages()).map(|(size, pages)| pages * size.bytes()).sum()
    }
}

/// Whether the pages of a mapping can be kept on a swap device: memory that is private and no file's.
pub(super) fn is_movable(vma: &Vma) -> bool {
    vma.backing == Backing::Anonymous && !vma.shared
}
