//! The database as loaded: which rows there are, and what they hold, by arithmetic.
//!
//! Every subscriber has one to four rows of access information, each type at most once, and likewise of special
//! facilities; each of these has none to three call forwarding rows, each starting at 0, 8 or 16 o'clock. All numbers of
//! rows are equally likely. So that row numbers can be computed, four neighbours have one, two, three and four rows, in a
//! random order: ten together.

use crate::random::mix;

/// Subscribers of a block, and their rows in a table that has one to four for each.
pub(super) const BLOCK: u64 = 4;
pub(super) const BLOCK_ROWS: u64 = 10;
/// Times at which call forwarding can start, per facility, and the hours between.
pub(super) const STARTS: u64 = 3;
const START_HOURS: u8 = 8;
/// Special facilities that are active, in percent.
const ACTIVE_PERCENT: u64 = 85;

/// A table that has one to four rows for each subscriber.
#[derive(Clone, Copy)]
pub(super) enum Table {
    AccessInfo = 1,
    SpecialFacility = 2,
}

/// The population of the database when it is loaded.
#[derive(Clone, Copy)]
pub(super) struct Population {
    subscribers: u64,
    seed: u64,
}

/// The rows of a subscriber, in the order of their types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) first: u64,
    /// Bit t - 1: there is a row of type t.
    types: u8,
}

impl Rows {
    pub(super) fn count(self) -> u64 {
        u64::from(self.types.count_ones())
    }

    /// Rows and their types.
    pub(super) fn iter(self) -> impl Iterator<Item = (u64, u8)> {
        (1..=4)
            .filter(move |kind| self.types >> (kind - 1) & 1 == 1)
            .zip(self.first..)
            .map(|(kind, row)| (row, kind))
    }

    /// The row of a type.
    pub(super) fn find(self, kind: u8) -> Option<u64> {
        self.iter().find(|(_, is)| *is == kind).map(|(row, _)| row)
    }
}

/// What changes of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subscriber {
    pub(super) bit: bool,
    pub(super) location: u32,
}

/// A call forwarding row, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forwarding {
    pub(super) end: u8,
    pub(super) number: u32,
}

impl Population {
    pub(super) fn new(subscribers: u64, seed: u64) -> Self {
        debug_assert!(subscribers.is_multiple_of(BLOCK));
        Self { subscribers, seed }
    }

    pub(super) fn subscribers(&self) -> u64 {
        self.subscribers
    }

    /// Rows of access information, or of special facilities.
    pub(super) fn rows(&self) -> u64 {
        self.subscribers / BLOCK * BLOCK_ROWS
    }

    pub(super) fn rows_of(&self, table: Table, subscriber: u64) -> Rows {
        let (block, place) = (subscriber / BLOCK, (subscriber % BLOCK) as usize);
        let counts = permutation(self.random(table as u64, block));
        let before: u64 = counts[..place].iter().map(|&count| u64::from(count)).sum();
        let types = permutation(self.random(table as u64 + 2, subscriber));
        Rows {
            first: block * BLOCK_ROWS + before,
            types: types[..usize::from(counts[place])].iter().fold(0, |types, kind| types | 1 << (kind - 1)),
        }
    }

    pub(super) fn subscriber(&self, number: u64) -> Subscriber {
        let random = self.random(5, number);
        Subscriber { bit: random & 1 == 1, location: (random >> 32) as u32 }
    }

    pub(super) fn is_active(&self, facility: u64) -> bool {
        self.random(6, facility) % 100 < ACTIVE_PERCENT
    }

    /// `data_a` of a special facility.
    pub(super) fn data(&self, facility: u64) -> u8 {
        (self.random(7, facility) >> 56) as u8
    }

    /// The call forwarding row of a facility that starts at `start` times eight o'clock.
    pub(super) fn forwarding(&self, facility: u64, start: u64) -> Option<Forwarding> {
        // As many rows as two bits say; the odd one out of the three starts.
        let random = self.random(8, facility);
        let odd = (random >> 32) % STARTS;
        let is_there = match random & 3 {
            0 => false,
            1 => start == odd,
            2 => start != odd,
            _ => true,
        };
        is_there.then(|| {
            let random = self.random(9, facility * STARTS + start);
            let hours = 1 + (random % 8) as u8;
            Forwarding { end: start as u8 * START_HOURS + hours, number: (random >> 32) as u32 }
        })
    }

    fn random(&self, what: u64, number: u64) -> u64 {
        mix(self.seed ^ mix(what << 60 ^ number))
    }
}

/// One of the 24 orders of 1 to 4.
fn permutation(random: u64) -> [u8; 4] {
    let (mut order, mut rest) = ([1, 2, 3, 4], random % 24);
    for i in 0..3 {
        let choices = 4 - i as u64;
        order.swap(i, i + (rest % choices) as usize);
        rest /= choices;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBSCRIBERS: u64 = 40_000;

    #[test]
    fn rows_follow_each_other_and_all_numbers_and_types_are_equally_likely() {
        let population = Population::new(SUBSCRIBERS, 1);
        for table in [Table::AccessInfo, Table::SpecialFacility] {
            let (mut next, mut counts, mut types) = (0, [0; 5], [0; 5]);
            for subscriber in 0..SUBSCRIBERS {
                let rows = population.rows_of(table, subscriber);
                assert_eq!(rows.first, next);
                next += rows.count();
                counts[rows.count() as usize] += 1;
                for (row, kind) in rows.iter() {
                    types[kind as usize] += 1;
                    assert_eq!(rows.find(kind), Some(row));
                }
            }
            assert_eq!(next, population.rows());
            assert_eq!(counts, [0, 10_000, 10_000, 10_000, 10_000]);
            assert!(types[1..].iter().all(|count| (24_500..25_500).contains(count)), "{types:?}");
        }
    }

    #[test]
    fn facilities_have_none_to_three_forwardings() {
        let population = Population::new(SUBSCRIBERS, 2);
        let (mut counts, mut starts, mut active) = ([0; 4], [0; 3], 0);
        for facility in 0..population.rows() {
            let rows = (0..STARTS).filter(|&start| match population.forwarding(facility, start) {
                Some(row) => {
                    let from = start as u8 * START_HOURS;
                    assert!(from < row.end && row.end <= from + 8);
                    starts[start as usize] += 1;
                    true
                }
                None => false,
            });
            counts[rows.count()] += 1;
            active += u32::from(population.is_active(facility));
        }
        assert!(counts.iter().all(|count| (24_500..25_500).contains(count)), "{counts:?}");
        assert!(starts.iter().all(|count| (49_000..51_000).contains(count)), "{starts:?}");
        assert!((84_500..85_500).contains(&active), "{active}");
    }
}
