//! The set of VMAs: look-up, and the one primitive by which everything changes it.

use std::collections::BTreeMap;

use super::huge::HugePagePolicy;
use super::vma::Vma;
use crate::addr::{Granule, PageSize, VirtAddr, VirtRange};

/// The most VMAs that an address space may have: Linux's default for `vm.max_map_count`.
pub const MAX_MAPPINGS: usize = 65_530;

/// The end of the user half of a 57-bit address space, the largest that x86-64 Linux offers.
pub const ADDRESS_LIMIT: VirtAddr = VirtAddr(1 << 56);

/// The address space of one process: its VMAs.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    /// The VMAs by first address; ranges do not overlap and neighbours that could merge are merged.
    vmas: BTreeMap<VirtAddr, Vma>,
    /// The VMA of the last fault: most faults come in runs. None after every change.
    last_hit: Option<Vma>,
    /// The heap segment as `brk` last set it.
    pub(super) heap: VirtRange,
    pub(super) policy: HugePagePolicy,
    pub(super) granule: Granule,
    /// Whether unmapped addresses are mapped on the fly.
    pub(super) is_implicit: bool,
    pub(super) implicit_mappings: u64,
    mapped_bytes: u64,
    last_origin: u64,
}

/// The reason why an address space cannot be changed as asked. The address space is unchanged then. It is unchanged
/// then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpaceError {
    /// The call would need more than [`MAX_MAPPINGS`] VMAs.
    #[error(
        "an address space has at most {MAX_MAPPINGS} mappings (Linux's vm.max_map_count), and {range} would need \
         one more; the program would see this call fail on Linux, too"
    )]
    TooManyMappings {
        /// The range of the call.
        range: VirtRange,
    },
    /// The range reaches beyond [`ADDRESS_LIMIT`].
    #[error("{range} ends above {ADDRESS_LIMIT}, the end of user addresses")]
    BeyondAddressLimit {
        /// The range of the call.
        range: VirtRange,
    },
    /// A mapping with explicit huge pages does not begin at a multiple of their size.
    #[error("{range} begins inside a {size} page; a mapping of {size} pages begins at a multiple of {size}")]
    MisalignedHugePages {
        /// The range of the call.
        range: VirtRange,
        /// The explicit page size.
        size: PageSize,
    },
    /// The range ends inside an explicit huge page.
    #[error("{range} cuts a {size} page of the mapping {vma}; explicit huge pages change as a whole")]
    SplitsHugePage {
        /// The range of the call.
        range: VirtRange,
        /// The mapping that it cuts.
        vma: VirtRange,
        /// The explicit page size of the mapping.
        size: PageSize,
    },
    /// A part of what `mremap` should move is not mapped.
    #[error("mremap of {range}: nothing is mapped there")]
    NotMapped {
        /// The part of the range that is not mapped.
        range: VirtRange,
    },
    /// `mremap` with an empty range, or to a place that overlaps the old one.
    #[error(
        "mremap from {from} to {to}: both must hold a page, and they must not overlap unless they begin alike"
    )]
    BadRemap {
        /// The range of the mapping before the call.
        from: VirtRange,
        /// The range that the mapping should have.
        to: VirtRange,
    },
}

impl AddressSpace {
    /// Creates an empty address space.
    pub fn new(policy: HugePagePolicy) -> Self {
        Self {
            vmas: BTreeMap::new(),
            last_hit: None,
            heap: VirtRange::default(),
            policy,
            granule: Granule::Size4K,
            is_implicit: false,
            implicit_mappings: 0,
            mapped_bytes: 0,
            last_origin: 0,
        }
    }

    /// Returns an empty address space for a source that does not announce its mappings: a fault at an unmapped
    /// address maps the aligned 2 MiB around it, as far as they are free, as private anonymous memory that allows
    /// everything. Such a space has no limit on the number of its VMAs, since no call of the program made them.
    pub fn implicit(policy: HugePagePolicy) -> Self {
        Self { is_implicit: true, ..Self::new(policy) }
    }

    /// Returns the address space with pages of another granule. Mappings keep their ends, also inside of a page.
    pub fn with_granule(self, granule: Granule) -> Self {
        Self { granule, ..self }
    }

    /// Returns the address space of a child of `fork`: nothing is locked, and mappings that the program advised
    /// against are left out.
    pub fn fork(&self) -> Self {
        let mut child = self.clone();
        let all = VirtRange::new(VirtAddr(0), ADDRESS_LIMIT);
        let rewritten =
            child.rewrite(all, None, &mut |vma| (!vma.dont_fork).then_some(Vma { locked: false, ..vma }));
        debug_assert!(rewritten.is_ok(), "there are no more of them than before");
        child
    }

    /// Returns the VMA that holds `addr`.
    #[inline]
    pub fn find(&self, addr: VirtAddr) -> Option<&Vma> {
        let (_, vma) = self.vmas.range(..=addr).next_back()?;
        vma.range.contains(addr).then_some(vma)
    }

    /// Returns whether anything is mapped inside a range.
    pub fn is_used(&self, range: VirtRange) -> bool {
        self.parts_in(range).next().is_some()
    }

    /// Returns whether explicit huge pages serve all private anonymous memory.
    pub fn has_explicit_pages(&self) -> bool {
        matches!(self.policy, HugePagePolicy::Explicit(_))
    }

    /// Returns all VMAs in ascending order.
    pub fn vmas(&self) -> impl Iterator<Item = &Vma> {
        self.vmas.values()
    }

    /// Returns the number of VMAs.
    pub fn vma_count(&self) -> usize {
        self.vmas.len()
    }

    /// Returns the number of bytes in all VMAs, touched or not.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }

    /// Returns the number of times that an unmapped address was mapped on the fly; see [`AddressSpace::implicit`].
    pub fn implicit_mappings(&self) -> u64 {
        self.implicit_mappings
    }

    /// Returns the heap segment as the last `brk` left it.
    pub fn heap(&self) -> VirtRange {
        self.heap
    }

    /// The VMA that holds `addr`, remembered for the next look-up.
    #[inline]
    pub(super) fn find_cached(&mut self, addr: VirtAddr) -> Option<Vma> {
        match self.last_hit {
            Some(vma) if vma.range.contains(addr) => Some(vma),
            _ => {
                let vma = *self.find(addr)?;
                self.last_hit = Some(vma);
                Some(vma)
            }
        }
    }

    /// The last VMA that begins below `addr`.
    pub(super) fn last_before(&self, addr: VirtAddr) -> Option<&Vma> {
        self.vmas.range(..addr).next_back().map(|(_, vma)| vma)
    }

    /// The first VMA that begins at or above `addr`.
    pub(super) fn first_from(&self, addr: VirtAddr) -> Option<&Vma> {
        self.vmas.range(addr..).next().map(|(_, vma)| vma)
    }

    /// The parts of VMAs that lie inside `range`, in ascending order.
    pub(super) fn parts_in(&self, range: VirtRange) -> impl Iterator<Item = Vma> {
        let first = match self.find(range.start) {
            Some(vma) => vma.range.start,
            None => range.start,
        };
        self.vmas.range(first..range.end.max(first)).filter_map(move |(_, vma)| vma.clip(range))
    }

    /// Returns what is mapped inside `range`, in ascending order, without regard to VMAs' borders.
    pub(super) fn mapped_in(&self, range: VirtRange) -> Vec<VirtRange> {
        let mut mapped = Vec::new();
        for part in self.parts_in(range) {
            push_range(&mut mapped, part.range);
        }
        mapped
    }

    /// Changes what is mapped in `range`: every part of a VMA inside becomes what `change` makes of it (none
    /// unmaps it), then `fresh`, which lies in `range` in an unmapped place, is added. Neighbours are split and
    /// merged as necessary.
    ///
    /// # Errors
    ///
    /// Too many VMAs; nothing has changed then.
    pub(super) fn rewrite(
        &mut self,
        range: VirtRange,
        fresh: Option<Vma>,
        change: &mut dyn FnMut(Vma) -> Option<Vma>,
    ) -> Result<(), SpaceError> {
        // Neighbours that only touch the range take part, too: they may merge with what is inside.
        let first = match self.last_before(range.start) {
            Some(vma) if vma.range.end >= range.start => vma.range.start,
            _ => range.start,
        };
        let old: Vec<Vma> = self.vmas.range(first..=range.end).map(|(_, vma)| *vma).collect();
        let mut new: Vec<Vma> = Vec::with_capacity(old.len() + 2);
        for vma in &old {
            new.extend(vma.clip(VirtRange::new(VirtAddr(0), range.start)));
            new.extend(vma.clip(range).and_then(&mut *change));
            new.extend(vma.clip(VirtRange::new(range.end, VirtAddr(u64::MAX))));
        }
        new.extend(fresh);
        new.sort_unstable_by_key(|vma| vma.range.start);
        new.dedup_by(|next, vma| vma.absorb(next));
        debug_assert!(
            new.is_sorted_by(|vma, next| vma.range.end <= next.range.start),
            "{range}: overlap in {new:?}"
        );

        let count = self.vmas.len() - old.len() + new.len();
        if count > MAX_MAPPINGS && new.len() > old.len() && !self.is_implicit {
            return Err(SpaceError::TooManyMappings { range });
        }
        for vma in &old {
            self.vmas.remove(&vma.range.start);
            self.mapped_bytes -= vma.range.bytes();
        }
        for vma in new {
            self.mapped_bytes += vma.range.bytes();
            self.vmas.insert(vma.range.start, vma);
        }
        self.last_hit = None;
        Ok(())
    }

    /// Fails unless `count` more VMAs are allowed. Operations that call [`AddressSpace::rewrite`] several times
    /// ask first, for the worst case, so that they fail before they changed anything (Linux's `mremap` does the
    /// same).
    pub(super) fn check_room(&self, count: usize, range: VirtRange) -> Result<(), SpaceError> {
        match self.is_implicit || self.vmas.len() + count <= MAX_MAPPINGS {
            true => Ok(()),
            false => Err(SpaceError::TooManyMappings { range }),
        }
    }

    /// Fails if an end of `range` lies inside an explicit huge page.
    pub(super) fn check_huge_pages(&self, range: VirtRange) -> Result<(), SpaceError> {
        for edge in [range.start, range.end] {
            let Some(vma) = self.find(edge) else { continue };
            if let Some(size) = vma.huge
                && edge.offset_in(size) != 0
            {
                return Err(SpaceError::SplitsHugePage { range, vma: vma.range, size });
            }
        }
        Ok(())
    }

    /// A number for [`Vma::origin`] that no VMA has yet.
    pub(super) fn fresh_origin(&mut self) -> u64 {
        self.last_origin += 1;
        self.last_origin
    }
}

/// Appends `range` to ascending ranges; ranges that touch become one.
pub(super) fn push_range(ranges: &mut Vec<VirtRange>, range: VirtRange) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
