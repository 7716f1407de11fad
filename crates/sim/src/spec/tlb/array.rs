//! What TLB arrays of all kinds have, and what a kind says of itself.

use std::sync::Arc;

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{self, ShapeError};
use pagewalk_vm::tlb::TlbStorage;

use crate::spec::design::{Design, Settings};
use crate::spec::geometry::Misfit;
use crate::spec::key::{Key, Kind, Presence};
use crate::spec::words::Words;

/// One TLB array.
#[derive(Clone, Debug, PartialEq)]
pub struct TlbArraySpec {
    /// Its name inside the level; empty for the only array.
    pub name: String,
    /// Number of entries.
    pub entries: u32,
    /// Ways; equal to `entries` for a fully associative array. `entries / ways` is a power of two.
    pub ways: u32,
    /// The choice of the entry that is evicted.
    pub replacement: Replacement,
    /// What an entry holds.
    pub kind: TlbKind,
}

/// Replacement policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// True least recently used.
    Lru,
    /// First in, first out.
    Fifo,
    /// Tree pseudo-LRU; ways must be a power of two.
    TreePlru,
    /// Not recently used: one reference bit a way.
    Nru,
    /// A way drawn from a seeded generator.
    Random,
}

pub(super) static REPLACEMENTS: Words<Replacement> = Words(&[
    ("lru", Replacement::Lru, "the least recently used"),
    ("fifo", Replacement::Fifo, "the first that came"),
    ("tree-plru", Replacement::TreePlru, "where a tree of bits points"),
    ("nru", Replacement::Nru, "one whose reference bit is clear"),
    ("random", Replacement::Random, "a random one"),
]);

/// What a TLB entry holds.
pub type TlbKind = Design<dyn TlbDesign>;

/// What a kind of TLB array needs beside entries, ways and replacement.
pub trait TlbDesign: Settings {
    /// Returns whether pages of `size` stand in the array as such.
    fn holds(&self, size: PageSize) -> bool;

    /// Returns whether pages of `size` profit from the array, although perhaps in pieces.
    fn serves(&self, size: PageSize) -> bool {
        self.holds(size)
    }

    /// Builds an empty array.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if entries and ways do not go together.
    fn build(
        &self,
        entries: u32,
        ways: u32,
        replacement: sets::Replacement,
    ) -> Result<TlbStorage, ShapeError>;
}

impl<D: TlbDesign> From<D> for TlbKind {
    fn from(design: D) -> Self {
        Self::of(Arc::new(design))
    }
}

/// From an array's table to its kind, or what is wrong with the value of a key.
pub(super) type Resolved = Result<TlbKind, (&'static str, Misfit)>;

const MAX_ENTRIES: u64 = 1 << 20;
pub(super) const ENTRIES: Key = Key::value(
    "entries",
    Kind::Integer { min: 1, max: MAX_ENTRIES },
    Presence::Required,
    "number of entries",
);
pub(super) const WAYS: Key = Key::value(
    "ways",
    Kind::Ways { max: MAX_ENTRIES },
    Presence::Required,
    "ways of a set; entries / ways is a power of two; above 64 only \"full\"",
);
pub(super) const REPLACEMENT: Key = Key::value(
    "replacement",
    Kind::Word(&REPLACEMENTS),
    Presence::Default("\"lru\""),
    "who is evicted; `tree-plru` needs a power of two of ways, it and `nru` at most 64",
);
