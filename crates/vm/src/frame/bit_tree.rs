//! A set of small integers that finds its least member in a handful of steps.

use crate::random::SplitMix64;

/// A 64-ary tree of bitmaps over the integers below a fixed bound.
///
/// A bit of the lowest level stands for a member; a bit of a higher level is set if the word below it is not
/// zero, and may be set if it is: removal leaves the upper levels alone, and a search clears what it finds stale.
/// So a member that comes and goes costs one word, and a search a handful of steps for each word that filled
/// since the last one. 2^28 members need five levels. The levels lie in one array, the root word first.
///
/// Fresh memory comes zeroed and untouched from the operating system, so a sparse set over a large bound costs
/// only the pages that hold its words.
#[derive(Clone, Debug)]
pub(super) struct BitTree {
    words: Box<[u64]>,
    /// The place where each level begins in `words`, the root first.
    starts: [usize; Self::MAX_LEVELS],
    levels: usize,
    /// The place where the lowest level begins in `words`.
    leaves: usize,
    /// A place in `words` at or before the first word of the lowest level that is not zero.
    least_leaf: usize,
    members: u64,
}

const WORD_SHIFT: u32 = 6;
const WORD_MASK: usize = 63;

impl BitTree {
    const MAX_LEVELS: usize = 5;
    /// The largest bound that a tree can have.
    pub(super) const MAX_BOUND: u64 = 1 << (WORD_SHIFT * Self::MAX_LEVELS as u32);

    /// The empty set of integers below `bound`.
    pub(super) fn new(bound: u64) -> Self {
        assert!(
            bound <= Self::MAX_BOUND,
            "a bit tree holds at most {} members, not {bound}",
            Self::MAX_BOUND
        );
        let mut level_words = vec![(bound as usize).div_ceil(64).max(1)];
        while level_words[level_words.len() - 1] > 1 {
            level_words.push(level_words[level_words.len() - 1].div_ceil(64));
        }
        let mut starts = [0; Self::MAX_LEVELS];
        let mut total = 0;
        for (start, words) in starts.iter_mut().zip(level_words.iter().rev()) {
            *start = total;
            total += words;
        }
        let levels = level_words.len();
        Self {
            words: vec![0; total].into_boxed_slice(),
            starts,
            levels,
            leaves: starts[levels - 1],
            least_leaf: starts[levels - 1],
            members: 0,
        }
    }

    /// The number of members.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.members
    }

    /// Whether `index` is a member.
    #[inline]
    pub(super) fn contains(&self, index: usize) -> bool {
        self.words[self.leaves + (index >> WORD_SHIFT)] >> (index & WORD_MASK) & 1 != 0
    }

    /// Adds `index`, which must not be a member.
    #[inline]
    pub(super) fn insert(&mut self, index: usize) {
        debug_assert!(!self.contains(index), "bit {index} is set already");
        self.members += 1;
        let leaf = self.leaves + (index >> WORD_SHIFT);
        let word = &mut self.words[leaf];
        let was_empty = *word == 0;
        *word |= 1 << (index & WORD_MASK);
        if was_empty {
            self.least_leaf = self.least_leaf.min(leaf);
            self.mark_parents(index >> WORD_SHIFT);
        }
    }

    /// Removes `index`, which must be a member.
    #[inline]
    pub(super) fn remove(&mut self, index: usize) {
        debug_assert!(self.contains(index), "bit {index} is not set");
        self.members -= 1;
        self.words[self.leaves + (index >> WORD_SHIFT)] &= !(1 << (index & WORD_MASK));
    }

    /// Returns the least member of the set.
    #[inline]
    pub(super) fn first(&mut self) -> Option<usize> {
        if self.members == 0 {
            return None;
        }
        if self.words[self.least_leaf] == 0 {
            self.least_leaf = self.find_least_leaf();
        }
        let word = self.words[self.least_leaf];
        Some((self.least_leaf - self.leaves) << WORD_SHIFT | word.trailing_zeros() as usize)
    }

    /// Returns a member that is drawn: at every level the next one behind a place that is.
    pub(super) fn any(&mut self, random: &mut SplitMix64) -> Option<usize> {
        if self.members == 0 {
            return None;
        }
        'from_root: loop {
            let mut index = 0;
            for level in 0..self.levels {
                let word = self.words[self.starts[level] + index];
                if word == 0 {
                    // The root has a member below it, so this is not the root.
                    let parent = self.starts[level - 1] + (index >> WORD_SHIFT);
                    self.words[parent] &= !(1 << (index & WORD_MASK));
                    continue 'from_root;
                }
                let turn = random.below(64) as u32;
                let bit = (word.rotate_right(turn).trailing_zeros() + turn) as usize & WORD_MASK;
                index = index << WORD_SHIFT | bit;
            }
            return Some(index);
        }
    }

    /// Sets the bits above a word that is no longer zero, up to the first that is set already.
    #[inline]
    fn mark_parents(&mut self, mut index: usize) {
        for level in (0..self.levels - 1).rev() {
            let word = &mut self.words[self.starts[level] + (index >> WORD_SHIFT)];
            let bit = 1 << (index & WORD_MASK);
            if *word & bit != 0 {
                return;
            }
            *word |= bit;
            index >>= WORD_SHIFT;
        }
    }

    /// The first leaf that is not zero; there is one. It begins at the leaf that used to be the first.
    fn find_least_leaf(&mut self) -> usize {
        let mut level = self.levels - 1;
        let mut index = self.least_leaf - self.leaves;
        loop {
            let word = self.words[self.starts[level] + index];
            if word == 0 {
                level -= 1;
                self.words[self.starts[level] + (index >> WORD_SHIFT)] &= !(1 << (index & WORD_MASK));
                index >>= WORD_SHIFT;
            } else if level == self.levels - 1 {
                return self.leaves + index;
            } else {
                level += 1;
                index = index << WORD_SHIFT | word.trailing_zeros() as usize;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_depth_follows_the_bound() {
        for (bound, levels) in
            [(0, 1), (1, 1), (64, 1), (65, 2), (4096, 2), (4097, 3), (1 << 18, 3), (1 << 28, 5)]
        {
            assert_eq!(BitTree::new(bound).levels, levels, "bound {bound}");
        }
    }

    #[test]
    fn the_last_member_of_every_depth_is_found() {
        for bound in [1, 64, 65, 4096, 4097, 262_144, 262_145] {
            let mut tree = BitTree::new(bound);
            let last = bound as usize - 1;
            assert_eq!(tree.first(), None);
            tree.insert(last);
            assert_eq!(tree.first(), Some(last));
            tree.remove(last);
            assert_eq!(tree.first(), None);
        }
    }

    #[test]
    fn every_member_can_be_drawn_and_nothing_else_is() {
        let mut tree = BitTree::new(300_000);
        assert_eq!(tree.any(&mut SplitMix64::new(1)), None);
        let mut members: BTreeSet<usize> = (0..100).map(|at| at * at * 29).collect();
        members.iter().for_each(|&member| tree.insert(member));
        // Each removal may leave stale bits above it.
        let mut random = SplitMix64::new(1);
        while !members.is_empty() {
            let drawn = tree.any(&mut random).expect("a member");
            assert!(members.remove(&drawn), "{drawn}");
            tree.remove(drawn);
        }
        assert_eq!(tree.any(&mut random), None);
    }

    proptest! {
        #[test]
        fn it_is_a_set(bound in 1u64..9000, toggles in prop::collection::vec(any::<(prop::sample::Index, bool)>(), 0..400)) {
            let mut tree = BitTree::new(bound);
            let mut model = BTreeSet::new();
            for (toggle, look) in toggles {
                let index = toggle.index(bound as usize);
                prop_assert_eq!(tree.contains(index), model.contains(&index));
                if model.remove(&index) {
                    tree.remove(index);
                } else {
                    model.insert(index);
                    tree.insert(index);
                }
                prop_assert_eq!(tree.len(), model.len() as u64);
                if look {
                    prop_assert_eq!(tree.first(), model.first().copied());
                }
            }
        }
    }
}
