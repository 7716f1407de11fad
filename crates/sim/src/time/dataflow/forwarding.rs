//! Loads that get their data from a store in flight.

/// Words that are kept in view, more than a store buffer holds. A power of two.
const WORDS: usize = 1 << 10;
/// The base-2 logarithm of the bytes of a word.
const WORD_SHIFT: u32 = 3;

/// The last stores to words of memory.
#[derive(Clone, Debug)]
pub(super) struct Forwarding {
    words: Box<[Stored; WORDS]>,
    stores: u64,
    buffer: u64,
}

/// The last store to a word.
#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    word: u64,
    /// The number of the store, from 1 on.
    number: u64,
    /// When its data was there.
    ready: u64,
}

impl Forwarding {
    /// Creates the view of a store buffer of so many entries.
    pub(super) fn new(buffer: u32) -> Self {
        Self { words: Box::new([Stored::default(); WORDS]), stores: 0, buffer: buffer.into() }
    }

    /// Notes a store of data that is there at `ready`.
    #[inline]
    pub(super) fn store(&mut self, addr: u64, ready: u64) {
        self.stores += 1;
        let word = addr >> WORD_SHIFT;
        self.words[word as usize % WORDS] = Stored { word, number: self.stores, ready };
    }

    /// Returns when the data of the store in flight to the word of an address was there, if there is one.
    #[inline]
    pub(super) fn find(&self, addr: u64) -> Option<u64> {
        let word = addr >> WORD_SHIFT;
        let stored = self.words[word as usize % WORDS];
        let in_flight = stored.number > 0 && self.stores - stored.number < self.buffer;
        (stored.word == word && in_flight).then_some(stored.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_found_until_it_has_left_the_buffer() {
        let mut forwarding = Forwarding::new(3);
        assert_eq!(forwarding.find(0), None);
        forwarding.store(0x1000, 7);
        assert_eq!((forwarding.find(0x1004), forwarding.find(0x1008)), (Some(7), None));
        forwarding.store(0x2010, 8);
        forwarding.store(0x2020, 9);
        assert_eq!(forwarding.find(0x1000), Some(7));
        forwarding.store(0x2030, 10);
        assert_eq!(forwarding.find(0x1000), None);
    }
}
