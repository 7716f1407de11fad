//! The counts of the kernel.

/// The counts of a machine's kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelCounts {
    pub(crate) faults: FaultCounts,
    pub(crate) changes: ChangeCounts,
    pub(crate) resident: Resident,
    pub(super) upkeep: UpkeepCounts,
}

/// Counts of page faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultCounts {
    /// First touches and copies, by the level of pages.
    pub(crate) minor: [u64; 3],
    pub(super) major: u64,
    /// Faults for pages that had left, and were in memory again or still.
    pub(super) swap_cache: u64,
    /// Faults for pages of files and shared memory that another mapping had.
    pub(super) page_cache: u64,
    pub(super) protection: u64,
    pub(super) unannounced_pages: u64,
    /// First touches of pages of which the trace says where they are.
    pub(crate) given_pages: u64,
    /// First touches of pages for which the machine chose a frame.
    pub(crate) own_pages: u64,
}

/// Counts of changes of address spaces, and of what they did to pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeCounts {
    pub(super) refused_calls: u64,
    pub(super) shootdowns: u64,
    pub(crate) dropped_pages: u64,
    pub(crate) splits: u64,
    /// Huge pages made of small ones because the program asked for it.
    pub(super) collapses: u64,
    /// Pages copied because one of those that shared a frame was written to.
    pub(super) copies_on_write: u64,
    /// Pages copied because their frame was not one of theirs any more.
    pub(super) copied_pages: u64,
}

/// The counts of resident pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resident {
    /// By the level of pages, now; without those in given frames.
    pub(crate) pages: [u64; 3],
    /// The most bytes of all of them.
    pub(super) bytes_peak: u64,
}

/// The kernel's time for page tables, beside entering pages.
#[derive(Clone, Debug, Default)]
pub(super) struct UpkeepCounts {
    pub(super) ps: u64,
    pub(super) lines_visited: u64,
    pub(super) lines_moved: u64,
    /// Rows of chunk tables saved and restored at switches between processes.
    pub(super) chunk_rows_switched: u64,
}
