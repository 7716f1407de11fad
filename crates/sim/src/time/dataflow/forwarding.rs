//! Loads that get their data from a store in flight.

use super::foresight::Formed;

/// Words that are kept in view, more than a store buffer holds. A power of two.
const WORDS: usize = 1 << 10;
/// The base-2 logarithm of the bytes of a word.
const WORD_SHIFT: u32 = 3;
/// The most bytes of an access; what has more is a state that is saved as a whole.
const MOST_BYTES: u16 = 64;

/// The last stores to words of memory.
#[derive(Clone, Debug)]
pub(super) struct Forwarding {
    /// By the low bits of a word, which one was stored to last, and that store. Apart, because most loads look at the first alone.
    words: Box<[u64; WORDS]>,
    stored: Box<[Stored; WORDS]>,
    /// By the low bits of a store's number, when it leaves the store buffer.
    leaves: Box<[u64; WORDS]>,
    stores: u64,
    /// The last store of which that is known.
    left: u64,
    buffer: u64,
}

/// The last store to a word.
#[derive(Clone, Copy, Debug)]
struct Stored {
    /// The number of the store, from 1 on.
    number: u64,
    /// When its data was there.
    ready: u64,
    bytes: Bytes,
    formed: Formed,
}

/// Bytes of memory that an access is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Bytes {
    pub(super) addr: u64,
    /// The number of bytes; 0 if it is not known: then they are the word's.
    pub(super) count: u16,
}

/// A store in flight to bytes that a load wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// The store has all of them.
    Whole {
        /// When its data was there.
        ready: u64,
        /// How many stores are behind it.
        behind: u64,
        /// Whether it stored exactly these bytes.
        is_same: bool,
        /// What its address was formed of.
        formed: Formed,
    },
    /// The store has a part of them, and leaves the store buffer at a time; the rest is in the cache, or in another store.
    Part {
        /// When the last such store has left.
        left: u64,
    },
}

impl Bytes {
    /// Returns the first word, and the last one.
    #[inline(always)]
    fn words(self) -> (u64, u64) {
        (self.addr >> WORD_SHIFT, (self.end() - 1) >> WORD_SHIFT)
    }

    #[inline(always)]
    fn start(self) -> u64 {
        if self.count == 0 { self.addr >> WORD_SHIFT << WORD_SHIFT } else { self.addr }
    }

    #[inline(always)]
    fn end(self) -> u64 {
        let count = if self.count == 0 { 1 << WORD_SHIFT } else { self.count.min(MOST_BYTES).into() };
        self.start().saturating_add(count)
    }

    #[inline(always)]
    fn overlaps(self, others: Self) -> bool {
        self.start() < others.end() && others.start() < self.end()
    }

    #[inline(always)]
    fn has(self, others: Self) -> bool {
        self.start() <= others.start() && others.end() <= self.end()
    }
}

impl Forwarding {
    /// Creates the view of a store buffer of so many entries.
    pub(super) fn new(buffer: u32) -> Self {
        let never = Stored { number: 0, ready: 0, bytes: Bytes::default(), formed: Formed::NONE };
        Self {
            words: Box::new([u64::MAX; WORDS]),
            stored: Box::new([never; WORDS]),
            leaves: Box::new([0; WORDS]),
            stores: 0,
            left: 0,
            buffer: buffer.into(),
        }
    }

    /// Notes a store of data that is there at `ready`.
    #[inline]
    pub(super) fn store(&mut self, bytes: Bytes, ready: u64, formed: Formed) {
        self.stores += 1;
        let (first, last) = bytes.words();
        for word in first..=last {
            self.words[word as usize % WORDS] = word;
            self.stored[word as usize % WORDS] = Stored { number: self.stores, ready, bytes, formed };
        }
        self.leaves[self.stores as usize % WORDS] = u64::MAX;
    }

    /// Notes that all stores so far have left the buffer by `at`.
    #[inline]
    pub(super) fn leave(&mut self, at: u64) {
        while self.left < self.stores {
            self.left += 1;
            self.leaves[self.left as usize % WORDS] = at;
        }
    }

    /// Returns what stores in flight at `at` have of the bytes that a load wants, if there are any.
    #[inline]
    pub(super) fn find(&self, wanted: Bytes, at: u64) -> Option<Found> {
        let (first, last) = wanted.words();
        if first == last {
            // A store to other bytes of the word hides one before it: then the cache has the data, as far as is known.
            let stored = self.in_flight(first, at).filter(|stored| stored.bytes.overlaps(wanted))?;
            return Some(self.found(stored, wanted, stored.bytes.has(wanted)));
        }
        self.find_in_words((first, last), wanted, at)
    }

    /// The same of bytes in several words.
    #[inline(never)]
    fn find_in_words(&self, (first, last): (u64, u64), wanted: Bytes, at: u64) -> Option<Found> {
        let overlaps = |stored: &Stored| stored.bytes.overlaps(wanted);
        let each = || (first..=last).map(|word| self.in_flight(word, at).filter(overlaps));
        let newest = each().flatten().max_by_key(|stored| stored.number)?;
        let is_whole = each().all(|stored| stored.is_some_and(|stored| stored.number == newest.number));
        Some(self.found(newest, wanted, is_whole && newest.bytes.has(wanted)))
    }

    #[inline(always)]
    fn found(&self, stored: Stored, wanted: Bytes, is_whole: bool) -> Found {
        let Stored { number, ready, bytes, formed, .. } = stored;
        match is_whole {
            true => Found::Whole { ready, behind: self.stores - number, is_same: bytes == wanted, formed },
            // Of a store of the same instruction it is not known yet when it leaves.
            false => Found::Part {
                left: Some(self.leaves[number as usize % WORDS])
                    .filter(|&left| left < u64::MAX)
                    .unwrap_or(ready),
            },
        }
    }

    /// Returns the last store to a word, if it is in flight at `at`.
    #[inline(always)]
    fn in_flight(&self, word: u64, at: u64) -> Option<Stored> {
        if self.words[word as usize % WORDS] != word {
            return None;
        }
        let stored = self.stored[word as usize % WORDS];
        let number = stored.number;
        let in_flight =
            number > 0 && self.stores - number < self.buffer && self.leaves[number as usize % WORDS] > at;
        in_flight.then_some(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(addr: u64) -> Bytes {
        Bytes { addr, count: 8 }
    }

    /// A store of the same bytes.
    fn same(ready: u64, behind: u64) -> Option<Found> {
        Some(Found::Whole { ready, behind, is_same: true, formed: Formed::NONE })
    }

    #[test]
    fn a_store_is_found_until_it_has_left_the_buffer() {
        let mut forwarding = Forwarding::new(3);
        assert_eq!(forwarding.find(word(0), 0), None);
        forwarding.store(word(0x1000), 7, Formed::NONE);
        assert_eq!((forwarding.find(word(0x1000), 9), forwarding.find(word(0x1008), 9)), (same(7, 0), None));
        forwarding.store(word(0x2010), 8, Formed::NONE);
        forwarding.store(word(0x2020), 9, Formed::NONE);
        assert_eq!(forwarding.find(word(0x1000), 9), same(7, 2));
        forwarding.store(word(0x2030), 10, Formed::NONE);
        assert_eq!(forwarding.find(word(0x1000), 9), None, "three others have followed");
        forwarding.leave(20);
        forwarding.store(word(0x2040), 21, Formed::NONE);
        assert_eq!(
            (forwarding.find(word(0x2030), 19), forwarding.find(word(0x2030), 20)),
            (same(10, 1), None)
        );
        assert_eq!(forwarding.find(word(0x2040), 30), same(21, 0), "not known to have left");
    }

    #[test]
    fn a_load_finds_whole_stores_and_parts_of_stores() {
        let mut forwarding = Forwarding::new(8);
        let bytes = |addr, count| Bytes { addr, count };
        forwarding.store(bytes(0x1000, 16), 5, Formed::NONE);
        forwarding.leave(9);
        let whole = Some(Found::Whole { ready: 5, behind: 0, is_same: false, formed: Formed::NONE });
        for (addr, count) in [(0x1000, 8), (0x1008, 8), (0x100c, 4), (0x1006, 4), (0x1000, 0)] {
            assert_eq!(forwarding.find(bytes(addr, count), 6), whole, "{count} bytes at {addr:#x}");
        }
        assert_eq!(forwarding.find(bytes(0x1000, 16), 6), same(5, 0));
        let part = Some(Found::Part { left: 9 });
        for (addr, count) in [(0x0ff8, 16), (0x100c, 8), (0x1000, 32), (0x0ffc, 8)] {
            assert_eq!(forwarding.find(bytes(addr, count), 6), part, "{count} bytes at {addr:#x}");
        }
        // Half of it from another store.
        forwarding.store(bytes(0x1008, 4), 7, Formed::NONE);
        forwarding.leave(12);
        assert_eq!(forwarding.find(bytes(0x1000, 16), 6), Some(Found::Part { left: 12 }));
        assert_eq!(
            forwarding.find(bytes(0x1008, 8), 6),
            Some(Found::Part { left: 12 }),
            "more than was stored"
        );
        forwarding.store(bytes(0x1803, 1), 7, Formed::NONE);
        for (addr, count) in [(0x1800, 1), (0x1804, 4), (0x17fe, 5)] {
            assert_eq!(forwarding.find(bytes(addr, count), 6), None, "{addr:#x}: other bytes of the word");
        }
        assert_eq!(forwarding.find(bytes(u64::MAX, 64), 6), None, "at the end of all addresses");
        forwarding.store(bytes(u64::MAX - 3, 8), 7, Formed::NONE);
        forwarding.store(bytes(0x2000, u16::MAX), 7, Formed::NONE);
    }
}
