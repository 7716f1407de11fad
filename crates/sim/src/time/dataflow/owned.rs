//! Lines that stores have asked for, and that others drive out of the first cache before these stores leave the store buffer.

use std::collections::VecDeque;

use crate::spec::settings::CacheSpec;

/// The core asks for the lines of so many stores at a time. Chosen by Zen 4: of 20 stores to a set, with 20 to another set in front of them, eight
/// have their lines, and twelve wait.
const AHEAD: usize = 16;

/// The stores in the store buffer of a core whose lines its first cache did not have.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    /// The number of sets of the cache, and its ways. A line's set is its number modulo that of the sets: first caches find it without folding.
    sets: u64,
    ways: usize,
    /// Of the last [`AHEAD`] of them, the sets of their lines, and when they left the buffer, the last one at the end.
    missed: VecDeque<(u64, u64)>,
}

/// A store whose line the first cache does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// When the core asked for the line.
    pub(super) asked: u64,
    /// The cycles that it takes where no other line is asked for.
    pub(super) latency: u64,
}

impl Owned {
    /// Creates the book of an empty buffer in front of the first cache; a core without caches asks for no line.
    pub(super) fn new(first: Option<&CacheSpec>) -> Self {
        let (sets, ways) = first.map_or((1, usize::MAX), |first| (first.sets(), first.ways as usize));
        Self { sets, ways, missed: VecDeque::with_capacity(AHEAD) }
    }

    /// Returns when a store has its line, which would be there at `there`; the store before left the buffer at `turn`. If the stores in front of it
    /// that had not left when it asked had asked for as many lines of the set as the set has, the lines have driven each other out, and each is
    /// asked for again in its turn.
    #[inline(never)]
    pub(super) fn there(&self, missed: Missed, line: u64, there: u64, turn: u64) -> u64 {
        let Missed { asked, latency } = missed;
        let set = line % self.sets;
        let waiting = self.missed.iter().rev().take_while(|(_, left)| *left > asked);
        let beside = waiting.filter(|(other, _)| *other == set).count();
        if beside < self.ways { there } else { there.max(turn + latency) }
    }

    /// Notes that a store whose line was missing left at a time.
    pub(super) fn left(&mut self, line: u64, at: u64) {
        if self.missed.len() == AHEAD {
            self.missed.pop_front();
        }
        self.missed.push_back((line % self.sets, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    /// The cycles a store of so many in turn, whose lines are so many bytes apart and ten cycles away, of a core whose first cache has 64 sets of
    /// eight ways.
    fn cycles(lines: u64, apart: u64) -> u64 {
        const ROUNDS: u64 = 100;
        let machine = spec::load("zen3").expect("a built-in machine");
        let mut owned = Owned::new(machine.hierarchy.caches.first());
        let mut left: Vec<u64> = Vec::new();
        for store in 0..ROUNDS * lines {
            // The buffer holds 64.
            let asked = left.len().checked_sub(64).map_or(0, |before| left[before]);
            let line = store % lines * apart / 64;
            let turn = left.last().copied().unwrap_or(0);
            let missed = Missed { asked, latency: 10 };
            let at = owned.there(missed, line, asked + 10, turn).max(turn + 1);
            owned.left(line, at);
            left.push(at);
        }
        // Of the second half: the first lines of all drive out none.
        let half = left.len() / 2;
        (left[2 * half - 1] - left[half - 1]) / half as u64
    }

    #[test]
    fn lines_of_one_set_drive_each_other_out() {
        assert_eq!(cycles(64, 64), 1, "each in its own set");
        assert_eq!(cycles(64, 512), 1, "eight in each set");
        assert_eq!(cycles(20, 4096), 10, "all in one");
    }
}
