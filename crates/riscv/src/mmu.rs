//! Translation: the hart's TLBs, the walker, and the accelerator behind it.

use std::collections::VecDeque;

use pagewalk_vm::addr::{Asid, PAGE_BYTES, PageSize, Pfn, PhysAddr, VirtAddr, Vpn};
use pagewalk_vm::fault::RemotePte;
use pagewalk_vm::sets::Replacement;
use pagewalk_vm::table::{Geometry, Radix, Sv39, Sv48, TableWords, Walk, WalkEnd};
use pagewalk_vm::tlb::{Fill, LevelCounts, SetAssociative, Tlb, Tlbs, Translation};

use crate::accelerator::Outcome;
use crate::csr::{Mode, Scheme, status};
use crate::machine::Machine;
use crate::pmp::Verdict;
use crate::record::Space;
use crate::trace::Note;
use crate::trap::{Access, Exception, Trap};

/// Bits of an entry, which are those of `Translation::other`, too.
mod entry {
    pub(super) const VALID: u64 = 1;
    pub(super) const READ: u64 = 1 << 1;
    pub(super) const WRITE: u64 = 1 << 2;
    pub(super) const EXECUTE: u64 = 1 << 3;
    pub(super) const USER: u64 = 1 << 4;
    pub(super) const ACCESSED: u64 = 1 << 6;
    pub(super) const DIRTY: u64 = 1 << 7;
}

/// Entries that are not valid, which a hart keeps at most: as many as others.
const MOST_INVALID: usize = 64;

/// No page: page numbers have 52 bits.
const NO_PAGE: u64 = u64::MAX;

/// The part of the system that sets the accessed and dirty bits of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Marking {
    /// The kernel: an access that would set one is a page fault.
    #[default]
    Faults,
    /// The walker sets them.
    Hardware,
}

/// The effect of a load or store of an address that its size does not divide.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Misaligned {
    /// The access is done, as by hardware.
    #[default]
    Native,
    /// The access is a misaligned exception.
    Trap,
}

/// The TLBs of a hart, for instructions and for data.
pub(crate) struct Mmu {
    pub(crate) marking: Marking,
    /// Bits of an address that an access's size must divide: none, or all.
    aligned_bits: u64,
    instructions: Side,
    data: Side,
    pub(crate) counts: WalkCounts,
    /// What addresses mean now.
    context: Context,
    /// The scheme of what the TLBs hold.
    last_scheme: Scheme,
    /// Pages whose entry was found not to be valid, of a hart that keeps that until it is fenced; the oldest first.
    invalid: Option<VecDeque<(Asid, Vpn)>>,
}

/// One of them, and what is known of the page that it was asked for last. A second access to that page would not change
/// the TLB.
struct Side {
    tlbs: Tlbs,
    /// The pages that may be used without asking: at most one, read or written or both.
    read_page: u64,
    write_page: u64,
    /// Where it begins, from the beginning of memory.
    offset: u64,
    /// Accesses that did not ask since the context changed, and translated ones before.
    spared: u64,
    spared_before: u64,
}

/// The counts of what walks did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WalkCounts {
    /// The number of walks.
    pub walks: u64,
    /// Entries that they read.
    pub references: u64,
    /// Pages that the accelerator brought meanwhile.
    pub fetches: u64,
    /// Page faults without a walk: the entry was not valid, and has not been fenced since.
    pub kept_invalid: u64,
}

/// The counts of the TLBs of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlbCounts {
    /// Accesses that were translated.
    pub accesses: u64,
    /// The number of accesses that walked.
    pub misses: u64,
}

/// What decides on an access beside its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Context {
    scheme: Scheme,
    root: Pfn,
    asid: Asid,
    /// For instructions, and for data.
    fetch_mode: Option<Mode>,
    data_mode: Option<Mode>,
    may_use_user_pages: bool,
    may_read_code: bool,
}

impl Side {
    /// DEVIATION: the evaluated core had 32 entries, all of one set.
    fn new() -> Self {
        let array = SetAssociative::new(64, 8, Replacement::Lru, &PageSize::ALL).expect("a possible shape");
        let tlbs = Tlbs::new(vec![Tlb::new(vec![array.into()])]);
        Self { tlbs, read_page: NO_PAGE, write_page: NO_PAGE, offset: 0, spared: 0, spared_before: 0 }
    }

    fn forget_page(&mut self) {
        (self.read_page, self.write_page) = (NO_PAGE, NO_PAGE);
    }

    /// The context changes; accesses until now were translated, or had physical addresses, which no TLB sees.
    fn end_context(&mut self, was_translated: bool) {
        self.forget_page();
        let spared = std::mem::take(&mut self.spared);
        self.spared_before += if was_translated { spared } else { 0 };
    }

    fn counts(&self, is_translated: bool) -> TlbCounts {
        let LevelCounts { hits, misses, .. } = self.tlbs.levels()[0].counts();
        let spared = self.spared_before + if is_translated { self.spared } else { 0 };
        TlbCounts { accesses: hits + misses + spared, misses }
    }
}

impl Mmu {
    pub(crate) fn new(marking: Marking, misaligned: Misaligned, keeps_invalid: bool) -> Self {
        Self {
            marking,
            aligned_bits: if misaligned == Misaligned::Trap { u64::MAX } else { 0 },
            instructions: Side::new(),
            data: Side::new(),
            counts: WalkCounts::default(),
            context: Context::default(),
            last_scheme: Scheme::Bare,
            invalid: keeps_invalid.then(VecDeque::new),
        }
    }

    /// Instructions, then data.
    pub(crate) fn tlb_counts(&self) -> (TlbCounts, TlbCounts) {
        let Context { fetch_mode, data_mode, .. } = self.context;
        (self.instructions.counts(fetch_mode.is_some()), self.data.counts(data_mode.is_some()))
    }

    /// Lets the next accesses ask again.
    pub(crate) fn forget_pages(&mut self) {
        self.instructions.forget_page();
        self.data.forget_page();
    }

    /// What the addresses of loads and stores mean now.
    pub(crate) fn data_space(&self) -> Space {
        let Context { scheme, root, asid, data_mode, .. } = self.context;
        data_mode.map_or(Space::Physical, |_| Space::Virtual(scheme, root, asid))
    }

    /// Forgets what SFENCE.VMA says: a page, an address space, or all.
    pub(crate) fn fence(&mut self, addr: Option<u64>, asid: Option<u64>) {
        let page = addr.filter(|_| self.context.scheme != Scheme::Bare).map(|addr| self.context.page(addr));
        if let Some(invalid) = &mut self.invalid {
            invalid.retain(|&(of, kept)| {
                asid.is_some_and(|asid| asid & 0xfff != of.0.into()) || page.is_some_and(|page| page != kept)
            });
        }
        for side in [&mut self.instructions, &mut self.data] {
            side.forget_page();
            let asid = asid.map(|asid| Asid(asid as u16 & 0xfff));
            match (addr, asid) {
                // Without translation no address belongs to a page.
                (Some(addr), Some(asid)) if self.context.scheme != Scheme::Bare => {
                    side.tlbs.invalidate(asid, self.context.page(addr));
                }
                // An entry's address space is part of its key: for a page in all of them, all are dropped.
                (_, asid) => side.tlbs.flush(asid.filter(|_| addr.is_none())),
            }
        }
    }
}

impl Context {
    /// An address's page number, without the copies of its highest bit.
    fn page(&self, addr: u64) -> Vpn {
        let bits = if self.scheme == Scheme::Sv48 { 48 } else { 39 };
        Vpn((addr & ((1 << bits) - 1)) / PAGE_BYTES)
    }

    /// Whether the highest bits of an address are copies of one.
    fn is_canonical(&self, addr: u64) -> bool {
        let unused = if self.scheme == Scheme::Sv48 { 64 - 48 } else { 64 - 39 };
        ((addr << unused) as i64 >> unused) as u64 == addr
    }

    /// The mode that an access is checked for; `None` if its address is physical.
    fn mode_of(&self, access: Access) -> Option<Mode> {
        match access {
            Access::Fetch => self.fetch_mode,
            Access::Load | Access::Store => self.data_mode,
        }
    }

    fn permits(&self, bits: u64, access: Access, mode: Mode) -> bool {
        let user = bits & entry::USER != 0;
        let mode_may = match mode {
            Mode::User => user,
            _ => !user || self.may_use_user_pages && access != Access::Fetch,
        };
        let needed = match access {
            Access::Fetch => entry::EXECUTE,
            Access::Load if self.may_read_code => entry::READ | entry::EXECUTE,
            Access::Load => entry::READ,
            Access::Store => entry::WRITE,
        };
        mode_may && bits & needed != 0
    }
}

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
        let mut is_fetched = false;
        loop {
            let walk = match context.scheme {
                Scheme::Sv48 => Radix::<Sv48>::of_root(context.root).walk_root(&self.ram, page),
                _ => Radix::<Sv39>::of_root(context.root).walk_root(&self.ram, page),
            };
            self.mmu.counts.walks += 1;
            self.mmu.counts.references += walk.references.len() as u64;
            // The walker reads tables as a supervisor does.
            let tables = walk.references.iter().map(|reference| reference.addr.0);
            let open =
                |at: u64| self.csrs.pmp.check(at, 8, Access::Load, Mode::Supervisor) == Verdict::Allowed;
            let last = walk.references.last().expect("a walk reads the root's entry");
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
            let pages = <Sv48 as Geometry>::leaf_pages(level);
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
    let inside = if level > 2 {
        page.0 & (<Sv48 as Geometry>::leaf_pages(level) - 1) & !(size.base_pages() - 1)
    } else {
        0
    };
    let writable = bits & entry::WRITE != 0;
    Translation::new(Pfn(frame.0 + inside), size, writable, bits & entry::DIRTY != 0).with_other(bits as u8)
}
