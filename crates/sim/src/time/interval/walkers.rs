//! The page walkers of a core, and the loads that wait for them.

use crate::spec::settings::WalkerSpec;
use crate::time::pool::Pool;

/// Loads that may wait without a cost, and beyond them the most that cost something: measured on Zen 4 (docs/time.md), by walks whose entries
/// are in the second cache. Nothing is lost by up to eleven chains at once, and no more by twenty than by sixteen.
const AT_NO_COST: usize = 3;
const AT_A_COST: usize = 6;
/// The loads that are remembered: more than make a difference, because some of them no longer wait.
const REMEMBERED: usize = 16;

/// Walkers, each of which is busy with a walk at a time.
#[derive(Clone, Debug)]
pub(super) struct Walkers {
    pool: Pool,
    retry_ps: u64,
    /// When the loads that waited last had a walker.
    waited_until_ps: [u64; REMEMBERED],
    next: usize,
}

impl Walkers {
    pub(super) fn new(spec: &WalkerSpec) -> Self {
        let pool = Pool::new(spec.count);
        Self { pool, retry_ps: spec.retry_ps, waited_until_ps: [0; REMEMBERED], next: 0 }
    }

    /// Returns the earliest time at which the next walk could begin.
    #[inline(always)]
    pub(super) fn next_free_ps(&self) -> u64 {
        self.pool.next_free_ps()
    }

    /// Takes a walker for so long, at `from_ps` at the earliest, for a load or something else; returns when, and by how much the walk is
    /// longer for the loads that wait.
    #[inline(always)]
    pub(super) fn take(&mut self, from_ps: u64, held_ps: u64, for_load: bool) -> (u64, u64) {
        let longer_ps = if self.retry_ps == 0 { 0 } else { self.longer_ps(from_ps) };
        let start_ps = self.pool.take(from_ps, |start_ps| start_ps + held_ps + longer_ps);
        if for_load && start_ps > from_ps {
            self.waited_until_ps[self.next] = start_ps;
            self.next = (self.next + 1) % REMEMBERED;
        }
        (start_ps, longer_ps)
    }

    fn longer_ps(&self, now_ps: u64) -> u64 {
        let waiting = self.waited_until_ps.iter().filter(|&&until_ps| until_ps > now_ps).count();
        self.retry_ps * waiting.saturating_sub(AT_NO_COST).min(AT_A_COST) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes two walkers for walks that are asked for at once; returns when they begin, and by how much each is longer.
    fn taken(retry_ps: u64, walks: usize, for_load: bool) -> Vec<(u64, u64)> {
        let mut walkers = Walkers::new(&WalkerSpec { count: 2, enters: 1, start_ps: 0, retry_ps });
        (0..walks).map(|_| walkers.take(1_000, 100, for_load)).collect()
    }

    #[test]
    fn loads_that_wait_make_walks_longer_up_to_a_limit() {
        let longer = |walks| taken(10, walks, true).last().expect("a walk").1;
        // Two walk, and the others wait; what is asked for does not wait yet.
        assert_eq!([1, 2, 5, 6, 7, 11, 12, 13, 40].map(longer), [0, 0, 0, 0, 10, 50, 60, 60, 60]);
        assert_eq!(taken(10, 8, true)[5..], [(1_200, 0), (1_300, 10), (1_300, 20)]);
    }

    #[test]
    fn nothing_else_that_waits_makes_walks_longer() {
        let plain: Vec<_> = (0..40).map(|walk| (1_000 + walk / 2 * 100, 0)).collect();
        assert_eq!((taken(10, 40, false), taken(0, 40, true)), (plain.clone(), plain));
    }
}
