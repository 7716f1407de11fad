//! Lines that are on their way to a core.

/// Lines that are kept in view; of two with the same low bits, only the last. A power of two.
const LINES: usize = 1 << 11;

/// When the lines that a core asked for arrive. A cache has a line from the moment at which it is asked for, so that a second request
/// finds it there; it waits until the line has arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    /// By the low bits of a line: the line and the time.
    lines: Box<[(u64, u64); LINES]>,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self { lines: Box::new([(u64::MAX, 0); LINES]) }
    }

    /// Notes that a line arrives at a time.
    #[inline]
    pub(super) fn note(&mut self, line: u64, at_ps: u64) {
        self.lines[slot(line)] = (line, at_ps);
    }

    /// Returns when a line arrives, or arrived; none if that is long ago.
    #[inline]
    pub(super) fn of(&self, line: u64) -> Option<u64> {
        let (known, at_ps) = self.lines[slot(line)];
        (known == line).then_some(at_ps)
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
        assert_eq!(arrivals.of(0), None);
        arrivals.note(7, 100);
        arrivals.note(8, 200);
        assert_eq!((arrivals.of(7), arrivals.of(8)), (Some(100), Some(200)));
        let other = (0..).find(|&line| line != 7 && slot(line) == slot(7)).expect("another line");
        arrivals.note(other, 300);
        assert_eq!((arrivals.of(7), arrivals.of(other)), (None, Some(300)));
    }
}
