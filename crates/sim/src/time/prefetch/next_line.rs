//! The lines behind the one that is used.

use super::wanted::{Heard, Wanted, want};
use crate::spec::settings::NextLineSpec;

/// The next-line prefetcher.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextLine {
    last: u64,
    lines: u64,
}

impl NextLine {
    pub(super) fn new(spec: &NextLineSpec) -> Self {
        Self { last: u64::MAX, lines: spec.lines.into() }
    }

    #[inline]
    pub(super) fn hear(&mut self, heard: &Heard, wanted: &mut Wanted) {
        let line = heard.line;
        if std::mem::replace(&mut self.last, line) != line {
            (1..=self.lines).for_each(|behind| want(wanted, line + behind, heard));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_behind_are_wanted_once_and_within_the_page() {
        let mut next_line = NextLine::new(&NextLineSpec { lines: 2 });
        let mut wanted = Wanted::new();
        let heard = |line| Heard { instruction: 0, page: 0, line, at_ps: line };
        [7, 7, 62, 63].into_iter().for_each(|line| next_line.hear(&heard(line), &mut wanted));
        assert_eq!(wanted[..], [(8, 7), (9, 7), (63, 62)]);
    }
}
