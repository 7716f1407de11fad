//! A hash map that grows and shrinks without pauses.
//!
//! ```
//! use pagewalk_elastic::ElasticMap;
//!
//! let mut frames = ElasticMap::new();
//! for page in 0..100_000u64 {
//!     assert_eq!(frames.insert(page, !page), None);
//! }
//! assert_eq!(frames.insert(7, 1), Some(!7));
//! assert_eq!(frames[&7], 1);
//! *frames.get_mut(&8).unwrap() = 2;
//! assert_eq!(frames.remove(&8), Some(2));
//! assert_eq!(frames.len(), 99_999);
//! // 16-byte items take 25 bytes for each slot, and four slots in five are used.
//! assert!(frames.memory_bytes() < 36 * frames.len());
//! ```
//!
//! # How it works
//!
//! It is the cuckoo table that the laboratory's hashed page tables use, with two ways. A key has one *bucket* of four slots in
//! each. An item goes to the bucket that has more free slots; if all eight are taken, it takes the place of another, which goes
//! to its other bucket in turn. When 80 % of all slots are used, one way grows by a bucket, *in place*: a bit more of the
//! same hash leaves what is in bucket `o` of `n` there, or sends it to bucket `o + n`, where nothing else can be. This goes on
//! only while the table is too full. Its memory comes in chunks of 64 KiB, each when the first item is about to go there.
//!
//! ```text
//!  way 0  [ chunk ][ chunk ][ chunk ][ chunk ]
//!  way 1  [ chunk ][ chunk ][ chunk ][ ch             bucket o has been split into o and o + n up to the pointer
//!               ^ pointer          ^ pointer + n      and is whole from it on
//! ```
//!
//! Below a load of 40 % the pointer goes back, and bucket `o + n` is merged into `o`.
//!
//! A byte of each item's hash stands apart from the items. A look-up compares the eight bytes of both buckets at once, then looks at
//! the one item that it wants: three lines of memory, where hashbrown has two.
//!
//! # What it promises
//!
//! - **No operation handles the whole map.** An insertion or a removal splits or merges one bucket and takes or gives back a
//!   chunk. An insertion moves few items: while a map grows to a million, 2 in the mean and 77 at most
//!   (one run; the limit is 500 for each item that has to find a place). Only what handles all items by
//!   its name, such as [`clear`](ElasticMap::clear), and the map's end take as long as it has items.
//! - **No second array.** A map that has only grown takes `(size_of::<Option<(u64, K, V)>>() + 1) / 0.8` bytes an item, and
//!   two chunks at most, while it grows, too: for 16-byte items 32 bytes (the hash's zero marks empty slots). After
//!   removals, a slot in 0.4 is used at least, once further removals have merged what is due.
//! - **Look-ups probe two buckets**, while ways change size, too; a byte of each slot says whether the item is worth a look.
//! - **Any hasher is right.** What it gives is mixed once more. Of items with equal 64-bit hashes two are in the table; the
//!   others wait in a list, as does one that finds no place, and come into the table one by one with later insertions and
//!   removals. A map all of whose hashes are equal is as slow as a list.
//! - **A panic** in a key's `Hash` or `Eq` leaves the map as it was: moves call no code of keys and values.
//! - No `unsafe`.
//!
//! # What it does not
//!
//! - It has no order, and no concurrent use: see `pagewalk_iceberg` for that. Moves invalidate nothing, since nothing can
//!   be borrowed meanwhile, but items have no fixed place.
//! - It is slower than hashbrown, which is the price of "no pauses". By the example `lookups`, with eight million items of 16
//!   bytes, a present key took 1.6 times hashbrown's time, an absent one 1.6 times, and 1.5 times if half of the keys were
//!   there; with ten thousand items, which caches hold, 1.9, 1.2 and 1.2. It executes nearly twice hashbrown's instructions, which is
//!   what counts in small maps. In a loop that does nothing else, as in the bench `grow`, with five million items, a present key takes
//!   1.8 times the time, an absent one 2.2 times, and an insertion 6 times: an item that moves waits for two lines of memory. One
//!   insertion in ten thousand took more than 37 us (hashbrown's 13 us); the longest pause was 0.5 ms against 100 ms. A program that
//!   can wait for a pause, or knows the number of items before, takes hashbrown.
//! - A way of less than a chunk moves to another array when it doubles or halves, which takes half as much again meanwhile.
//! - The bytes that stand beside the slots are one array per way, which is reallocated when the way doubles: for a million
//!   slots a megabyte. An allocator that cannot move pages copies it.
//! - [`reserve`](ElasticMap::reserve), [`shrink_to_fit`](ElasticMap::shrink_to_fit), [`retain`](ElasticMap::retain) and
//!   `clone` take as long as the map has items.
//! - Memory's end is the program's, as for the standard library's collections.
//!
//! # Against others
//!
//! `cargo bench -p pagewalk-elastic` prints rates, bytes and pauses beside those of hashbrown, dashmap and the Iceberg map
//! while they grow.
//!
//! # Sources
//!
//! - D. Skarlatos, A. Kokolis, T. Xu, J. Torrellas, "Elastic Cuckoo Page Tables", ASPLOS 2020: resizing by a pointer.
//! - J. Stojkovic, N. Mantri, D. Skarlatos, T. Xu, J. Torrellas, "Memory-Efficient Hashed Page Tables", HPCA 2023: in
//!   place, way by way, in chunks.
//! - W. Litwin, "Linear Hashing: A New Tool for File and Table Addressing", VLDB 1980: bucket by bucket, as the load asks for it.
//! - M. Dietzfelbinger, C. Weidling, "Balanced Allocation and Dictionaries with Tightly Packed Constant Size Bins", ICALP 2005:
//!   buckets.
//! - A. Kirsch, M. Mitzenmacher, U. Wieder, "More Robust Hashing: Cuckoo Hashing with a Stash", ESA 2008: the list.

mod api;
mod item;
mod iterate;
mod map;
mod memory;
#[cfg(feature = "serde")]
mod serialize;
#[cfg(test)]
mod tests;
mod traits;

pub use api::{Entry, OccupiedEntry, VacantEntry};
pub use iterate::{Drain, IntoIter, Iter, IterMut};
pub use map::{DefaultHasher, ElasticMap, TryReserveError};

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
