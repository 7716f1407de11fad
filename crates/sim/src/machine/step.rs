//! The way of a reference: translate, then access.

use pagewalk_trace::Access;
use pagewalk_vm::addr::{Asid, PageSize, Pfn, PhysAddr, VirtAddr, Vpn};
use pagewalk_vm::frame::PageKey;
use pagewalk_vm::reclaim::Uses;
use pagewalk_vm::space::FaultError;
use pagewalk_vm::table::{Leaf, PageTable, Waits, WalkEnd, WalkOutcome};
use pagewalk_vm::tier::FlashPage;
use pagewalk_vm::tlb::{Fill, Translation};

use super::{Machine, MachineError};
use crate::metrics::KernelStep;
use crate::time::{Clock, Missed};

/// A reference that is not completed: the program gets a signal.
pub(super) enum Refused {
    /// The protection does not allow it.
    Signal,
    /// A page is not in DRAM: the access has to be made again.
    Missed(Missed),
    /// The machine cannot go on.
    Machine(MachineError),
}

impl From<MachineError> for Refused {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

impl<T: PageTable, C: Clock> Machine<T, C> {
    /// Takes accesses between two marks; the timestamp daemon runs after every so many.
    #[inline]
    pub(super) fn accesses(&mut self, mut accesses: &[Access]) -> Result<(), MachineError> {
        while let Some(daemon) = &mut self.daemon
            && daemon.left <= accesses.len() as u64
        {
            let (before, after) = accesses.split_at(daemon.left as usize);
            daemon.left = daemon.interval;
            self.uninterrupted(before)?;
            self.frames.scan();
            accesses = after;
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.left -= accesses.len() as u64;
        }
        self.uninterrupted(accesses)
    }

    /// Those that the front filter knows to change nothing cost a comparison.
    #[inline]
    fn uninterrupted(&mut self, accesses: &[Access]) -> Result<(), MachineError> {
        self.cores[self.core].accesses += accesses.len() as u64;
        if C::TIMED {
            return accesses.iter().try_for_each(|&access| self.step(access));
        }
        let mut rest = accesses.iter();
        let stores = accesses.iter().map(|access| u64::from(access.is_write())).sum::<u64>();
        self.counts.stores += stores;
        loop {
            let front = &self.cores[self.core].front;
            let next = rest.find(|access| {
                let page = access.addr().page();
                let known = front.lookup(page, access.is_write());
                debug_assert!(
                    known.is_none_or(|frame| self.may_be_in(page, frame)),
                    "{page} in another's frame"
                );
                known.is_none()
            });
            match next {
                Some(&access) => self.step_counted(access)?,
                None => return Ok(()),
            }
        }
    }

    /// One reference of a timed run.
    #[inline]
    fn step(&mut self, access: Access) -> Result<(), MachineError> {
        let (addr, write) = (access.addr(), access.is_write());
        self.counts.stores += u64::from(write);
        self.clock.begin(self.core);
        if self.clock.is_due(self.core, self.paging.due_ps()) {
            self.run_due()?;
        }
        match self.attempt(addr, write)? {
            None => Ok(()),
            Some(missed) => self.wait_for(addr, write, missed),
        }
    }

    /// Translates, then accesses; tells if a page was not in DRAM, and then the access has not happened.
    #[inline]
    pub(super) fn attempt(&mut self, addr: VirtAddr, write: bool) -> Result<Option<Missed>, MachineError> {
        let frame = match self.cores[self.core].front.lookup(addr.page(), write) {
            Some(frame) => frame,
            None => match self.translate(addr, write) {
                Ok(translation) => translation.frame_of(addr.page()),
                Err(Refused::Missed(missed)) => return Ok(Some(missed)),
                Err(refused) => return self.refuse(refused).map(|()| None),
            },
        };
        Ok(self.clock.data(self.core, PhysAddr(frame.addr().0 | addr.0 & 0xfff), write))
    }

    /// One reference of a counts run, beyond the front filter.
    #[inline]
    fn step_counted(&mut self, access: Access) -> Result<(), MachineError> {
        match self.translate(access.addr(), access.is_write()) {
            Ok(_) => Ok(()),
            Err(refused) => self.refuse(refused),
        }
    }

    /// TLB; on a miss the walker over the page table; on a fault the kernel, and the walk again.
    fn translate(&mut self, addr: VirtAddr, write: bool) -> Result<Translation, Refused> {
        let vpn = addr.page();
        let asid = self.processes[self.process].asid;
        let core = &mut self.cores[self.core];
        core.looked_up += 1;
        let translation = match core.tlbs.lookup(asid, vpn) {
            Some(hit) => {
                if hit.level > 0 {
                    self.clock.tlb_hit(self.core, hit.level as usize);
                }
                hit.translation
            }
            None => self.walk_and_fill(addr, write)?,
        };
        let translation = match write {
            true if !translation.is_writable() => {
                self.write_protected(addr)?;
                self.walk_and_fill(addr, write)?
            }
            true if !translation.is_dirty() => self.store_to_clean(addr, translation),
            _ => translation,
        };
        let translation = self.decompressed(asid, vpn, translation);
        if matches!(self.uses, Uses::Every | Uses::FirstAfterAllocation) {
            self.frames.touch(translation.frame_of(vpn));
        }
        self.cores[self.core].front.learn(vpn, translation);
        Ok(translation)
    }

    /// Whether the frames' own book says nothing else than that the current process's page is in `frame`.
    fn may_be_in(&self, page: Vpn, frame: Pfn) -> bool {
        self.frames.may_hold(frame, PageKey { asid: self.processes[self.process].asid, page })
    }

    /// What hash-placed machines do beside the TLB: a code becomes a frame number.
    #[inline]
    fn decompressed(&self, asid: Asid, vpn: Vpn, translation: Translation) -> Translation {
        if !T::IS_COMPRESSED {
            return translation;
        }
        let Some(code) = translation.frame().code() else { return translation };
        let frame = self.frames.decode(PageKey { asid, page: vpn }, code);
        Translation::new(frame, PageSize::Size4K, translation.is_writable(), translation.is_dirty())
    }

    /// Walks until a page is found, faulting as often as necessary, and fills the TLBs.
    fn walk_and_fill(&mut self, addr: VirtAddr, write: bool) -> Result<Translation, Refused> {
        let vpn = addr.page();
        loop {
            let (walk, end) = self.walk(vpn)?;
            match end {
                WalkEnd::Leaf { leaf, level } if leaf.writable || !write => {
                    let translation = translation_of(leaf, level);
                    self.page_in(vpn, translation.frame_of(vpn), write)?;
                    self.fill(vpn, translation, &walk, level);
                    if self.uses == Uses::Walks {
                        let asid = self.processes[self.process].asid;
                        self.frames.walked(self.decompressed(asid, vpn, translation).frame_of(vpn));
                    }
                    return Ok(translation);
                }
                WalkEnd::Leaf { .. } => self.write_protected(addr)?,
                WalkEnd::Empty { .. } => self.fault(addr, write)?,
            }
        }
    }

    /// One walk, as short as the walk caches make it, and what it found.
    #[inline(always)]
    fn walk(&mut self, vpn: Vpn) -> Result<(T::Walk, WalkEnd), Refused> {
        let Self { processes, process, cores, core, tables, .. } = self;
        let process = &processes[*process];
        let caches = cores[*core].walk_cache.as_mut();
        let is_cached = caches.is_some();
        let walk = process.table.walk(&tables.memory, process.asid, vpn, caches);
        self.counts.walks += 1;
        self.count_reads(&walk);
        if let Some(missed) = self.clock.walk(self.core, walk.reads(), is_cached) {
            return Err(Refused::Missed(missed));
        }
        let mut end = walk.end();
        if T::IS_COMPRESSED
            && let WalkEnd::Leaf { leaf, .. } = &mut end
            && leaf.frame.code().is_none()
        {
            leaf.frame = self.walk_ordinary(vpn);
        }
        Ok((walk, end))
    }

    #[inline(always)]
    fn count_reads(&mut self, walk: &impl WalkOutcome) {
        for read in walk.reads() {
            match read.waits {
                Waits::Background => self.counts.walk_cache_refills += 1,
                Waits::InTurn | Waits::Together { .. } => {
                    self.counts.walk_references[read.level as usize] += 1;
                }
            }
        }
    }

    /// The frame of a page whose entry says that its frame was not placed by hashing: another table has it.
    #[cold]
    fn walk_ordinary(&mut self, vpn: Vpn) -> Pfn {
        let table = self.processes[self.process].ordinary.as_ref();
        let walk = table.expect("a table beside the compressed one").walk_root(&self.tables.memory, vpn);
        self.count_reads(&walk);
        let missed = self.clock.walk(self.core, walk.reads(), false);
        debug_assert!(missed.is_none(), "hash-placed memory is no cache over flash");
        match walk.end {
            WalkEnd::Leaf { leaf, .. } => leaf.frame,
            WalkEnd::Empty { .. } => unreachable!("the entry of {vpn} says that it has an ordinary frame"),
        }
    }

    /// Fills the TLBs after a walk; mosaic arrays also get the run's other pages.
    #[inline]
    fn fill(&mut self, vpn: Vpn, translation: Translation, walk: &T::Walk, level: u32) {
        let process = &self.processes[self.process];
        let core = &mut self.cores[self.core];
        let pages = core.tlbs.cluster_pages();
        if pages == 1 || level > 0 {
            core.tlbs.fill(process.asid, &Fill::single(vpn, translation));
            return;
        }
        let base = Vpn(vpn.0 & !(pages - 1));
        let mut words = [0; 64];
        let words = &mut words[..pages as usize];
        let leaves = process.table.leaf_run(&self.tables.memory, walk, base, words.len());
        for (word, leaf) in words.iter_mut().zip(leaves) {
            // The frame of an ordinary page is not in a table of contents: the page misses when its turn comes.
            let known = leaf.filter(|leaf| !T::IS_COMPRESSED || leaf.frame.code().is_some());
            *word = known.map_or(0, |leaf| translation_of(leaf, 0).to_word());
        }
        core.tlbs.fill(process.asid, &Fill { vpn, translation, cluster: words, cluster_base: base });
    }

    /// A store through a translation that is not known to be dirty: the walker sets the entry's dirty bit.
    fn store_to_clean(&mut self, addr: VirtAddr, translation: Translation) -> Translation {
        let process = &mut self.processes[self.process];
        process.table.update(&mut self.tables.memory, addr.page(), |leaf| leaf.dirty = true);
        self.cores[self.core].tlbs.set_dirty(process.asid, addr.page());
        self.counts.dirty_updates += 1;
        if C::TIMED && self.tier_by_kernel {
            // A page that was only read until now has to be written when it leaves.
            self.clock.is_in_memory(FlashPage(translation.frame_of(addr.page()).0), true);
        }
        translation.dirtied()
    }

    #[cold]
    fn refuse(&mut self, refused: Refused) -> Result<(), MachineError> {
        match refused {
            Refused::Signal => {
                // The page may have been used in the TLB, or not: the filter cannot know.
                self.cores[self.core].front.flush();
                self.counts.protection_faults += 1;
                self.charge(KernelStep::Signal, self.spec.kernel.minor_fault_ps);
                Ok(())
            }
            Refused::Machine(error) => Err(error),
            Refused::Missed(_) => unreachable!("who can wait has taken it"),
        }
    }

    /// A page that is not there: the accelerator brings it, or the kernel's page-fault handler finds a frame for it, and
    /// makes its entry.
    #[cold]
    pub(super) fn fault(&mut self, addr: VirtAddr, write: bool) -> Result<(), Refused> {
        if self.fetch(addr)? {
            return Ok(());
        }
        let plan = loop {
            match self.processes[self.process].space.fault(addr, write, false) {
                Ok(plan) => break plan,
                Err(FaultError::ProtectionViolation { .. }) => return Err(Refused::Signal),
                Err(FaultError::Unmapped { .. }) => self.map_unannounced(addr),
            }
        };
        Ok(self.map_page(addr.page(), write, &plan)?)
    }
}

#[inline]
pub(super) fn translation_of(leaf: Leaf, level: u32) -> Translation {
    let size = PageSize::from_level(level).expect("leaves stand at levels 0 to 2");
    Translation::new(leaf.frame, size, leaf.writable, leaf.dirty)
}
