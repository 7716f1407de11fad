//! The pages at distances that came after the last one before.

use pagewalk_vm::tlb::prefetch::{Distance, TlbPrefetcher};

use super::design::{PrefetcherDesign, PrefetcherKind};
use crate::spec::section::section;

section! {
    /// A table of distances between misses.
    pub struct DistanceSpec {
        rows: u32 = "rows" integer(1, 65_536) or "256", "rows of the table, which is direct-mapped: distances between two misses in a row";
        slots: u32 = "slots" integer(1, 16) or "2", "distances that a row has, of those that came next: the pages that a miss asks for, at most";
    }
    const VARIANT: PrefetcherKind = "distance", "the pages at the distances that came after the distance to the miss before (Kandiraju and Sivasubramaniam, ISCA 2002)";
}

impl PrefetcherDesign for DistanceSpec {
    fn build(&self) -> Box<dyn TlbPrefetcher> {
        Box::new(Distance::new(self.rows, self.slots))
    }
}
