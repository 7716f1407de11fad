//! What memory hands over in a time.

/// Lines that an interval of time has room for.
const LINES: u64 = 8;
/// Intervals that are kept in view. A power of two.
const INTERVALS: usize = 1 << 12;
/// Intervals that a request looks ahead at most. Requests for which no core waits, such as stores of the interval model, could otherwise
/// fill all time.
const AHEAD: u64 = 256;

/// A memory that hands over so many lines in a time, in intervals that may be asked for in any order.
#[derive(Clone, Debug)]
pub(super) struct Bandwidth {
    line_ps: u64,
    /// By the low bits of an interval's number: the number, and the lines that have been taken of it.
    taken: Box<[(u64, u64)]>,
}

impl Bandwidth {
    /// Creates an idle memory, which takes `line_ps` for a line.
    pub(super) fn new(line_ps: u64) -> Self {
        Self { line_ps: line_ps.max(1), taken: vec![(0, 0); INTERVALS].into_boxed_slice() }
    }

    /// Takes the time of a line at `from_ps` at the earliest; returns when it begins.
    #[inline]
    pub(super) fn take(&mut self, from_ps: u64) -> u64 {
        let interval_ps = LINES * self.line_ps;
        let first = from_ps / interval_ps;
        for interval in first..first + AHEAD {
            let (number, lines) = &mut self.taken[interval as usize % INTERVALS];
            if *number < interval {
                (*number, *lines) = (interval, 0);
            }
            if *number == interval && *lines < LINES {
                let begin_ps = interval * interval_ps + *lines * self.line_ps;
                *lines += 1;
                return begin_ps.max(from_ps);
            }
        }
        (first + AHEAD) * interval_ps
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
}
