//! What a program says of ranges of its memory (`madvise`, `mlock`, flags of `mmap`), and what happens to their pages.

use pagewalk_trace::Advice;
use pagewalk_vm::addr::{PageSize, VirtRange, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::reclaim::Victim;
use pagewalk_vm::table::{Leaf, PageTable};

use super::step::Refused;
use super::{Machine, MachineError};
use crate::metrics::KernelStep;
use crate::time::Clock;

impl<T: PageTable, C: Clock> Machine<T, C> {
    pub(super) fn advise(&mut self, range: VirtRange, advice: Advice) -> Result<(), MachineError> {
        let affected = self.processes[self.process].space.advise(range, advice);
        for range in self.check_call(affected)? {
            match advice {
                Advice::DontNeed => self.drop_range(range)?,
                Advice::Remove => self.remove_shown(range)?,
                Advice::Collapse => self.collapse(range)?,
                Advice::Free => self.free_lazily(range)?,
                Advice::Cold => self.cool(range)?,
                Advice::PageOut => self.page_out_range(range)?,
                Advice::WillNeed => self.read_back(range)?,
                Advice::Populate => self.populate(range, None)?,
                Advice::PopulateRead => self.populate(range, Some(false))?,
                Advice::PopulateWrite => self.populate(range, Some(true))?,
                Advice::Lock => {
                    self.populate(range, None)?;
                    self.lock(range, true)?;
                }
                Advice::LockOnFault => self.lock(range, true)?,
                Advice::Unlock => self.lock(range, false)?,
                Advice::HugePage
                | Advice::NoHugePage
                | Advice::DontFork
                | Advice::DoFork
                | Advice::WipeOnFork
                | Advice::KeepOnFork => {}
            }
        }
        Ok(())
    }

    /// `MADV_FREE`: pages count as never written to, so that they leave without a copy when memory is needed, and read as
    /// zeroes then. One that is written to before is as any other page. Huge pages stay, and count as clean; pages in shared
    /// frames are left alone.
    fn free_lazily(&mut self, range: VirtRange) -> Result<(), MachineError> {
        self.split_edges(range)?;
        let (start, end) = (range.start.page(), range.end.page());
        self.settle_books(start, end)?;
        self.drop_cached(start, end);
        self.forget_remote(start, end);
        let mut entries = self.entries(range);
        let asid = self.processes[self.process].asid;
        let (shared, out): (Vec<Vpn>, Vec<Vpn>) =
            (self.pages_to_copy(range), self.swap.pages(asid, start, end));
        entries.retain(|(vpn, _, _)| shared.binary_search(vpn).is_err());
        for &(vpn, leaf, _) in &entries {
            let process = &mut self.processes[self.process];
            process.table.update(&mut self.tables.memory, vpn, |leaf| leaf.dirty = false);
            self.frames.age(leaf.frame);
        }
        for page in out.into_iter().filter(|page| shared.binary_search(page).is_err()) {
            self.swap.discard(asid, page, Vpn(page.0 + 1));
        }
        // A store through a translation that is known to be dirty would not make the page dirty again.
        self.shoot_down(&pages_of(&entries));
        Ok(())
    }

    /// `MADV_COLD`: pages are the next to leave.
    fn cool(&mut self, range: VirtRange) -> Result<(), MachineError> {
        self.settle_books(range.start.page(), range.end.page())?;
        let entries = self.entries(range);
        let own = entries.iter().filter(|(_, leaf, _)| !self.frames.is_shared(leaf.frame));
        own.map(|entry| entry.1.frame)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|frame| self.frames.age(frame));
        self.shoot_down(&pages_of(&entries));
        Ok(())
    }

    /// `MADV_PAGEOUT`: pages leave now, if there is where they can go.
    fn page_out_range(&mut self, range: VirtRange) -> Result<(), MachineError> {
        self.settle_books(range.start.page(), range.end.page())?;
        let asid = self.processes[self.process].asid;
        for (page, leaf, _) in self.entries(range) {
            if self.frames.evict(leaf.frame) {
                self.page_out(Victim { page: PageKey { asid, page }, sharers: Vec::new() })?;
            }
        }
        Ok(())
    }

    /// `MADV_WILLNEED`: pages that left are read. They get entries when they are touched. An accelerator's pages are left
    /// to it.
    fn read_back(&mut self, range: VirtRange) -> Result<(), MachineError> {
        if self.accelerated.is_some() {
            return Ok(());
        }
        let (asid, memory) = (self.processes[self.process].asid, &self.tables.memory);
        let table = &self.processes[self.process].table;
        let mut pages = self.swap.pages(asid, range.start.page(), range.end.page());
        pages.retain(|&page| table.find(memory, page).is_none());
        for page in pages {
            if !self.read_ahead_of(PageKey { asid, page })? {
                break;
            }
        }
        Ok(())
    }

    /// Makes every page of `range` resident that is not, as stores or loads would do it; as the mapping allows, if that is
    /// not said. Pages beyond one whose mapping does not allow it are left out, as Linux does. DEVIATION: each costs as much
    /// time as a fault.
    fn populate(&mut self, range: VirtRange, write: Option<bool>) -> Result<(), MachineError> {
        let mut vpn = range.start.page();
        while vpn < range.end.page() {
            let process = &self.processes[self.process];
            let Some(vma) = process.space.find(vpn.addr()) else { return Ok(()) };
            let write = write.unwrap_or(vma.protection.write && !vma.shared);
            match process.table.find(&self.tables.memory, vpn) {
                Some((leaf, level)) if leaf.writable || !write => {
                    let size = PageSize::ALL[level as usize];
                    vpn = Vpn(vpn.align_down(size).0 + size.base_pages());
                }
                // The next round finds it.
                Some(_) => match self.write_protected(vpn.addr()) {
                    Ok(()) => {}
                    Err(Refused::Machine(error)) => return Err(error),
                    Err(_) => return Ok(()),
                },
                // The next round finds it.
                None => match self.fault(vpn.addr(), write) {
                    Ok(()) => {}
                    Err(Refused::Machine(error)) => return Err(error),
                    Err(Refused::Signal) => return Ok(()),
                    Err(Refused::Missed(_)) => unreachable!("a fault waits for its page"),
                },
            }
        }
        Ok(())
    }

    /// Keeps what is resident in `range` from leaving, or lets it leave again.
    fn lock(&mut self, range: VirtRange, is_locked: bool) -> Result<(), MachineError> {
        self.settle_books(range.start.page(), range.end.page())?;
        for (_, leaf, _) in self.entries(range) {
            self.frames.lock(leaf.frame, is_locked);
        }
        Ok(())
    }

    /// `MADV_COLLAPSE`: the pages of each aligned 2 MiB are copied into a huge page. DEVIATION: slots of which pages are on
    /// the swap device are left as they are, and nothing is moved to make room for a huge page.
    fn collapse(&mut self, range: VirtRange) -> Result<(), MachineError> {
        if (PageSize::Size2M as u32) > T::MAX_LEAF_LEVEL {
            return Ok(());
        }
        let huge = PageSize::Size2M.base_pages();
        for first in (range.start.page().0..range.end.page().0).step_by(huge as usize) {
            self.collapse_slot(VirtRange::sized(Vpn(first).addr(), PageSize::Size2M.bytes()))?;
        }
        Ok(())
    }

    fn collapse_slot(&mut self, slot: VirtRange) -> Result<(), MachineError> {
        let (start, end) = (slot.start.page(), slot.end.page());
        self.settle_books(start, end)?;
        let entries = self.entries(slot);
        let is_huge = entries.iter().any(|&(_, _, level)| level > 0);
        let asid = self.processes[self.process].asid;
        let is_in_memory = |page: &Vpn| entries.binary_search_by_key(page, |entry| entry.0).is_ok();
        let copies = self.swap.pages(asid, start, end);
        if entries.is_empty() || is_huge || !copies.iter().all(is_in_memory) {
            return Ok(());
        }
        let Ok(frame) = self.frames.take_kept(PageSize::Size2M) else { return Ok(()) };
        self.clear_entries(slot);
        for &(vpn, leaf, level) in &entries {
            self.release_page(vpn, leaf.frame, level);
        }
        self.swap.discard(asid, start, end);
        self.shoot_down(&pages_of(&entries));
        let (_, first, _) = entries[0];
        let dirty = entries.iter().any(|(_, leaf, _)| leaf.dirty) || !copies.is_empty();
        let writable =
            self.processes[self.process].space.find(slot.start).is_some_and(|vma| vma.protection.write);
        self.enter_leaf(start, Leaf { frame, dirty, writable, ..first }, PageSize::Size2M as u32)?;
        self.count_resident(PageSize::Size2M);
        self.counts.collapses += 1;
        self.charge(KernelStep::Copy, self.spec.kernel.zero_huge_page_ps);
        Ok(())
    }

    /// The entries of `range` of the current process, with frame numbers whatever the table holds.
    pub(super) fn entries(&mut self, range: VirtRange) -> Vec<(Vpn, Leaf, u32)> {
        self.entries_of(self.process, range.start.page(), range.end.page())
    }
}

/// The pages of entries.
pub(super) fn pages_of(entries: &[(Vpn, Leaf, u32)]) -> Vec<Vpn> {
    entries.iter().map(|entry| entry.0).collect()
}
