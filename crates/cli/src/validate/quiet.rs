//! Runs on this computer that count: those between two looks which show that the host was quiet.
//!
//! On a shared host, other guests take a part of the core and of the third cache for seconds, and leave it alone for seconds. Each run has
//! a look before and behind it, so that quiet runs are found among others.

use anyhow::Context;
use pagewalk_calibrate::{Glance, Host, OWN, Prober};

use super::forms::{Forms, Saved};
use super::native::{self, Native};
use super::programs::Runnable;

/// The largest movement of the usable third cache between two looks with which a run counts.
const MOVED: f64 = 0.25;
/// How many runs are made at most for each one that is to count.
const TRIES: u32 = 8;
/// The least number of turns by which it is told what huge pages save: each has a run with and one without them, right behind each other.
const TURNS: u32 = 5;
/// The time for which a program runs between two looks, in nanoseconds: a short one several times, of which the shortest run counts. What
/// disturbs for milliseconds then leaves one alone.
const BETWEEN_NS: f64 = 2e8;
/// The most runs between two looks.
const MOST_BETWEEN: usize = 10;
/// A program that takes no longer runs twice at least, in nanoseconds: the host of a virtual machine takes back memory that was not used
/// for seconds, and the first run pays for what it gives again. Of huge pages, that was 0.6 s for 256 MiB.
const AGAIN_NS: f64 = 2e9;

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

/// The best runs of a program's forms.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Best {
    pub(super) natives: Forms<Native>,
    /// What huge pages saved, by all turns in which both kinds of runs count.
    pub(super) saved: Option<Saved>,
    /// What the looks before and behind them showed together, with the range of the third cache at all runs; none without looks. There is one
    /// for all forms, because the differences of their times would be those of looks otherwise.
    pub(super) look: Option<Glance>,
    /// Why they do not count, if they do not.
    pub(super) void: Option<String>,
}

/// A run; the best of several is the shortest of those that count, or of all if none does.
#[derive(Clone, PartialEq, Debug)]
struct Run {
    native: Native,
    /// What the looks before and behind it showed.
    look: Option<Glance>,
    /// Why it does not count, if it does not.
    void: Option<String>,
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

/// Runs a program's forms in turn until so many turns count in all of them, but no more than [`TRIES`] times as many; returns the best.
///
/// # Errors
///
/// As of [`native::run`].
pub(super) fn best(
    mut watch: Option<&mut Watch>,
    programs: &Forms<Runnable>,
    runs: u32,
) -> anyhow::Result<Best> {
    let mut before = watch.as_mut().map(|watch| watch.prober.probe());
    let mut best = best_of(&programs.timed(), runs, |program| {
        let Some((watch, before)) = watch.as_mut().zip(before.as_mut()) else {
            return Ok(Run { native: native::run(program)?, look: None, void: None });
        };
        let native = shortest(program)?;
        let after = watch.prober.probe();
        let (void, look) = (watch.disturbed(before, &after), Some(before.middle(&after)));
        *before = after;
        Ok(Run { native, look, void })
    })?;
    let natives = &mut best.natives;
    if programs.idle.is_some() {
        natives.idle = natives.whole.idle();
        natives.huge_idle = natives.huge.as_ref().and_then(Native::idle);
    }
    Ok(best)
}

/// Runs a program for a while, at least once; returns the shortest run.
fn shortest(program: &Runnable) -> anyhow::Result<Native> {
    let mut best = native::run(program)?;
    let mut all_ns = best.cpu_ns;
    for made in 1..MOST_BETWEEN {
        let is_again = made == 1 && all_ns < AGAIN_NS;
        if !is_again && all_ns + best.cpu_ns > BETWEEN_NS {
            break;
        }
        let next = native::run(program)?;
        all_ns += next.cpu_ns;
        best = best.least(next);
    }
    Ok(best)
}

/// Makes runs of each form in turn until so many turns count in all forms; returns the best, with the least faults of all.
fn best_of<T>(
    forms: &Forms<T>,
    runs: u32,
    mut run: impl FnMut(&T) -> anyhow::Result<Run>,
) -> anyhow::Result<Best> {
    let runs = if forms.huge.is_some() { runs.max(TURNS) } else { runs.max(1) };
    let mut turns = vec![forms.try_map(&mut run)?];
    let mut best = turns[0].clone();
    let has_enough = |turns: &[Forms<Run>]| turns.iter().filter(|turn| counts(turn)).count() >= runs as usize;
    while !has_enough(&turns) && turns.len() < runs.saturating_mul(TRIES) as usize {
        let turn = forms.try_map(&mut run)?;
        for (best, next) in best.iter_mut().zip(turn.iter()) {
            best.better(next);
        }
        turns.push(turn);
    }
    let looks: Vec<Glance> = best.iter().filter_map(|best| best.look).collect();
    Ok(Best {
        saved: saved(&turns),
        void: best.iter().find_map(|best| best.void.clone()),
        natives: best.try_map(|best| Ok(best.native))?,
        look: Glance::together(&looks),
    })
}

/// Returns whether the runs of all forms in a turn count.
fn counts(turn: &Forms<Run>) -> bool {
    turn.iter().all(|run| run.void.is_none())
}

/// Returns what huge pages saved in the turns that count; in all turns if none does.
fn saved(turns: &[Forms<Run>]) -> Option<Saved> {
    let pair = |turn: &Forms<Run>| Some((turn.whole.native, turn.huge.as_ref()?.native));
    let counted: Vec<_> = turns.iter().filter(|turn| counts(turn)).filter_map(pair).collect();
    match counted.is_empty() {
        true => Saved::of(&turns.iter().filter_map(pair).collect::<Vec<_>>()),
        false => Saved::of(&counted),
    }
}

impl Run {
    /// Takes another run in place of this one, if it is better.
    fn better(&mut self, other: &Self) {
        let least = self.native.least(other.native);
        let key = |run: &Self| (run.void.is_some(), run.native.cpu_ns);
        // What a program has of the third cache is what all looks at its runs allow.
        let looks = self.look.zip(other.look);
        let count_alike = self.void.is_some() == other.void.is_some();
        if key(other) < key(self) {
            *self = other.clone();
        }
        self.native =
            if count_alike { least } else { Native { minor_faults: least.minor_faults, ..self.native } };
        if let Some((one, two)) = looks {
            self.look = self.look.map(|look| look.widened(&one).widened(&two));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::forms::Share;
    use super::*;

    /// Makes runs of one form, or of two in turn, of so many nanoseconds, of which some do not count; returns the best, and how many were made.
    fn of(kinds: usize, runs: u32, made: &[(f64, bool)]) -> (Best, usize) {
        let (mut rest, mut count) = (made.iter().cycle(), 0);
        let forms = Forms { whole: (), idle: None, huge: (kinds == 2).then_some(()), huge_idle: None };
        let best = best_of(&forms, runs, |()| {
            let &(cpu_ns, counts) = rest.next().expect("without an end");
            count += 1;
            let native = Native { cpu_ns, work_ns: Some(cpu_ns / 2.0), minor_faults: 100 - count as u64 };
            let look = Some(Glance {
                cycle_ns: cpu_ns,
                third_cache_bytes: cpu_ns,
                chain_bytes: cpu_ns,
                third_cache_range: [cpu_ns; 2],
                dram_ns: cpu_ns,
                faults: None,
                additions: [4.0; 2],
            });
            Ok(Run { native, look, void: (!counts).then(|| "noise".to_owned()) })
        });
        (best.expect("a run"), count)
    }

    #[test]
    fn the_shortest_run_that_counts_is_the_best() {
        let (best, made) = of(1, 2, &[(5.0, false), (9.0, true), (7.0, false), (8.0, true), (1.0, true)]);
        assert_eq!((best.natives.whole.cpu_ns, best.void, made), (8.0, None, 4));
        assert_eq!(best.natives.whole.minor_faults, 96, "the least of all");
        let look = best.look.expect("a look");
        assert_eq!(
            (look.cycle_ns, look.third_cache_range),
            (8.0, [5.0, 9.0]),
            "its own, and the range of all"
        );
    }

    #[test]
    fn if_none_counts_the_shortest_one_is_shown_and_the_runs_have_an_end() {
        let (best, made) = of(1, 3, &[(5.0, false), (4.0, false), (6.0, false)]);
        assert_eq!((best.natives.whole.cpu_ns, best.void.as_deref(), made), (4.0, Some("noise"), 24));
    }

    #[test]
    fn forms_run_in_turn_until_each_counts_and_have_one_look() {
        let made = [(5.0, true), (3.0, false), (4.0, true), (2.0, true)];
        let (best, count) = of(2, 1, &made);
        assert_eq!(count, 20, "the second form counts in every other turn");
        let cpu_ns = |native: Native| native.cpu_ns;
        assert_eq!((cpu_ns(best.natives.whole), best.natives.huge.map(cpu_ns)), (4.0, Some(2.0)));
        assert_eq!(best.look.map(|look| look.cycle_ns), Some(3.0), "of both");
        let (best, count) = of(2, 1, &[(5.0, true), (3.0, false)]);
        assert_eq!((best.void.as_deref(), count), (Some("noise"), 80), "one form is not enough");
    }

    #[test]
    fn what_huge_pages_save_is_told_by_turns_that_count() {
        let made = [(8.0, true), (1.0, false), (8.0, true), (6.0, true), (10.0, true), (7.5, true)];
        let saved = of(2, 5, &made).0.saved.expect("both kinds of runs");
        assert_eq!(saved.whole.share, 0.25);
        assert_eq!(saved.steady.map(|steady| steady.share), Some(0.25), "half of each run is work");
        let saved = of(2, 5, &[(8.0, true), (6.0, false)]).0.saved.expect("both kinds of runs");
        assert_eq!(saved.whole, Share { share: 0.25, spread: 0.0 });
        assert_eq!(of(1, 5, &made).0.saved, None);
    }
}
