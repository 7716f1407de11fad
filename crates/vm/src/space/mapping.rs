//! The vocabulary of mappings: what a range of an address space allows, what stands behind it, what is advised.

use std::fmt;

use crate::addr::{PageSize, VirtRange};

/// The accesses that a mapping allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Protection {
    /// Whether the program may load from the pages.
    pub read: bool,
    /// Whether the program may store to the pages.
    pub write: bool,
    /// Instruction fetches are allowed.
    pub execute: bool,
}

impl Protection {
    /// Loads and stores, the protection of ordinary data.
    pub const READ_WRITE: Self = Self { read: true, write: true, execute: false };

    /// Returns whether an access is allowed, as x86-64 Linux decides it: a store needs `write`, an instruction fetch
    /// needs `execute`, and a load needs any of the three, since the page-table entry cannot forbid loads alone.
    #[inline]
    pub const fn allows(self, write: bool, execute: bool) -> bool {
        let readable = self.read || self.write || self.execute;
        readable && (self.write || !write) && (self.execute || !execute)
    }
}

/// Writes the protection as in `/proc/PID/maps`: `rw-`.
impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (allowed, letter) in [(self.read, "r"), (self.write, "w"), (self.execute, "x")] {
            f.write_str(if allowed { letter } else { "-" })?;
        }
        Ok(())
    }
}

/// The memory that stands behind a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Backing {
    /// Zero-filled memory: the heap, the stack, `MAP_ANONYMOUS`.
    #[default]
    Anonymous,
    /// Pages of a file.
    File,
}

/// A file or a piece of shared memory: mappings of the same object show the same contents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u64);

/// The pages of an object that a mapping shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectPages {
    /// The object that the pages belong to.
    pub object: ObjectId,
    /// The number of the object's page that the mapping begins with.
    pub first: u64,
}

/// A new mapping, as `mmap` makes one. It replaces whatever was mapped in its range before (the meaning of
/// `MAP_FIXED`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mapping {
    /// The range of addresses, whole base pages.
    pub range: VirtRange,
    /// The accesses that the mapping allows.
    pub protection: Protection,
    /// The memory that stands behind the mapping.
    pub backing: Backing,
    /// Whether the mapping is shared (`MAP_SHARED`).
    pub shared: bool,
    /// An explicit page size (`MAP_HUGETLB`), above 4 KiB.
    pub huge: Option<PageSize>,
    /// The pages that the mapping shows, if it is a file's or shared, and they are known.
    pub object: Option<ObjectPages>,
}

impl Mapping {
    /// Returns a mapping of private anonymous memory for loads and stores, the ordinary case.
    pub const fn anonymous(range: VirtRange) -> Self {
        Self {
            range,
            protection: Protection::READ_WRITE,
            backing: Backing::Anonymous,
            shared: false,
            huge: None,
            object: None,
        }
    }
}

/// The advice of a program about a range of pages that changes translation or residence: `madvise`, the `mlock`
/// family, and the flags of `mmap` that mean the same. Other advice is not an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Advice {
    /// `MADV_HUGEPAGE`: transparent huge pages wanted.
    HugePage,
    /// `MADV_NOHUGEPAGE`: transparent huge pages not wanted.
    NoHugePage,
    /// `MADV_DONTNEED` and `MADV_DONTNEED_LOCKED`: the pages' contents are dropped; the mapping stays.
    DontNeed,
    /// `MADV_COLLAPSE`: make huge pages now.
    Collapse,
    /// `MADV_FREE`: the contents may be dropped when memory is needed, unless they are written to before.
    Free,
    /// `MADV_COLD`: the pages are the next to leave when memory is needed.
    Cold,
    /// `MADV_PAGEOUT`: the pages leave memory now.
    PageOut,
    /// `MADV_WILLNEED`: pages that left are read again, without waiting for them.
    WillNeed,
    /// `MAP_POPULATE`: the pages are made resident, writable ones of private mappings as stores would do it.
    Populate,
    /// `MADV_POPULATE_READ`: the pages are made resident as loads would do it.
    PopulateRead,
    /// `MADV_POPULATE_WRITE`: the pages are made resident as stores would do it.
    PopulateWrite,
    /// `MADV_REMOVE`: the contents of the shared memory behind the range are dropped, for all that map it.
    Remove,
    /// `MADV_DONTFORK`: a child does not get the mapping.
    DontFork,
    /// `MADV_DOFORK`: a child gets the mapping again.
    DoFork,
    /// `MADV_WIPEONFORK`: a child gets the mapping without its contents.
    WipeOnFork,
    /// `MADV_KEEPONFORK`: a child gets the contents again.
    KeepOnFork,
    /// `mlock`, `MAP_LOCKED`, `mlockall`: the pages are made resident as by [`Advice::Populate`], and do not leave.
    Lock,
    /// `mlock2` with `MLOCK_ONFAULT`: pages that are resident, or become so, do not leave.
    LockOnFault,
    /// `munlock`, `munlockall`: the pages may leave again.
    Unlock,
}

impl Advice {
    /// Every advice, in the order of the codes of trace files.
    pub const ALL: [Self; 19] = [
        Self::HugePage,
        Self::NoHugePage,
        Self::DontNeed,
        Self::Collapse,
        Self::Free,
        Self::Cold,
        Self::PageOut,
        Self::WillNeed,
        Self::Populate,
        Self::PopulateRead,
        Self::PopulateWrite,
        Self::Remove,
        Self::DontFork,
        Self::DoFork,
        Self::WipeOnFork,
        Self::KeepOnFork,
        Self::Lock,
        Self::LockOnFault,
        Self::Unlock,
    ];
}
