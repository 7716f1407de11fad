//! Pages that several processes have in one frame: children of `fork`, and what happens when one of them writes.
//!
//! A child gets the parent's entries, and neither may write through its own: the first store to a page faults and takes a
//! copy, or, where no other page has the frame any more, the frame itself (Linux, `mm/memory.c`, `do_wp_page`).
//!
//! DEVIATION: a store to a transparent huge page that is shared splits it for every process that has it, where Linux splits
//! the writer's entry only; then 4 KiB are copied. `fork` itself takes the time of the child's page table, but none for
//! copying entries.
//!
//! Pages of files and of shared memory are in the page cache as long as any mapping has them: the next mapping of the same
//! page, in whatever process, has the same frame. A private mapping that is only read has it, too, and takes a copy at the
//! first store. DEVIATION: a page that no mapping has any more is not kept; files are read without time, whether the page is
//! cached or not. DEVIATION: a fault enters one page, not the fifteen around it that are cached as well; a shared page may be
//! written to at once, where some file systems want to hear of the first store.
//!
//! Where frames are placed by hashing, a child's page cannot name its parent's frame by a code, because codes are about a page
//! number and an address space. DEVIATION: the entry says that the frame is an ordinary one, and the table beside names it;
//! the copy that a store takes has a code. The Mosaic paper's prototype leaves shared pages out altogether.

use pagewalk_trace::{Mapping, ObjectId, ObjectPages, ProcessId};
use pagewalk_vm::addr::{Asid, PAGE_BYTES, PageSize, Pfn, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::reclaim::ObjectPage;
use pagewalk_vm::space::{FaultPlan, Vma};
use pagewalk_vm::table::{Leaf, PageTable};

use super::kernel::is_movable;
use super::step::Refused;
use super::{END, Machine, MachineError};
use crate::metrics::KernelStep;
use crate::time::Clock;

impl<T: PageTable, C: Clock> Machine<T, C> {
    /// The child gets the parent's mappings, and the pages of its private ones.
    pub(super) fn fork(&mut self, child: ProcessId) -> Result<(), MachineError> {
        self.settle_books(Vpn(0), END.page())?;
        let parent = self.process;
        let space = self.processes[parent].space.fork();
        let copied: Vec<Vma> = space.vmas().filter(|vma| !vma.shared && !vma.wipe_on_fork).copied().collect();
        // Advice may have cut a mapping inside a huge page, which then belongs to both parts.
        copied.iter().try_for_each(|vma| self.split_edges(vma.range))?;
        let child = self.new_process(child, Some(space))?;
        let mut protected = Vec::new();
        for vma in copied {
            self.share_pages(parent, child, vma.range, &mut protected)?;
        }
        self.shoot_down(&protected);
        Ok(())
    }

    /// The pages of `range` of one process are those of another, too. Pages of the first that lose the right to be
    /// written to go to `protected`.
    fn share_pages(
        &mut self,
        parent: usize,
        child: usize,
        range: VirtRange,
        protected: &mut Vec<Vpn>,
    ) -> Result<(), MachineError> {
        let (start, end) = (range.start.page(), range.end.page());
        let (asid, child_asid) = (self.processes[parent].asid, self.processes[child].asid);
        let mut entries = self.entries_of(parent, start, end);
        entries.retain(|(_, leaf, _)| !self.frames.is_given(leaf.frame));
        // What a file can bring again is left to the child's faults, unless there are copies among it (`vma_needs_copy`).
        if entries.iter().all(|(_, leaf, _)| self.frames.is_cached(leaf.frame))
            && self.swap.pages(asid, start, end).is_empty()
        {
            return Ok(());
        }
        // First, so that no page moves while the child's table grows.
        for &(page, leaf, _) in &entries {
            self.frames.share(leaf.frame, PageKey { asid, page }, PageKey { asid: child_asid, page });
            if leaf.writable {
                let table = &mut self.processes[parent].table;
                table.update(&mut self.tables.memory, page, |leaf| leaf.writable = false);
                protected.push(page);
            }
        }
        let current = std::mem::replace(&mut self.process, child);
        let mut entered = entries
            .into_iter()
            .map(|(page, leaf, level)| self.enter_leaf(page, Leaf { writable: false, ..leaf }, level));
        let entered = entered.try_for_each(|entered| entered);
        self.process = current;
        entered?;
        for page in self.swap.pages(asid, start, end) {
            self.swap.share(PageKey { asid, page }, PageKey { asid: child_asid, page });
        }
        self.share_remote(asid, child_asid, start, end);
        Ok(())
    }

    /// A store to a page whose entry does not allow it: a copy is due, or the mapping does not allow it either.
    #[cold]
    pub(super) fn write_protected(&mut self, addr: VirtAddr) -> Result<(), Refused> {
        match self.processes[self.process].space.fault(addr, true, false) {
            Ok(plan) => Ok(self.copy_on_write(addr.page(), &plan)?),
            Err(_) => Err(Refused::Signal),
        }
    }

    fn copy_on_write(&mut self, vpn: Vpn, plan: &FaultPlan) -> Result<(), MachineError> {
        let (_, mut leaf, mut level) = self.entry(vpn);
        if level > 0 && plan.vma.huge.is_none() && self.frames.is_shared(leaf.frame) {
            self.split_page(vpn)?;
            (_, leaf, level) = self.entry(vpn);
        }
        let size = PageSize::ALL[level as usize];
        let (asid, page) = (self.processes[self.process].asid, vpn.align_down(size));
        self.counts.faults[size as usize] += 1;
        self.charge(KernelStep::FirstTouch, self.spec.kernel.minor_fault_ps);
        let is_cached = self.frames.is_cached(leaf.frame);
        let has_others = self.frames.leave(leaf.frame, PageKey { asid, page });
        if is_cached && !has_others {
            self.give_block(leaf.frame, size);
        } else if !has_others {
            // All others have gone, or have copies of their own.
            let table = &mut self.processes[self.process].table;
            table.update(&mut self.tables.memory, page, |leaf| (leaf.writable, leaf.dirty) = (true, true));
            self.cores.iter_mut().for_each(|core| core.invalidate(asid, page));
            return Ok(());
        }
        if plan.vma.locked {
            self.frames.lock(leaf.frame, false);
        }
        self.take_copy(page, size, plan)
    }

    /// A page gets a frame of its own; the one that it had is others'.
    fn take_copy(&mut self, page: Vpn, size: PageSize, plan: &FaultPlan) -> Result<(), MachineError> {
        let asid = self.processes[self.process].asid;
        let taken = match size == PageSize::Size4K && is_movable(&plan.vma) {
            true => self.take_movable(PageKey { asid, page })?,
            false => self.frames.take_kept(size),
        };
        let frame = taken.map_err(|full| self.out_of_frames(full))?;
        self.replace_frame(page, frame, size, plan)?;
        if plan.vma.locked {
            self.frames.lock(frame, true);
        }
        self.count_resident(size);
        self.counts.copies_on_write += 1;
        let kernel = &self.spec.kernel;
        let copy_ps = match size {
            PageSize::Size4K => kernel.zero_page_ps,
            PageSize::Size2M => kernel.zero_huge_page_ps,
            PageSize::Size1G => 512 * kernel.zero_huge_page_ps,
        };
        self.work(KernelStep::Copy, copy_ps);
        self.shoot_down(&[page]);
        Ok(())
    }

    /// The entry of a page that is written to names another frame. Where tables hold codes, it may move from one table to
    /// the other.
    fn replace_frame(
        &mut self,
        page: Vpn,
        frame: Pfn,
        size: PageSize,
        plan: &FaultPlan,
    ) -> Result<(), MachineError> {
        if T::IS_COMPRESSED {
            self.clear_entries_of(self.process, page, Vpn(page.0 + 1));
            return self.enter_page(page, frame, size as u32, true, plan);
        }
        let table = &mut self.processes[self.process].table;
        table.update(&mut self.tables.memory, page, |leaf| {
            *leaf = Leaf { frame, writable: true, dirty: true, accessed: true, ..*leaf };
        });
        Ok(())
    }

    /// The current process gives up a page whose entry is gone; the frame is free if no other page has it.
    pub(super) fn release_page(&mut self, page: Vpn, frame: Pfn, level: u32) {
        let asid = self.processes[self.process].asid;
        if self.frames.leave(frame, PageKey { asid, page }) {
            return;
        }
        self.give_block(frame, PageSize::ALL[level as usize]);
    }

    /// Maps a page of a file or of shared memory whose frame another mapping has. Tells whether there is one.
    pub(super) fn map_cached(
        &mut self,
        page: Vpn,
        size: PageSize,
        write: bool,
        plan: &FaultPlan,
    ) -> Result<bool, MachineError> {
        let cached = shown(page, size, write, plan).and_then(|shown| self.frames.cached(shown));
        let Some(frame) = cached else { return Ok(false) };
        let asid = self.processes[self.process].asid;
        let other = self.frames.sharers(frame)[0];
        self.frames.share(frame, other, PageKey { asid, page });
        self.enter_page(page, frame, size as u32, write, plan)?;
        self.counts.faults[size as usize] += 1;
        self.counts.page_cache_hits += 1;
        self.charge(KernelStep::FirstTouch, self.spec.kernel.minor_fault_ps);
        Ok(true)
    }

    /// A page has a new frame: others that show the same will find it.
    pub(super) fn note_cached(
        &mut self,
        page: Vpn,
        size: PageSize,
        frame: Pfn,
        write: bool,
        plan: &FaultPlan,
    ) {
        if let Some(shown) = shown(page, size, write, plan) {
            let asid = self.processes[self.process].asid;
            self.frames.cache(frame, shown, PageKey { asid, page });
        }
    }

    /// `MADV_REMOVE`: no mapping has the pages any more that `range` shows.
    pub(super) fn remove_shown(&mut self, range: VirtRange) -> Result<(), MachineError> {
        let mut start = range.start;
        while start < range.end {
            let Some(&vma) = self.processes[self.process].space.find(start) else { return Ok(()) };
            let end = vma.range.end.min(range.end);
            if let Some((object, first)) = vma.object_page(start.page()) {
                let pages = end.page().0 - start.page().0;
                let frames: Vec<Pfn> =
                    self.frames.cached_in(object, first, first.saturating_add(pages)).collect();
                for frame in frames {
                    self.drop_frame(frame)?;
                }
            }
            start = end;
        }
        Ok(())
    }

    /// All pages that have a frame are dropped.
    fn drop_frame(&mut self, frame: Pfn) -> Result<(), MachineError> {
        for PageKey { asid, page } in self.frames.sharers(frame).to_vec() {
            let owner = self.process_of(asid);
            let current = std::mem::replace(&mut self.process, owner);
            let dropped = self.drop_range(VirtRange::sized(page.addr(), PAGE_BYTES));
            self.process = current;
            dropped?;
        }
        Ok(())
    }

    /// The object that a new mapping shows: one of its own where none is known.
    pub(super) fn object_of(&mut self, mapping: &Mapping) -> Option<ObjectPages> {
        const OWN: u64 = 1 << 63;
        mapping.object.or_else(|| {
            let object = ObjectId(OWN | self.objects);
            self.objects += 1;
            Some(ObjectPages { object, first: 0 })
        })
    }

    /// Of the current process's entries, the pages that a store must copy although their mapping allows it.
    pub(super) fn pages_to_copy(&mut self, range: VirtRange) -> Vec<Vpn> {
        if !self.frames.shares_any() {
            return Vec::new();
        }
        let entries = self.entries(range);
        let space = &self.processes[self.process].space;
        let is_private = |page: Vpn| space.find(page.addr()).is_none_or(|vma| !vma.shared);
        let is_to_copy =
            |&&(page, leaf, _): &&(Vpn, Leaf, u32)| self.frames.is_shared(leaf.frame) && is_private(page);
        entries.iter().filter(is_to_copy).map(|entry| entry.0).collect()
    }

    /// The entry that maps a page of the current process.
    fn entry(&mut self, vpn: Vpn) -> (Vpn, Leaf, u32) {
        let entries = self.entries_of(self.process, vpn, Vpn(vpn.0 + 1));
        let [entry] = entries[..] else { unreachable!("{vpn} was found by a walk") };
        entry
    }

    /// The process with an address-space identifier.
    pub(super) fn process_of(&self, asid: Asid) -> usize {
        let found = self.processes.iter().position(|process| process.asid == asid);
        found.expect("a page in memory has a process")
    }
}

/// The page of an object that a fault brings: none for a store of a private mapping, which gets a copy at once.
fn shown(page: Vpn, size: PageSize, write: bool, plan: &FaultPlan) -> Option<ObjectPage> {
    let (object, number) = plan.vma.object_page(page).filter(|_| plan.vma.shared || !write)?;
    Some(ObjectPage { object, size, number })
}
