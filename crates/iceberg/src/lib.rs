//! A concurrent hash map whose items keep their places: Iceberg hashing.
//!
//! ```
//! use pagewalk_iceberg::IcebergMap;
//!
//! let visits = IcebergMap::new();
//! std::thread::scope(|scope| {
//!     for _ in 0..2 {
//!         scope.spawn(|| {
//!             for page in 0..1000u64 {
//!                 visits.upsert(page % 100, || 1, |count| *count += 1);
//!             }
//!         });
//!     }
//! });
//! assert_eq!(visits.len(), 100);
//! assert_eq!(visits.get(&7), Some(20));
//!
//! let place = visits.position_of(&7);
//! visits.remove(&8);
//! visits.insert(9, 0);
//! assert_eq!(visits.position_of(&7), place);
//! ```
//!
//! # How it works
//!
//! The table is an array of blocks. A key has one block for the first level; if the 64 slots there are taken, the
//! emptier of two other blocks, where 8 slots are the second level; if these are taken, too, a list that belongs to its
//! first block. At load 0.95 that is 91 % of the items in the first level, 9 % in the second and some in a million in
//! the third.
//!
//! ```text
//!                 block 0                    block 1                    block 2
//!  first level    [ 64 slots, 64 tags ] <-.  [ 64 slots, 64 tags ]      [ 64 slots, 64 tags ]
//!  second level   [  8 slots,  8 tags ]   |  [  8 slots,  8 tags ] <-.  [  8 slots,  8 tags ] <-.
//!  third level    -> nothing              |  -> item -> nothing      |  -> nothing              |
//!                                         |                          |                          |
//!                 key: hash -> one block -´        hash mixed again -> two blocks --------------´
//! ```
//!
//! A tag is twelve bits of the hash. The 64 tags of a block are compared at once; only items whose tag is equal are
//! looked at. Tags, locks and the rest of what is known about a block are 153 bytes; the slots hold the bare items. So
//! 16-byte items take 19.1 bytes each at load 0.95.
//!
//! # What it promises
//!
//! - **Items keep their places.** Between insertion and removal an item moves only when the table grows, at most once
//!   per doubling. [`position_of`](IcebergMap::position_of) tells where it is.
//! - **Operations on one key have one order**, the same for all threads: each holds the lock of the key's first block.
//! - **Growing stops no thread.** At load 0.96 a part as large as the table is added; blocks hand half of their items on
//!   when they are needed, and a few more with each insertion. An operation waits for the blocks of its own key only.
//! - **A walk sees what stays exactly once**, [whatever others do](IcebergMap::for_each).
//! - **A panic** in a closure, in `Hash`, `Eq` or `Clone` leaves the map usable, with every item in it.
//! - **A map of fixed size** ([`IcebergMap::fixed`]) gives an item back that has no place ([`Full`]).
//!
//! # What it does not
//!
//! - Closures and the traits of keys and values run under a lock; using the same map there may wait forever.
//! - A map that is made for many items asks the system for large pages, where it gives them to programs that ask; parts that
//!   are added later do not.
//! - The table does not shrink by itself ([`shrink_to_fit`](IcebergMap::shrink_to_fit) moves all items to a smaller one), and
//!   after a doubling it takes twice the memory. It has at most 2^26 blocks, 4.8 billion
//!   slots; beyond, items go to the third level.
//! - Look-ups lock, too: threads that read or change keys of one block exclude each other for
//!   the time that it takes to copy a value. Many threads that read one key meet there.
//! - With hashes that are equal for many keys it is as slow as a list. What the hasher gives is mixed once more, so that
//!   weak bits do no harm.
//! - Items that are in the second level when a doubling begins while there is a walk stay there.
//!
//! # Against others
//!
//! `cargo bench -p pagewalk-iceberg` prints throughput, bytes and pauses beside those of hashbrown behind a lock,
//! dashmap and scc. On a busy machine with two cores, with 16-byte items and at load 0.95:
//!
//! - it takes 19.1 bytes per item; dashmap 20 to 36, depending on how long ago it doubled, and scc 38 to 42;
//! - its longest insertion while growing to 4 million items is less than an eighth of any of the others';
//! - insertions run at 0.8 to 1.4 of the better of dashmap and scc, removals at 0.9 to 1.4;
//! - look-ups of keys that are there run at 0.8 to 1.7 of the better of the two; look-ups of absent keys at 0.8 to 2.3.
//!   The more threads, the better: one alone does not make up for the lines of memory that a full table has it read.
//!
//! What a look-up costs is lines of memory: two side by side with what is known about its block, one with the item, and
//! for one key in eleven two more in the second level; locks are so small that caches hold them. The item's line is
//! guessed from the hash and fetched with the tags, which is right more often than not, as long as the thread finds what
//! it looks for. Of 100 look-ups for absent keys, three look into the second level and one or two at an item that is not
//! theirs.
//!
//! It costs registers, too. A processor that waits for memory begins the look-ups that come next, until it has no
//! register left for what another instruction computes; so the three operations that matter are compiled into their
//! callers, as few instructions as they can be, and whatever is seldom needed stands apart.
//!
//! # Sources
//!
//! - P. Pandey, M. A. Bender, A. Conway, M. Farach-Colton, W. Kuszmaul, G. Tagliavini, R. Johnson, "`IcebergHT`: High
//!   Performance Hash Tables Through Stability and Low Associativity", SIGMOD 2023: geometry, fingerprints, growth by
//!   added parts.
//! - M. A. Bender, A. Conway, M. Farach-Colton, W. Kuszmaul, G. Tagliavini, "Iceberg Hashing: Optimizing Many
//!   Hash-Table Criteria at Once" (2021): why the second level stays small.
//!
//! DEVIATION, each explained where it is: look-ups lock; tags have four bits more; a filter that tells which keys cannot
//! be in the second level; counts beside the locks, by which the emptier of two blocks is the one that was it a moment
//! ago; slots chosen near a place that the hash names; items of the second level go up when the table grows; a table's first
//! part has any number of blocks, not a power of two.

mod api;
mod chain;
mod change;
mod count;
mod entry;
mod error;
mod filter;
mod find;
mod grow;
mod guess;
mod iterate;
mod lock;
mod map;
mod place;
#[cfg(feature = "serde")]
mod serialize;
#[allow(unsafe_code)] // Memory, and nothing else.
mod store;
mod sync;
mod tags;
#[cfg(test)]
mod tests;
mod traits;
mod walk;

pub use entry::{Entry, Modify, RefMut};
pub use error::{Full, NotInserted, TryReserveError};
pub use find::{Level, Position};
pub use iterate::{IntoIter, Iter, Levels};
pub use map::{DefaultHasher, IcebergMap};

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
