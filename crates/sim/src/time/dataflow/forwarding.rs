//! Loads that get their data from a store in flight.

/// Words that are kept in view, more than a store buffer holds. A power of two.
const WORDS: usize = 1 << 10;
/// The base-2 logarithm of the bytes of a word.
const WORD_SHIFT: u32 = 3;
/// Loads that are remembered. Assumed. A power of two.
const LOADS: usize = 1 << 10;
/// How often a load got its data from as many stores before when the core believes that it will again. Assumed.
const SURE: u8 = 4;

/// The last stores to words of memory.
#[derive(Clone, Debug)]
pub(super) struct Forwarding {
    words: Box<[Stored; WORDS]>,
    /// By the low bits of a store's number, when it leaves the store buffer.
    leaves: Box<[u64; WORDS]>,
    stores: u64,
    /// The last store of which that is known.
    left: u64,
    buffer: u64,
    /// By low bits of a load's address in the code: what it was handed last.
    handed: Box<[Handed; LOADS]>,
}

/// The stores between a load and the one from which it got its data.
#[derive(Clone, Copy, Debug, Default)]
struct Handed {
    /// The address of the load in the code.
    load: u64,
    behind: u64,
    /// How often it was the same, up to [`SURE`].
    same: u8,
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
        let words = Box::new([Stored::default(); WORDS]);
        let handed = Box::new([Handed::default(); LOADS]);
        Self { words, leaves: Box::new([0; WORDS]), stores: 0, left: 0, buffer: buffer.into(), handed }
    }

    /// Notes a store of data that is there at `ready`.
    #[inline]
    pub(super) fn store(&mut self, addr: u64, ready: u64) {
        self.stores += 1;
        let word = addr >> WORD_SHIFT;
        self.words[word as usize % WORDS] = Stored { word, number: self.stores, ready };
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

    /// Returns when the data of the store to the word of an address was there, if there is one in flight at `at`, and how many stores are
    /// behind it.
    #[inline]
    pub(super) fn find(&self, addr: u64, at: u64) -> Option<(u64, u64)> {
        let word = addr >> WORD_SHIFT;
        let Stored { word: known, number, ready } = self.words[word as usize % WORDS];
        if known != word {
            return None;
        }
        let behind = self.stores - number;
        let in_flight = number > 0 && behind < self.buffer && self.leaves[number as usize % WORDS] > at;
        in_flight.then_some((ready, behind))
    }

    /// Returns whether a core foresees that a load gets its data from the store behind so many others, as it did before. Zen 3 forwards by
    /// that number before it knows the addresses: AMD, "Security Analysis of AMD Predictive Store Forwarding" (2021).
    #[inline]
    pub(super) fn repeats(&mut self, load: u64, behind: u64) -> bool {
        let handed = &mut self.handed[load as usize % LOADS];
        if (handed.load, handed.behind) != (load, behind) {
            *handed = Handed { load, behind, same: 0 };
            return false;
        }
        let is_sure = handed.same == SURE;
        handed.same += u8::from(!is_sure);
        is_sure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_found_until_it_has_left_the_buffer() {
        let mut forwarding = Forwarding::new(3);
        assert_eq!(forwarding.find(0, 0), None);
        forwarding.store(0x1000, 7);
        assert_eq!((forwarding.find(0x1004, 9), forwarding.find(0x1008, 9)), (Some((7, 0)), None));
        forwarding.store(0x2010, 8);
        forwarding.store(0x2020, 9);
        assert_eq!(forwarding.find(0x1000, 9), Some((7, 2)));
        forwarding.store(0x2030, 10);
        assert_eq!(forwarding.find(0x1000, 9), None, "three others have followed");
        forwarding.leave(20);
        forwarding.store(0x2040, 21);
        assert_eq!((forwarding.find(0x2030, 19), forwarding.find(0x2030, 20)), (Some((10, 1)), None));
        assert_eq!(forwarding.find(0x2040, 30), Some((21, 0)), "not known to have left");
    }

    #[test]
    fn a_load_that_gets_its_data_from_as_many_stores_before_as_ever_is_foreseen() {
        let mut forwarding = Forwarding::new(3);
        let mut often =
            |load, behind, times| (0..times).map(|_| forwarding.repeats(load, behind)).collect::<Vec<_>>();
        assert_eq!(often(1, 2, 7), [false, false, false, false, false, true, true]);
        assert_eq!(often(1, 1, 1), [false], "from another one");
        assert_eq!(often(1, 2, 6), [false, false, false, false, false, true]);
        assert_eq!(often(1 + LOADS as u64, 2, 1), [false], "another load in its place");
    }
}
