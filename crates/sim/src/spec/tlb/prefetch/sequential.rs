//! The next pages.

use pagewalk_vm::tlb::prefetch::{Sequential, TlbPrefetcher};

use super::design::{PrefetcherDesign, PrefetcherKind};
use crate::spec::section::section;

section! {
    /// The pages behind the one that missed.
    pub struct SequentialSpec {
        degree: u32 = "degree" integer(1, 64) or "1", "pages that a miss asks for";
    }
    const VARIANT: PrefetcherKind = "sequential", "the next pages after the one that missed, of its size";
}

impl PrefetcherDesign for SequentialSpec {
    fn build(&self) -> Box<dyn TlbPrefetcher> {
        Box::new(Sequential::new(self.degree))
    }
}
