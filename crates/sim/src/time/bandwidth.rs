//! What memory hands over in a time.

/// Lines that an interval of time has room for.
const LINES: u64 = 8;
/// Intervals that are kept in view, by the low bits of their number. A power of two.
const SETS: usize = 1 << 9;
/// Intervals with the same low bits. Cores can be at very different times: one that has filled a large page table in a page fault is ahead
/// of the others by milliseconds. Each of them finds the intervals of its own time.
const WAYS: usize = 8;
/// Intervals that a request looks ahead at most. Requests for which no core waits, such as stores of the interval model, could otherwise
/// fill all time.
const AHEAD: u64 = 256;

/// A memory that hands over so many lines in a time, in intervals that may be asked for in any order.
#[derive(Clone, Debug)]
pub(super) struct Bandwidth {
    line_ps: u64,
    /// Of each set, the intervals that were used last, the last one first.
    sets: Box<[[Interval; WAYS]]>,
}

/// An interval of time: its number, and the lines that have been taken of it.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    number: u64,
    lines: u64,
}

impl Bandwidth {
    /// Creates an idle memory, which takes `line_ps` for a line.
    pub(super) fn new(line_ps: u64) -> Self {
        let sets = vec![[Interval::default(); WAYS]; SETS].into_boxed_slice();
        Self { line_ps: line_ps.max(1), sets }
    }

    /// Takes the time of a line at `from_ps` at the earliest; returns when it begins.
    #[inline]
    pub(super) fn take(&mut self, from_ps: u64) -> u64 {
        let line_ps = self.line_ps;
        let interval_ps = LINES * line_ps;
        let first = from_ps / interval_ps;
        for number in first..first + AHEAD {
            let interval = self.interval(number);
            if interval.lines < LINES {
                let begin_ps = number * interval_ps + interval.lines * line_ps;
                interval.lines += 1;
                return begin_ps.max(from_ps);
            }
        }
        (first + AHEAD) * interval_ps
    }

    /// Returns an interval. One that is not kept replaces the interval of its set whose last use is longest ago.
    #[inline]
    fn interval(&mut self, number: u64) -> &mut Interval {
        let set = &mut self.sets[number as usize % SETS];
        if set[0].number != number {
            let way = set.iter().position(|interval| interval.number == number);
            set[..=way.unwrap_or(WAYS - 1)].rotate_right(1);
            if way.is_none() {
                set[0] = Interval { number, lines: 0 };
            }
        }
        &mut set[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_come_at_once_take_their_time_and_late_ones_find_what_is_left() {
        let mut bandwidth = Bandwidth::new(10);
        let begins: Vec<u64> = (0..20).map(|_| bandwidth.take(1_000)).collect();
        // The interval begins at 960, and lines behind the first find the rest of it.
        assert_eq!(begins[..6], [1_000, 1_000, 1_000, 1_000, 1_000, 1_010]);
        assert_eq!(begins[8..], (1_040..1_160).step_by(10).collect::<Vec<_>>());
        assert_eq!(bandwidth.take(900), 900, "a request from before");
    }

    #[test]
    fn a_request_waits_for_so_many_others_and_no_longer() {
        let mut bandwidth = Bandwidth::new(10);
        let last = (0..100_000).map(|_| bandwidth.take(0)).max();
        assert_eq!(last, Some(AHEAD * LINES * 10));
    }

    #[test]
    fn a_core_that_is_far_ahead_takes_nothing_from_those_behind() {
        let mut bandwidth = Bandwidth::new(10);
        // The time after which the sets begin again.
        let round_ps = LINES * SETS as u64 * 10;
        for ahead in (0..10 * round_ps).step_by(10) {
            // Seven cores, each ahead of the one before by many rounds, and one behind all of them.
            for core in (1..8).rev() {
                let at_ps = core * 1_000_000_007 + ahead;
                assert!((at_ps..at_ps + 10).contains(&bandwidth.take(at_ps)), "core {core}, {ahead}");
            }
            assert_eq!(bandwidth.take(ahead), ahead);
        }
        let begins: Vec<u64> = (0..16).map(|_| bandwidth.take(500 * round_ps)).collect();
        assert_eq!(begins, (500 * round_ps..).step_by(10).take(16).collect::<Vec<_>>());
    }
}
