//! What a prefetcher of translations says of itself.

use pagewalk_vm::tlb::prefetch::TlbPrefetcher;

use crate::spec::design::{Design, Settings, from_settings};

/// The rule by which a prefetcher guesses pages.
pub type PrefetcherKind = Design<dyn PrefetcherDesign>;

/// The settings of a prefetcher beside its buffer.
pub trait PrefetcherDesign: Settings {
    /// Builds a prefetcher that has heard of no miss.
    fn build(&self) -> Box<dyn TlbPrefetcher>;
}

from_settings!(PrefetcherDesign);
