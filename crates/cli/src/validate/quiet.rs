//! Runs on this computer that count: those between two looks which show that the host was quiet.
//!
//! On a shared host, other guests take a part of the core and of the third cache for seconds, and leave it alone for seconds. Each run has
//! a look before and behind it, so that quiet runs are found among others.

use anyhow::Context;
use pagewalk_calibrate::{Glance, Host, OWN, Prober};

use super::native::{self, Native};
use super::programs::Runnable;

/// The largest movement of the usable third cache between two looks with which a run counts.
const MOVED: f64 = 0.25;
/// How many runs are made at most for each one that is to count.
const TRIES: u32 = 8;
/// The time for which a program runs between two looks, in nanoseconds: a short one several times, of which the shortest run counts. What
/// disturbs for milliseconds then leaves one alone.
const BETWEEN_NS: f64 = 2e8;
/// The most runs between two looks.
const MOST_BETWEEN: usize = 10;

/// What tells whether the host is quiet.
pub(super) struct Watch {
    prober: Prober,
    /// The additions that a core makes in a cycle, if that is known.
    integer_units: Option<u32>,
}

/// What a machine file says of the core that is looked at.
pub(super) struct Known {
    /// The additions that the core makes in a cycle, if it executes instructions.
    pub(super) integer_units: Option<u32>,
    /// The nanoseconds of a hit in the third cache, if it has one.
    pub(super) third_cache_ns: Option<f64>,
}

/// The best run of several: the shortest of those that count, or of all if none does.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Best {
    pub(super) native: Native,
    /// What the looks before and behind it showed, with the range of the third cache at all runs; none without looks.
    pub(super) look: Option<Glance>,
    /// Why it does not count, if it does not.
    pub(super) void: Option<String>,
}

impl Watch {
    /// Watches this computer, which describes itself as `host`.
    pub(super) fn new(host: &Host, core: &Known) -> anyhow::Result<Self> {
        let prober =
            Prober::new(host, core.third_cache_ns).context("cannot get memory to look at the third cache")?;
        Ok(Self { prober, integer_units: core.integer_units })
    }

    /// Returns why a run between two looks does not count, if it does not.
    fn disturbed(&self, before: &Glance, after: &Glance) -> Option<String> {
        let moved = before.third_cache_moved(after);
        if moved > MOVED {
            return Some(format!("the usable third cache moved by {:.0} %", 100.0 * moved));
        }
        let [one, other] = before.middle(after).additions;
        let own = one.min(other) / f64::from(self.integer_units?);
        (own < OWN).then(|| {
            format!("another thread had a part of the core, which made {:.0} % of its additions", 100.0 * own)
        })
    }
}

/// Runs a program until so many runs count, but no more than [`TRIES`] times as many; returns the best.
///
/// # Errors
///
/// As of [`native::run`].
pub(super) fn best(watch: Option<&mut Watch>, program: &Runnable, runs: u32) -> anyhow::Result<Best> {
    let Some(watch) = watch else {
        return best_of(runs, || Ok(Best { native: native::run(program)?, look: None, void: None }));
    };
    let mut before = watch.prober.probe();
    best_of(runs, || {
        let native = shortest(program)?;
        let after = watch.prober.probe();
        let (void, look) = (watch.disturbed(&before, &after), Some(before.middle(&after)));
        before = after;
        Ok(Best { native, look, void })
    })
}

/// Runs a program for a while, at least once; returns the shortest run, with the least faults of all.
fn shortest(program: &Runnable) -> anyhow::Result<Native> {
    let mut best = native::run(program)?;
    let mut all_ns = best.cpu_ns;
    for _ in 1..MOST_BETWEEN {
        if all_ns + best.cpu_ns > BETWEEN_NS {
            break;
        }
        let next = native::run(program)?;
        all_ns += next.cpu_ns;
        let minor_faults = best.minor_faults.min(next.minor_faults);
        best = Native { cpu_ns: best.cpu_ns.min(next.cpu_ns), minor_faults };
    }
    Ok(best)
}

/// Makes runs until so many count; returns the best, with the least faults of all.
fn best_of(runs: u32, mut run: impl FnMut() -> anyhow::Result<Best>) -> anyhow::Result<Best> {
    let (mut best, mut counted): (Option<Best>, u32) = (None, 0);
    for _ in 0..runs.max(1).saturating_mul(TRIES) {
        let next = run()?;
        counted += u32::from(next.void.is_none());
        best = Some(match best {
            None => next,
            Some(before) => before.or_better(next),
        });
        if counted >= runs {
            break;
        }
    }
    best.context("no run")
}

impl Best {
    /// Returns the better one of two.
    fn or_better(self, other: Self) -> Self {
        let minor_faults = self.native.minor_faults.min(other.native.minor_faults);
        let key = |run: &Self| (run.void.is_some(), run.native.cpu_ns);
        // What a program has of the third cache is what all looks at its runs allow.
        let looks = self.look.zip(other.look);
        let mut better = if key(&other) < key(&self) { other } else { self };
        better.native.minor_faults = minor_faults;
        if let Some((one, two)) = looks {
            better.look = better.look.map(|look| look.widened(&one).widened(&two));
        }
        better
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes runs of so many nanoseconds, of which some do not count; returns the best, and how many were made.
    fn of(runs: u32, made: &[(f64, bool)]) -> (Best, usize) {
        let (mut rest, mut count) = (made.iter().cycle(), 0);
        let best = best_of(runs, || {
            let &(cpu_ns, counts) = rest.next().expect("without an end");
            count += 1;
            let native = Native { cpu_ns, minor_faults: 100 - count as u64 };
            Ok(Best { native, look: None, void: (!counts).then(|| "noise".to_owned()) })
        });
        (best.expect("a run"), count)
    }

    #[test]
    fn the_shortest_run_that_counts_is_the_best() {
        let (best, made) = of(2, &[(5.0, false), (9.0, true), (7.0, false), (8.0, true), (1.0, true)]);
        assert_eq!((best.native.cpu_ns, best.void, made), (8.0, None, 4));
        assert_eq!(best.native.minor_faults, 96, "the least of all");
    }

    #[test]
    fn if_none_counts_the_shortest_one_is_shown_and_the_runs_have_an_end() {
        let (best, made) = of(3, &[(5.0, false), (4.0, false), (6.0, false)]);
        assert_eq!((best.native.cpu_ns, best.void.as_deref(), made), (4.0, Some("noise"), 24));
    }
}
