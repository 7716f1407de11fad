//! The vocabulary of mappings: what a range of an address space allows, what stands behind it, what is advised.

use std::fmt;

use crate::addr::{PageSize, VirtRange};

/// What a mapping allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Protection {
    /// Loads are allowed.
    pub read: bool,
    /// Stores are allowed.
    pub write: bool,
    /// Instruction fetches are allowed.
    pub execute: bool,
}

impl Protection {
    /// Loads and stores, the protection of ordinary data.
    pub const READ_WRITE: Self = Self { read: true, write: true, execute: false };

    /// Whether an access is allowed, as x86-64 Linux decides it: a store needs `write`, an instruction fetch
    /// needs `execute`, and a load needs any of the three, since the page-table entry cannot forbid loads alone.
    #[inline]
    pub const fn allows(self, write: bool, execute: bool) -> bool {
        let readable = self.read || self.write || self.execute;
        readable && (self.write || !write) && (self.execute || !execute)
    }
}

/// As in `/proc/PID/maps`: `rw-`.
impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (allowed, letter) in [(self.read, "r"), (self.write, "w"), (self.execute, "x")] {
            f.write_str(if allowed { letter } else { "-" })?;
        }
        Ok(())
    }
}

/// What stands behind a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Backing {
    /// Zero-filled memory: the heap, the stack, `MAP_ANONYMOUS`.
    #[default]
    Anonymous,
    /// A file's pages.
    File,
}

/// A new mapping. It replaces whatever was mapped in its range before (the meaning of `MAP_FIXED`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mapping {
    /// Where; whole base pages.
    pub range: VirtRange,
    /// What it allows.
    pub protection: Protection,
    /// What stands behind it.
    pub backing: Backing,
    /// `MAP_SHARED`.
    pub shared: bool,
    /// An explicit page size (`MAP_HUGETLB`), above 4 KiB.
    pub huge: Option<PageSize>,
}

impl Mapping {
    /// Private anonymous memory for loads and stores, the ordinary case.
    pub const fn anonymous(range: VirtRange) -> Self {
        Self {
            range,
            protection: Protection::READ_WRITE,
            backing: Backing::Anonymous,
            shared: false,
            huge: None,
        }
    }
}

/// `madvise` advice that changes translation or residence; other advice is not an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Advice {
    /// `MADV_HUGEPAGE`: transparent huge pages wanted.
    HugePage,
    /// `MADV_NOHUGEPAGE`: transparent huge pages not wanted.
    NoHugePage,
    /// `MADV_DONTNEED`, `MADV_FREE` and `MADV_REMOVE`: the pages' contents are dropped; the mapping stays.
    DontNeed,
    /// `MADV_COLLAPSE`: make huge pages now.
    Collapse,
}
