//! What TLB arrays of all kinds have, and what a kind says of itself.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{self, ArrayShape, Indexing, ShapeError};
use pagewalk_vm::tlb::TlbStorage;

use crate::spec::design::{Design, Settings, from_settings};
use crate::spec::geometry::Misfit;
use crate::spec::section::{Words, section};

/// The settings of one TLB array.
#[derive(Clone, Debug, PartialEq)]
pub struct TlbArraySpec {
    /// The name inside the level; empty for the only array.
    pub name: String,
    /// The number of entries.
    pub entries: u32,
    /// Ways; equal to `entries` for a fully associative array.
    pub ways: u32,
    /// The choice of the set.
    pub indexing: Indexing,
    /// The choice of the entry that is evicted.
    pub replacement: Replacement,
    /// The kind of array: the content of an entry.
    pub kind: TlbKind,
}

/// The replacement policy of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// True least recently used.
    Lru,
    /// Least recently used, or bimodal insertion, by what misses less; of caches.
    Dynamic,
    /// First in, first out.
    Fifo,
    /// Tree pseudo-LRU; ways must be a power of two.
    TreePlru,
    /// Not recently used: one reference bit a way.
    Nru,
    /// A way drawn from a seeded generator.
    Random,
}

impl Replacement {
    /// Returns the policy, with a seed for one that draws by chance.
    pub(crate) fn with_seed(self, seed: u64) -> sets::Replacement {
        match self {
            Self::Lru => sets::Replacement::Lru,
            Self::Dynamic => sets::Replacement::Dynamic,
            Self::Fifo => sets::Replacement::Fifo,
            Self::TreePlru => sets::Replacement::TreePlru,
            Self::Nru => sets::Replacement::Nru,
            Self::Random => sets::Replacement::Random { seed },
        }
    }
}

pub(super) static REPLACEMENTS: Words<Replacement> = Words(&[
    ("lru", Replacement::Lru, "the least recently used"),
    ("fifo", Replacement::Fifo, "the first that came"),
    ("tree-plru", Replacement::TreePlru, "where a tree of bits points"),
    ("nru", Replacement::Nru, "one whose reference bit is clear"),
    ("random", Replacement::Random, "a random one"),
]);

pub(super) static INDEXINGS: Words<Indexing> = Words(&[
    ("modulo", Indexing::Modulo, "the page number modulo the number of sets"),
    ("xor-fold", Indexing::XorFold, "its low bits exclusive-or as many bits above them"),
]);

/// A kind of TLB array.
pub type TlbKind = Design<dyn TlbDesign>;

/// The settings of a kind of TLB array beside its shape.
pub trait TlbDesign: Settings {
    /// Returns whether pages of `size` stand in the array as such.
    fn holds(&self, size: PageSize) -> bool;

    /// Returns whether pages of `size` profit from the array, although perhaps in pieces.
    fn serves(&self, size: PageSize) -> bool {
        self.holds(size)
    }

    /// Returns whether an entry holds several base pages.
    fn holds_runs(&self) -> bool {
        false
    }

    /// Builds an empty array.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the parts of the shape do not go together.
    fn build(&self, shape: &ArrayShape) -> Result<TlbStorage, ShapeError>;
}

from_settings!(TlbDesign);

const MAX_ENTRIES: u64 = 1 << 20;

section! {
    /// Entries and ways of an array, no ways for a fully associative one, and the choice of a set.
    pub(super) struct Geometry {
        entries: u32 = "entries" integer(1, MAX_ENTRIES), "number of entries";
        ways: Option<u32> = "ways" ways(MAX_ENTRIES), "ways of a set; entries / ways is a whole number of sets; above 64 only \"full\"";
        indexing: Indexing = "index" word(&INDEXINGS) or "\"modulo\"", "the set of a page, or of a run of pages; `xor-fold` needs a power of two of sets, 2 at least";
    }
}

section! {
    /// The choice of the entry that is evicted.
    pub(super) struct Eviction {
        policy: Replacement = "replacement" word(&REPLACEMENTS) or "\"lru\"", "the entry that is evicted; `tree-plru` needs a power of two of ways, it and `nru` at most 64";
    }
}

/// An array of a kind as its table gives it, before its values are checked together.
pub(in crate::spec) struct ArrayDraft {
    pub(super) geometry: Option<Geometry>,
    pub(super) eviction: Option<Eviction>,
    /// The kind, or what is wrong with the value of a key.
    pub(super) kind: Option<Result<TlbKind, (&'static str, Misfit)>>,
}

/// Checks that the pages of a run, which a key gives, are a power of two.
pub(super) fn check_run(key: &'static str, pages: u32) -> Result<u32, (&'static str, Misfit)> {
    if pages.is_power_of_two() {
        return Ok(pages);
    }
    let message = format!("`{key}` is {pages}, which is not a power of two");
    let help = format!("write {} or {}", pages.next_power_of_two() / 2, pages.next_power_of_two());
    Err((key, Misfit { message, help }))
}
