//! The first cache of a core as it takes lines.

use super::bandwidth::Bandwidth;
use crate::spec::settings::{CacheSpec, CoreSpec};

/// When a core's first cache takes lines.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    /// None if the cache takes any number of lines at once.
    all: Option<Bandwidth>,
    /// None if each of its sets does.
    sets: Option<Sets>,
}

/// When the sets of a cache take lines.
#[derive(Clone, Debug)]
struct Sets {
    /// The number of sets; a line's set is its number modulo that: first caches find it without folding.
    count: u64,
    ways: usize,
    /// Between two lines of a set.
    apart_ps: u64,
    /// By set, the lines that it asked for last, as many as it has ways, the last one first.
    lines: Box<[Line]>,
}

/// A line that a set has asked for, and when it took it. Instructions ask for lines out of order: one that is asked for later may have been taken
/// earlier.
#[derive(Clone, Copy, Debug)]
struct Line {
    asked_ps: u64,
    taken_ps: u64,
}

const NO_LINE: Line = Line { asked_ps: u64::MAX, taken_ps: u64::MAX };

impl Filling {
    /// Creates the first cache of a core, which has taken no line.
    pub(super) fn new(core: &CoreSpec, first: Option<&CacheSpec>) -> Self {
        let own = core.dataflow.as_ref();
        let ps = |cycles: u32| u64::from(cycles) * core.cycle_ps;
        let all = own.map(|own| ps(own.line_fill)).filter(|fill_ps| *fill_ps > 0).map(Bandwidth::new);
        let apart_ps = own.map(|own| ps(own.set_fill)).filter(|apart_ps| *apart_ps > 0);
        Self { all, sets: apart_ps.zip(first).map(|(apart_ps, first)| Sets::new(first, apart_ps)) }
    }

    /// Returns whether a line that is asked for at a time goes out then.
    pub(super) fn has_room(&self, line: u64, asked_ps: u64) -> bool {
        self.sets.as_ref().is_none_or(|sets| sets.begins(sets.first(line), asked_ps) == asked_ps)
    }

    /// Returns when a line is in the cache that is asked for at a time, and there after so long.
    #[inline]
    pub(super) fn take(&mut self, line: u64, asked_ps: u64, latency_ps: u64) -> u64 {
        let mut take = |at_ps: u64| self.all.as_mut().map_or(at_ps, |all| all.take(at_ps));
        let Some(sets) = &mut self.sets else { return take(asked_ps + latency_ps) };
        let first = sets.first(line);
        let taken_ps = take(sets.free(first, sets.begins(first, asked_ps) + latency_ps));
        sets.take(first, Line { asked_ps, taken_ps });
        taken_ps
    }
}

impl Sets {
    fn new(first: &CacheSpec, apart_ps: u64) -> Self {
        let (count, ways) = (first.sets(), first.ways as usize);
        Self { count, ways, apart_ps, lines: vec![NO_LINE; count as usize * ways].into_boxed_slice() }
    }

    /// Returns where the lines of a line's set begin.
    fn first(&self, line: u64) -> usize {
        (line % self.count) as usize * self.ways
    }

    /// Returns the lines that came last to a set.
    fn beside(&self, first: usize) -> &[Line] {
        &self.lines[first..first + self.ways]
    }

    /// Returns when a line of a set goes out that is asked for at a time: where each way waits for a line, when the first of these is there.
    fn begins(&self, first: usize, asked_ps: u64) -> u64 {
        let beside = self.beside(first);
        let waits = |other: &Line| other.asked_ps <= asked_ps && asked_ps < other.taken_ps;
        match beside.iter().all(waits) {
            true => beside.iter().map(|other| other.taken_ps).min().unwrap_or(asked_ps),
            false => asked_ps,
        }
    }

    /// Returns when a set takes a line that is there at a time.
    fn free(&self, first: usize, at_ps: u64) -> u64 {
        let beside = self.beside(first);
        let mut free_ps = at_ps;
        while let Some(other) = beside.iter().find(|other| other.taken_ps.abs_diff(free_ps) < self.apart_ps) {
            free_ps = other.taken_ps + self.apart_ps;
        }
        free_ps
    }

    fn take(&mut self, first: usize, taken: Line) {
        let set = &mut self.lines[first..first + self.ways];
        set.rotate_right(1);
        set[0] = taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    /// When lines are there of which each is asked for at once, and there after 100 cycles alone.
    fn taken(line_fill: u32, set_fill: u32, lines: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut filling = filling(line_fill, set_fill);
        lines.map(|line| filling.take(line, 1_000, 100)).collect()
    }

    fn filling(line_fill: u32, set_fill: u32) -> Filling {
        let mut machine = spec::load("zen3").expect("a built-in machine");
        machine.core.cycle_ps = 1;
        let own = machine.core.dataflow.as_mut().expect("a model");
        (own.line_fill, own.set_fill) = (line_fill, set_fill);
        Filling::new(&machine.core, machine.hierarchy.caches.first())
    }

    #[test]
    fn a_set_takes_one_line_at_a_time_and_has_no_more_under_way_than_ways() {
        // 64 sets of 8 ways.
        assert_eq!(taken(0, 10, (0..4).map(|line| line * 64)), [1_100, 1_110, 1_120, 1_130]);
        assert_eq!(taken(0, 10, 0..4), [1_100; 4], "other sets");
        assert_eq!(taken(0, 0, (0..4).map(|line| line * 64)), [1_100; 4]);
        // The ninth goes out when the first is there.
        assert_eq!(taken(0, 10, (0..10).map(|line| line * 64))[7..], [1_170, 1_200, 1_210]);
        let both = taken(8, 0, (0..20).map(|line| line * 64));
        assert_eq!(both[8..10], [both[7] + 8, both[7] + 16]);
    }
    #[test]
    fn a_line_that_is_asked_for_much_later_holds_none_up() {
        let mut filling = filling(0, 10);
        assert_eq!(filling.take(0, 50_000, 100), 50_100);
        assert_eq!([filling.take(64, 1_000, 100), filling.take(128, 1_000, 100)], [1_100, 1_110]);
        assert_eq!(filling.take(192, 49_995, 100), 50_110, "just before the first");
        assert_eq!(filling.take(256, 49_985, 100), 50_085);
        assert!(filling.has_room(320, 1_050), "four of eight ways");
    }
}
