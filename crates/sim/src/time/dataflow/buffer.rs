//! The branch target buffer: the branches whose place the front end knows before it decodes them.

use crate::spec::settings::{Pairs, TargetsSpec};

/// log2 of the bytes of code that an entry is about.
const LINE_SHIFT: u32 = 6;
/// A place in an entry that no branch has.
const FREE: u8 = u8::MAX;

/// A branch target buffer of one or two levels.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    near: Level,
    far: Option<(Level, u64)>,
    unknown: u64,
}

/// What a buffer knows of a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// Where it is: nothing is fetched behind it for so many cycles.
    Place { bubble: u64 },
    /// None of its levels has the branch, and nothing is fetched for so many cycles, if decoding tells where it goes.
    Nothing { bubble: u64 },
}

impl Buffer {
    pub(super) fn new(spec: &TargetsSpec) -> Self {
        let level = |entries, ways| Level::new(entries, ways, spec.pairs);
        let far = spec.far.as_ref().map(|far| (level(far.entries, far.ways), far.latency.into()));
        Self { near: level(spec.entries, spec.ways), far, unknown: spec.unknown.into() }
    }

    /// Looks for a branch that is taken, which is known from then on.
    #[inline(always)]
    pub(super) fn look_up(&mut self, branch: u64, is_conditional: bool) -> Known {
        if self.near.is_newest(branch) {
            return Known::Place { bubble: 0 };
        }
        self.look_up_further(branch, is_conditional)
    }

    #[inline(never)]
    fn look_up_further(&mut self, branch: u64, is_conditional: bool) -> Known {
        if self.near.knows(branch, is_conditional) {
            return Known::Place { bubble: 0 };
        }
        let far = self.far.as_mut();
        let known = far.and_then(|(far, latency)| far.knows(branch, is_conditional).then_some(*latency));
        known.map_or(Known::Nothing { bubble: self.unknown }, |bubble| Known::Place { bubble })
    }
}

/// A level of a branch target buffer: sets of entries, the newest first.
#[derive(Clone, Debug)]
struct Level {
    entries: Box<[Entry]>,
    ways: usize,
    /// The number of sets, less 1.
    mask: usize,
    pairs: Pairs,
}

/// Branches of a line.
#[derive(Clone, Copy, Debug)]
struct Entry {
    line: u64,
    /// Where they are in the line.
    places: [u8; 2],
}

impl Entry {
    const EMPTY: Self = Self { line: u64::MAX, places: [FREE; 2] };

    #[inline(always)]
    fn has(&self, branch: u64) -> bool {
        self.line == branch >> LINE_SHIFT && self.places.contains(&place(branch))
    }
}

impl Level {
    fn new(entries: u32, ways: u32, pairs: Pairs) -> Self {
        let all = vec![Entry::EMPTY; entries as usize].into_boxed_slice();
        Self { entries: all, ways: ways as usize, mask: (entries / ways) as usize - 1, pairs }
    }

    /// Returns the number of a branch's first entry.
    #[inline(always)]
    fn first(&self, branch: u64) -> usize {
        let line = branch >> LINE_SHIFT;
        ((line ^ line >> 16) as usize & self.mask) * self.ways
    }

    /// Returns whether a branch is in the newest entry of its set.
    #[inline(always)]
    fn is_newest(&self, branch: u64) -> bool {
        self.entries[self.first(branch)].has(branch)
    }

    /// Returns whether a branch is known, which it is from then on.
    fn knows(&mut self, branch: u64, is_conditional: bool) -> bool {
        let first = self.first(branch);
        let set = &mut self.entries[first..first + self.ways];
        if let Some(way) = set.iter().position(|entry| entry.has(branch)) {
            set[..=way].rotate_right(1);
            return true;
        }
        // The second place of an entry is for another branch, unless the first one does not allow that.
        let line = branch >> LINE_SHIFT;
        let half = set.iter_mut().find(|entry| entry.line == line && entry.places[1] == FREE);
        if let Some(half) = half {
            half.places[1] = place(branch);
            return false;
        }
        set.rotate_right(1);
        let allows_another = match self.pairs {
            Pairs::Any => true,
            Pairs::BehindConditional => is_conditional,
            Pairs::None => false,
        };
        let own = place(branch);
        set[0] = Entry { line, places: [own, if allows_another { FREE } else { own }] };
        false
    }
}

#[inline(always)]
fn place(branch: u64) -> u8 {
    (branch & ((1 << LINE_SHIFT) - 1)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::settings::FarTargetsSpec;

    fn spec(pairs: Pairs) -> TargetsSpec {
        let far = Some(FarTargetsSpec { entries: 256, ways: 4, latency: 2 });
        TargetsSpec { entries: 64, ways: 4, pairs, unknown: 14, elsewhere: 0, reach: 64, far }
    }

    /// The cycles of so many branches, so many bytes apart, that one of the levels knows, and of those that none knows.
    fn bubbles(buffer: &mut Buffer, count: u64, apart: u64, is_conditional: bool) -> [u64; 2] {
        let mut found = [0, 0];
        for branch in 0..count {
            match buffer.look_up(0x40_0000 + apart * branch, is_conditional) {
                Known::Place { bubble } => found[0] += bubble,
                Known::Nothing { bubble } => found[1] += bubble,
            }
        }
        found
    }

    #[test]
    fn branches_that_both_levels_or_one_or_none_have() {
        for (count, expected) in [(64, [0, 0]), (256, [2 * 256, 0]), (512, [0, 14 * 512])] {
            let mut buffer = Buffer::new(&spec(Pairs::Any));
            assert_eq!(bubbles(&mut buffer, count, 64, true), [0, 14 * count], "{count} that are new");
            assert_eq!(bubbles(&mut buffer, count, 64, true), expected, "{count}");
        }
        let mut buffer = Buffer::new(&TargetsSpec { far: None, ..spec(Pairs::Any) });
        assert_eq!([65, 1].map(|count| bubbles(&mut buffer, count, 64, true)[1]), [14 * 65, 14], "one level");
    }

    #[test]
    fn branches_of_a_line_share_an_entry_by_pairs() {
        for (pairs, is_conditional, most) in [
            (Pairs::Any, false, 128),
            (Pairs::BehindConditional, true, 128),
            (Pairs::BehindConditional, false, 64),
            (Pairs::None, true, 64),
        ] {
            let mut buffer = Buffer::new(&spec(pairs));
            let mut again = |count| [0, 1].map(|_| bubbles(&mut buffer, count, 16, is_conditional))[1];
            assert_eq!(again(most), [0, 0], "{pairs:?}, {most}");
            assert!(again(most + 16)[0] > 0, "{pairs:?}, more than {most}");
        }
    }
}
