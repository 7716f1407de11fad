//! Which page sizes may serve a fault.

use super::vma::{HugePageAdvice, Vma};
use crate::addr::{PageSize, VirtAddr, VirtRange};

/// Transparent huge pages, as in `/sys/kernel/mm/transparent_hugepage/enabled`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HugePagePolicy {
    /// The kernel never uses transparent huge pages.
    Never,
    /// Only where the program advised it.
    #[default]
    Madvise,
    /// Wherever the program did not advise against it.
    Always,
}

impl HugePagePolicy {
    /// Returns the page sizes that may serve a fault at `addr` in `vma`, largest first, never empty.
    ///
    /// An explicit page size allows no other. Otherwise 2 MiB comes first where the aligned 2 MiB around `addr`
    /// lie inside the VMA, it is private anonymous memory, and this policy with the program's advice wants it
    /// (Linux, `Documentation/admin-guide/mm/transhuge.rst`); 4 KiB always comes last. Whether the slot in the page
    /// table is still empty and whether a frame of that size is left is for the caller to find out.
    #[inline]
    pub fn page_sizes(self, vma: &Vma, addr: VirtAddr) -> &'static [PageSize] {
        const EXPLICIT_2M: &[PageSize] = &[PageSize::Size2M];
        const EXPLICIT_1G: &[PageSize] = &[PageSize::Size1G];
        const HUGE_FIRST: &[PageSize] = &[PageSize::Size2M, PageSize::Size4K];
        const BASE: &[PageSize] = &[PageSize::Size4K];
        match vma.huge {
            Some(PageSize::Size1G) => EXPLICIT_1G,
            Some(PageSize::Size2M) => EXPLICIT_2M,
            _ if self.wants_huge(vma) && vma.range.covers(huge_slot(addr)) => HUGE_FIRST,
            _ => BASE,
        }
    }

    fn wants_huge(self, vma: &Vma) -> bool {
        let wanted = match (self, vma.advice) {
            (Self::Never, _) | (_, HugePageAdvice::NoHugePage) => false,
            (Self::Always, _) | (Self::Madvise, HugePageAdvice::HugePage) => true,
            (Self::Madvise, HugePageAdvice::Default) => false,
        };
        wanted && vma.is_private_anonymous()
    }
}

/// The aligned 2 MiB around `addr`.
fn huge_slot(addr: VirtAddr) -> VirtRange {
    VirtRange::sized(addr.align_down(PageSize::Size2M.bytes()), PageSize::Size2M.bytes())
}

/// The part of `range` that is made of whole, aligned 2 MiB slots; may be empty.
pub(super) fn whole_slots(range: VirtRange, size: PageSize) -> VirtRange {
    VirtRange::new(range.start.align_up(size.bytes()), range.end.align_down(size.bytes()))
}
