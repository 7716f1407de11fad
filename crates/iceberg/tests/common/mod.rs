//! Hashers of known quality, and values that count themselves.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// What becomes of a key's hash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quality {
    /// The key itself: good enough, as the map mixes.
    Plain,
    /// Four different hashes.
    Poor,
    /// One hash for all keys.
    None,
}

impl BuildHasher for Quality {
    type Hasher = Weak;

    fn build_hasher(&self) -> Weak {
        Weak { state: 0, quality: *self }
    }
}

pub(crate) struct Weak {
    state: u64,
    quality: Quality,
}

impl Hasher for Weak {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.state = self.state << 8 | self.state >> 56 ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.state ^= number;
    }

    fn finish(&self) -> u64 {
        match self.quality {
            Quality::Plain => self.state,
            Quality::Poor => self.state % 4,
            Quality::None => 0,
        }
    }
}

/// Counted by the strong references to what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) number: u64,
    _count: Arc<()>,
}

impl Counted {
    pub(crate) fn new(number: u64, count: &Arc<()>) -> Self {
        Self { number, _count: count.clone() }
    }
}
