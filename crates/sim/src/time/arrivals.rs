//! Lines that are on their way to a core.

/// Lines that are kept in view; of two with the same low bits, only the last. A power of two.
const LINES: usize = 1 << 11;

/// When the lines that a core asked for arrive. A cache has a line from the moment at which it is asked for, so that a second request
/// finds it there; it waits until the line has arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    /// By the low bits of a line: the line and the time.
    lines: Box<[(u64, u64); LINES]>,
    /// When all of them have arrived.
    all_ps: u64,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self { lines: Box::new([(u64::MAX, 0); LINES]), all_ps: 0 }
    }

    /// Notes that a line arrives at a time.
    #[inline]
    pub(super) fn note(&mut self, line: u64, at_ps: u64) {
        self.lines[slot(line)] = (line, at_ps);
        self.all_ps = self.all_ps.max(at_ps);
    }

    /// Returns when a line arrives, if that is behind a time.
    #[inline]
    pub(super) fn behind(&self, line: u64, now_ps: u64) -> Option<u64> {
        if self.all_ps <= now_ps {
            return None;
        }
        let (known, at_ps) = self.lines[slot(line)];
        (known == line && at_ps > now_ps).then_some(at_ps)
    }
}

/// Lines of pages beside each other go into different slots, and so do those of pages far apart.
#[inline]
fn slot(line: u64) -> usize {
    (line ^ line >> 11) as usize % LINES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_known_until_another_takes_its_slot() {
        let mut arrivals = Arrivals::new();
        assert_eq!(arrivals.behind(0, 0), None);
        arrivals.note(7, 100);
        arrivals.note(8, 200);
        assert_eq!((arrivals.behind(7, 99), arrivals.behind(8, 0)), (Some(100), Some(200)));
        assert_eq!(
            [(7, 100), (8, 200), (8, 300)].map(|(line, now_ps)| arrivals.behind(line, now_ps)),
            [None; 3]
        );
        let other = (0..).find(|&line| line != 7 && slot(line) == slot(7)).expect("another line");
        arrivals.note(other, 300);
        assert_eq!((arrivals.behind(7, 0), arrivals.behind(other, 0)), (None, Some(300)));
    }
}
