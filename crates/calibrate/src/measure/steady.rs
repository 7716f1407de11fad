//! How steady a host is while it is measured.

use std::fs;

use super::bench::Bench;
use super::chase::Ring;
use super::core;
use super::quantity::Steadiness;
use super::samples::quartile;

/// Samples of a look, and the steps of each: a few milliseconds in all.
const SAMPLES: usize = 5;
const STEPS: usize = 4_000;

/// A watch over the cycle time and the latency of DRAM, and over the time that the host of a virtual machine takes.
pub(super) struct Watch {
    cycles: Vec<f64>,
    drams: Vec<f64>,
    began: Option<Ticks>,
}

impl Watch {
    pub(super) fn begin() -> Self {
        Self { cycles: Vec::new(), drams: Vec::new(), began: Ticks::now() }
    }

    /// Looks at the cycle time and at DRAM.
    pub(super) fn look(&mut self, bench: &mut Bench<'_>, dram: &mut Ring) {
        let (cycle, dram) = look(bench, dram);
        self.cycles.extend(cycle);
        self.drams.extend(dram);
    }

    /// Returns how steady the host was; another thread had a part of the core at this share of the looks.
    pub(super) fn end(self, bench: &Bench<'_>, shared: f64) -> Steadiness {
        Steadiness {
            cycle_moved: moved(&self.cycles),
            dram_moved: moved(&self.drams),
            shared,
            disturbed: bench.disturbed(),
            stolen: self.began.zip(Ticks::now()).map_or(0.0, |(before, after)| before.stolen(after)),
        }
    }
}

/// Returns the time of a cycle and of a load from DRAM now, in nanoseconds.
pub(super) fn look(bench: &mut Bench<'_>, dram: &mut Ring) -> (Option<f64>, Option<f64>) {
    let cycles: Vec<f64> = (0..SAMPLES).map(|_| bench.cycle()).collect();
    let drams: Vec<f64> = (0..SAMPLES).map(|_| dram.step(bench, STEPS)).collect();
    (quartile(&cycles), quartile(&drams))
}

/// Returns the additions that the core makes in a cycle now: as many fewer as another thread of the core takes; none if that is not
/// known.
pub(super) fn additions(bench: &mut Bench<'_>) -> Option<f64> {
    let cycles: Vec<f64> = (0..SAMPLES).map(|_| core::addition(bench)).collect();
    quartile(&cycles).map(f64::recip)
}

/// Returns the largest over the least, less 1; 0 for nothing.
fn moved(samples: &[f64]) -> f64 {
    let most = samples.iter().copied().fold(0.0, f64::max);
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    if samples.is_empty() { 0.0 } else { most / least - 1.0 }
}

/// Ticks of all processors since the system began.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the first line of `/proc/stat`: `cpu`, then ticks in user mode, nice, system, idle, waiting, interrupts, soft
    /// interrupts, stolen (proc(5)).
    fn parse(text: &str) -> Option<Self> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = fields.take(8).map(|field| field.parse().ok()).collect::<Option<_>>()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// Returns the share that was stolen of the time to a later moment.
    fn stolen(self, later: Self) -> f64 {
        let all = later.all.saturating_sub(self.all);
        later.stolen.saturating_sub(self.stolen) as f64 / all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movement_is_the_largest_over_the_least() {
        assert_eq!(moved(&[2.0, 3.0, 2.5]), 0.5);
        assert_eq!((moved(&[4.0]), moved(&[])), (0.0, 0.0));
    }

    #[test]
    fn stolen_time_is_the_eighth_field() {
        let before = Ticks::parse("cpu  10 0 10 70 0 0 0 10 5 5\ncpu0 1 1\n").expect("a line");
        assert_eq!(before, Ticks { all: 100, stolen: 10 });
        let after = Ticks::parse("cpu  60 0 30 90 0 0 0 20 5 5\n").expect("a line");
        assert_eq!(before.stolen(after), 0.1);
        assert_eq!(Ticks::parse("cpu  1 2 3\n"), None);
        assert_eq!(Ticks::parse(""), None);
    }
}
