//! Translation: TLBs, page walks and their caches.

/// Counts of a TLB level; level 1 is nearest the core.
pub mod tlb {
    use crate::metrics::names::Name;

    fn level(level: usize, metric: &'static str) -> Name {
        Name::of_level("tlb", level, metric)
    }

    /// Look-ups that reach the level.
    pub fn accesses(of: usize) -> Name {
        level(of, "accesses")
    }

    /// Look-ups that find the translation.
    pub fn hits(of: usize) -> Name {
        level(of, "hits")
    }

    /// Look-ups that do not.
    pub fn misses(of: usize) -> Name {
        level(of, "misses")
    }

    /// Misses for which an entry of the page's group is there, without this page.
    pub fn sub_entry_misses(of: usize) -> Name {
        level(of, "sub-entry-misses")
    }

    /// Misses over accesses.
    pub fn miss_rate(of: usize) -> Name {
        level(of, "miss-rate").unit("fraction")
    }

    /// Misses per thousand of the program's instructions.
    pub fn misses_per_kilo_instruction(of: usize) -> Name {
        level(of, "misses-per-kilo-instruction").unit("per-kilo-instruction")
    }
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
    /// References over walks.
    pub const REFERENCES_PER_WALK: Name =
        Name::new("walk", "references-per-walk", "per-walk", Fidelity::Modelled);
    /// References per thousand of the program's instructions.
    pub const REFERENCES_PER_KILO_INSTRUCTION: Name =
        Name::new("walk", "references-per-kilo-instruction", "per-kilo-instruction", Fidelity::Modelled);

    /// References to entries of a level of the page table, 0 for the leaves.
    pub fn references_of_level(level: usize) -> Name {
        Name::part("walk", format!("references.level{level}"))
    }

    /// Walks of a kind, where a page table has several.
    pub fn kind(kind: &str) -> Name {
        Name::part("walk", format!("kind.{kind}"))
    }
}

/// Counts of page-walk caches.
pub mod walk_cache {
    use crate::metrics::names::{Name, count};

    /// Look-ups.
    pub const LOOKUPS: Name = count("walk-cache", "lookups");
    /// Lines of walk tables that were read for the caches.
    pub const REFILLS: Name = count("walk-cache", "refills");

    /// Hits of a part.
    pub fn hits(part: &str) -> Name {
        Name::part("walk-cache", format!("hits.{part}"))
    }
}

/// How much TLB a program wants: misses of TLBs of growing size.
pub mod reach {
    use crate::metrics::names::Name;

    /// The stage's own name.
    pub const STAGE: &str = "reach";
    /// What [`miss_rate`] begins with.
    pub const MISS_RATE: &str = "miss-rate.";

    /// Misses of a TLB of so many entries.
    pub fn misses(entries: u32) -> Name {
        Name::part(STAGE, format!("misses.{entries}"))
    }

    /// The same over the program's accesses.
    pub fn miss_rate(entries: u32) -> Name {
        Name::part(STAGE, format!("{MISS_RATE}{entries}")).unit("fraction")
    }
}
