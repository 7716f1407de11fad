//! The refreshing of DRAM, by the loads that take longer than most.
//!
//! Of loads from DRAM whose translation is at hand, most take about as long, and some up to a few hundred nanoseconds longer: their bank
//! is being refreshed, for whatever is left of that time. Where a window ends at the oldest load, it is these that a program waits for.

use std::arch::x86_64::{_mm_clflush, _mm_lfence, _mm_mfence, _rdtsc};

use super::bench::Bench;
use super::quantity::Quantity;
use super::{Found, Lab};

/// Loads of a sample: 1 ms.
const LOADS: usize = 4_000;
/// Loads that take so much longer than most are late, in nanoseconds: more than opening a row takes.
const LATE_NS: f64 = 60.0;
/// Loads that take longer than that were interrupted.
const MOST_NS: f64 = 1_000.0;
/// The least share of late loads of which anything can be said.
const LEAST: f64 = 0.005;
const WORDS: usize = 8;
const LINES: usize = 64;

/// A page of lines.
#[repr(align(4096))]
struct Page([[u64; WORDS]; LINES]);

/// Measures how often and how long a line cannot be had.
pub(super) fn refresh(lab: &mut Lab<'_>) -> Found {
    let page = Box::new(Page([[1; WORDS]; LINES]));
    let (mut every, mut lasts) = (Vec::new(), Vec::new());
    for _ in 0..lab.bench.samples {
        if lab.bench.is_stopped() {
            break;
        }
        if let Some(found) = turns(&mut loads(&mut lab.bench, &page)) {
            every.push(found.0);
            lasts.push(found.1);
        }
    }
    vec![(Quantity::RefreshEvery, every), (Quantity::RefreshLasts, lasts)]
}

/// Returns the nanoseconds of loads from DRAM, one at a time.
fn loads(bench: &mut Bench<'_>, page: &Page) -> Vec<f64> {
    let mut ticks = Vec::with_capacity(LOADS);
    let mut all = 0;
    let ns = bench.time(|_| {
        let begin = now();
        // 29 has no factor in common with the number of lines: no prefetcher foresees the next one.
        ticks.extend((0..LOADS).map(|load| load_from_memory(&page.0[load * 29 % LINES])));
        all = now() - begin;
    });
    ticks.into_iter().map(|ticks| ticks as f64 * ns / all.max(1) as f64).collect()
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

/// Returns how often a line cannot be had and how long, in nanoseconds, by the times of loads: none if too few are late to tell.
fn turns(loads: &mut [f64]) -> Option<(f64, f64)> {
    loads.sort_by(f64::total_cmp);
    let usual = *loads.get(loads.len() / 4)?;
    let late = loads.iter().map(|ns| ns - usual).filter(|late| (LATE_NS..MOST_NS).contains(late));
    let late: Vec<f64> = late.collect();
    let share = late.len() as f64 / loads.len() as f64;
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    // What is left of a turn is anything up to all of it, with the same probability.
    let lasts = 2.0 * mean - LATE_NS;
    let every = (lasts - LATE_NS) / share;
    (share >= LEAST && lasts > LATE_NS && every > lasts).then_some((every, lasts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_found_by_the_loads_that_they_make_late() {
        // A turn of 200 ns in each 2 us.
        let mut loads: Vec<f64> = (0..2_000).map(|at| 150.0 + f64::from(200 - at.min(200))).collect();
        let (every, lasts) = turns(&mut loads).expect("some are late");
        assert!((every - 2_000.0).abs() < 20.0 && (lasts - 200.0).abs() < 2.0, "{every} {lasts}");
        let interrupted = loads.iter().map(|ns| if *ns > 349.0 { 50_000.0 } else { *ns });
        let (every, _) = turns(&mut interrupted.collect::<Vec<_>>()).expect("some are late");
        assert!((every - 2_000.0).abs() < 40.0, "{every}");
    }

    #[test]
    fn of_loads_that_take_as_long_nothing_is_told() {
        assert_eq!(turns(&mut [150.0; 1_000]), None);
        assert_eq!(turns(&mut []), None);
        let mut most: Vec<f64> = (0..1_000).map(|at| if at < 300 { 100.0 } else { 200.0 }).collect();
        assert_eq!(turns(&mut most), None, "not a moment, but most of the time");
    }

    #[test]
    fn loads_take_some_time() {
        let page = Box::new(Page([[1; WORDS]; LINES]));
        let loads = loads(&mut Bench::new(1, 0, &|| false), &page);
        assert!(loads.len() == LOADS && loads.iter().all(|ns| *ns > 0.0), "{loads:?}");
    }
}
