//! One virtual memory area.

use super::mapping::{Backing, Protection};
use crate::addr::{PageSize, VirtRange};

/// What the program advised about transparent huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HugePageAdvice {
    /// Nothing.
    #[default]
    Default,
    /// `MADV_HUGEPAGE`.
    HugePage,
    /// `MADV_NOHUGEPAGE`.
    NoHugePage,
}

/// A range of pages with equal attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vma {
    /// Where; whole pages, of the size `huge` if that is given.
    pub range: VirtRange,
    /// What it allows.
    pub protection: Protection,
    /// What stands behind it.
    pub backing: Backing,
    /// `MAP_SHARED`.
    pub shared: bool,
    /// An explicit page size (`MAP_HUGETLB`), above 4 KiB.
    pub huge: Option<PageSize>,
    /// Advice about transparent huge pages.
    pub advice: HugePageAdvice,
    /// Whether an access just below extends it: the main thread's stack (`MAP_GROWSDOWN`).
    pub grows_down: bool,
    /// Which call mapped it, for memory that belongs to a file in the kernel (files, shared memory, explicit huge
    /// pages): parts of one mapping that are still in place may merge, neighbours from two calls may not. 0 for
    /// private anonymous memory, which always may.
    ///
    /// `DEVIATION:` Linux also keeps private anonymous neighbours apart if one was moved by `mremap` after it
    /// was touched; ours merge. It also merges two mappings of consecutive parts of one file; ours stay apart.
    pub(super) origin: u64,
}

impl Vma {
    /// Private anonymous memory, the only kind that transparent huge pages may serve.
    #[inline]
    pub const fn is_private_anonymous(&self) -> bool {
        matches!(self.backing, Backing::Anonymous) && !self.shared && self.huge.is_none()
    }

    /// The part inside `range`; none if that is empty.
    pub(super) fn clip(&self, range: VirtRange) -> Option<Self> {
        let range = self.range.intersect(range);
        (!range.is_empty()).then_some(Self { range, ..*self })
    }

    /// Takes `next` in if it begins where this one ends and nothing else distinguishes them.
    pub(super) fn absorb(&mut self, next: &Self) -> bool {
        let joined = VirtRange::new(self.range.start, next.range.end);
        let mergeable = self.range.end == next.range.start
            && Self { range: joined, ..*self } == Self { range: joined, ..*next };
        if mergeable {
            self.range = joined;
        }
        mergeable
    }
}
