//! The hart's TLBs, and what translation depends on.

use std::collections::VecDeque;

use pagewalk_vm::addr::{Asid, PAGE_BYTES, PageSize, Pfn, Vpn};
use pagewalk_vm::sets::Replacement;
use pagewalk_vm::tlb::{LevelCounts, SetAssociative, Tlb, Tlbs};

use crate::csr::{Mode, Scheme};
use crate::record::Space;
use crate::trap::Access;

/// Bits of an entry, which are those of `Translation::other`, too.
pub(crate) mod entry {
    pub(crate) const VALID: u64 = 1;
    pub(crate) const READ: u64 = 1 << 1;
    pub(crate) const WRITE: u64 = 1 << 2;
    pub(crate) const EXECUTE: u64 = 1 << 3;
    pub(crate) const USER: u64 = 1 << 4;
    pub(crate) const ACCESSED: u64 = 1 << 6;
    pub(crate) const DIRTY: u64 = 1 << 7;
}

/// Entries that are not valid, which a hart keeps at most: as many as others.
pub(crate) const MOST_INVALID: usize = 64;

/// No page: page numbers have 52 bits.
pub(crate) const NO_PAGE: u64 = u64::MAX;

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
    pub(crate) aligned_bits: u64,
    pub(crate) instructions: Side,
    pub(crate) data: Side,
    pub(crate) counts: WalkCounts,
    /// What addresses mean now.
    pub(crate) context: Context,
    /// The scheme of what the TLBs hold.
    pub(crate) last_scheme: Scheme,
    /// Pages whose entry was found not to be valid, of a hart that keeps that until it is fenced; the oldest first.
    pub(crate) invalid: Option<VecDeque<(Asid, Vpn)>>,
}

/// One of them, and what is known of the page that it was asked for last. A second access to that page would not change
/// the TLB.
pub(crate) struct Side {
    pub(crate) tlbs: Tlbs,
    /// The pages that may be used without asking: at most one, read or written or both.
    pub(crate) read_page: u64,
    pub(crate) write_page: u64,
    /// Where it begins, from the beginning of memory.
    pub(crate) offset: u64,
    /// Accesses that did not ask since the context changed, and translated ones before.
    pub(crate) spared: u64,
    pub(crate) spared_before: u64,
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
pub(crate) struct Context {
    pub(crate) scheme: Scheme,
    pub(crate) root: Pfn,
    pub(crate) asid: Asid,
    /// For instructions, and for data.
    pub(crate) fetch_mode: Option<Mode>,
    pub(crate) data_mode: Option<Mode>,
    pub(crate) may_use_user_pages: bool,
    pub(crate) may_read_code: bool,
}

impl Side {
    /// DEVIATION: the evaluated core had 32 entries, all of one set.
    pub(crate) fn new() -> Self {
        let array = SetAssociative::new(64, 8, Replacement::Lru, &PageSize::ALL).expect("a possible shape");
        let tlbs = Tlbs::new(vec![Tlb::new(vec![array.into()])]);
        Self { tlbs, read_page: NO_PAGE, write_page: NO_PAGE, offset: 0, spared: 0, spared_before: 0 }
    }

    pub(crate) fn forget_page(&mut self) {
        (self.read_page, self.write_page) = (NO_PAGE, NO_PAGE);
    }

    /// The context changes; accesses until now were translated, or had physical addresses, which no TLB sees.
    pub(crate) fn end_context(&mut self, was_translated: bool) {
        self.forget_page();
        let spared = std::mem::take(&mut self.spared);
        self.spared_before += if was_translated { spared } else { 0 };
    }

    pub(crate) fn counts(&self, is_translated: bool) -> TlbCounts {
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

    /// Returns the counts of the TLBs: instructions, then data.
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
        self.space(self.context.data_mode)
    }

    /// What the addresses of instructions mean now.
    pub(crate) fn fetch_space(&self) -> Space {
        self.space(self.context.fetch_mode)
    }

    fn space(&self, mode: Option<Mode>) -> Space {
        let Context { scheme, root, asid, .. } = self.context;
        mode.map_or(Space::Physical, |_| Space::Virtual(scheme, root, asid))
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
    pub(crate) fn page(&self, addr: u64) -> Vpn {
        let bits = if self.scheme == Scheme::Sv48 { 48 } else { 39 };
        Vpn((addr & ((1 << bits) - 1)) / PAGE_BYTES)
    }

    /// Whether the highest bits of an address are copies of one.
    pub(crate) fn is_canonical(&self, addr: u64) -> bool {
        let unused = if self.scheme == Scheme::Sv48 { 64 - 48 } else { 64 - 39 };
        ((addr << unused) as i64 >> unused) as u64 == addr
    }

    /// The mode that an access is checked for; `None` if its address is physical.
    pub(crate) fn mode_of(&self, access: Access) -> Option<Mode> {
        match access {
            Access::Fetch => self.fetch_mode,
            Access::Load | Access::Store => self.data_mode,
        }
    }

    pub(crate) fn permits(&self, bits: u64, access: Access, mode: Mode) -> bool {
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
