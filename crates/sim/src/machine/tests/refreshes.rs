//! Refreshes of DRAM against closed forms: a chain pays for them in the mean, and a window of independent loads for each of them.

use super::dataflow::{CHASE, LINE, LOADS, ROUNDS, assert_near, cycles_of_loop, load, zen3};
use super::*;
use crate::spec::settings::RefreshSpec;

/// A load in three instructions: the window has as many loads as a third of it.
const WINDOW: u32 = 60;
const REFRESH: RefreshSpec =
    RefreshSpec { every_ps: 1_950_000, lasts_ps: 165_000, spread_ps: 260_000, ranks: 2 };

/// Cycles of a load that the window alone limits, by the equations of the model: of `loads` at a time, which retire in order. Of a refresh,
/// cycles from one to the next, how many it lasts, and within how many it begins.
fn cycles_of_window(latency: f64, refresh: Option<[f64; 3]>, loads: usize) -> f64 {
    let (mut retired, mut last, mut random) = (vec![0.0; loads], 0.0_f64, Random(5));
    let mut parts = [(0.0, 0.0); 4];
    let rounds = 100_000;
    for round in 0..rounds {
        if round % 64 == 0 {
            // Lines of a page are in four parts, each with a rank, and in each turn with a moment.
            parts = std::array::from_fn(|_| {
                let rank = random.below(REFRESH.ranks.into()) as f64 / f64::from(REFRESH.ranks);
                (rank, random.below(1 << 20) as f64 / f64::from(1 << 20))
            });
        }
        let place = &mut retired[round % loads];
        let wait = refresh.map_or(0.0, |[every, lasts, spread]| {
            let (rank, moment) = parts[(round & 1) | (round >> 1 & 2)];
            let since = (*place + rank * every) % every - moment * spread;
            if since < 0.0 { 0.0 } else { (lasts - since).max(0.0) }
        });
        last = last.max(*place + latency + wait);
        *place = last;
    }
    last / rounds as f64
}

#[test]
fn a_chain_pays_for_refreshes_in_the_mean_and_a_window_for_each_of_them() {
    let plain = changed(zen3(), |spec| {
        spec.core.window = WINDOW;
        spec.core.outstanding = 64;
    });
    let refreshed = changed(plain.clone(), |spec| spec.hierarchy.memory.refresh = Some(REFRESH));
    let cycles = |spec: &MachineSpec, code| cycles_of_loop(spec, 2 * ROUNDS * LINE, code, load);
    let latency = 110_000.0 / plain.core.cycle_ps as f64;
    assert_near(cycles(&plain, CHASE), latency, "a chain");
    assert_near(cycles(&refreshed, CHASE), latency, "a chain, of which each load waits by chance");
    let loads = (WINDOW / 3) as usize;
    assert_near(cycles(&plain, LOADS), cycles_of_window(latency, None, loads), "a window of loads");
    let [every, lasts, spread, mean] =
        [REFRESH.every_ps, REFRESH.lasts_ps, REFRESH.spread_ps, REFRESH.mean_ps()]
            .map(|ps| ps as f64 / plain.core.cycle_ps as f64);
    let expected = cycles_of_window(latency - mean, Some([every, lasts, spread]), loads);
    assert!(expected > 1.04 * latency / loads as f64, "{expected}");
    assert_near(cycles(&refreshed, LOADS), expected, "a window of loads, of which some wait");
}

#[test]
fn the_wait_for_a_refresh_is_not_the_wait_for_other_lines() {
    let spec = changed(zen3(), |spec| {
        spec.hierarchy.memory.line_ps = Some(1_000);
        spec.hierarchy.memory.refresh = Some(REFRESH);
    });
    let queued = super::dataflow::cycles_of_part("memory.bandwidth", &spec, 2 * ROUNDS * LINE, CHASE, load);
    assert!(queued < 1.0, "a chain waits for no other line: {queued} cycles");
}
