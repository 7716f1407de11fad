//! The counts of what a table has done.

use super::policy::MAX_WAYS;

/// The numbers of items that were moved for one item: `moves[k]` times `k` were, in the last place as many or more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Moves {
    /// The number of items for which so many were moved.
    pub moves: [u64; 17],
    /// The number of all items that were moved.
    pub sum: u64,
}

impl Moves {
    pub(super) fn add(&mut self, moves: u32) {
        self.moves[(moves as usize).min(16)] += 1;
        self.sum += u64::from(moves);
    }

    /// Returns the number of items that were counted.
    pub fn items(&self) -> u64 {
        self.moves.iter().sum()
    }

    /// Returns the sum of both counts.
    pub fn and(mut self, other: &Self) -> Self {
        self.moves.iter_mut().zip(other.moves).for_each(|(sum, more)| *sum += more);
        self.sum += other.sum;
        self
    }

    /// Returns the count with so many items more for which none was moved.
    pub fn and_none(mut self, items: u64) -> Self {
        self.moves[0] += items;
        self
    }
}

/// The counts of what a table has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CuckooCounts {
    /// Items moved for each that was inserted (*re-insertions*, *kicks*).
    pub inserted: Moves,
    /// Items moved for each that a resize took out of its slot.
    pub rehashed: Moves,
    /// Items that a resize left where they were.
    pub stayed: u64,
    /// Items of `rehashed` that moved within their way's array.
    pub moved_in_place: u64,
    /// Slots that resizes visited.
    pub visited: u64,
    /// The number of times that each way grew, the one under way included.
    pub upsizes: [u32; MAX_WAYS],
    /// The number of times that each way shrank, the one under way included.
    pub downsizes: [u32; MAX_WAYS],
    /// Shrinks that were turned round, because the table filled up again meanwhile.
    pub turned_round: u32,
    /// The number of upsizes and downsizes that went to another array.
    pub out_of_place: u32,
    /// Insertions that found a resize under way, or began one.
    pub inserted_while_changing: u64,
    /// Times that no place was found within the tries, so that the table had to be changed first.
    pub forced: u64,
}
