//! Translation: the walker, and the accelerator behind it.

use pagewalk_vm::addr::{Asid, PAGE_BYTES, PageSize, Pfn, PhysAddr, VirtAddr, Vpn};
use pagewalk_vm::fault::RemotePte;
use pagewalk_vm::table::{Geometry, Levels, Radix, RiscV, TableWords, Walk, WalkEnd};
use pagewalk_vm::tlb::{Fill, Translation};

use crate::accelerator::Outcome;
use crate::csr::{Mode, Scheme, status};
use crate::machine::Machine;
use crate::mmu::{Context, MOST_INVALID, Marking, NO_PAGE, entry};
use crate::pmp::Verdict;
use crate::trace::Note;
use crate::trap::{Access, Exception, Trap};

/// The entry's bits that an access needs set: A, and D for stores.
fn marks_of(access: Access) -> u64 {
    if access == Access::Store { entry::ACCESSED | entry::DIRTY } else { entry::ACCESSED }
}

impl Machine {
    /// Registers changed on which translation depends.
    pub(crate) fn update_context(&mut self) {
        let csrs = &self.csrs;
        let scheme = csrs.scheme();
        // The same page number means another page then.
        if scheme != Scheme::Bare && scheme != self.mmu.last_scheme {
            self.mmu.last_scheme = scheme;
            self.mmu.fence(None, None);
        }
        let translated = |mode: Mode| (mode != Mode::Machine && scheme != Scheme::Bare).then_some(mode);
        let data_mode = csrs.data_mode(self.mode);
        let Context { fetch_mode, data_mode: last_data_mode, .. } = self.mmu.context;
        self.mmu.instructions.end_context(fetch_mode.is_some());
        self.mmu.data.end_context(last_data_mode.is_some());
        self.mmu.context = Context {
            scheme,
            root: Pfn(csrs.root()),
            asid: Asid(csrs.asid()),
            fetch_mode: translated(self.mode),
            data_mode: translated(data_mode),
            may_use_user_pages: csrs.mstatus & status::SUM != 0,
            may_read_code: csrs.mstatus & status::MXR != 0,
        };
    }

    /// Loads up to eight bytes.
    #[inline(always)]
    pub(crate) fn load(&mut self, addr: u64, bytes: u64) -> Result<u64, Trap> {
        if addr & self.mmu.aligned_bits & (bytes - 1) != 0 {
            return Err(Trap::new(Exception::LoadAddressMisaligned, addr));
        }
        let side = &mut self.mmu.data;
        if addr / PAGE_BYTES == side.read_page && addr % PAGE_BYTES + bytes <= PAGE_BYTES {
            side.spared += 1;
            return Ok(self.ram.read_at(side.offset + addr % PAGE_BYTES, bytes));
        }
        self.load_elsewhere(addr, bytes)
    }

    /// Stores up to eight bytes.
    #[inline(always)]
    pub(crate) fn store(&mut self, addr: u64, bytes: u64, value: u64) -> Result<(), Trap> {
        if addr & self.mmu.aligned_bits & (bytes - 1) != 0 {
            return Err(Trap::new(Exception::StoreAddressMisaligned, addr));
        }
        let side = &mut self.mmu.data;
        if addr / PAGE_BYTES == side.write_page && addr % PAGE_BYTES + bytes <= PAGE_BYTES {
            side.spared += 1;
            let offset = side.offset + addr % PAGE_BYTES;
            let touched = self.ram.write_at(offset, bytes, value);
            if !touched.is_plain() {
                self.touched(touched);
            }
            return Ok(());
        }
        self.store_elsewhere(addr, bytes, value)
    }

    fn load_elsewhere(&mut self, addr: u64, bytes: u64) -> Result<u64, Trap> {
        let first = PAGE_BYTES - addr % PAGE_BYTES;
        if bytes > first {
            // Each page by its own rules.
            let low = self.load_elsewhere(addr, first)?;
            let high = self.load_elsewhere(addr.wrapping_add(first), bytes - first)?;
            return Ok(low | high << (8 * first));
        }
        let phys = self.translate(addr, Access::Load)?;
        self.protect(addr, phys, bytes, Access::Load)?;
        match self.ram.offset(phys, bytes) {
            Some(offset) => {
                self.remember(addr, phys, offset, Access::Load);
                self.record_access(addr, bytes, false);
                Ok(self.ram.read_at(offset, bytes))
            }
            None => self.device_load(phys, bytes).ok_or(Access::Load.access_fault(addr)),
        }
    }

    fn store_elsewhere(&mut self, addr: u64, bytes: u64, value: u64) -> Result<(), Trap> {
        let first = PAGE_BYTES - addr % PAGE_BYTES;
        if bytes > first {
            // Both are looked at before either is written.
            let next = addr.wrapping_add(first);
            for (addr, bytes) in [(addr, first), (next, bytes - first)] {
                let phys = self.translate(addr, Access::Store)?;
                self.protect(addr, phys, bytes, Access::Store)?;
                self.ram.offset(phys, bytes).ok_or(Access::Store.access_fault(addr))?;
            }
            self.store_elsewhere(addr, first, value)?;
            return self.store_elsewhere(next, bytes - first, value >> (8 * first));
        }
        let phys = self.translate(addr, Access::Store)?;
        self.protect(addr, phys, bytes, Access::Store)?;
        match self.ram.offset(phys, bytes) {
            Some(offset) => {
                let touched = self.ram.write_at(offset, bytes, value);
                self.remember(addr, phys, offset, Access::Store);
                self.record_access(addr, bytes, true);
                if !touched.is_plain() {
                    self.touched(touched);
                }
                Ok(())
            }
            None => self.device_store(phys, bytes, value).ok_or(Access::Store.access_fault(addr)),
        }
    }

    /// Physical memory protection of an access whose physical address is known.
    #[inline]
    fn protect(&self, addr: u64, phys: u64, bytes: u64, access: Access) -> Result<(), Trap> {
        match self.verdict(phys, bytes, access) {
            Verdict::Allowed => Ok(()),
            Verdict::Denied | Verdict::Mixed => Err(access.access_fault(addr)),
        }
    }

    #[inline]
    fn verdict(&self, phys: u64, bytes: u64, access: Access) -> Verdict {
        let mode = if access == Access::Fetch { self.mode } else { self.csrs.data_mode(self.mode) };
        self.csrs.pmp.check(phys, bytes, access, mode)
    }

    /// Whether the whole page of a physical address may be used so: then its other accesses need not be checked.
    fn is_page_open(&self, phys: u64, access: Access) -> bool {
        self.verdict(phys & !(PAGE_BYTES - 1), PAGE_BYTES, access) == Verdict::Allowed
    }

    /// Accesses like this one to its page need not ask again, unless they are recorded.
    fn remember(&mut self, addr: u64, phys: u64, offset: u64, access: Access) {
        if self.recording.is_some() || !self.is_page_open(phys, access) {
            return;
        }
        let side = &mut self.mmu.data;
        let page = addr / PAGE_BYTES;
        // The other kind of access may have been allowed to the same page, and still is.
        if side.read_page != page {
            side.read_page = NO_PAGE;
        }
        if side.write_page != page {
            side.write_page = NO_PAGE;
        }
        side.offset = offset - addr % PAGE_BYTES;
        if access == Access::Store {
            side.write_page = page;
        } else {
            side.read_page = page;
        }
    }

    /// Where an atomic's bytes lie in memory.
    pub(crate) fn atomic_offset(&mut self, addr: u64, bytes: u64, access: Access) -> Result<u64, Trap> {
        let phys = self.translate(addr, access)?;
        self.protect(addr, phys, bytes, access)?;
        // The filter of the last page would be wrong: the TLB was asked for another.
        self.mmu.data.forget_page();
        self.ram.offset(phys, bytes).ok_or(access.access_fault(addr))
    }

    /// Whether only a part of the page of an instruction, which has just been fetched, may be executed.
    #[inline(always)]
    pub(crate) fn is_code_mixed(&self, addr: u64) -> bool {
        addr / PAGE_BYTES != self.mmu.instructions.read_page
    }

    /// Where the instruction at `addr` lies in memory: its first two bytes.
    #[inline(always)]
    pub(crate) fn fetch_offset(&mut self, addr: u64) -> Result<u64, Trap> {
        let side = &mut self.mmu.instructions;
        if addr / PAGE_BYTES == side.read_page {
            side.spared += 1;
            return Ok(side.offset + addr % PAGE_BYTES);
        }
        let phys = self.translate(addr, Access::Fetch)?;
        self.protect(addr, phys, 2, Access::Fetch)?;
        let offset = self.ram.offset(phys, 2).ok_or(Access::Fetch.access_fault(addr))?;
        let is_open = self.is_page_open(phys, Access::Fetch);
        let side = &mut self.mmu.instructions;
        side.read_page = if is_open { addr / PAGE_BYTES } else { NO_PAGE };
        side.offset = offset - addr % PAGE_BYTES;
        Ok(offset)
    }

    /// The physical address of an access.
    fn translate(&mut self, addr: u64, access: Access) -> Result<u64, Trap> {
        let context = self.mmu.context;
        let Some(mode) = context.mode_of(access) else { return Ok(addr) };
        if !context.is_canonical(addr) {
            return Err(self.page_fault(addr, access));
        }
        let page = context.page(addr);
        let side = match access {
            Access::Fetch => &mut self.mmu.instructions,
            Access::Load | Access::Store => &mut self.mmu.data,
        };
        if let Some(hit) = side.tlbs.lookup(context.asid, page) {
            let bits = u64::from(hit.translation.other());
            if context.permits(bits, access, mode) && bits & marks_of(access) == marks_of(access) {
                return Ok(hit.translation.frame_of(page).addr().0 + addr % PAGE_BYTES);
            }
            // The entry may have been changed since: a kernel that gives more rights need not say so at once.
            side.tlbs.invalidate(context.asid, page);
        }
        side.forget_page();
        self.walk(addr, page, access, mode)
    }

    /// An entry is not valid: a page fault, and another one until it is fenced, if the hart keeps that.
    fn invalid_entry(&mut self, addr: u64, page: Vpn, access: Access) -> Trap {
        let asid = self.mmu.context.asid;
        if let Some(invalid) = &mut self.mmu.invalid {
            if invalid.len() == MOST_INVALID {
                invalid.pop_front();
            }
            invalid.push_back((asid, page));
        }
        self.page_fault(addr, access)
    }

    fn page_fault(&mut self, addr: u64, access: Access) -> Trap {
        self.note(|| Note::PageFault { addr, access });
        access.page_fault(addr)
    }

    #[cold]
    fn walk(&mut self, addr: u64, page: Vpn, access: Access, mode: Mode) -> Result<u64, Trap> {
        let context = self.mmu.context;
        if self.mmu.invalid.as_ref().is_some_and(|invalid| invalid.contains(&(context.asid, page))) {
            self.mmu.counts.kept_invalid += 1;
            return Err(self.page_fault(addr, access));
        }
        let levels = Levels(if context.scheme == Scheme::Sv48 { 4 } else { 3 });
        let mut is_fetched = false;
        loop {
            let walk = Radix::<RiscV>::of_root(context.root, levels).walk_root(&self.ram, page);
            self.mmu.counts.walks += 1;
            self.mmu.counts.references += walk.references().len() as u64;
            // The walker reads tables as a supervisor does.
            let tables = walk.references().map(|reference| reference.addr.0);
            let open =
                |at: u64| self.csrs.pmp.check(at, 8, Access::Load, Mode::Supervisor) == Verdict::Allowed;
            let last = walk.last();
            if self.ram.offset(last.addr.0, 8).is_none() || !tables.into_iter().all(open) {
                return Err(access.access_fault(addr));
            }
            let raw = self.ram.read(last.addr);
            // An entry that the page's return leaves invalid is no remote one, although it may look like it.
            if raw & entry::VALID == 0 && last.level == 0 && !is_fetched {
                is_fetched = self.fetch_page(raw, last.addr, addr, access)?;
                if is_fetched {
                    continue;
                }
            }
            if raw & entry::VALID == 0 {
                return Err(self.invalid_entry(addr, page, access));
            }
            let Some((leaf_frame, level)) = leaf_of(&walk, raw) else {
                return Err(self.page_fault(addr, access));
            };
            let pages = RiscV::leaf_pages(level);
            if !context.permits(raw, access, mode) || leaf_frame.0 & (pages - 1) != 0 {
                return Err(self.page_fault(addr, access));
            }
            let mut bits = raw;
            if raw & marks_of(access) != marks_of(access) {
                if self.mmu.marking == Marking::Faults {
                    return Err(self.page_fault(addr, access));
                }
                if self.csrs.pmp.check(last.addr.0, 8, Access::Store, Mode::Supervisor) != Verdict::Allowed {
                    return Err(access.access_fault(addr));
                }
                bits |= marks_of(access);
                self.write_entry(last.addr, bits);
            }
            let translation = translation(leaf_frame, level, page, bits);
            let side = match access {
                Access::Fetch => &mut self.mmu.instructions,
                Access::Load | Access::Store => &mut self.mmu.data,
            };
            side.tlbs.fill(context.asid, &Fill::single(page, translation));
            return Ok(translation.frame_of(page).addr().0 + addr % PAGE_BYTES);
        }
    }

    /// Lets the accelerator bring the page of an entry that is not valid; whether it has.
    fn fetch_page(&mut self, raw: u64, entry: PhysAddr, addr: u64, access: Access) -> Result<bool, Trap> {
        let Some(remote_pte) = RemotePte::decode(raw) else { return Ok(false) };
        let now = self.cycles();
        let Some(device) = &mut self.accelerator else { return Ok(false) };
        let fetched = device.fetch(remote_pte, entry, VirtAddr(addr), now, &mut self.ram, &mut *self.remote);
        match fetched {
            Ok(Outcome::Fetched { id, frame, took, touched }) => {
                self.mmu.counts.fetches += 1;
                self.idle += took;
                self.note(|| Note::Fetch { addr, id, frame, entry });
                self.outside_touched(touched);
                Ok(true)
            }
            Ok(Outcome::PageFault) => Ok(false),
            Ok(Outcome::Refused(refused)) => {
                self.note(|| Note::FetchRefused { addr, why: refused.to_string() });
                self.refuse(refused);
                Err(access.access_fault(addr))
            }
            Err(error) => {
                self.fail(error);
                Err(access.access_fault(addr))
            }
        }
    }

    fn write_entry(&mut self, entry: PhysAddr, bits: u64) {
        self.note(|| Note::Entry { entry, bits });
        if let Some(offset) = self.ram.offset(entry.0, 8) {
            let touched = self.ram.write_at(offset, 8, bits);
            if !touched.is_plain() {
                self.touched(touched);
            }
        }
    }
}

/// The frame and level of the leaf that a walk ended at, if it is one: an entry that can be written and not read is none.
fn leaf_of(walk: &Walk, raw: u64) -> Option<(Pfn, u32)> {
    match walk.end {
        WalkEnd::Leaf { leaf, level } if raw & (entry::READ | entry::WRITE) != entry::WRITE => {
            Some((leaf.frame, level))
        }
        WalkEnd::Leaf { .. } | WalkEnd::Empty { .. } => None,
    }
}

/// What the TLB keeps. A page of 512 GiB is kept in pieces of 1 GiB.
fn translation(frame: Pfn, level: u32, page: Vpn, bits: u64) -> Translation {
    let size = [PageSize::Size4K, PageSize::Size2M, PageSize::Size1G][level.min(2) as usize];
    let inside =
        if level > 2 { page.0 & (RiscV::leaf_pages(level) - 1) & !(size.base_pages() - 1) } else { 0 };
    let writable = bits & entry::WRITE != 0;
    Translation::new(Pfn(frame.0 + inside), size, writable, bits & entry::DIRTY != 0).with_other(bits as u8)
}
