//! The refreshing of DRAM, by the loads that take longer than most.
//!
//! Of loads from DRAM whose translation is at hand, most take about as long, and some up to a few hundred nanoseconds longer. Other
//! requests are in the way of a few of them, at any time. The others come again and again after the same time: the rank of their line is
//! being refreshed, and they wait for what is left of that. Where a window ends at the oldest load, it is these that a program waits for.

use std::arch::x86_64::{_mm_clflush, _mm_lfence, _mm_mfence, _rdtsc};

use pagewalk_cuckoo::random::SplitMix64;

use super::bench::Bench;
use super::quantity::Quantity;
use super::{Found, Lab};

/// Loads of a sample: 1 ms.
const LOADS: usize = 4_000;
/// Loads that take so much longer than most are late, in nanoseconds: more than opening a row takes.
const LATE_NS: f64 = 60.0;
/// Loads that take longer than that were interrupted.
const MOST_NS: f64 = 1_000.0;
/// Pauses between two loads, fewer than so many: each takes 40 to 140 cycles, where one of them is more than nothing.
const MOST_WAITS: u64 = 8;
/// The least share of late loads of which anything can be said.
const LEAST: f64 = 0.005;
/// The shortest and the longest time between refreshes, in nanoseconds: JESD79-4 and 79-5 have 0.98 to 7.8 us.
const PERIODS_NS: [f64; 2] = [900.0, 12_000.0];
/// Parts of a period.
const PARTS: usize = 64;
/// From one period that is tried to the next, the last load moves by a part of a period: as many to go around. A turn is some parts long.
const STEPS: f64 = 24.0;
/// By how much more late loads have to be in the same parts than they would be by chance.
const CONTRAST: f64 = 1.5;
/// The share of a turn's loads that are late from which on it begins at the same moment.
const MOST_LATE: f64 = 0.75;
/// The part of the best contrast that a shorter period has to have: of a multiple of the period, the contrast is about the same.
const AS_GOOD: f64 = 0.8;
const WORDS: usize = 8;
const LINES: usize = 64;

/// A page of lines.
#[repr(align(4096))]
struct Page([[u64; WORDS]; LINES]);

/// A load: when it began, and how long it took, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Load {
    at: f64,
    took: f64,
}

/// How often a line cannot be had, how long, and within what time that begins, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Turns {
    every: f64,
    lasts: f64,
    spread: f64,
}

/// Measures how often and how long a line cannot be had.
pub(super) fn refresh(lab: &mut Lab<'_>) -> Found {
    let page = Box::new(Page([[1; WORDS]; LINES]));
    let (mut every, mut lasts, mut spread) = (Vec::new(), Vec::new(), Vec::new());
    for sample in 0..lab.bench.samples {
        if lab.bench.is_stopped() {
            break;
        }
        // Each sample is of one line, because other lines may have their turns at other times.
        if let Some(found) = turns(&loads(&mut lab.bench, &page.0[sample % LINES])) {
            every.push(found.every);
            lasts.push(found.lasts);
            spread.push(found.spread);
        }
    }
    vec![(Quantity::RefreshEvery, every), (Quantity::RefreshLasts, lasts), (Quantity::RefreshSpread, spread)]
}

/// Returns loads of a line from DRAM, one at a time.
fn loads(bench: &mut Bench<'_>, line: &[u64; WORDS]) -> Vec<Load> {
    let mut ticks = Vec::with_capacity(LOADS);
    let (mut all, mut random) = (0, SplitMix64::new(1));
    let ns = bench.time(|_| {
        let begin = now();
        ticks.extend((0..LOADS).map(|_| {
            // Loads at equal distances would have a period of their own.
            (0..random.below(MOST_WAITS)).for_each(|_| std::hint::spin_loop());
            (now() - begin, load_from_memory(line))
        }));
        all = now() - begin;
    });
    let ns = |ticks| ticks as f64 * ns / all.max(1) as f64;
    ticks.into_iter().map(|(at, took)| Load { at: ns(at), took: ns(took) }).collect()
}

/// Returns the ticks that a load of a line takes which no cache has.
fn load_from_memory(line: &[u64; WORDS]) -> u64 {
    // SAFETY: SSE2, which every x86-64 processor has, has these instructions; the line is there.
    unsafe {
        _mm_clflush(line.as_ptr().cast());
        _mm_mfence();
    }
    let begin = now();
    // SAFETY: a reference points to it.
    unsafe { line.as_ptr().read_volatile() };
    now() - begin
}

/// Returns the time stamp when everything before has been executed, and lets nothing behind begin before.
fn now() -> u64 {
    // SAFETY: every x86-64 processor has these instructions.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// Returns what the loads of a line show: none if too few are late, or these do not come again.
fn turns(loads: &[Load]) -> Option<Turns> {
    let mut sorted: Vec<f64> = loads.iter().map(|load| load.took).collect();
    sorted.sort_by(f64::total_cmp);
    let usual = *sorted.get(sorted.len() / 4)?;
    let is_late = |load: &&Load| (LATE_NS..MOST_NS).contains(&(load.took - usual));
    let late: Vec<f64> = loads.iter().filter(is_late).map(|load| load.at).collect();
    if (late.len() as f64) < LEAST * loads.len() as f64 {
        return None;
    }
    let every = period(&late, loads.last()?.at)?;
    let (late, all) =
        (by_parts(late.iter().copied(), every), by_parts(loads.iter().map(|load| load.at), every));
    let mut shares: Vec<f64> = late.iter().zip(all).map(|(late, all)| late / all.max(1.0)).collect();
    shares.sort_by(f64::total_cmp);
    // What is late in most of the period is so by chance, and in the turn, too.
    let by_chance = shares[PARTS / 2];
    let in_turns = shares.iter().sum::<f64>() / PARTS as f64 - by_chance;
    // A load is late if it comes so long before the end of the turn.
    let lasts = LATE_NS + in_turns * every;
    // If a turn always began at the same moment, all loads of it would be late.
    let parts = (in_turns * PARTS as f64).ceil() as usize;
    let at_most = shares.iter().rev().take(parts).sum::<f64>() / parts.max(1) as f64 - by_chance;
    let spread = if at_most < MOST_LATE { in_turns * every / at_most } else { 0.0 };
    (in_turns > 0.0 && every > lasts + spread).then_some(Turns { every, lasts, spread })
}

/// Returns the period of times between 0 and an end; none if they have none.
fn period(times: &[f64], end: f64) -> Option<f64> {
    // From one to the next, the last time moves by a part of the period.
    let next =
        |period: &f64| Some(period + period * period / (end * STEPS)).filter(|next| *next < PERIODS_NS[1]);
    let contrast =
        |period| by_parts(times.iter().copied(), period).iter().map(|times| times * times).sum::<f64>();
    let all = std::iter::successors(Some(PERIODS_NS[0]), next);
    let all: Vec<_> = all.map(|period| (period, contrast(period))).collect();
    let best = all.iter().map(|(_, contrast)| *contrast).fold(0.0, f64::max);
    let count = times.len() as f64;
    if best < CONTRAST * (count * count / PARTS as f64 + count) {
        return None;
    }
    let first = all.iter().position(|(_, contrast)| *contrast > AS_GOOD * best)?;
    // The best of those that are less than a tenth away.
    let near = all[first..].iter().take_while(|(period, _)| *period < 1.1 * all[first].0);
    near.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(period, _)| *period)
}

/// Returns how many of the times are in each part of a period.
fn by_parts(times: impl Iterator<Item = f64>, period: f64) -> [f64; PARTS] {
    let mut parts = [0.0; PARTS];
    for time in times {
        let turns = time / period;
        parts[((turns - turns.floor()) * PARTS as f64) as usize % PARTS] += 1.0;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads whose line cannot be had for 160 ns of each 1,950, from a moment on and up to so much later, and of which one in `by_chance` is
    /// late, besides.
    fn refreshed(begins: f64, spread: u64, by_chance: usize) -> Vec<Load> {
        let (mut at, mut random) = (0.0, SplitMix64::new(2));
        let moments: Vec<f64> = (0..2_000).map(|_| random.below(spread + 1) as f64).collect();
        let load = |number: usize| {
            at += 83.0 + random.below(160) as f64;
            let turns = (at - begins + 1_950.0) / 1_950.0;
            let since = turns.fract() * 1_950.0 - moments[turns as usize];
            let wait = if since < 0.0 { 0.0 } else { (160.0 - since).max(0.0) };
            let chance = if number.is_multiple_of(by_chance) { 70.0 } else { 0.0 };
            let took = 150.0 + wait + chance;
            at += took;
            Load { at: at - took, took }
        };
        (1..=LOADS).map(load).collect()
    }

    #[test]
    fn turns_are_found_by_the_loads_that_they_make_late() {
        for (begins, by_chance) in [(0.0, 50_000), (700.0, 50_000), (1_900.0, 40)] {
            for spread in [0, 260] {
                let loads = refreshed(begins, spread, by_chance);
                let found = turns(&loads).expect("some are late");
                assert!(
                    (found.every - 1_950.0).abs() < 2.0 && (found.lasts - 160.0).abs() < 15.0,
                    "{found:?}"
                );
                // Of so few loads in each part, the most are more than the mean.
                let spread = spread as f64;
                assert!((0.7 * spread..=1.05 * spread).contains(&found.spread), "{found:?}");
                let interrupted = loads.iter().enumerate().map(|(number, load)| Load {
                    took: if number % 500 == 7 { 50_000.0 } else { load.took },
                    ..*load
                });
                let found = turns(&interrupted.collect::<Vec<_>>()).expect("some are late");
                assert!((found.every - 1_950.0).abs() < 2.0, "{found:?}");
            }
        }
    }

    #[test]
    fn of_loads_that_are_late_at_any_time_nothing_is_told() {
        let of = |took: fn(usize) -> f64| -> Vec<Load> {
            (0..LOADS).map(|at| Load { at: 250.0 * at as f64, took: took(at) }).collect()
        };
        assert_eq!(turns(&of(|_| 150.0)), None);
        assert_eq!(turns(&[]), None);
        assert_eq!(turns(&of(|at| if at < 300 { 100.0 } else { 200.0 })), None, "most of them");
        // A tenth of the loads, in no order.
        let mut random = SplitMix64::new(3);
        let by_chance = of(|_| 150.0).into_iter().map(|load| Load {
            at: load.at + random.below(150) as f64,
            took: if random.below(10) == 0 { 300.0 } else { 150.0 },
        });
        assert_eq!(turns(&by_chance.collect::<Vec<_>>()), None);
    }

    #[test]
    fn loads_take_some_time() {
        let page = Box::new(Page([[1; WORDS]; LINES]));
        let loads = loads(&mut Bench::new(1, 0, &|| false), &page.0[5]);
        assert!(loads.len() == LOADS && loads.iter().all(|load| load.took > 0.0), "{loads:?}");
        assert!(loads.is_sorted_by_key(|load| load.at));
    }
}
