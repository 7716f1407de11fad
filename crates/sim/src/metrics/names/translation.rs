//! Translation: TLBs, page walks and their caches.

/// Counts of a TLB level; level 1 is nearest the core.
pub mod tlb {
    use crate::metrics::names::Name;

    fn level(level: usize, metric: &'static str) -> Name {
        Name::of_level("tlb", level, metric)
    }

    /// Returns the name of the count of look-ups that reach the level.
    pub fn accesses(of: usize) -> Name {
        level(of, "accesses")
    }

    /// Returns the name of the count of look-ups that find the translation.
    pub fn hits(of: usize) -> Name {
        level(of, "hits")
    }

    /// Returns the name of the count of look-ups that do not find the translation.
    pub fn misses(of: usize) -> Name {
        level(of, "misses")
    }

    /// Returns the name of the count of misses for which an entry of the page's group is there, without this page.
    pub fn sub_entry_misses(of: usize) -> Name {
        level(of, "sub-entry-misses")
    }

    /// Returns the name of the ratio of misses to accesses.
    pub fn miss_rate(of: usize) -> Name {
        level(of, "miss-rate").unit("fraction")
    }

    /// Returns the name of the misses per thousand of the program's instructions.
    pub fn misses_per_kilo_instruction(of: usize) -> Name {
        level(of, "misses-per-kilo-instruction").unit("per-kilo-instruction")
    }
}

/// Counts of TLB prefetchers.
pub mod tlb_prefetch {
    use crate::metrics::Fidelity;
    use crate::metrics::names::{Name, count};

    const fn share(metric: &'static str) -> Name {
        Name::new("tlb-prefetch", metric, "fraction", Fidelity::Modelled)
    }

    /// Misses of the last TLB level.
    pub const MISSES: Name = count("tlb-prefetch", "misses");
    /// Misses whose translation was in the prefetch buffer: no walk of [`walk`](super::walk) was made for them.
    pub const HITS: Name = count("tlb-prefetch", "hits");
    /// Walks in the background, which are not among those of [`walk`](super::walk).
    pub const PREFETCHES: Name = count("tlb-prefetch", "prefetches");
    /// The walks in the background that found no page.
    pub const EMPTY: Name = count("tlb-prefetch", "empty");
    /// References to memory that walks in the background make.
    pub const REFERENCES: Name = count("tlb-prefetch", "references");
    /// The share of misses whose translation was in the prefetch buffer.
    pub const COVERAGE: Name = share("coverage");
    /// The share of walks in the background whose translation was used.
    pub const ACCURACY: Name = share("accuracy");
}

/// Counts of page walks.
pub mod walk {
    use crate::metrics::Fidelity;
    use crate::metrics::names::{Name, count};

    /// Walks of the page table.
    pub const WALKS: Name = count("walk", "walks");
    /// References to memory that walks make.
    pub const REFERENCES: Name = count("walk", "references");
    /// Entries that a walk marks dirty.
    pub const DIRTY_UPDATES: Name = count("walk", "dirty-updates");
    /// The references of an average walk.
    pub const REFERENCES_PER_WALK: Name =
        Name::new("walk", "references-per-walk", "per-walk", Fidelity::Modelled);
    /// References per thousand of the program's instructions.
    pub const REFERENCES_PER_KILO_INSTRUCTION: Name =
        Name::new("walk", "references-per-kilo-instruction", "per-kilo-instruction", Fidelity::Modelled);

    /// Returns the name of the count of references to entries of a level of the page table, 0 for the leaves.
    pub fn references_of_level(level: usize) -> Name {
        Name::part("walk", format!("references.level{level}"))
    }

    /// Returns the name of the count of walks of a kind, where a page table has several.
    pub fn kind(kind: &str) -> Name {
        Name::part("walk", format!("kind.{kind}"))
    }
}

/// Counts of page-walk caches.
pub mod walk_cache {
    use crate::metrics::names::{Name, count};

    /// Look-ups in the walk caches.
    pub const LOOKUPS: Name = count("walk-cache", "lookups");
    /// Lines of walk tables that were read for the caches.
    pub const REFILLS: Name = count("walk-cache", "refills");

    /// Returns the name of the count of hits of a part.
    pub fn hits(part: &str) -> Name {
        Name::part("walk-cache", format!("hits.{part}"))
    }
}

/// Counts of the host below a guest.
pub mod host {
    use crate::metrics::names::{Name, bytes, count};

    /// Translations of guest-physical addresses that page walks ask for.
    pub const LOOKUPS: Name = count("host", "lookups");
    /// Of these, those that the TLB for guest-physical pages answers.
    pub const TLB_HITS: Name = count("host", "tlb-hits");
    /// Walks of the host's page table.
    pub const WALKS: Name = count("host", "walks");
    /// References to memory that these walks make; the references of stage `walk`, and of `tlb-prefetch`, include them.
    pub const REFERENCES: Name = count("host", "references");
    /// Exits to the host for a page that it has not given yet.
    pub const FAULTS: Name = count("host", "faults");
    /// The host's memory that the guest has.
    pub const GIVEN: Name = bytes("host", "given");

    /// Returns the name of the count of hits of a part of the host's walk caches.
    pub fn walk_cache_hits(part: &str) -> Name {
        Name::part("host", format!("walk-cache-hits.{part}"))
    }
}

/// Misses of TLBs of growing size, which show how much TLB a program needs.
pub mod reach {
    use crate::metrics::names::Name;

    /// The stage's own name.
    pub const STAGE: &str = "reach";
    /// The beginning of the names that [`miss_rate`] returns.
    pub const MISS_RATE: &str = "miss-rate.";

    /// Returns the name of the count of misses of a TLB of so many entries.
    pub fn misses(entries: u32) -> Name {
        Name::part(STAGE, format!("misses.{entries}"))
    }

    /// Returns the name of the ratio of these misses to the program's accesses.
    pub fn miss_rate(entries: u32) -> Name {
        Name::part(STAGE, format!("{MISS_RATE}{entries}")).unit("fraction")
    }
}

/// Counts of instruction fetch, for machines that have it.
pub mod fetch {
    use crate::metrics::names::{Name, count};

    /// Lines of 64 bytes that cores fetched, each time that they came from another line.
    pub const LINES: Name = count("fetch", "lines");
    /// Look-ups in the first TLB level for instructions: one a line.
    pub const TLB_ACCESSES: Name = count("fetch", "tlb.accesses");
    /// The look-ups that found the translation there.
    pub const TLB_HITS: Name = count("fetch", "tlb.hits");
    /// The look-ups that did not, and went to the second level; those are among the second level's own.
    pub const TLB_MISSES: Name = count("fetch", "tlb.misses");
    /// Page walks for instructions, which are among those of [`walk`](super::walk).
    pub const WALKS: Name = count("fetch", "walks");
    /// Lines that were not in the first cache for instructions.
    pub const CACHE_MISSES: Name = count("fetch", "cache.misses");
    /// Lines that memory gave.
    pub const MEMORY_READS: Name = count("fetch", "memory.reads");
}
