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
/// By table, how many branches before a branch find its entry.
const LENGTHS: [usize; TABLES] = [5, 12, 27, 60, 130, 260];
/// Branches that are remembered. A power of two above the longest history.
const REMEMBERED: usize = 512;
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

/// The history of a table, folded to the bits of an index, and to those of a tag. Together they tell branches apart that are as far from
/// each other as the product of both.
#[derive(Clone, Copy, Debug, Default)]
struct Folded {
    index: u32,
    tag: u32,
    length: usize,
}

impl Folded {
    fn new(length: usize) -> Self {
        Self { index: 0, tag: 0, length }
    }

    /// Takes in the newest branch, and drops the one that is now too old.
    #[inline]
    fn push(&mut self, newest: u32, oldest: u32) {
        self.index = fold::<INDEX_BITS>(self.index, newest, oldest, self.length);
        self.tag = fold::<TAG_BITS>(self.tag, newest, oldest, self.length);
    }
}

#[inline]
fn fold<const BITS: u32>(value: u32, newest: u32, oldest: u32, length: usize) -> u32 {
    let value = (value << 1 | newest) ^ oldest << (length as u32 % BITS);
    (value ^ value >> BITS) & ((1 << BITS) - 1)
}

/// What predicts whether branches are taken.
#[derive(Clone, Debug)]
pub(super) struct Predictor {
    /// From -2 to 1 each; taken if it is not negative.
    base: Box<[i8]>,
    tables: [Box<[Entry]>; TABLES],
    histories: [Folded; TABLES],
    branches: Box<[bool; REMEMBERED]>,
    count: u32,
}

impl Predictor {
    pub(super) fn new() -> Self {
        Self {
            base: vec![0; 1 << BASE_BITS].into_boxed_slice(),
            tables: std::array::from_fn(|_| vec![Entry::default(); 1 << INDEX_BITS].into_boxed_slice()),
            histories: LENGTHS.map(Folded::new),
            branches: Box::new([false; REMEMBERED]),
            count: 0,
        }
    }

    /// Predicts the branch at an address, and learns whether it is taken; returns whether the prediction was right.
    pub(super) fn branch(&mut self, address: u64, taken: bool) -> bool {
        let places: [(usize, u16); TABLES] = std::array::from_fn(|table| self.place(table, address));
        let known = |table: &usize| self.tables[*table][places[*table].0].tag == places[*table].1;
        let mut tables = (0..TABLES).rev().filter(known);
        let (first, second) = (tables.next(), tables.next());
        let base = (address ^ address >> BASE_BITS) as usize & ((1 << BASE_BITS) - 1);
        let says = |table: Option<usize>| match table {
            Some(table) => self.tables[table][places[table].0].counter >= 0,
            None => self.base[base] >= 0,
        };
        let (longest, other) = (says(first), says(second));
        // An entry that has just been made knows less than what knew the branch before.
        let is_new = first.is_some_and(|table| {
            let entry = self.tables[table][places[table].0];
            entry.useful == 0 && matches!(entry.counter, -1 | 0)
        });
        let predicted = if is_new { other } else { longest };
        match first {
            Some(table) => {
                let entry = &mut self.tables[table][places[table].0];
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

    /// Returns where a table has the branch at an address, and by which tag.
    #[inline]
    fn place(&self, table: usize, address: u64) -> (usize, u16) {
        let address = (address ^ address >> 17) as u32;
        let history = &self.histories[table];
        let index = address ^ address >> (INDEX_BITS - table as u32) ^ history.index;
        let tag = address ^ history.tag ^ history.index << 1;
        (index as usize & ((1 << INDEX_BITS) - 1), (tag & ((1 << TAG_BITS) - 1)) as u16)
    }

    /// Makes an entry for a branch in a table of a longer history, if one has an entry that was of no use.
    fn allocate(&mut self, from: usize, places: &[(usize, u16); TABLES], taken: bool) {
        let longer = || places.iter().enumerate().skip(from);
        for (table, &(index, tag)) in longer() {
            let entry = &mut self.tables[table][index];
            if entry.useful == 0 {
                *entry = Entry { tag, counter: if taken { 0 } else { -1 }, useful: 0 };
                return;
            }
        }
        for (table, &(index, _)) in longer() {
            self.tables[table][index].useful -= 1;
        }
    }

    fn remember(&mut self, taken: bool) {
        let now = self.count as usize;
        self.branches[now % REMEMBERED] = taken;
        for history in &mut self.histories {
            let oldest = self.branches[now.wrapping_sub(history.length) % REMEMBERED];
            history.push(taken.into(), oldest.into());
        }
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
            let right = predictor.branch(0x40_1000, outcome(number));
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
