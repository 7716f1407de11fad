//! Items that were not put in.

use std::error::Error;
use std::fmt;

use crate::place::MAX_BLOCKS;
use crate::store::BLOCK_SLOTS;

/// A map that does not grow has no place for an item. Here it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<K, V> {
    /// The key of the item.
    pub key: K,
    /// The value of the item.
    pub value: V,
}

/// The reason why an item was not put in, with the item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NotInserted<K, V> {
    /// The key is in the map.
    Present {
        /// The key that was not put in.
        key: K,
        /// The value that was not put in.
        value: V,
    },
    /// The map does not grow and has no place for the item.
    Full(Full<K, V>),
}

/// The reason why there is no room for so many items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TryReserveError {
    /// No table has so many slots.
    TooMany {
        /// The items that there was to be room for.
        items: usize,
    },
    /// The allocator has no such memory.
    NoMemory {
        /// The items that there was to be room for.
        items: usize,
    },
}

impl fmt::Display for TryReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { items } => {
                write!(
                    f,
                    "an Iceberg map for {items} items; a table has at most {MAX_BLOCKS} blocks of {BLOCK_SLOTS} slots"
                )
            }
            Self::NoMemory { items } => write!(f, "no memory for an Iceberg map of {items} items"),
        }
    }
}

impl Error for TryReserveError {}

impl<K, V> fmt::Display for Full<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an Iceberg map of fixed size has no free slot for this key: remove items or use one that grows",
        )
    }
}

impl<K, V> fmt::Display for NotInserted<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present { .. } => f.write_str("the key is in the Iceberg map already"),
            Self::Full(full) => full.fmt(f),
        }
    }
}

/// Prints the error without the item: errors must be printable whatever the key and the value are.
impl<K, V> fmt::Debug for Full<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full")
    }
}

impl<K, V> fmt::Debug for NotInserted<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Present { .. } => "Present",
            Self::Full(_) => "Full",
        })
    }
}

impl<K, V> Error for Full<K, V> {}
impl<K, V> Error for NotInserted<K, V> {}
