//! The primitives of kernel code that runs for one process.

use pagewalk_vm::addr::{Asid, Granule, PageSize, Pfn, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::frame::{OutOfFrames, PageKey};
use pagewalk_vm::table::Leaf;

use super::page_tables::PageTables;
use super::processor::Processor;
use super::state::{Process, State};
use crate::error::MachineError;
use crate::metrics::KernelStep;
use crate::time::Transfer;

/// Above so many pages Linux flushes the whole address space instead of page by page
/// (arch/x86/mm/tlb.c, `tlb_single_page_flush_ceiling`).
const SINGLE_PAGE_FLUSHES: usize = 33;

/// Kernel code that runs for one process, on a processor.
pub(super) struct Context<'a> {
    pub(super) state: &'a mut State,
    pub(super) tables: &'a mut dyn PageTables,
    pub(super) processor: &'a mut dyn Processor,
    /// The place of the process among all.
    pub(super) process: usize,
}

impl Context<'_> {
    /// Returns a context in which the same code runs for another process.
    pub(super) fn of(&mut self, process: usize) -> Context<'_> {
        Context { state: self.state, tables: self.tables, processor: self.processor, process }
    }

    pub(super) fn process(&self) -> &Process {
        &self.state.processes[self.process]
    }

    pub(super) fn process_mut(&mut self) -> &mut Process {
        &mut self.state.processes[self.process]
    }

    pub(super) fn asid(&self) -> Asid {
        self.process().asid
    }

    /// Returns the page of this process at a page number.
    pub(super) fn key(&self, page: Vpn) -> PageKey {
        PageKey { asid: self.asid(), page }
    }

    /// Spends the kernel's time for a step, on whatever processor it runs.
    #[inline]
    pub(super) fn work(&mut self, step: KernelStep, ps: u64) {
        if self.state.is_timed {
            self.processor.work(step, ps);
        }
    }

    /// Lets the kernel wait until `until_ps`, for a step.
    pub(super) fn work_until(&mut self, step: KernelStep, until_ps: u64) {
        let now_ps = self.now();
        self.work(step, until_ps.saturating_sub(now_ps));
    }

    /// Returns the time of the worker that runs; always 0 without time.
    #[inline]
    pub(super) fn now(&mut self) -> u64 {
        if self.state.is_timed { self.processor.now() } else { 0 }
    }

    /// Lets the swap device begin to read a page now.
    pub(super) fn swap_in(&mut self) -> Transfer {
        let now_ps = self.now();
        if self.state.is_timed { self.processor.swap_in(now_ps) } else { Transfer::default() }
    }

    /// Lets the swap device begin to write a page now.
    pub(super) fn swap_out(&mut self) -> Transfer {
        let now_ps = self.now();
        if self.state.is_timed { self.processor.swap_out(now_ps) } else { Transfer::default() }
    }

    /// Spends the kernel's time for a step, and for what the process's page table has cost since it last did.
    pub(super) fn charge(&mut self, step: KernelStep, ps: u64) {
        let State { processes, table_space, spec, counts, .. } = &mut *self.state;
        let process = &mut processes[self.process];
        let upkeep = self.tables.upkeep(self.process);
        let visited = upkeep.visited - process.paid.visited;
        let moved = upkeep.moved - process.paid.moved;
        process.paid = upkeep;
        let kernel = &spec.kernel;
        let table_ps = table_space.take_bill() + visited * kernel.visit_line_ps + moved * kernel.move_line_ps;
        counts.upkeep.ps += table_ps;
        counts.upkeep.lines_visited += visited;
        counts.upkeep.lines_moved += moved;
        self.work(step, ps);
        self.work(KernelStep::Table, table_ps);
    }

    /// Tells every core's TLBs that these pages changed.
    pub(super) fn shoot_down(&mut self, pages: &[Vpn]) {
        if pages.is_empty() {
            return;
        }
        let asid = self.asid();
        if pages.len() > SINGLE_PAGE_FLUSHES {
            self.processor.flush(asid);
        } else {
            pages.iter().for_each(|&vpn| self.processor.invalidate(asid, vpn));
        }
        self.state.counts.changes.shootdowns += 1;
        self.charge(KernelStep::Shootdown, self.state.spec.kernel.shootdown_ps);
    }

    /// Counts one more resident page of a size.
    pub(super) fn count_resident(&mut self, size: PageSize) {
        self.state.counts.resident.pages[self.state.shape().rank(size)] += 1;
        self.note_resident();
    }

    pub(super) fn note_resident(&mut self) {
        let resident = self.state.resident_bytes();
        let peak = &mut self.state.counts.resident.bytes_peak;
        *peak = (*peak).max(resident);
    }

    /// Maps a page of the process; its slot is empty. Where the table holds codes, the frame becomes one.
    pub(super) fn enter(&mut self, first: Vpn, leaf: Leaf, level: u32) -> Result<(), MachineError> {
        let State { processes, table_space, frames, spec, .. } = &mut *self.state;
        let asid = processes[self.process].asid;
        let code = match table_space.shape.is_compressed {
            true => {
                let key = PageKey { asid, page: first };
                frames.hash_placed().and_then(|placed| placed.code(key, leaf.frame))
            }
            false => None,
        };
        let entry = Leaf { frame: code.map_or(leaf.frame, Pfn::of_code), ..leaf };
        let mut store = table_space.store(frames, &spec.kernel);
        let mapped = self.tables.map(self.process, &mut store, (first, entry, level));
        match mapped {
            Ok(None) => {
                self.note_moves();
                Ok(())
            }
            // It still has room, but only for as long as it takes to fill up: the system gives up here.
            Ok(Some(missing)) => Err(table_space.no_memory(missing, spec, frames)),
            Err(error) => Err(table_space.not_mapped(error, spec, frames)),
        }
    }

    /// Pages that made room for a table are in other frames now. What that costs is in the price of the table's memory.
    fn note_moves(&mut self) {
        for (key, frame) in self.state.frames.ordinary_mut().take_moved() {
            let owner = self.state.processes.of(key.asid);
            let moved = self.update_of(owner, key.page, |leaf| leaf.frame = frame);
            debug_assert!(moved.is_some(), "{key:?} had a frame but no entry");
            self.processor.invalidate(key.asid, key.page);
        }
    }

    /// Returns the leaf that maps a page of the process, as its table holds it, and its level.
    pub(super) fn find(&self, vpn: Vpn) -> Option<(Leaf, u32)> {
        self.find_of(self.process, vpn)
    }

    /// Returns the leaf that maps a page of any process, as its table holds it, and its level.
    pub(super) fn find_of(&self, process: usize, vpn: Vpn) -> Option<(Leaf, u32)> {
        self.tables.find(process, &self.state.table_space.memory, vpn)
    }

    /// Changes the entry of a page of any process; returns the entry before, and its level.
    fn update_of(
        &mut self,
        process: usize,
        page: Vpn,
        mut change: impl FnMut(&mut Leaf),
    ) -> Option<(Leaf, u32)> {
        self.tables.update(process, &mut self.state.table_space.memory, page, &mut change)
    }

    /// Changes the entry of a page of the process; returns the entry before, and its level.
    pub(super) fn update(&mut self, page: Vpn, change: impl FnMut(&mut Leaf)) -> Option<(Leaf, u32)> {
        self.update_of(self.process, page, change)
    }

    /// Clears the entries of pages `[start, end)`, frees emptied nodes, and flushes the walk caches if there were any.
    /// Returns the entries, with frame numbers whatever the table holds.
    pub(super) fn clear(&mut self, start: Vpn, end: Vpn) -> Vec<(Vpn, Leaf, u32)> {
        self.visit(start, end, |_| None)
    }

    /// Returns the entries of pages `[start, end)`, with frame numbers whatever the table holds.
    pub(super) fn entries(&mut self, start: Vpn, end: Vpn) -> Vec<(Vpn, Leaf, u32)> {
        self.visit(start, end, Some)
    }

    /// Returns the entries of a range.
    pub(super) fn entries_in(&mut self, range: VirtRange) -> Vec<(Vpn, Leaf, u32)> {
        self.entries(range.start.page(), range.end.page())
    }

    /// Returns the entry that maps a page.
    pub(super) fn entry(&mut self, vpn: Vpn) -> (Vpn, Leaf, u32) {
        let entries = self.entries(vpn, Vpn(vpn.0 + 1));
        let [entry] = entries[..] else { unreachable!("{vpn} was found by a walk") };
        entry
    }

    /// Returns what the entries of pages `[start, end)` are, before each of them is changed or cleared.
    fn visit(
        &mut self,
        start: Vpn,
        end: Vpn,
        change: impl Fn(Leaf) -> Option<Leaf>,
    ) -> Vec<(Vpn, Leaf, u32)> {
        let State { processes, table_space, frames, spec, .. } = &mut *self.state;
        let asid = processes[self.process].asid;
        let mut visited = Vec::new();
        let mut visit = |vpn, leaf, level| {
            visited.push((vpn, leaf, level));
            change(leaf)
        };
        let mut store = table_space.store(frames, &spec.kernel);
        let nodes_freed = self.tables.visit(self.process, &mut store, (start, end), &mut visit);
        if nodes_freed {
            self.processor.flush_walk_caches(asid);
        }
        if let Some(placed) = frames.hash_placed() {
            for (page, leaf, _) in &mut visited {
                if let Some(code) = leaf.frame.code() {
                    leaf.frame = placed.decode(PageKey { asid, page: *page }, code);
                }
            }
        }
        visited
    }

    /// Splits the large pages that lie across an end of `range`.
    pub(super) fn split_edges(&mut self, range: VirtRange) -> Result<(), MachineError> {
        for edge in [range.start, range.end] {
            // A page of 1 GiB becomes pages of 2 MiB first.
            while page_across(self, edge).is_some_and(|(_, level)| level > 0) {
                self.split(edge.page())?;
            }
        }
        Ok(())
    }

    /// Makes the ends of a range that changes ends of pages, and returns the range as it is then. Large pages across them are
    /// split. Explicit ones stay whole, as base pages of more than 4 KiB do: they take part only if nothing else in their
    /// slots is mapped.
    pub(super) fn align_edges(&mut self, range: VirtRange) -> Result<VirtRange, MachineError> {
        let is_explicit = self.process().space.has_explicit_pages();
        if !is_explicit {
            self.split_edges(range)?;
        }
        if !is_explicit && self.state.shape().granule == Granule::Size4K {
            return Ok(range);
        }
        let (mut aligned, space) = (range, &self.process().space);
        if let Some((page, _)) = page_across(self, range.start) {
            aligned.start = if space.is_used(page) { page.end } else { page.start };
        }
        if let Some((page, _)) = page_across(self, range.end) {
            aligned.end = if space.is_used(page) { page.start } else { page.end };
        }
        Ok(VirtRange { end: aligned.end.max(aligned.start), ..aligned })
    }

    /// Splits the large page that holds `vpn`, if there is one, for every process that has it.
    pub(super) fn split(&mut self, vpn: Vpn) -> Result<(), MachineError> {
        let Some((leaf, level @ 1..)) = self.find(vpn) else {
            return Ok(());
        };
        let mut owners = self.state.frames.shared().pages(leaf.frame).to_vec();
        if owners.is_empty() {
            owners.push(self.key(vpn));
        }
        for &PageKey { asid, page } in &owners {
            let owner = self.state.processes.of(asid);
            let State { table_space, frames, spec, .. } = &mut *self.state;
            let split = self.tables.split(owner, &mut table_space.store(frames, &spec.kernel), page);
            let split = split.map_err(|error| table_space.not_mapped(error, spec, frames))?;
            debug_assert!(split);
            self.note_moves();
        }
        let shape = self.state.shape();
        let State { frames, counts, .. } = &mut *self.state;
        let (size, below) = (shape.page_size(level), shape.page_size(level - 1));
        frames.split(leaf.frame, size, below);
        if !frames.is_given(leaf.frame) {
            counts.resident.pages[level as usize] -= 1;
            counts.resident.pages[level as usize - 1] += size.base_pages() / below.base_pages();
        }
        counts.changes.splits += owners.len() as u64;
        for PageKey { asid, .. } in owners {
            self.processor.flush(asid);
        }
        Ok(())
    }

    /// Releases a page of the process whose entry is gone; the frame is free if no other page has it.
    pub(super) fn release_page(&mut self, page: Vpn, frame: Pfn, level: u32) {
        let key = self.key(page);
        if !self.state.frames.leave(frame, key) {
            self.give_block(frame, self.state.shape().page_size(level));
        }
    }

    /// Gives back a block of the process, which no other page shares.
    pub(super) fn give_block(&mut self, frame: Pfn, size: PageSize) {
        self.state.frames.give_page(frame, size);
        if !self.state.frames.is_given(frame) {
            self.state.counts.resident.pages[self.state.shape().rank(size)] -= 1;
        }
    }
}

impl State {
    /// Returns the resident pages by level; a given block counts once, however many pages have it.
    pub(crate) fn resident_pages(&self) -> [u64; 3] {
        let (own, given) =
            (self.counts.resident.pages, self.frames.given().map_or([0; 3], |given| given.resident()));
        std::array::from_fn(|size| own[size] + given[size])
    }

    /// Returns the bytes of all resident pages.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.shape()
            .granule
            .sizes()
            .iter()
            .zip(self.resident_pages())
            .map(|(size, pages)| pages * size.bytes())
            .sum()
    }

    /// Returns the error for a page that got no frame.
    pub(super) fn out_of_frames(&self, reason: OutOfFrames) -> MachineError {
        MachineError::OutOfFrames {
            machine: self.spec.name.clone(),
            memory_bytes: self.spec.paging.frames.memory_bytes(),
            reason,
        }
    }
}

/// Returns the page of the process that lies across an address, and its level.
fn page_across(cx: &Context<'_>, addr: VirtAddr) -> Option<(VirtRange, u32)> {
    if addr.offset_in(PageSize::Size1G) == 0 {
        return None;
    }
    let (_, level) = cx.find(addr.page())?;
    let bytes = cx.state.shape().page_size(level).bytes();
    let page = VirtRange::sized(addr.align_down(bytes), bytes);
    (page.start != addr).then_some((page, level))
}

/// Returns the pages of entries.
pub(super) fn pages_of(entries: &[(Vpn, Leaf, u32)]) -> Vec<Vpn> {
    entries.iter().map(|entry| entry.0).collect()
}
