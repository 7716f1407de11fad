//! Which page sizes may serve a fault.

use super::vma::{HugePageAdvice, Vma};
use crate::addr::{Granule, PageSize, VirtAddr, VirtRange};

/// The use of huge pages for memory that asks for none: transparent ones as in
/// `/sys/kernel/mm/transparent_hugepage/enabled`, or explicit ones of hugetlbfs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HugePagePolicy {
    /// The kernel never uses transparent huge pages.
    Never,
    /// Only where the program advised it.
    #[default]
    Madvise,
    /// Wherever the program did not advise against it.
    Always,
    /// All private anonymous memory has explicit pages of this size, as under libhugetlbfs: a page covers its whole slot, also
    /// where a mapping has only a part of it.
    Explicit(PageSize),
}

impl HugePagePolicy {
    /// Returns the page sizes that may serve a fault at `addr` in `vma`, largest first, never empty.
    ///
    /// An explicit page size allows no other; DEVIATION: it is one of a granule of 4 KiB, and other granules do without.
    /// Otherwise 2 MiB (or the large size of another granule) comes first where the aligned 2 MiB around `addr`
    /// lie inside the VMA, it is private anonymous memory, and this policy with the program's advice wants it
    /// (Linux, `Documentation/admin-guide/mm/transhuge.rst`); the base size always comes last. Whether the slot in the page
    /// table is still empty and whether a frame of that size is left is for the caller to find out.
    ///
    /// With [`HugePagePolicy::Explicit`], sizes up to that one may serve private anonymous memory whose slots `is_free_of_others`
    /// says to hold no memory of another kind.
    #[inline]
    pub fn page_sizes(
        self,
        granule: Granule,
        vma: &Vma,
        addr: VirtAddr,
        is_free_of_others: impl Fn(VirtRange) -> bool,
    ) -> &'static [PageSize] {
        const EXPLICIT_2M: &[PageSize] = &[PageSize::Size2M];
        const EXPLICIT_1G: &[PageSize] = &[PageSize::Size1G];
        match (vma.huge, granule) {
            (Some(PageSize::Size1G), Granule::Size4K) => EXPLICIT_1G,
            (Some(PageSize::Size2M), Granule::Size4K) => EXPLICIT_2M,
            _ => match self {
                Self::Explicit(most) if vma.is_private_anonymous() => {
                    let fits = |size: &PageSize| *size <= most && is_free_of_others(slot(addr, *size));
                    let first = LARGEST_FIRST.iter().position(fits).unwrap_or(LARGEST_FIRST.len() - 1);
                    &LARGEST_FIRST[first..]
                }
                _ => {
                    let wanted = self.wants_huge(vma) && vma.range.covers(slot(addr, granule.large()));
                    if wanted { huge_first(granule) } else { &granule.sizes()[..1] }
                }
            },
        }
    }

    fn wants_huge(self, vma: &Vma) -> bool {
        let wanted = match (self, vma.advice) {
            (Self::Never | Self::Explicit(_), _) | (_, HugePageAdvice::NoHugePage) => false,
            (Self::Always, _) | (Self::Madvise, HugePageAdvice::HugePage) => true,
            (Self::Madvise, HugePageAdvice::Default) => false,
        };
        wanted && vma.is_private_anonymous()
    }
}

const LARGEST_FIRST: &[PageSize] = &[PageSize::Size1G, PageSize::Size2M, PageSize::Size4K];

/// Returns a large page's size and a base page's.
fn huge_first(granule: Granule) -> &'static [PageSize] {
    match granule {
        Granule::Size4K => &[PageSize::Size2M, PageSize::Size4K],
        Granule::Size16K => &[PageSize::Size32M, PageSize::Size16K],
        Granule::Size64K => &[PageSize::Size512M, PageSize::Size64K],
    }
}

/// The aligned range of a page of `size` around `addr`.
fn slot(addr: VirtAddr, size: PageSize) -> VirtRange {
    VirtRange::sized(addr.align_down(size.bytes()), size.bytes())
}

/// The part of `range` that is made of whole, aligned 2 MiB slots; may be empty.
pub(super) fn whole_slots(range: VirtRange, size: PageSize) -> VirtRange {
    VirtRange::new(range.start.align_up(size.bytes()), range.end.align_down(size.bytes()))
}
