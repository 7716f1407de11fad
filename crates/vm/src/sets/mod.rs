//! Set-associative arrays: where a key may stand, and which key leaves when a set is full.
//!
//! Every cache-like structure of a memory system is one of these with a payload beside it: TLBs, page-walk
//! caches, data caches. A [`SetArray`] holds keys only; each resident key owns a *slot*, a number that stays
//! the same while the key is resident, so that the owner can keep payloads in a plain vector.
//!
//! Four layouts, chosen by shape and policy, with one behaviour:
//!
//! - `RankedRows` for LRU and FIFO up to 16 ways, which is nearly everything: all ways are compared at once and
//!   the order is one word.
//! - `ChainedRows` for LRU and FIFO up to 64 ways: sixteen ways are compared at once, the order is a chain.
//! - `FixedRows` for tree-PLRU, NRU and random: a key stays in its way, the policy's bits stand beside.
//! - `LinkedKeys` for LRU and FIFO above 64 ways: an index and a linked list, constant time at any size.
//!
//! A [`SetChoice`] divides numbers among the sets. It is a type of the array, so that the usual choice, a mask, costs no question.

mod chained;
mod choice;
mod fixed;
mod lines;
mod linked;
mod ranked;

use chained::ChainedRows;
use choice::AnyChoice;
pub use choice::{ComputedChoice, Indexing, LowBits, SetChoice};
use fixed::FixedRows;
pub use lines::{LineArray, Victim};
use linked::LinkedKeys;
use ranked::{KeyRow, RankedRows};

/// The most ways of a set, unless it is the only one.
pub const MAX_ROW_WAYS: u32 = 64;
/// Keys are below this power of two.
pub const KEY_BITS: u32 = 56;

/// The policy that chooses the key to evict from a full set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// True least recently used.
    Lru,
    /// Least recently used, where it is good that keys which come are kept: each is the next victim otherwise, but for a few. The array finds out
    /// by its misses.
    Dynamic,
    /// First in, first out.
    Fifo,
    /// Tree pseudo-LRU: one bit per inner node points to the half that was used less recently.
    TreePlru,
    /// Not recently used: one bit a way, cleared all at once when all would be set.
    Nru,
    /// A way drawn from a seeded generator, only when a victim is needed.
    Random {
        /// The seed of the random generator.
        seed: u64,
    },
}

/// The reason why an array cannot have this shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// `entries / ways` is a number of sets that the choice of a set does not allow.
    #[error("{entries} entries in {ways} ways: entries / ways must be {allowed}")]
    Sets {
        /// The number of entries that was asked for.
        entries: u32,
        /// The number of ways that was asked for.
        ways: u32,
        /// The numbers of sets that are allowed.
        allowed: &'static str,
    },
    /// The policy does not exist for so many ways.
    #[error("{ways} ways: {allowed}")]
    Ways {
        /// The number of ways that was asked for.
        ways: u32,
        /// The numbers of ways that the policy allows.
        allowed: &'static str,
    },
}

/// The outcome of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// The slot that the new key owns now.
    pub slot: usize,
    /// The key that owned it before, if the set was full.
    pub evicted: Option<u64>,
}

/// The shape of an array, the choice of a key's set, and the choice of the key that leaves a full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// The number of keys that the array can hold.
    pub entries: u32,
    /// The number of ways of a set.
    pub ways: u32,
    /// The choice of the key that leaves.
    pub replacement: Replacement,
    /// The choice of the set.
    pub indexing: Indexing,
}

/// An empty array of a shape, of the type that is fastest for it.
pub enum ShapedArray {
    /// The low bits choose the set.
    LowBits(SetArray),
    /// The choice is computed.
    Computed(SetArray<ComputedChoice>),
}

impl ArrayShape {
    /// Creates an empty array of this shape.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if entries, ways, replacement and choice do not go together.
    pub fn array(&self) -> Result<ShapedArray, ShapeError> {
        let &Self { entries, ways, replacement, .. } = self;
        Ok(match AnyChoice::of(self)? {
            AnyChoice::LowBits(choice) => {
                ShapedArray::LowBits(SetArray::with_choice(entries, ways, replacement, choice)?)
            }
            AnyChoice::Computed(choice) => {
                ShapedArray::Computed(SetArray::with_choice(entries, ways, replacement, choice)?)
            }
        })
    }
}

/// Keys in sets, without payloads.
///
/// # Contract
///
/// Keys are below 2^56. [`insert`](Self::insert) is called only for a key that is not resident. Slots are below
/// `entries`, and no two resident keys share one.
#[derive(Clone, Debug)]
pub struct SetArray<C = LowBits> {
    layout: Layout,
    choice: C,
    entries: u32,
    ways: u32,
}

#[derive(Clone, Debug)]
enum Layout {
    Ranked(RankedRows<KeyRow>),
    Chained(ChainedRows),
    Fixed(FixedRows),
    Linked(LinkedKeys),
}

/// The layouts that are worth a call: only the usual one is compiled into its callers' loops.
impl Layout {
    #[inline(never)]
    fn lookup(&mut self, set: usize, key: u64) -> Option<usize> {
        match self {
            Self::Ranked(rows) => rows.lookup(set, key),
            Self::Chained(rows) => rows.lookup(set, key),
            Self::Fixed(rows) => rows.lookup(set, key),
            Self::Linked(keys) => keys.lookup(key),
        }
    }

    #[inline(never)]
    fn insert(&mut self, set: usize, key: u64) -> Inserted {
        match self {
            Self::Ranked(rows) => rows.insert(set, key),
            Self::Chained(rows) => rows.insert(set, key),
            Self::Fixed(rows) => rows.insert(set, key),
            Self::Linked(keys) => keys.insert(key),
        }
    }
}

impl SetArray {
    /// Creates an empty array of `entries` keys in sets of `ways`, a power of two of sets.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the shape or the policy's limit on ways does not allow it.
    pub fn new(entries: u32, ways: u32, replacement: Replacement) -> Result<Self, ShapeError> {
        Self::with_choice(entries, ways, replacement, LowBits::new(entries, ways)?)
    }
}

impl<C: SetChoice> SetArray<C> {
    /// Creates an empty array of `entries` keys in sets of `ways`, among which `choice` chooses.
    fn with_choice(entries: u32, ways: u32, replacement: Replacement, choice: C) -> Result<Self, ShapeError> {
        let fully_associative = entries == ways;
        let layout = match replacement {
            Replacement::Lru | Replacement::Fifo if ways <= ranked::MOST_WAYS => {
                Layout::Ranked(RankedRows::new(entries, ways, replacement == Replacement::Lru))
            }
            Replacement::Dynamic if ways <= ranked::MOST_WAYS => {
                Layout::Ranked(RankedRows::new(entries, ways, true).with_dueling())
            }
            Replacement::Dynamic => {
                return Err(ShapeError::Ways { ways, allowed: "dynamic insertion takes at most 16" });
            }
            Replacement::Lru | Replacement::Fifo if ways <= MAX_ROW_WAYS => {
                Layout::Chained(ChainedRows::new(entries, ways, replacement == Replacement::Lru))
            }
            Replacement::Lru | Replacement::Fifo if fully_associative => {
                Layout::Linked(LinkedKeys::new(entries, replacement == Replacement::Lru))
            }
            Replacement::Lru | Replacement::Fifo => {
                let allowed = "a set has at most 64 ways unless the array is fully associative";
                return Err(ShapeError::Ways { ways, allowed });
            }
            Replacement::TreePlru if !ways.is_power_of_two() || ways > MAX_ROW_WAYS => {
                let allowed = "tree pseudo-LRU needs a power of two up to 64";
                return Err(ShapeError::Ways { ways, allowed });
            }
            Replacement::Nru if ways > MAX_ROW_WAYS => {
                return Err(ShapeError::Ways { ways, allowed: "NRU takes at most 64" });
            }
            Replacement::Random { .. } if ways > MAX_ROW_WAYS => {
                return Err(ShapeError::Ways { ways, allowed: "random replacement takes at most 64" });
            }
            _ => Layout::Fixed(FixedRows::new(entries, ways, replacement)),
        };
        Ok(Self { layout, choice, entries, ways })
    }

    /// Returns the number of keys that the array can hold.
    pub fn entries(&self) -> usize {
        self.entries as usize
    }

    /// Returns the number of sets.
    pub fn sets(&self) -> u64 {
        self.choice.sets()
    }

    /// Returns a power of two: indexes that differ modulo it select different sets.
    pub fn classes(&self) -> u64 {
        self.choice.classes()
    }

    /// Returns the number of ways per set.
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// Finds `key` in the set that `index` selects, and counts that as a use.
    #[inline(always)]
    pub fn lookup(&mut self, index: u64, key: u64) -> Option<usize> {
        let set = self.choice.set(index);
        match &mut self.layout {
            Layout::Ranked(rows) => rows.lookup(set, key),
            other => other.lookup(set, key),
        }
    }

    /// Finds `key` without counting that as a use.
    #[inline]
    pub fn peek(&self, index: u64, key: u64) -> Option<usize> {
        let set = self.choice.set(index);
        match &self.layout {
            Layout::Ranked(rows) => rows.peek(set, key),
            Layout::Chained(rows) => rows.peek(set, key),
            Layout::Fixed(rows) => rows.peek(set, key),
            Layout::Linked(keys) => keys.peek(key),
        }
    }

    /// Makes `key`, which is not resident, resident; evicts if its set is full.
    #[inline(always)]
    pub fn insert(&mut self, index: u64, key: u64) -> Inserted {
        debug_assert!(key < (1 << KEY_BITS) - 1, "key {key:#x} has more than {KEY_BITS} bits");
        debug_assert!(self.peek(index, key).is_none(), "key {key:#x} is resident already");
        let set = self.choice.set(index);
        match &mut self.layout {
            Layout::Ranked(rows) => rows.insert(set, key),
            other => other.insert(set, key),
        }
    }

    /// Removes `key`; its slot becomes free.
    pub fn remove(&mut self, index: u64, key: u64) -> Option<usize> {
        let set = self.choice.set(index);
        match &mut self.layout {
            Layout::Ranked(rows) => rows.remove(set, key),
            Layout::Chained(rows) => rows.remove(set, key),
            Layout::Fixed(rows) => rows.remove(set, key),
            Layout::Linked(keys) => keys.remove(key),
        }
    }

    /// Removes every key for which `keep` is false. `keep` gets the key and its slot.
    pub fn retain(&mut self, mut keep: impl FnMut(u64, usize) -> bool) {
        match &mut self.layout {
            Layout::Ranked(rows) => rows.retain(&mut keep),
            Layout::Chained(rows) => rows.retain(&mut keep),
            Layout::Fixed(rows) => rows.retain(&mut keep),
            Layout::Linked(keys) => keys.retain(&mut keep),
        }
    }

    /// Removes every key from the array.
    pub fn clear(&mut self) {
        self.retain(|_, _| false);
    }
}

#[cfg(test)]
mod tests;
