//! The window of a core: how far it looks ahead while it waits for a load, and how many results it has room for.

use super::bench::Bench;
use super::chase::Ring;
use super::misses::{COPIES, Distances, RESULTS, VECTOR_RESULTS};
use super::quantity::Quantity;
use super::{Found, Lab};

/// Rounds of two misses in a sample: 40 us and more.
const ROUNDS: usize = 200;

/// The window, and the registers for results. Where these are more than the window has instructions, they are as many.
pub(super) fn window(lab: &mut Lab<'_>) -> Found {
    let mut edge = |all: &Distances| {
        let rounds = rounds(&mut lab.bench, &mut lab.dram, all);
        edge(&rounds).into_iter().collect()
    };
    vec![
        (Quantity::Window, edge(COPIES)),
        (Quantity::Registers, edge(RESULTS)),
        (Quantity::VectorRegisters, edge(VECTOR_RESULTS)),
    ]
}

/// Returns, by distance, the least time of a round of two misses: other programs only add time.
fn rounds(bench: &mut Bench<'_>, dram: &mut Ring, all: &Distances) -> Vec<(usize, f64)> {
    let mut least: Vec<(usize, f64)> = all.iter().map(|(fillers, _)| (*fillers, f64::INFINITY)).collect();
    for _ in 0..bench.samples {
        for ((_, run), (_, least)) in all.iter().zip(&mut least) {
            if bench.is_stopped() {
                return Vec::new();
            }
            *least = least.min(dram.two_misses(bench, *run, ROUNDS));
        }
    }
    least
}

/// Returns the distance at which two misses no longer overlap: a round takes the latency of one miss below it, and of two above. The
/// instructions between them take part of a latency themselves, so the last distance gives no measure.
fn edge(rounds: &[(usize, f64)]) -> Option<f64> {
    let &(_, near) = rounds.first()?;
    let is_beyond = |time: f64| time > 1.5 * near;
    // A single outlier is no edge.
    let edge = rounds.windows(2).position(|pair| pair.iter().all(|(_, time)| is_beyond(*time)))?;
    let (before, _) = rounds.get(edge.checked_sub(1)?)?;
    Some((before + rounds[edge].0) as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_where_a_round_takes_two_latencies() {
        let rounds = |edge: usize| -> Vec<(usize, f64)> {
            (1..20).map(|n| (n * 32, if n * 32 < edge { 100.0 } else { 200.0 })).collect()
        };
        assert_eq!(edge(&rounds(256)), Some(240.0));
        assert_eq!(edge(&rounds(64)), Some(48.0));
        assert_eq!(edge(&rounds(10_000)), None, "no edge");
        let mut noisy = rounds(256);
        noisy[2].1 = 190.0;
        assert_eq!(edge(&noisy), Some(240.0), "one outlier");
        assert_eq!(edge(&[]), None);
    }
}
