//! Lines of memory that cannot be had for a moment: the rank that holds them is refreshed.

use pagewalk_vm::random::mix;

use crate::spec::settings::RefreshSpec;

/// The bits of a line's number that choose none of the four parts of its page: measured on Zen 4 with twelve channels (docs/time.md).
const WITHIN_PART: u64 = 0b11_1010;

/// The refreshing of a memory whose ranks have their turns one after the other, at equal distances, and in each turn each channel a moment of
/// its own. A part of a page lies in one channel and rank, by chance.
///
/// Whether a line can be had depends on the time alone, so that requests may come in any order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refresh {
    every_ps: u64,
    lasts_ps: u64,
    spread_ps: u64,
    ranks: u64,
    /// The time that the request waited which came last.
    waited_ps: u64,
}

impl Refresh {
    pub(super) fn new(spec: &RefreshSpec) -> Self {
        let &RefreshSpec { every_ps, lasts_ps, spread_ps, ranks } = spec;
        Self { every_ps, lasts_ps, spread_ps, ranks: ranks.into(), waited_ps: 0 }
    }

    /// Returns when a line can be had, at `from_ps` at the earliest.
    #[inline]
    pub(super) fn free_ps(&mut self, line: u64, from_ps: u64) -> u64 {
        let part = mix(line & !WITHIN_PART);
        let rank = part % self.ranks;
        let time_ps = from_ps + rank * self.every_ps / self.ranks;
        let (turn, since_ps) = (time_ps / self.every_ps, time_ps % self.every_ps);
        let begins_ps = mix(part ^ turn) % (self.spread_ps + 1);
        let is_refreshed = since_ps >= begins_ps;
        self.waited_ps = if is_refreshed { (begins_ps + self.lasts_ps).saturating_sub(since_ps) } else { 0 };
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

    const REFRESH: RefreshSpec = RefreshSpec { every_ps: 1_000, lasts_ps: 100, spread_ps: 0, ranks: 4 };

    /// The share of the parts of many pages that wait at a time.
    fn waiting(refresh: &mut Refresh, at: u64) -> f64 {
        (0..10_000).filter(|page| refresh.free_ps(page * 64, at) > at).count() as f64 / 10_000.0
    }

    #[test]
    fn a_line_waits_for_the_end_of_its_refresh() {
        for spread_ps in [0, 300] {
            let mut refresh = Refresh::new(&RefreshSpec { spread_ps, ..REFRESH });
            for line in [0, 1, 77] {
                let ends: Vec<u64> = (0..5_000).map(|from| refresh.free_ps(line, from)).collect();
                assert!(ends.is_sorted(), "line {line}");
                assert_eq!(refresh.waited_ps(), ends[4_999] - 4_999);
                let waits: Vec<u64> = (0..).zip(&ends).map(|(from, end)| end - from).collect();
                let waiting = waits.iter().filter(|wait| **wait > 0).count();
                // The first and the last turn may be cut off.
                assert!((400..=600).contains(&waiting), "line {line}: {waiting}");
                assert_eq!(waits.iter().max(), Some(&100), "line {line}");
                assert_eq!(waits[..4_000] == waits[1_000..], spread_ps == 0, "line {line}: again and again");
            }
            let mean =
                (0..100_000).map(|page| refresh.free_ps(page * 64, page) - page).sum::<u64>() as f64 / 1e5;
            let expected = RefreshSpec { spread_ps, ..REFRESH }.mean_ps() as f64;
            assert!((mean - expected).abs() < 0.1 * expected, "{mean}");
        }
    }

    #[test]
    fn each_rank_is_refreshed_in_its_turn() {
        for ranks in [1, 2, 5] {
            let mut refresh = Refresh::new(&RefreshSpec { ranks, ..REFRESH });
            let share = 1.0 / f64::from(ranks);
            let shares: Vec<f64> = (1..=20).map(|look| waiting(&mut refresh, look * 50)).collect();
            let turns = shares.iter().filter(|waiting| (**waiting - share).abs() < 0.02).count();
            // Two looks see each turn, at its begin and in its middle.
            assert_eq!(turns, 2 * ranks as usize, "{ranks}: {shares:?}");
        }
    }

    #[test]
    fn parts_of_pages_have_moments_of_their_own_in_a_turn() {
        let mut refresh = Refresh::new(&RefreshSpec { spread_ps: 400, ranks: 1, ..REFRESH });
        for (at, share) in
            [(0, 0.0), (50, 1.0 / 8.0), (100, 0.25), (300, 0.25), (450, 1.0 / 8.0), (500, 0.0), (900, 0.0)]
        {
            let waiting = waiting(&mut refresh, 5_000 + at);
            assert!((waiting - share).abs() < 0.02, "{waiting} of all at {at}");
        }
        let of = |refresh: &mut Refresh, line| -> Vec<u64> {
            (0..50).map(|at| refresh.free_ps(line, at * 40)).collect()
        };
        let first = of(&mut refresh, 64);
        for line in [66, 72, 80, 96, 64 + 58] {
            assert_eq!(of(&mut refresh, line), first, "line {line}");
        }
        for line in [65, 68, 69, 128] {
            assert_ne!(of(&mut refresh, line), first, "line {line}");
        }
    }
}
