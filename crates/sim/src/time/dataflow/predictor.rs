//! The direction of conditional branches: tagged tables with geometric history lengths.
//!
//! Seznec and Michaud, "A case for (partially) TAgged GEometric history length branch prediction", JILP 8, 2006: a table of counters by
//! address, and tables whose entries are found by the address and ever more of the branches before it. The longest history that
//! knows the branch predicts. Sizes: assumed, 28 KiB, of the order of what current cores have.

/// The number of tagged tables.
const TABLES: usize = 6;
/// The base-2 logarithm of the entries of a tagged table.
const INDEX_BITS: u32 = 11;
/// Bits of a tag.
const TAG_BITS: u32 = 12;
/// The base-2 logarithm of the counters by address.
const BASE_BITS: u32 = 13;
/// By table, how many branches before a branch find its entry. Lanes without a table have a length, too, so that all do the same.
const LENGTHS: [usize; LANES] = [5, 12, 27, 60, 130, 260, 1, 1];
/// The branches of the longest history.
const LONGEST: usize = LENGTHS[TABLES - 1];
/// Branches that are kept, the newest first: when there is no more room before the newest one, the longest history moves to the end.
const KEPT: usize = 2048;
/// The tables in a vector of the processor, and as many more as it takes to fill it.
const LANES: usize = 8;
/// After so many branches, entries that were useful have to show it again.
const AGE: u32 = 1 << 18;

/// An entry of a tagged table.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u16,
    /// From -4 to 3; taken if it is not negative.
    counter: i8,
    useful: u8,
}

/// By table, its history, folded to as few bits as an index or a tag has.
#[derive(Clone, Debug)]
struct Folded<const BITS: u32> {
    values: [u16; LANES],
    /// By table, the bit that its oldest branch has been moved to. Not constants: where the compiler knows the bits, it computes lane by
    /// lane.
    ends: [u16; LANES],
}

impl<const BITS: u32> Folded<BITS> {
    fn new() -> Self {
        Self { values: [0; LANES], ends: LENGTHS.map(|length| 1 << (length as u32 % BITS)) }
    }

    /// Takes in the newest branch, and drops the one that is now too old for a table: all bits of its lane in `oldest` are set if that
    /// branch was taken.
    #[inline(always)]
    fn push(&mut self, newest: u16, oldest: &[u16; LANES]) {
        for ((value, oldest), end) in self.values.iter_mut().zip(oldest).zip(self.ends) {
            let moved = (*value << 1 | newest) ^ (oldest & end);
            *value = (moved ^ moved >> BITS) & ((1 << BITS) - 1);
        }
    }
}

/// The address of a branch, as the tables take it in: what is the same each time that the branch is predicted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    /// By table.
    places: Places,
    /// The counter by address.
    base: usize,
}

impl Branch {
    pub(super) fn new(address: u64) -> Self {
        let base = (address ^ address >> BASE_BITS) as usize % (1 << BASE_BITS);
        let address = (address ^ address >> 17) as u32;
        let low = address as u16;
        let mut places = Places { indices: [low; LANES], tags: [low; LANES] };
        // Each table takes other bits of the address to those of its history.
        (0..TABLES)
            .for_each(|table| places.indices[table] ^= (address >> (INDEX_BITS - table as u32)) as u16);
        Self { places, base }
    }
}

/// By table, where it has a branch, and by which tag.
#[derive(Clone, Copy, Debug)]
struct Places {
    indices: [u16; LANES],
    tags: [u16; LANES],
}

impl Places {
    #[inline]
    fn index(&self, table: usize) -> usize {
        usize::from(self.indices[table]) % (1 << INDEX_BITS)
    }
}

/// What predicts whether branches are taken.
#[derive(Clone, Debug)]
pub(super) struct Predictor {
    /// From -2 to 1 each; taken if it is not negative.
    base: Box<[i8; 1 << BASE_BITS]>,
    tables: Box<[[Entry; 1 << INDEX_BITS]; TABLES]>,
    /// The index and the tag tell branches apart that are as far from each other as the product of their bits.
    indices: Folded<INDEX_BITS>,
    tags: Folded<TAG_BITS>,
    /// Branches; all bits are set of those that were taken.
    branches: Box<[u16; KEPT]>,
    /// The place of the newest one.
    newest: usize,
    count: u32,
}

impl Predictor {
    pub(super) fn new() -> Self {
        const { assert!(2 * LONGEST <= KEPT && TABLES <= LANES && TAG_BITS < 16) };
        Self {
            base: Box::new([0; 1 << BASE_BITS]),
            tables: Box::new([[Entry::default(); 1 << INDEX_BITS]; TABLES]),
            indices: Folded::new(),
            tags: Folded::new(),
            branches: Box::new([0; KEPT]),
            newest: KEPT - LONGEST,
            count: 0,
        }
    }

    /// Predicts a branch, and learns whether it is taken; returns whether the prediction was right.
    #[inline]
    pub(super) fn branch(&mut self, branch: &Branch, taken: bool) -> bool {
        let (places, base) = (self.places(branch), branch.base % (1 << BASE_BITS));
        let entries: [Entry; TABLES] = std::array::from_fn(|table| self.tables[table][places.index(table)]);
        // In bits, because no processor could predict branches on them.
        let known = (0..TABLES).fold(0, |known: u32, table| {
            known | u32::from(entries[table].tag == places.tags[table]) << table
        });
        let first = known.checked_ilog2().map(|table| table as usize);
        let second = first.and_then(|first| (known & !(1 << first)).checked_ilog2());
        let says = |table: Option<usize>| match table {
            Some(table) => entries[table].counter >= 0,
            None => self.base[base] >= 0,
        };
        let (longest, other) = (says(first), says(second.map(|table| table as usize)));
        // An entry that has just been made knows less than what knew the branch before.
        let is_new = first.is_some_and(|table| {
            let entry = entries[table];
            entry.useful == 0 && matches!(entry.counter, -1 | 0)
        });
        let predicted = if is_new { other } else { longest };
        match first {
            Some(table) => {
                let entry = &mut self.tables[table][places.index(table)];
                step(&mut entry.counter, taken, -4, 3);
                if longest != other {
                    entry.useful = if longest == taken {
                        3.min(entry.useful + 1)
                    } else {
                        entry.useful.saturating_sub(1)
                    };
                }
            }
            None => step(&mut self.base[base], taken, -2, 1),
        }
        if longest != taken {
            self.allocate(first.map_or(0, |table| table + 1), &places, taken);
        }
        self.remember(taken);
        predicted == taken
    }

    /// Returns where the tables have a branch.
    #[inline]
    fn places(&self, branch: &Branch) -> Places {
        let Places { mut indices, mut tags } = branch.places;
        let (of_indices, of_tags) = (&self.indices.values, &self.tags.values);
        for lane in 0..LANES {
            tags[lane] = (tags[lane] ^ of_tags[lane] ^ of_indices[lane] << 1) & ((1 << TAG_BITS) - 1);
            indices[lane] = (indices[lane] ^ of_indices[lane]) & ((1 << INDEX_BITS) - 1);
        }
        Places { indices, tags }
    }

    /// Makes an entry for a branch in a table of a longer history, if one has an entry that was of no use.
    fn allocate(&mut self, from: usize, places: &Places, taken: bool) {
        for table in from..TABLES {
            let entry = &mut self.tables[table][places.index(table)];
            if entry.useful == 0 {
                let tag = places.tags[table];
                *entry = Entry { tag, counter: if taken { 0 } else { -1 }, useful: 0 };
                return;
            }
        }
        for table in from..TABLES {
            self.tables[table][places.index(table)].useful -= 1;
        }
    }

    fn remember(&mut self, taken: bool) {
        let mut oldest = [0; LANES];
        if let Some(history) = self.branches[self.newest..].first_chunk::<LONGEST>() {
            oldest.iter_mut().zip(LENGTHS).for_each(|(oldest, length)| *oldest = history[length - 1]);
        }
        self.indices.push(taken.into(), &oldest);
        self.tags.push(taken.into(), &oldest);
        if self.newest == 0 {
            self.newest = KEPT - LONGEST;
            self.branches.copy_within(..LONGEST, self.newest);
        }
        self.newest -= 1;
        self.branches[self.newest] = u16::from(taken).wrapping_neg();
        self.count = self.count.wrapping_add(1);
        if self.count.is_multiple_of(AGE) {
            self.tables.iter_mut().flatten().for_each(|entry| entry.useful >>= 1);
        }
    }
}

/// Moves a counter a step towards what happened.
#[inline]
fn step(counter: &mut i8, up: bool, least: i8, most: i8) {
    *counter = if up { most.min(*counter + 1) } else { least.max(*counter - 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of wrong predictions, in thousandths, of the second half of so many branches.
    fn wrong(count: u32, mut outcome: impl FnMut(u32) -> bool) -> u32 {
        let mut predictor = Predictor::new();
        let mut wrong = 0;
        for number in 0..count {
            let right = predictor.branch(&Branch::new(0x40_1000), outcome(number));
            wrong += u32::from(!right && number >= count / 2);
        }
        wrong * 2000 / count
    }

    #[test]
    fn a_branch_with_a_rule_is_predicted() {
        assert_eq!(wrong(10_000, |_| true), 0);
        assert_eq!(wrong(10_000, |number| number % 2 == 0), 0);
        // A loop of 20 rounds, which needs a history of 20.
        assert_eq!(wrong(40_000, |number| number % 20 != 19), 0);
        assert!(wrong(200_000, |number| number % 100 != 99) <= 1);
    }

    #[test]
    fn a_random_branch_is_predicted_by_half() {
        let mut state = 1_u64;
        let random = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state & 64 != 0
        };
        let wrong = wrong(100_000, random);
        assert!((470..530).contains(&wrong), "{wrong}");
    }
}
