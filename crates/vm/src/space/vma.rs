//! One virtual memory area.

use super::mapping::{Backing, ObjectId, Protection};
use crate::addr::{PageSize, VirtRange, Vpn};

/// The advice of the program about transparent huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HugePageAdvice {
    /// The program gave no advice about huge pages.
    #[default]
    Default,
    /// The program wants huge pages (`MADV_HUGEPAGE`).
    HugePage,
    /// The program does not want huge pages (`MADV_NOHUGEPAGE`).
    NoHugePage,
}

/// A range of pages with equal attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vma {
    /// The range of addresses: whole pages, of the size `huge` if that is given.
    pub range: VirtRange,
    /// The accesses that the mapping allows.
    pub protection: Protection,
    /// The memory that stands behind the mapping.
    pub backing: Backing,
    /// Whether the mapping is shared (`MAP_SHARED`).
    pub shared: bool,
    /// An explicit page size (`MAP_HUGETLB`), above 4 KiB.
    pub huge: Option<PageSize>,
    /// Advice about transparent huge pages.
    pub advice: HugePageAdvice,
    /// Whether its pages stay in memory: `mlock`.
    pub locked: bool,
    /// Whether a child of `fork` goes without it: `MADV_DONTFORK`.
    pub dont_fork: bool,
    /// Whether a child of `fork` gets it without its contents: `MADV_WIPEONFORK`.
    pub wipe_on_fork: bool,
    /// Whether an access just below extends it: the main thread's stack (`MAP_GROWSDOWN`).
    pub grows_down: bool,
    /// The object that it shows, and the distance from page numbers to the numbers of the object's pages (modulo 2^64),
    /// which parts of a mapping have in common.
    pub(super) object: Option<(ObjectId, u64)>,
    /// The call that mapped the range, for memory that belongs to a file in the kernel (files, shared memory,
    /// explicit huge pages): parts of one mapping that are still in place may merge, 0 for private anonymous memory,
    /// which always may.
    ///
    /// `DEVIATION:` Linux also keeps private anonymous neighbours apart if one was moved by `mremap` after it
    /// was touched; ours merge. It also merges two mappings of consecutive parts of one file; ours stay apart.
    pub(super) origin: u64,
}

impl Vma {
    /// Private anonymous memory about which nothing is known but its place.
    pub(super) const fn anonymous(range: VirtRange, protection: Protection) -> Self {
        Self {
            range,
            protection,
            backing: Backing::Anonymous,
            shared: false,
            huge: None,
            advice: HugePageAdvice::Default,
            locked: false,
            dont_fork: false,
            wipe_on_fork: false,
            grows_down: false,
            object: None,
            origin: 0,
        }
    }

    /// Returns the object's page that is mapped at `vpn`.
    pub fn object_page(&self, vpn: Vpn) -> Option<(ObjectId, u64)> {
        self.object.map(|(object, distance)| (object, vpn.0.wrapping_add(distance)))
    }

    /// Returns whether this is private anonymous memory, the only kind that transparent huge pages may serve.
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
