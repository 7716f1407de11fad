//! Paging: faults, the kernel's work, memory, page tables, and pages that leave.

/// Counts of page faults.
pub mod fault {
    use crate::metrics::names::{Name, count};
    use pagewalk_vm::addr::PageSize;

    /// The stage's own name.
    pub const STAGE: &str = "fault";
    /// The beginning of the names that [`minor`] returns.
    pub const MINOR: &str = "minor.";
    /// Faults for pages of files and shared memory that another mapping had.
    pub const PAGE_CACHE: Name = count(STAGE, "page-cache");
    /// Accesses that the page's protection does not allow.
    pub const PROTECTION: Name = count(STAGE, "protection");
    /// Pages that the program used and the source had not announced.
    pub const UNANNOUNCED_PAGES: Name = count(STAGE, "unannounced-pages");
    /// Faults for pages that had to be read.
    pub const MAJOR: Name = count(STAGE, "major");
    /// Faults for pages that had left, and were in memory again or still.
    pub const SWAP_CACHE: Name = count(STAGE, "swap-cache");

    /// Returns the name of the count of faults for pages that were never in memory.
    pub fn minor(size: PageSize) -> Name {
        Name::part(STAGE, format!("{MINOR}{size}"))
    }
}

/// Counts of the kernel's work on address spaces.
pub mod kernel {
    use crate::metrics::names::{Name, count};

    /// Translations that other cores had to drop.
    pub const SHOOTDOWNS: Name = count("kernel", "shootdowns");
    /// Pages whose contents the program gave up.
    pub const DROPPED_PAGES: Name = count("kernel", "dropped-pages");
    /// Huge pages that became small ones.
    pub const HUGE_PAGE_SPLITS: Name = count("kernel", "huge-page-splits");
    /// Huge pages made of small ones because the program asked for it.
    pub const HUGE_PAGE_COLLAPSES: Name = count("kernel", "huge-page-collapses");
    /// Pages copied because one of those that shared a frame was written to.
    pub const COPIES_ON_WRITE: Name = count("kernel", "copies-on-write");
    /// System calls that cannot succeed.
    pub const REFUSED_CALLS: Name = count("kernel", "refused-calls");
}

/// Counts of physical memory.
pub mod frames {
    use crate::metrics::names::{Name, bytes, count};

    /// Memory of pages, at the end.
    pub const RESIDENT: Name = bytes("frames", "resident");
    /// Memory of pages, at most.
    pub const RESIDENT_PEAK: Name = bytes("frames", "resident-peak");
    /// Memory of huge pages, at the end.
    pub const RESIDENT_HUGE: Name = bytes("frames", "resident-huge");
    /// The size of the machine's memory.
    pub const MEMORY: Name = bytes("frames", "memory");
    /// First touches of pages of which the trace says where they are.
    pub const GIVEN_PAGES: Name = count("frames", "given-pages");
    /// First touches of pages for which the machine chose a frame.
    pub const OWN_PAGES: Name = count("frames", "own-pages");
    /// Compactions of memory for huge pages.
    pub const COMPACTIONS: Name = count("frames", "compactions");
    /// Compactions that made no huge page.
    pub const COMPACTION_FAILURES: Name = count("frames", "compaction-failures");
    /// Pages that compactions moved.
    pub const MIGRATED_PAGES: Name = count("frames", "migrated-pages");
    /// Pages of other programs that were reclaimed.
    pub const OTHERS_RECLAIMED_PAGES: Name = count("frames", "others-reclaimed-pages");
    /// Hash-placed frames in use, at the end.
    pub const PLACED: Name = count("frames", "placed");
    /// Hash-placed frames in use, at most.
    pub const PLACED_PEAK: Name = count("frames", "placed-peak");
    /// Hash-placed frames in all.
    pub const PLACED_TOTAL: Name = count("frames", "placed-total");
    /// Hash-placed frames that were in use when a page first had no free one; all of them before there was such a page.
    pub const FIRST_CONFLICT: Name = count("frames", "first-conflict");
}

/// Counts of page tables.
pub mod table {
    use crate::metrics::Fidelity;
    use crate::metrics::names::{Name, bytes, count};

    /// Memory of page tables, at the end.
    pub const BYTES: Name = bytes("table", "bytes");
    /// Memory of page tables, at most.
    pub const BYTES_PEAK: Name = bytes("table", "bytes-peak");
    /// The largest piece in which a page table took memory.
    pub const CONTIGUOUS: Name = bytes("table", "contiguous");
    /// The kernel's time for page tables, without that for entering pages.
    pub const UPKEEP: Name = Name::new("table", "upkeep", "ps", Fidelity::Estimated);
    /// Rows of chunk tables in use.
    pub const CHUNK_ROWS: Name = count("table", "chunk-rows");
    /// Rows of chunk tables saved and restored at switches between processes.
    pub const CHUNK_ROWS_SWITCHED: Name = count("table", "chunk-rows-switched");
    /// Lines of hashed tables that a change of size looked at.
    pub const LINES_VISITED: Name = count("table", "lines-visited");
    /// Lines of hashed tables that were moved.
    pub const LINES_MOVED: Name = count("table", "lines-moved");
}

/// Counts of pages that leave memory.
pub mod reclaim {
    use crate::metrics::names::{Name, count};

    /// Pages that left memory for others.
    pub const EVICTIONS: Name = count("reclaim", "evictions");
    /// Pages copied because their frame belongs to other pages now.
    pub const COPIED_PAGES: Name = count("reclaim", "copied-pages");
    /// Returns the name of a count of the policy that places pages: `horizon-advances` (times that the horizon moved on), `scans`
    /// (runs of the timestamp daemon), `accessed-bits-read` (by that daemon), `forced-evictions` (pages that left although they
    /// were recent, since no other frame was one of the new page's).
    pub const fn of_policy(metric: &'static str) -> Name {
        count("reclaim", metric)
    }
    /// Pages that left before their frame was needed.
    pub const AHEAD: Name = count("reclaim", "ahead");
}

/// Counts of the swap device.
pub mod swap {
    use crate::metrics::names::{Name, count};

    /// Pages read from the swap device.
    pub const PAGES_IN: Name = count("swap", "pages-in");
    /// Pages written to the swap device.
    pub const PAGES_OUT: Name = count("swap", "pages-out");
    /// Pages that left and had a copy already.
    pub const CLEAN_EVICTIONS: Name = count("swap", "clean-evictions");
    /// Pages read because another's copy lay beside theirs.
    pub const READ_AHEAD: Name = count("swap", "read-ahead");
    /// Pages read ahead that left again before they were used.
    pub const READ_AHEAD_UNUSED: Name = count("swap", "read-ahead-unused");
}

/// Counts of the page-fault accelerator.
pub mod accelerator {
    use crate::metrics::Fidelity;
    use crate::metrics::names::{Name, count};

    /// Pages that the accelerator brought into memory.
    pub const FETCHES: Name = count("accelerator", "fetches");
    /// Page faults because a queue was full or empty.
    pub const SERVICE_FAULTS: Name = count("accelerator", "service-faults");
    /// Pages that the kernel booked after they had come.
    pub const BOOKED: Name = count("accelerator", "booked");
    /// Times that pages were booked because the kernel was about to change their range.
    pub const EARLY_DRAINS: Name = count("accelerator", "early-drains");
    /// Pages that the accelerator sent away.
    pub const EVICTIONS: Name = count("accelerator", "evictions");
    /// Runs of the bookkeeping daemon.
    pub const DAEMON_RUNS: Name = count("accelerator", "daemon-runs");
    /// The time that the daemon would sleep now.
    pub const DAEMON_SLEEP: Name = Name::new("accelerator", "daemon-sleep", "ps", Fidelity::Modelled);
}
