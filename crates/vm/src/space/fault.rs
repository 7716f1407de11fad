//! Page faults: is the access allowed, and which pages may serve it?

use super::address_space::{ADDRESS_LIMIT, AddressSpace};
use super::mapping::Protection;
use super::vma::Vma;
use crate::addr::{PAGE_BYTES, PageSize, VirtAddr, VirtRange};

/// The size to which a stack may grow, in bytes: Linux's default `RLIMIT_STACK`.
pub const STACK_LIMIT_BYTES: u64 = 8 << 20;
/// The distance in bytes that a growing stack keeps from the mapping below it: Linux's `stack_guard_gap`, 256 pages.
pub const STACK_GUARD_BYTES: u64 = 256 * PAGE_BYTES;

/// The plan by which a fault is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultPlan {
    /// The VMA that holds the address: protection and backing of the new page.
    pub vma: Vma,
    /// The page sizes that may be used, largest first, never empty. A size is usable if its slot in the page
    /// table is empty and a frame of that size can be had; if none is, the program is out of memory.
    pub page_sizes: &'static [PageSize],
}

/// A fault that the program does not survive (`SIGSEGV`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FaultError {
    /// No mapping holds the address, and no stack may grow there.
    #[error(
        "access to {addr}, where nothing is mapped; if the source does not announce all of its mappings, run it \
         as one that announces none"
    )]
    Unmapped {
        /// The address of the access.
        addr: VirtAddr,
    },
    /// The mapping does not allow the access.
    #[error("{} {addr}, but the mapping {vma} allows only {protection}", kind_text(*.write, *.execute))]
    ProtectionViolation {
        /// The address of the access.
        addr: VirtAddr,
        /// Whether it was a store.
        write: bool,
        /// Whether it was an instruction fetch.
        execute: bool,
        /// The range of the mapping.
        vma: VirtRange,
        /// The accesses that the mapping allows.
        protection: Protection,
    },
}

fn kind_text(write: bool, execute: bool) -> &'static str {
    match (write, execute) {
        (true, _) => "store to",
        (false, true) => "instruction fetch from",
        (false, false) => "load from",
    }
}

impl AddressSpace {
    /// Decides about an access that the page table could not serve. A stack grows, and an implicit address space
    /// maps what is missing, before the decision.
    ///
    /// # Errors
    ///
    /// The address is not mapped, or the mapping does not allow the access.
    #[inline]
    pub fn fault(&mut self, addr: VirtAddr, write: bool, execute: bool) -> Result<FaultPlan, FaultError> {
        let vma = match self.find_cached(addr) {
            Some(vma) => vma,
            None => self.extend_to(addr).ok_or(FaultError::Unmapped { addr })?,
        };
        let Vma { range, protection, .. } = vma;
        if !protection.allows(write, execute) {
            return Err(FaultError::ProtectionViolation { addr, write, execute, vma: range, protection });
        }
        let is_free_of_others = |slot| self.parts_in(slot).all(|part| part.is_private_anonymous());
        Ok(FaultPlan { vma, page_sizes: self.policy.page_sizes(self.granule, &vma, addr, is_free_of_others) })
    }

    /// Maps an unmapped address if there is a reason to; answers its VMA.
    #[cold]
    fn extend_to(&mut self, addr: VirtAddr) -> Option<Vma> {
        if addr >= ADDRESS_LIMIT {
            return None;
        }
        let fresh = match self.stack_growth(addr) {
            Some(fresh) => fresh,
            None if self.is_implicit => {
                self.implicit_mappings += 1;
                self.implicit_granule(addr)
            }
            None => return None,
        };
        // Stack growth merges with the stack, and an implicit space has no limit: neither can fail.
        self.rewrite(fresh.range, Some(fresh), &mut |_| None).ok()?;
        self.find_cached(addr)
    }

    /// Returns the memory that must be mapped for the stack above `addr` to reach it; none if there is no stack, it
    /// would become too large, or it would come too close to the mapping below (Linux, `expand_downwards`).
    fn stack_growth(&self, addr: VirtAddr) -> Option<Vma> {
        let stack = self.first_from(addr).filter(|vma| vma.grows_down)?;
        let start = addr.align_down(PAGE_BYTES);
        if stack.range.end.0 - start.0 > STACK_LIMIT_BYTES {
            return None;
        }
        // Another stack, or a mapping that allows nothing, may be as near as it likes.
        if let Some(below) = self.last_before(addr)
            && below.protection.allows(false, false)
            && !below.grows_down
            && start.0 - below.range.end.0 < STACK_GUARD_BYTES
        {
            return None;
        }
        Some(Vma { range: VirtRange::new(start, stack.range.start), ..*stack })
    }

    /// The aligned 2 MiB (or the large page of another granule) around `addr`, as far as nothing else is mapped there.
    fn implicit_granule(&self, addr: VirtAddr) -> Vma {
        let size = self.granule.large().bytes();
        let mut range = VirtRange::sized(addr.align_down(size), size);
        if let Some(below) = self.last_before(addr) {
            range.start = range.start.max(below.range.end);
        }
        if let Some(above) = self.first_from(addr) {
            range.end = range.end.min(above.range.start);
        }
        Vma::anonymous(range, Protection { read: true, write: true, execute: true })
    }
}
