//! Time, and what only timed machines have: jobs, caches, DRAM, flash.

/// Counts and latencies of jobs.
pub mod jobs {
    use std::borrow::Cow;

    use crate::metrics::Fidelity;
    use crate::metrics::names::Name;

    const fn estimated(metric: &'static str, unit: &'static str) -> Name {
        Name::new("jobs", metric, unit, Fidelity::Estimated)
    }

    /// Jobs that are done.
    pub const FINISHED: Name = estimated("finished", "count");
    /// Jobs for which a core had no room.
    pub const REFUSED: Name = estimated("refused", "count");
    /// Times that a job waited for a page while its core did something else.
    pub const MISSES: Name = estimated("misses", "count");
    /// Pages that were used before the jobs, without time.
    pub const PREPARED_PAGES: Name = estimated("prepared-pages", "count");

    /// Returns the name of a statistic of a latency: `service` from a job's start, `response` from its arrival, to its end.
    pub fn latency(latency: &str, statistic: &str) -> Name {
        let metric = Cow::Owned(format!("{latency}.{statistic}"));
        Name { metric, ..estimated("", "ns") }
    }
}

/// Time, and what it went into.
pub mod time {
    use std::borrow::Cow;

    use crate::metrics::Fidelity;
    use crate::metrics::KernelStep;
    use crate::metrics::names::Name;

    const fn estimated(metric: &'static str, unit: &'static str) -> Name {
        Name::new("time", metric, unit, Fidelity::Estimated)
    }

    const fn ps(metric: &'static str) -> Name {
        estimated(metric, "ps")
    }

    /// The time of the core that took longest.
    pub const ELAPSED: Name = ps("elapsed");
    /// Time in which cores did what the program asked for, summed over cores as the three below.
    pub const COMPUTE: Name = ps("compute");
    /// Time in which cores waited for page walks.
    pub const WALK: Name = ps("walk");
    /// Time in which cores waited for memory.
    pub const MEMORY: Name = ps("memory");
    /// Time in which cores waited for the right way after a branch that was predicted wrongly.
    pub const BRANCH: Name = ps("branch");
    /// Time in which cores waited for instructions: their translation, and lines that the first cache for them did not have.
    pub const FETCH: Name = ps("fetch");
    /// Of the time to compute, what the instructions take at the width of the core.
    pub const COMPUTE_WIDTH: Name = ps("compute.width");
    /// The rest of the time to compute: instructions wait for others, for a unit, and for the next group behind a branch.
    pub const COMPUTE_DEPENDENCES: Name = ps("compute.dependences");
    /// Of the time for memory, the wait for lines that come from DRAM.
    pub const MEMORY_DRAM: Name = ps("memory.dram");
    /// Of the time for memory, the wait until DRAM has handed over the lines before.
    pub const MEMORY_BANDWIDTH: Name = ps("memory.bandwidth");
    /// Of the time for memory, the wait for room in the store buffer.
    pub const MEMORY_STORES: Name = ps("memory.stores");

    /// Of the time for walks, the wait for translations that a farther level of the TLB has.
    pub const WALK_TLB: Name = ps("walk.tlb");
    /// The rest of the time for walks, which read page tables.
    pub const WALK_TABLES: Name = ps("walk.tables");
    /// Of the time for instruction fetch, the wait for the translation of a line: a farther level of the TLB, or a walk.
    pub const FETCH_TRANSLATION: Name = ps("fetch.translation");
    /// The rest of the time for instruction fetch: lines that the first cache for instructions does not have.
    pub const FETCH_LINES: Name = ps("fetch.lines");

    /// Returns the name of the part of the time for memory in which cores waited for lines that a cache has, level 1 nearest the core. A
    /// line that the nearest cache has asked for, and not got, counts as its own.
    pub fn memory_of_cache(level: usize) -> Name {
        Name { metric: Cow::Owned(format!("memory.l{level}")), ..ps("") }
    }
    /// Time in page faults and other work of the kernel.
    pub const FAULT: Name = ps("fault");
    /// Time in which cores waited for pages from the swap device.
    pub const SWAP_WAIT: Name = ps("swap-wait");
    /// Time in which daemons worked.
    pub const DAEMONS: Name = ps("daemons");
    /// Elapsed time over the program's accesses.
    pub const ELAPSED_PER_ACCESS: Name = estimated("elapsed-per-access", "ps-per-access");
    /// Elapsed time over the program's instructions.
    pub const ELAPSED_PER_INSTRUCTION: Name = estimated("elapsed-per-instruction", "ps-per-instruction");

    /// Returns the name of the time that went into a step of the kernel's work.
    pub fn step(step: KernelStep) -> Name {
        Name { metric: Cow::Owned(format!("fault.{}", step.name())), ..ps("") }
    }
}

/// Counts of a cache; level 1 is nearest the core.
pub mod cache {
    use crate::metrics::names::Name;

    fn level(level: usize, metric: &'static str) -> Name {
        Name::of_level("cache", level, metric)
    }

    /// Returns the name of the count of the program's accesses that reach the level.
    pub fn data_accesses(of: usize) -> Name {
        level(of, "data-accesses")
    }

    /// Returns the name of the count of the program's accesses that miss the level.
    pub fn data_misses(of: usize) -> Name {
        level(of, "data-misses")
    }

    /// Returns the name of the count of page walks' references that reach the level.
    pub fn walk_accesses(of: usize) -> Name {
        level(of, "walk-accesses")
    }

    /// Returns the name of the count of page walks' references that miss the level.
    pub fn walk_misses(of: usize) -> Name {
        level(of, "walk-misses")
    }

    /// Returns the name of the count of dirty lines that leave the level.
    pub fn write_backs(of: usize) -> Name {
        level(of, "write-backs")
    }

    /// Returns the name of the count of lines that prefetchers brought into the level.
    pub fn prefetches(of: usize) -> Name {
        level(of, "prefetches")
    }
}

/// Counts of requests to memory, beyond all caches.
pub mod memory {
    use crate::metrics::names::{Name, count};

    /// Lines read for the program.
    pub const DATA_READS: Name = count("memory", "data-reads");
    /// Lines read for page walks.
    pub const WALK_READS: Name = count("memory", "walk-reads");
    /// Lines read for prefetchers.
    pub const PREFETCH_READS: Name = count("memory", "prefetch-reads");
    /// Lines read because the kernel writes to them.
    pub const KERNEL_READS: Name = count("memory", "kernel-reads");
    /// Lines written back to memory.
    pub const WRITES: Name = count("memory", "writes");
}

/// Counts of DRAM's banks and rows.
pub mod dram {
    use crate::metrics::Fidelity;
    use crate::metrics::names::{Name, count};

    /// All requests to DRAM.
    pub const REQUESTS: Name = count("dram", "requests");
    /// Requests whose row was open.
    pub const ROW_HITS: Name = count("dram", "row-hits");
    /// Requests that another one overtook after they had been told a time.
    pub const OVERTAKEN: Name = count("dram", "overtaken");
    /// Time by which these were told too early, together.
    pub const TOLD_EARLY: Name = Name::new("dram", "told-early", "ps", Fidelity::Modelled);
}

/// Counts of DRAM as a cache over flash.
pub mod tier {
    use crate::metrics::names::{Name, count};

    /// Accesses that reach the tier.
    pub const ACCESSES: Name = count("tier", "accesses");
    /// Accesses whose page is in DRAM.
    pub const HITS: Name = count("tier", "hits");
    /// Accesses whose page is not in DRAM.
    pub const MISSES: Name = count("tier", "misses");
    /// Hits of page walks.
    pub const WALK_HITS: Name = count("tier", "walk-hits");
    /// Misses of page walks.
    pub const WALK_MISSES: Name = count("tier", "walk-misses");
    /// Accesses that a full queue kept waiting.
    pub const STALLS: Name = count("tier", "stalls");
    /// Lines written back to pages that are in DRAM no more.
    pub const ORPHAN_WRITE_BACKS: Name = count("tier", "orphan-write-backs");
    /// Misses for which a core waited.
    pub const SYNCHRONOUS_MISSES: Name = count("tier", "synchronous-misses");
    /// Misses of pages that were on their way already.
    pub const MERGED_MISSES: Name = count("tier", "merged-misses");
    /// Pages read from flash.
    pub const PAGES_IN: Name = count("tier", "pages-in");
    /// Pages written to flash.
    pub const PAGES_OUT: Name = count("tier", "pages-out");
    /// Pages taken back from the buffer of those that leave.
    pub const RESTORES: Name = count("tier", "restores");
    /// Pages that left unchanged.
    pub const CLEAN_EVICTIONS: Name = count("tier", "clean-evictions");
    /// Pages that left changed.
    pub const DIRTY_EVICTIONS: Name = count("tier", "dirty-evictions");
    /// Misses that waited for a free miss-status row.
    pub const BLOCKED_BY_MISS_STATUS: Name = count("tier", "blocked-by-miss-status");
    /// Misses that waited because all ways of their set were on their way.
    pub const BLOCKED_BY_WAYS: Name = count("tier", "blocked-by-ways");
    /// Misses that waited for room in the buffer of pages that leave.
    pub const BLOCKED_BY_EVICT_BUFFER: Name = count("tier", "blocked-by-evict-buffer");
    /// Pages that were on their way at once, at most.
    pub const MOST_PENDING: Name = count("tier", "most-pending");
}

/// Counts of a flash device.
pub mod flash {
    use crate::metrics::names::{Name, count};

    /// Pages read from the device.
    pub const READS: Name = count("flash", "reads");
    /// Reads that waited for a collection of garbage.
    pub const BLOCKED_READS: Name = count("flash", "blocked-reads");
    /// Pages written, those that wait included.
    pub const WRITES: Name = count("flash", "writes");
    /// Writes that went before reads because too many waited.
    pub const URGENT_WRITES: Name = count("flash", "urgent-writes");
    /// Pages programmed for writes, each once.
    pub const PROGRAMMED: Name = count("flash", "programmed");
    /// Valid pages that collections copied.
    pub const MOVED: Name = count("flash", "moved");
    /// Blocks that the device erased.
    pub const ERASES: Name = count("flash", "erases");
    /// Erases of the block that was erased most often.
    pub const MOST_ERASES: Name = count("flash", "most-erases");
    /// Erases of the block that was erased least often.
    pub const FEWEST_ERASES: Name = count("flash", "fewest-erases");
}
