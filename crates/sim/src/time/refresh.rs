//! Lines of memory that cannot be had for a moment: the bank that holds them is refreshed.

use pagewalk_vm::random::mix;

use crate::spec::settings::RefreshSpec;

/// The refreshing of a memory with so many banks that each line has a turn of its own.
///
/// Whether a line can be had depends on the time alone, so that requests may come in any order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refresh {
    every_ps: u64,
    lasts_ps: u64,
    /// The time that the request waited which came last.
    waited_ps: u64,
}

impl Refresh {
    pub(super) fn new(spec: &RefreshSpec) -> Self {
        Self { every_ps: spec.every_ps, lasts_ps: spec.lasts_ps, waited_ps: 0 }
    }

    /// Returns when a line can be had, at `from_ps` at the earliest.
    #[inline]
    pub(super) fn free_ps(&mut self, line: u64, from_ps: u64) -> u64 {
        // Minutes: many turns, and no sum overflows.
        let turn_ps = mix(line) >> 16;
        let since_ps = (from_ps + turn_ps) % self.every_ps;
        self.waited_ps = self.lasts_ps.saturating_sub(since_ps);
        from_ps + self.waited_ps
    }

    /// Returns the time that the request waited which came last.
    #[inline]
    pub(super) fn waited_ps(&self) -> u64 {
        self.waited_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_waits_for_the_end_of_its_refresh() {
        let spec = RefreshSpec { every_ps: 1_000, lasts_ps: 100 };
        let mut refresh = Refresh::new(&spec);
        for line in [0, 1, 77] {
            let ends: Vec<u64> = (0..5_000).map(|from| refresh.free_ps(line, from)).collect();
            assert!(ends.is_sorted(), "line {line}");
            assert_eq!(refresh.waited_ps() + 4_999, ends[4_999]);
            let waits: Vec<u64> = (0..).zip(&ends).map(|(from, end)| end - from).collect();
            assert_eq!(waits.iter().filter(|wait| **wait > 0).count(), 5 * 100, "line {line}");
            assert_eq!(waits.iter().max(), Some(&100), "line {line}");
            assert_eq!(waits[..4_000], waits[1_000..], "line {line}: again and again");
        }
        let all: u64 = (0..100_000).map(|line| refresh.free_ps(line, 7) - 7).sum();
        let mean = all as f64 / 100_000.0;
        assert!((mean - spec.mean_ps() as f64).abs() < 0.2, "{mean}");
    }
}
